"""Other people's libraries as audited, and metrics computed again from stored scores by `compare --verify`."""

import math
import shutil

import msgspec
import pytest
from msgspec import structs

from bench.cli import FAILED, INCOMPLETE, USAGE
from bench.cli.main import main
from bench.core.store import Store
from bench.judge.audit.libraries import __main__ as foreign_command
from bench.judge.audit.libraries import objectives, setting
from bench.judge.audit.libraries.audited import LibraryAudit, ObjectiveAudit, keep, library_audits
from bench.judge.audit.libraries.examples import EXAMPLES
from bench.judge.audit.libraries.foreign_audits import FOREIGN
from bench.judge.audit.libraries.objectives import AUDITS, audit_example
from elbo_audit.errors import AuditError
from tools.archive import main as archive

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


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with two seeds of a short fit."""
    root = tmp_path_factory.mktemp("made")
    command = ["run", "mlp", "--recipe", "corrected", "--protocol", "common", "--profile", "smoke", "--seeds", "2"]
    assert main([*command, "--executor", "inline", "--quiet", "--results", str(root)]) == 0
    return root


@pytest.fixture
def copy(made, tmp_path):
    """Return a store of a copy, its two records and the scores of the first."""
    shutil.copytree(made / "records", tmp_path / "records")
    store = Store(tmp_path)
    records = sorted(store.all_records()[0], key=lambda record: record.seed)
    return store, records, dict(store.scores(records[0]))


def verify(store, capsys):
    code = main(["compare", str(store.root), "--verify"])
    return code, capsys.readouterr()


def test_a_true_folder_passes_and_says_what_was_left_out(copy, capsys):
    store, _, _ = copy
    code, found = verify(store, capsys)
    *left_out, counts = found.out.splitlines()
    assert code == 0
    assert left_out[0].startswith("not determined by the scores of every record: ")
    assert "mean_network/nll" in " ".join(left_out)
    assert counts.startswith("2 of 2 finished records have scores; ")
    assert counts.endswith(" computed again, 0 differ")


@pytest.mark.parametrize(
    ("metric", "change"), [("accuracy", 0.01), ("nll", -0.01), ("ece", -0.05), ("risk_coverage_area", -0.05)]
)
def test_an_edited_metric_is_named(copy, capsys, metric, change):
    """Its seal and the hash of its scores fit, as somebody who edits numbers can make them."""
    store, (first, _), scores = copy
    better = first.metrics[f"mnist/{metric}"] + change
    store.write(structs.replace(first, metrics={**first.metrics, f"mnist/{metric}": better}), scores)
    code, found = verify(store, capsys)
    assert code == FAILED
    said = f"mlp corrected x common, seed 0, profile smoke: mnist/{metric} is {better:.6g}, its scores make it "
    assert said in " ".join(found.out.split())


def test_scores_that_the_archive_reduces_are_verified_too(copy, capsys):
    store, (_, second), _ = copy
    assert archive([str(store.root), "--every-seed", "mlp"]) == 0
    capsys.readouterr()
    code, found = verify(Store(store.root), capsys)
    assert code == 0
    assert "2 of 2 finished records have scores" in found.out
    reduced = Store(store.root).find(second)
    wrong = {**reduced.metrics, "mnist/accuracy": reduced.metrics["mnist/accuracy"] + 0.01}
    store.write(structs.replace(reduced, sha256="", metrics=wrong))
    code, found = verify(Store(store.root), capsys)
    assert code == FAILED
    assert "mlp corrected x common, seed 1, profile smoke: mnist/accuracy is " in " ".join(found.out.split())


def test_a_record_without_scores_is_counted_and_a_folder_without_any_fails(copy, capsys):
    store, (first, second), _ = copy
    store.record_path(first).with_suffix(".npz").unlink()
    code, found = verify(store, capsys)
    assert code == 0
    assert "1 of 2 finished records have scores" in found.out
    store.record_path(second).with_suffix(".npz").unlink()
    code, found = verify(store, capsys)
    assert code == USAGE
    assert "none of the 2 finished records" in found.err


def test_a_damaged_record_is_named_and_the_exit_code_says_so(copy, capsys):
    store, (first, _), _ = copy
    store.record_path(first).write_text("{")
    code, found = verify(store, capsys)
    assert code == INCOMPLETE
    assert "is not a sealed line" in found.err
    assert "1 of 1 finished record have scores" in found.out.replace("records", "record")


def test_no_folder_and_no_records_are_one_line(tmp_path, capsys):
    for place, problem in ((tmp_path, "none of the 0 finished records"), (tmp_path / "no", "is not a folder")):
        code, found = verify(Store(place), capsys)
        assert code == USAGE
        (line,) = found.err.splitlines()
        assert problem in line
