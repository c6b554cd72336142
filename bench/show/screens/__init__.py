"""Lines that a command prints: of the comparison, the gate, a verdict, a user's own number."""
