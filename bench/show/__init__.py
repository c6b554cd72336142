"""Draws what was found: tables, figures, the page, and answers about a user's own pictures.

In: records and what `bench.judge` says of them. Out: text, CSV, LaTeX, HTML, PNG. It decides nothing: no rule of a
verdict and no statistic is computed here.
"""
