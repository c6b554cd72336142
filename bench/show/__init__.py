"""Shows results: tables, figures, the page, and what a trained approach says about a user's own pictures.

In: records, and what `bench.judge` found in them. Out: text, CSV, LaTeX, HTML, SVG, PNG. It trains nothing and gives no
verdicts: they, effects and checks come from `bench.judge`.
"""
