"""Our code beside other people's libraries: a training step, many answers, and what our adapters cost on top."""
