"""Statistics of seeds: intervals for one more run, tests, and the verdicts made of them."""
