"""Makes tables from records. It trains nothing, measures nothing and imports no framework."""
