"""Everything that only a machine with a CUDA GPU can show, in pieces, so that it can be done in several calls."""
