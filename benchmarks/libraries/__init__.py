"""Our code beside other people's libraries: a training step, many answers, and the extra time of our adapters."""
