"""Makes records: fits on this machine or on others, measures the fits, and writes a record for each trained run.

In: trained runs and a results folder. Out: one record per trained run, also if it fails. It judges no number and draws
nothing.
"""
