"""The fixture `assert_elbo`, in a session of pytest of its own."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import torch
from elbo_audit import audit_torch

mu, rho = torch.linspace(-1, 1, 8).requires_grad_(), torch.full((8,), -1.0, requires_grad=True)
batches = [(torch.randn(20, 8, generator=torch.Generator().manual_seed(k)),) for k in range(3)]


def nll(x):
    sigma = torch.nn.functional.softplus(rho)
    return (x @ (mu + sigma * torch.randn(8)) - x[:, 0]).square().sum() / 2


def kl():
    sigma = torch.nn.functional.softplus(rho)
    return (-sigma.log() + (sigma**2 + mu**2) / 2).sum()


def audited(times):  # 200 rows in batches of 20: an epoch has 10
    return audit_torch(lambda x: nll(x) + times * kl() / 10, [("mu", mu), ("rho", rho)], batches, 200, nll=nll)


def test_right(assert_elbo):
    assert_elbo(audited(1))


def test_wrong(assert_elbo):
    assert_elbo(audited(10))


def unnamed(times=1):  # no name says what is a mean and what a scale
    return audit_torch(lambda x: nll(x) + times * kl() / 10, [("a", mu), ("b", rho)], batches, 200, nll=nll)


def test_unseen(assert_elbo):
    assert_elbo(unnamed())


def test_unseen_is_allowed(assert_elbo):
    assert_elbo(unnamed(), unjudged=True)


def test_a_failure_is_not_allowed(assert_elbo):
    assert_elbo(audited(10), unjudged=True)
"""


def test_a_report_that_is_not_ok_fails_the_test_with_its_first_line(tmp_path):
    (tmp_path / "test_objective.py").write_text(TESTS)
    top = Path(__file__).parents[2]
    asked = [sys.executable, "-m", "pytest", "-p", "elbo_audit.pytest_plugin", "--tb=short", str(tmp_path)]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(top), "COLUMNS": "200"}
    ended = subprocess.run(asked, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stdout
    assert "3 failed, 2 passed" in ended.stdout
    assert "Traceback" not in ended.stdout
    assert "10 times" in ended.stdout
    summary = [line for line in ended.stdout.splitlines() if line.startswith("FAILED")]
    answer = {line.split("::")[1].split(" - ")[0]: line for line in summary}
    assert set(answer) == {"test_wrong", "test_unseen", "test_a_failure_is_not_allowed"}
    assert "KL not judged" in answer["test_unseen"]
