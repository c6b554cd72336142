"""Figures from records: one style, one `Figure` for each, drawn only when asked for."""
