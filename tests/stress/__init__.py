"""Faults on purpose: kills, lost workers, planted failures, hostile input and a soak, each with its figures."""
