"""Metrics: pure functions of predictions, each with its unit, definition and source."""
