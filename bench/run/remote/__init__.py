"""Fits elsewhere: under another interpreter, on a Dask cluster, through Slurm.

`jobs` is what is to be done, as JSON; `python -m bench.run.remote` does one job and tells of it in JSON lines; `child`
starts it and listens. `task` is what a worker of a cluster does (files in, child, files out) and imports the standard
library alone. `parcels` are the files, `pool` what a cluster offers, `dask_pool` and `slurm_pool` two of them, and
`opening` finds the one that a user names.
"""
