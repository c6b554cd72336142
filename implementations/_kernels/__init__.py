"""Building blocks that several approaches share: flat parameter vectors, gradients written out, a fused optimiser."""
