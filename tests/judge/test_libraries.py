"""Other people's libraries as audited, and what stands in the table of them."""

import math

import msgspec
import pytest

from bench.cli import USAGE
from bench.judge.audit.libraries import __main__ as foreign_command
from bench.judge.audit.libraries import objectives, setting
from bench.judge.audit.libraries.audited import LibraryAudit, ObjectiveAudit, keep, library_audits
from bench.judge.audit.libraries.examples import EXAMPLES
from bench.judge.audit.libraries.foreign_audits import FOREIGN
from bench.judge.audit.libraries.objectives import AUDITS, audit_example
from elbo_audit.errors import AuditError

N, B = 60_000, 128
COUNTS = [784 * 400, 400, 400 * 400, 400, 400 * 10, 10]  # of the tensors: 478,410 weights
FORMULAS = {  # how often an epoch of N / B steps counts a tensor's KL, from the line that the example follows
    "torchbnn": [0.1 * N / sum(COUNTS)] * 6,  # 0.1 of the mean over all weights, beside a mean over rows
    "bayesian_torch": [N / (B * n) for n in COUNTS],  # a mean over the tensor, divided by B, beside a mean over rows
    "blitz, 1 sample": [N] * 6,  # the whole KL beside a mean over rows
    "torch-uncertainty": [N / 10_000 / 3] * 6,  # 1 / 10000 of the mean over three layers
    "AutoNormal": [N / B] * 6,  # the whole KL in each batch
    "AutoDiagonalNormal": [N / B],
    "AutoMultivariateNormal, 100-10": [N / B],
    "AutoLowRankMultivariateNormal, 100-10": [N / B],
    "AutoDelta": [N / B] * 6,
    "laplace-torch": [1.0] * 6,
    "torchbayesian": [0.1 * N / sum(COUNTS)] * 6,  # 0.1 of the mean over all weights, beside a mean over rows
    "fastbnns": [(N / B) / (N // B)] * 6,  # 1 / batches beside a sum over rows, the last batch left out
    "bnn-pytorch": [(N / B) / math.ceil(N / B)],  # the same, with the last batch
    "bayesnn": [1.0] * 6,
    "bayes-regression": [1.0],
    "lightning-uq-box, 1 sample": [100 / n for n in COUNTS],  # 100 times each tensor's mean, beside N times a mean
}
FORMULAS |= {  # of examples in TensorFlow and JAX
    "DenseFlipout, docstring": [N] * 3,  # the whole KL for each row
    "DenseFlipout, MNIST": [1.0] * 3,
    "DenseVariational": [1.0],
    "NUTS": [1.0] * 4,  # the prior of each site
}
NO_SLOPES = {"bayesian_torch, 2 passes", "blitz", "lightning-uq-box", "posteriors"}  # the last on purpose


def test_every_example_was_measured():
    assert library_audits().keys() == EXAMPLES.keys() == AUDITS.keys() | FOREIGN.keys() == FORMULAS.keys() | NO_SLOPES


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_the_measured_weights_are_those_of_the_formula(name):
    published = library_audits()[name].published
    assert published.slopes == ("not measured" if name == "laplace-torch" else "passes")
    assert list(published.kl_weights.values()) == pytest.approx(FORMULAS[name], rel=0.01)


@pytest.mark.parametrize("name", sorted(NO_SLOPES))
def test_gradients_that_are_no_slopes_give_no_weight(name):
    published = library_audits()[name].published
    assert published.slopes == "fails"
    assert not published.kl_weights


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_change_makes_it_an_elbo(name):
    changed = library_audits()[name].changed
    assert changed.slopes == ("not measured" if name == "laplace-torch" else "passes")
    assert list(changed.kl_weights.values()) == pytest.approx([1.0] * len(changed.kl_weights), rel=0.05)
    assert changed.kl_weights


def small(monkeypatch):
    for module in (setting, objectives):
        monkeypatch.setattr(module, "SIZES", (6, 30, 30, 30))


@pytest.mark.parametrize(
    ("guide", "options", "n_groups"),
    [
        ("AutoNormal", {}, 6),
        ("AutoDiagonalNormal", {}, 1),
        ("AutoMultivariateNormal", {"sizes": (30, 30)}, 1),
        ("AutoLowRankMultivariateNormal", {"sizes": (30, 30), "rank": 10}, 1),
        ("AutoDelta", {}, 6),
    ],
)
def test_a_small_network_gives_the_weights_of_a_plate_of_the_batch(guide, options, n_groups, monkeypatch):
    pytest.importorskip("pyro")
    small(monkeypatch)
    with setting.seeded():
        found = ObjectiveAudit.of(objectives.automatic_guide(False, guide, **options))
    assert list(found.kl_weights.values()) == pytest.approx([N / B] * n_groups, rel=0.05)
    assert found.prior_std == (None if guide == "AutoDelta" else pytest.approx(1.0, rel=0.05))


@pytest.mark.parametrize(("name", "module"), [("torchbnn", "torchbnn"), ("bayesian_torch", "bayesian_torch")])
def test_a_small_network_of_layers_gives_the_weights_of_its_formula(name, module, monkeypatch):
    pytest.importorskip(module)
    small(monkeypatch)
    found = audit_example(EXAMPLES[name])
    counts = [180, 30, 900, 30, 900, 30]
    wanted = {"torchbnn": [0.1 * N / sum(counts)] * 6, "bayesian_torch": [N / (B * n) for n in counts]}[name]
    assert list(found.published.kl_weights.values()) == pytest.approx(wanted, rel=1e-5)  # six digits
    assert list(found.changed.kl_weights.values()) == pytest.approx([1.0] * 6)


def objective(**kl_weights):
    return ObjectiveAudit("passes", "", kl_weights)


def test_what_is_kept_replaces_only_what_was_measured(tmp_path):
    path = tmp_path / "libraries.json"
    one, other = (LibraryAudit({"x": version, "torch": "2"}, objective(), objective()) for version in "12")
    keep({"a": one, "b": one}, path)
    keep({"b": other}, path)
    assert msgspec.json.decode(path.read_bytes(), type=dict[str, LibraryAudit]) == {"a": one, "b": other}
    path.write_text("{")
    library_audits.cache_clear()
    with pytest.raises(AuditError, match="--library all --write"):
        library_audits(path)


def test_the_command_for_foreign_examples_prints_what_it_measures_and_stores_it_if_asked(monkeypatch, capsys):
    stored, written = library_audits()["NUTS"], []
    monkeypatch.setattr(foreign_command, "audit_foreign", lambda _: stored)
    monkeypatch.setattr(foreign_command, "keep", written.append)
    assert foreign_command.main(["NUTS"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out, type=dict[str, LibraryAudit]) == {"NUTS": stored}
    assert written == []
    assert foreign_command.main(["NUTS", "--write"]) == 0
    assert written == [{"NUTS": stored}]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "required: EXAMPLE; see `python -m bench.judge.audit.libraries --help`"),
        (["NUTS", "--nonsense"], "unrecognized arguments: --nonsense; see "),
        (["NUTS", "NUT"], "unknown example 'NUT'; known: "),
    ],
)
def test_a_command_for_foreign_examples_that_cannot_be_is_one_line_and_stores_nothing(monkeypatch, capsys, words, said):
    monkeypatch.setattr(foreign_command, "audit_foreign", lambda _: pytest.fail("it was audited"))
    assert foreign_command.main(words) == USAGE
    shown, error = capsys.readouterr()
    assert (shown, error.count("\n")) == ("", 1)
    assert error.startswith("error: ")
    assert said in error


def test_the_command_for_foreign_examples_has_help(capsys):
    with pytest.raises(SystemExit) as ended:
        foreign_command.main(["--help"])
    assert ended.value.code == 0
    assert "--write" in capsys.readouterr().out
