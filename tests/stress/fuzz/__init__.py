"""Fuzzing what reads anything from outside: damaged and hostile input ends in a result or in one line."""
