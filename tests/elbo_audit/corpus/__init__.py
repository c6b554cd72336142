"""Eighty objectives to test the audit: forty styles of code, each once right and once with one planted mistake.

The author of the first thirty styles had read the audit's documentation and none of its code or tests; the author of
the last ten (`foreign_styles`) had read both. Sizes, N, priors and the mistake of each style are drawn from one seed.
What the audit should tell a user was written down, and committed, before the audit ran on any of them.
"""
