"""Measure the suite itself: speed against plain references, memory, and error rates of verdicts, gate and audit."""
