"""Training and prediction leave nothing on the CPU: on a pretend device, and on a GPU where there is one."""

import json
import subprocess
import sys

import pytest
import torch

from tests.implementations import on_device, pretend_device

DEVICES = ["pretend", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.mark.parametrize("device", DEVICES)
def test_every_approach_trains_and_predicts_on_a_device_as_on_the_cpu(device):
    command = [sys.executable, "-W", "ignore", "-m", "tests.implementations.on_device", device]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line["approach"] for line in lines} == set(on_device.names())


def test_the_pretend_device_refuses_what_a_gpu_refuses():
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


def test_changes_in_place_and_through_views_reach_the_tensor_on_the_pretend_device():
    with pretend_device.active() as device:
        there = torch.zeros(2, 3, device=device)
        row = there[1]
        row += 1
        torch.add(there[0], 5, out=there[0])
        assert there.cpu().tolist() == [[5, 5, 5], [1, 1, 1]]
        assert there.mul_(2) is there
