"""Compares numbers: with reported claims, with other records, with a reference, with the rules of an audit.

In: records and claims. Out: verdicts, effects, findings, checks, as data. It trains only through `bench.run`, and
makes no table and no picture.
"""
