"""Compares the numbers of records: with reported claims, with other records, with a reference, with audit rules.

In: records and claims. Out: verdicts, effects, findings and checks, as data. It trains through `bench.run`; only
`contract` and `audit` fit a few steps on made-up rows themselves. It makes no tables and no pictures.
"""
