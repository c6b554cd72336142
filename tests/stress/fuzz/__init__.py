"""Fuzzing what reads anything from outside: damaged and hostile input ends in a result or in one line."""

from tests.stress.fuzz.engine import Finding, Target, Tried, fuzz
from tests.stress.fuzz.targets import all_targets

__all__ = ["Finding", "Target", "Tried", "all_targets", "fuzz"]
