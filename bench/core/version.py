"""The version of the suite; pyproject.toml reads it here."""

VERSION = "0.2.0"
