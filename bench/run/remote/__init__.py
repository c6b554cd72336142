"""Runs fits outside this interpreter: in another interpreter, on a Dask cluster, or as jobs of a queue.

jobs          a job as JSON: its cells, its options, and the code and data that it expects
__main__      `python -m bench.run.remote`: does one job in a child process and reports events as lines of JSON
interpreters  approaches that have a Python interpreter of their own
task          one task on a Dask worker: unpacks files, starts the child process, packs the new files
parcels       the files that travel between the caller's results folder and a worker
pool          the interface of a cluster, and one fit on it
dask_pool     starts a local Dask cluster, or connects to one that runs
job_queue     starts Dask workers as jobs of Slurm, PBS, SGE, LSF or HTCondor
opening       returns the executor for a name that the user gives

In: cells, options and the name of an executor. Out: events, and files in the results folder. It judges no number.
"""
