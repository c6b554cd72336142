"""Golden traces: what every code path that makes numbers gives today, kept as JSON (docs/freshness.md)."""
