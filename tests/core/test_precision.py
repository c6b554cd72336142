"""Precisions: which devices have them, what PyTorch's switches do, and that the old state returns."""

import pytest
import torch

from bench.cli.main import main
from bench.core.errors import ConfigError
from bench.core.precision import check_gpu, check_precision, computing_in
from bench.core.reasons import in_words
from bench.core.store import Store
from bench.plan.trained_runs import Selection, trained_runs
from bench.run import process
from bench.run.events import Options
from tests.run.toys import go

CPU, GPU = torch.device("cpu"), torch.device("cuda")
# 8 significant bits: between 1 and 2 the step of bfloat16 is 2^-7. 1 + 2^-9 is a quarter of a step above 1, hence 1.
ABOVE_ONE = 1 + 2**-9


def state():
    matmuls = (torch.backends.mkldnn.matmul, torch.backends.cuda.matmul)
    product = float((torch.full((64, 64), ABOVE_ONE) @ torch.ones(64, 64))[0, 0])
    autocast = torch.is_autocast_enabled("cpu"), torch.is_autocast_cache_enabled()
    return [matmul.fp32_precision for matmul in matmuls], torch.get_float32_matmul_precision(), product, autocast


@pytest.mark.parametrize(("precision", "device"), [("float32", CPU), ("float64", CPU), ("bf16", CPU), ("tf32", GPU)])
def test_the_old_state_returns_even_after_an_error(precision, device):
    before = state()
    with pytest.raises(ZeroDivisionError), computing_in(precision, device):
        raise ZeroDivisionError
    assert state() == before


def test_tf32_is_pytorchs_own_switch_and_readable_by_it():
    """PyTorch has an old and a new setting. Both are set, because some code reads the one and some the other."""
    with computing_in("tf32", GPU):
        assert torch.backends.cuda.matmul.allow_tf32
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
        assert torch.get_float32_matmul_precision() == "high"
    assert not torch.backends.cuda.matmul.allow_tf32


def test_float32_is_float32_whatever_was_switched_on_before():
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", torch.bfloat16), computing_in("float32", CPU):
            assert not torch.backends.cuda.matmul.allow_tf32
            assert state()[2] == 64 * ABOVE_ONE
    finally:
        torch.set_float32_matmul_precision("highest")
        for matmul in (torch.backends.mkldnn.matmul, torch.backends.cuda.matmul):
            matmul.fp32_precision = "none"


def test_bf16_is_autocast_and_follows_weights_that_a_step_changes():
    """Autocast can keep the bfloat16 copy of a weight: then all steps of a training would use the first weights.

    A processor stands in for a GPU: PyTorch's autocast has the same rules there.
    """
    weights = torch.full((64, 1), ABOVE_ONE, requires_grad=True)
    rows = torch.full((8, 64), ABOVE_ONE)
    with computing_in("bf16", CPU):
        assert (rows @ weights).dtype == torch.bfloat16
        (rows @ weights).sum().backward()
        assert bool((weights.grad == 8).all())  # operands of the backward pass are rounded too
        with torch.no_grad():
            weights.mul_(2)
        assert bool((rows @ weights == 128).all())
        assert rows.sum() == 8 * 64 * ABOVE_ONE
    assert weights.dtype == torch.float32


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_a_device_without_a_precision_is_refused_with_those_that_it_has(precision, monkeypatch):
    for device in ("cpu", "cuda", "cuda:1"):
        for has in ("float32", "float64"):
            check_precision(has, device)
            check_gpu(has, device)
    check_precision(precision, "cuda:1")
    with pytest.raises(ConfigError, match=f"'{precision}' was given with device cpu, which has float32 and float64"):
        check_precision(precision, "cpu")
    with pytest.raises(ConfigError, match="unknown precision 'half'"):
        check_precision("half", "cuda")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Old GPU")
    with pytest.raises(ConfigError, match=f"'{precision}' was given with Old GPU, which has float32 and float64"):
        check_gpu(precision, "cuda")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    check_gpu(precision, "cuda")


# in a run


def smoke(root, name, precision):
    chosen = {"recipes": ("published",), "protocols": ("common",), "seeds": (0,), "precision": precision}
    ((result,), _) = go(root, name, **chosen)
    return Store(root).find(result.trained_run.naming())


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Return a folder in which the command ran mlp in float32 and in float64, and its records in this order."""
    root, before = tmp_path_factory.mktemp("both"), state()
    how = ["--recipe", "published", "--protocol", "common", "--executor", "inline", "--quiet", "--threads", "1"]
    for option in ([], ["--precision", "float64"]):
        assert main(["run", "mlp", "--profile", "smoke", "--results", str(root), *how, *option]) == 0
    assert state() == before
    return root, sorted(Store(root).all_records()[0], key=lambda record: record.precision)


def test_a_run_trains_in_its_precision_and_its_record_says_so(both):
    _, (single, double) = both
    assert (single.precision, double.precision) == ("float32", "float64")
    assert single.fit_key != double.fit_key
    assert single.provenance.matmul_rate == double.provenance.matmul_rate > 0
    losses = [record.epochs[0].metrics["mnist/train60k/train_loss"] for record in (single, double)]
    assert losses[0] != losses[1]


def test_a_worker_whose_gpu_lacks_the_precision_says_so_in_the_record(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Old GPU")
    planned = trained_runs(Selection(approaches=("mlp",), profile="smoke", device="cuda", precision="tf32"))
    process._work(planned[:1], Options(str(tmp_path)), lambda event: None)
    (record,) = Store(tmp_path).all_records()[0]
    assert record.outcome == "failed"
    assert "Old GPU, which has float32 and float64 only" in in_words(record.reason)


@pytest.mark.parametrize("name", ["linear_bbb", "toy_mlp"])
def test_a_run_in_float64_keeps_and_measures_a_float64_network(name, tmp_path):
    record = smoke(tmp_path, name, "float64")
    assert (record.outcome, record.precision) == ("done", "float64")
    tensors, _ = Store(tmp_path).read_tensors(Store(tmp_path).fit_path(record.fit_key, "posterior"), lambda _: True)
    assert {value.dtype for value in tensors.values()} == {torch.float64}
    plain = smoke(tmp_path, name, "float32")
    assert record.provenance.train_sha256 == plain.provenance.train_sha256
    assert len(Store(tmp_path).all_records()[0]) == 2  # the one does not replace the other


def test_tables_of_two_precisions_are_apart(both, capsys):
    root, _ = both
    choice = ["--profile", "smoke", "--results", str(root), "--baseline", "none", "--format", "csv"]
    assert {path.name for path in (root / "tables").iterdir()} == {"smoke", "smoke-float64"}
    shown = {}
    for precision in ("float32", "float64"):
        assert main(["table", "calibration", *choice, "--precision", precision]) == 0
        shown[precision] = capsys.readouterr().out
    assert shown["float32"] != shown["float64"]
