"""Words that several findings share."""

NOT_MEASURED = "Nothing is measured yet: `python -m bench run --all` makes the records."


def with_verb(count: int, one: str, more: str) -> str:
    """Return a number with the verb that fits it: "1 differs", "2 differ"."""
    return f"{count} {one if count == 1 else more}"
