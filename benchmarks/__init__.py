"""Measure the suite: its speed beside plain references, its memory, and how often verdicts, gate and auditor err."""
