"""What the pretend device does; `on_device` runs these checks before it trusts the device."""

import pytest
import torch

from tests.implementations import pretend_device


def it_refuses_what_a_gpu_refuses():
    with pretend_device.active() as device:
        there = torch.ones(3, device=device)
        assert (there + there.to(device)).tolist() == [2, 2, 2]
        assert (there * torch.tensor(2.0)).tolist() == [2, 2, 2]  # a number of the CPU, as CUDA allows
        assert there[torch.tensor([0, 2])].tolist() == [1, 1]  # an index of the CPU, likewise
        with pytest.raises(pretend_device.WrongDevice, match="cpu and on pretend"):
            there + torch.ones(3)
        with pytest.raises(pretend_device.WrongDevice, match="cpu and on pretend"):
            torch.add(there, there, out=torch.ones(3))
        with pytest.raises(pretend_device.WrongDevice, match="generator on cpu"):
            torch.randn(3, device=device, generator=torch.Generator())
        with pytest.raises(TypeError, match="convert pretend"):
            there.numpy()


def changes_in_place_and_through_views_reach_its_tensors():
    with pretend_device.active() as device:
        there = torch.zeros(2, 3, device=device)
        row = there[1]
        row += 1
        torch.add(there[0], 5, out=there[0])
        assert there.cpu().tolist() == [[5, 5, 5], [1, 1, 1]]
        assert there.mul_(2) is there
