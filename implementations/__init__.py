"""One approach is NAME.py and NAME.toml. A framework is imported only when an approach is used."""
