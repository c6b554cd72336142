"""Reference posteriors of small networks by Hamiltonian Monte Carlo, and the distance of a method's predictions to them.

In: a task and a seed. Out: a reference, accepted or refused by name, and distances to it. It is no part of `run --all`.
"""
