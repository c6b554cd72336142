"""Ablations: from the published to the corrected number, one change at a time."""
