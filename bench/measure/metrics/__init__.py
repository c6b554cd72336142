"""Metrics: pure functions of predictions, each with its unit, definition and source.

`draws.reduce_draws` turns blocks of draws into a summary of each row, `evaluate` turns summaries into named
numbers, and `table.METRICS` says what the names mean. Estimators of the documents are in `published`.
"""
