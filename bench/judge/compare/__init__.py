"""Two results folders side by side, paired by cell and seed."""
