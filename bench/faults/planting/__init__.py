"""An approach that fails in a chosen way; `bench.faults.planted` copies it to where a run looks for approaches."""
