"""What is repeatable: `measure` compares fits of the same seed, `files` keeps what it found."""
