"""Training and prediction leave nothing on the CPU: tested on a pretend device, and on a GPU if there is one."""

import json
import subprocess
import sys

import pytest
import torch

from tests.implementations import on_device

DEVICES = ["pretend", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.mark.parametrize("device", DEVICES)
def test_every_approach_trains_and_predicts_on_a_device_as_on_the_cpu(device):
    command = [sys.executable, "-W", "ignore", "-m", "tests.implementations.on_device", device]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line["approach"] for line in lines} == set(on_device.names())
