"""Makes records: fits cells on this machine or on others, measures the fits, and writes a record for each cell.

In: cells and a results folder. Out: one record per cell, also if the cell fails. It judges no number and draws nothing.
"""
