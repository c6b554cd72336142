"""A finding's line, the rules, an import's cost, the page's example; groups of at most four numbers, judged or not."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.distributions import Normal

import elbo_audit
from elbo_audit.findings import ElboReport, Finding
from elbo_audit.rules import RULES
from tests.elbo_audit.models import BATCH, STEPS, Model, batches

AFTER = "; import sys; print(*sorted({'torch', 'pyro', 'numpy', 'bench'} & sys.modules.keys()))"


def test_a_finding_is_one_line_that_says_what_to_do():
    words = Finding("kl-scale", "mine", "fails", "469\ntimes").words()
    assert words == f"469 times; to do: {RULES['kl-scale'].remedy}"
    assert Finding("kl-scale", "mine", "passes", "once").words() == "once"
    assert Finding("kl-scale", "mine", "fails", "do this", advised=True).words() == "do this"


@pytest.mark.parametrize(
    ("code", "loaded"),
    [
        ("import elbo_audit, elbo_audit.rules", ""),
        ("import bench.judge.audit.libraries.audited", "bench"),
        ("from elbo_audit import audit_torch", "numpy torch"),
    ],
)
def test_an_import_loads_a_framework_only_for_an_audit(code, loaded):
    done = subprocess.run([sys.executable, "-c", code + AFTER], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == loaded


def test_every_public_name_is_there():
    for name in elbo_audit.__all__:
        assert callable(getattr(elbo_audit, name))
    with pytest.raises(AttributeError, match="has no attribute 'audit_keras'"):
        elbo_audit.audit_keras  # noqa: B018 - looking the name up raises


@pytest.mark.parametrize(
    ("outcome", "judged", "first"),
    [
        ("passes", True, "passes        once [kl-scale]"),
        ("not measured", False, "KL not judged  once [kl-scale, kl-sign]"),
        ("not applicable", False, "KL not judged  once [kl-scale, kl-sign]"),
    ],
)
def test_a_report_whose_kl_was_not_judged_begins_with_it(outcome, judged, first):
    other = [Finding("wrong-likelihood", "mine", "passes", "1 times"), Finding("unused-layer", "mine", "passes", "all")]
    found = ElboReport((*other, *(Finding(rule, "mine", outcome, "once") for rule in ("kl-scale", "kl-sign"))))
    assert found.ok
    assert found.judged is found.to_dict()["judged"] is judged
    assert first in str(found).splitlines()[0 if not judged else 1]


def test_a_number_that_nothing_is_compared_with_is_measured_and_not_judged():
    found = (
        Finding("kl-scale", "mine", "passes", "once"),
        Finding("variance-as-std", "mine", "not measured", "the prior is 1", {"prior_std": 1.0}),
        Finding("repeated-noise", "mine", "not measured", "no noise"),
    )
    lines = str(ElboReport(found)).splitlines()
    assert lines[1:] == [
        "not judged    the prior is 1 [variance-as-std]",
        "not measured  no noise [repeated-noise]",
    ]


PAGE = (Path(__file__).parents[2] / "docs" / "elbo-audit.md").read_text(encoding="utf-8")
DIGITS = re.compile(r"\(95 % interval [^)]*\)|\(standard error [^)]*\)")  # rounding, which processors do unlike


def words(text):
    return DIGITS.sub("()", " ".join(text.split()))


def test_the_first_example_prints_what_the_page_shows():
    example, shown, *_ = re.findall(r"```(?:python)?\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    assert words(done.stdout) == words(shown)


# tolerance: gradients in float32, beside data parts that are 1,000 times as large
NEAR = 0.01
N_TRAIN = round(STEPS * BATCH)


class WithBias(Model):
    """The model with Gaussian biases of one and two numbers, whose KLs have factors of their own."""

    def __init__(self, one=1.0, two=1.0, prior=2.0, rho=-2.0, drawn=False):
        super().__init__()
        for name, n in (("one", 1), ("two", 2)):
            self.register_parameter(f"{name}_mu", nn.Parameter(torch.full((n,), 0.4)))
            self.register_parameter(f"{name}_rho", nn.Parameter(torch.full((n,), rho)))
        self.factors, self.prior, self.drawn = {"one": one, "two": two}, prior, drawn

    def parts(self, x, y):
        """Return NLL and KL."""
        mean, kl = self(x), self.kl()
        for name, factor in self.factors.items():
            mu, sigma = getattr(self, f"{name}_mu"), nn.functional.softplus(getattr(self, f"{name}_rho"))
            noise = torch.randn(len(mu))
            value = mu + sigma * noise
            mean = mean + value.sum()
            square = value.square() - noise.square() * self.prior**2 if self.drawn else mu.square() + sigma.square()
            kl = kl + factor * (square / (2 * self.prior**2) - sigma.log()).sum()
        return -Normal(mean, 1.0).log_prob(y).sum(), kl

    def audit(self, **options):
        return elbo_audit.audit_torch(
            lambda x, y: sum(part / share for part, share in zip(self.parts(x, y), (1, STEPS), strict=True)),
            self.named_parameters(),
            batches(),
            N_TRAIN,
            nll=lambda x, y: self.parts(x, y)[0],
            **options,
        )


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize(("one", "two"), [(1, 1), (0, 1), (1, 0), (100, 1), (1, 0.5)])
def test_the_kl_of_a_few_numbers_is_judged(one, two, drawn):
    report = WithBias(one, two, drawn=drawn).audit()
    assert report.ok == (one == two), str(report)
    weights = report.kl_weights
    assert weights["one_mu, one_rho"] == pytest.approx(one, abs=NEAR * max(one, 1))
    assert weights["two_mu, two_rho"] == pytest.approx(two, abs=NEAR)
    assert "not judged" not in report.of("kl-scale").detail


@pytest.mark.parametrize("net", [WithBias(prior=0.3), WithBias(rho=1.0, drawn=True)])
def test_a_few_numbers_with_another_prior_or_in_noise_are_named(net):
    # With 2 to 4 numbers, any prior fits; and 8 draws of log q - log p of one weight with a sigma of 1.3 are noise.
    report = net.audit()
    assert report.ok, str(report)
    detail = report.of("kl-scale").detail
    assert "not judged, for they have few numbers: one_mu, one_rho, two_mu, two_rho" in detail
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, abs=NEAR)


def test_a_network_of_few_numbers_alone_is_judged_together():
    w = {name: torch.tensor([value], requires_grad=True) for name, value in (("a_mu", 0.3), ("a_rho", -1.0))}
    w |= {name: torch.tensor([value], requires_grad=True) for name, value in (("b_mu", -0.2), ("b_rho", -2.0))}

    def parts(x, y):
        sigmas = {name: nn.functional.softplus(w[f"{name}_rho"]) for name in "ab"}
        a, b = (w[f"{name}_mu"] + sigmas[name] * torch.randn(1) for name in "ab")
        kl = sum(((sigmas[n].square() + w[f"{n}_mu"].square()) / 2 - sigmas[n].log()).sum() for n in "ab")
        return (a * x[:, :1] + b - y).square().sum() / 2, kl

    for times in (1, 3):
        report = elbo_audit.audit_torch(
            lambda x, y, times=times: parts(x, y)[0] + times * parts(x, y)[1] / STEPS,
            w.items(),
            batches(),
            N_TRAIN,
            nll=lambda x, y: parts(x, y)[0],
        )
        assert report.numbers["kl_per_epoch"] == pytest.approx(times, rel=NEAR)
        assert report.ok == (times == 1)
