"""Two results folders side by side, paired by trained run and seed."""
