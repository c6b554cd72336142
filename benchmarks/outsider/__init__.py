"""Eighty objectives: forty styles, each once right and once with one planted mistake.

The first thirty styles were written by somebody who had read the audit's documentation and none of its code or tests,
the last ten (`foreign_styles`) by somebody who had read both. Sizes, N, priors and the mistake of each style are drawn
from one seed. What a user should be told was written down, and committed, before the audit ran on any of them.
"""
