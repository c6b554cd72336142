"""Sixty objectives written by somebody who had read the audit's documentation and none of its code or tests.

Thirty styles, each once right and once with one planted mistake. Sizes, N, priors and the mistake of each style are
drawn from one seed. What a user should be told was written down, and committed, before the audit ran on any of them.
"""
