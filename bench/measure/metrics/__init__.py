"""Metrics: pure functions of predictions, each with its unit, definition and source.

`draws.reduce_draws` turns a block of draws into a summary of each row. `evaluate` turns summaries into named numbers.
`bench.core.metric_table` defines the names. `published` has the estimators of the documents.
"""
