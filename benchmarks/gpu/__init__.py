"""A day on a machine with a CUDA GPU: everything that only such a machine can show, in pieces that can be resumed."""
