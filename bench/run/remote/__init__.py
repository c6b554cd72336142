"""Fits elsewhere: under another interpreter, on a Dask cluster, as jobs of a queue.

`jobs` is what is to be done, as JSON; `python -m bench.run.remote` does one job and tells of it in JSON lines. `task`
is what a worker of a cluster does: files in, child, files out. `parcels` are the files, `pool` says what a cluster
offers, `dask_pool` and `job_queue` start or find one, and `opening` finds the one that a user names.
"""
