"""Makes records: fits cells, one or many at a time, here or elsewhere, measures them and writes what came out.

In: cells and a results folder. Out: one record a cell, whatever happens. It judges no number and draws nothing.
"""
