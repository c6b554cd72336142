"""The approaches. One approach is NAME.py and NAME.toml; its framework is imported only when the approach is used."""
