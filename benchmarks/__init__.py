"""Yardsticks: the documents' own steps, written plainly, for equality tests and speed ratios only."""
