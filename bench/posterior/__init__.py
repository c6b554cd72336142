"""Reference posteriors of small networks by Hamiltonian Monte Carlo, and a method's distance to them.

In: a task and a seed. Out: a reference, accepted or refused by name, and distances to it. It is no part of `run --all`.
"""
