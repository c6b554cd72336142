"""Compares the numbers of records: with reported claims, with other records, with a reference, with audit rules.

In: records and claims. Out: verdicts, effects, findings and checks, as data. It trains only through `bench.run`, and
makes no tables and no pictures.
"""
