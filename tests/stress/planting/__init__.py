"""An approach that fails in a chosen way; `tests.stress.planted` copies it to where a run looks for approaches."""
