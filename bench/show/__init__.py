"""Shows results: tables, figures, the page, and what a trained approach says about a user's own pictures.

In: records, and what `bench.judge` found in them. Out: text, CSV, LaTeX, HTML, PNG. It decides nothing: it computes no
verdict and no statistic.
"""
