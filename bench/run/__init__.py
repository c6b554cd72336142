"""Makes records: fits cells, one or several at a time, on this machine or on others, measures them, writes records.

In: cells and a results folder. Out: one record per cell, also if the cell fails. It judges no number and draws nothing.
"""
