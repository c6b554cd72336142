"""What stands in for the suite's noise where a step is compared with Pyro's own code."""

import torch


class PyrosNoise:
    """The noise that Pyro's own code draws, from PyTorch's global generator."""

    def __init__(self, stream):
        torch.manual_seed(stream)

    normals_ = staticmethod(torch.Tensor.normal_)
