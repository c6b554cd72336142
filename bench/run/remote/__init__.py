"""Runs fits outside this interpreter: in another interpreter, on a Dask cluster, or as jobs of a queue.

__main__      `python -m bench.run.remote`: does one job in a child process and reports events as lines of JSON
interpreters  approaches that have a Python interpreter of their own
task          one task on a Dask worker: unpacks files, starts the child process, packs the new files
parcels       the files that travel between the caller's results folder and a worker
pool          one fit on a cluster, and the names of queues
dask_pool     starts a local Dask cluster, or connects to one that runs
job_queue     starts Dask workers as jobs of Slurm, PBS, SGE, LSF or HTCondor
opening       returns the executor for a name that the user gives

In: cells, options and the name of an executor. Out: events, and files in the results folder. It judges no number.
"""
