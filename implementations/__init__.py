"""One approach = NAME.py + NAME.toml; nothing here imports a framework until an approach is used."""
