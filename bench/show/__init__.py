"""Shows results: tables, figures, the page, and what a trained approach says about a user's own pictures.

In: records, and the verdicts, effects and checks of `bench.judge`. Out: text, CSV, LaTeX, HTML, SVG, PNG. It trains
nothing and judges nothing.
"""
