"""Runs fits outside this interpreter: in another interpreter, on a Dask cluster, or as jobs of a queue.

In: cells, options and the name of an executor. Out: events, and files in the results folder. It judges no number.
"""
