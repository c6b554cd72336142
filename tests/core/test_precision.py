"""Precision of matrix products: what is rounded, what is not, and that the old state returns."""

import shutil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from bench.cli.main import main
from bench.core.errors import ConfigError
from bench.core.precision import check_precision
from bench.core.products import (
    BY_ONEDNN,
    BY_ROUNDING,
    BY_TENSOR_CORES,
    LARGEST_EXACT,
    OneDnnOrRounded,
    RoundedOperands,
    _onednn_in,
    matrix_products,
    products_by,
)
from bench.core.reasons import in_words
from bench.core.store import Store
from tests.run.toys import go

CPU = torch.device("cpu")
# 8 significant bits: between 1 and 2 the step is 2^-7. 1 + 2^-9 is a quarter of a step above 1, hence 1.
ABOVE_ONE = 1 + 2**-9

PRODUCTS = {
    "mm": torch.mm,
    "mm, left transposed": lambda a, b: torch.mm(a.t().contiguous().t(), b),
    "mm, right transposed": lambda a, b: torch.mm(a, b.t().contiguous().t()),
    "mm into a buffer": lambda a, b: torch.mm(a, b, out=torch.empty(len(a), b.shape[1])),
    "addmm": lambda a, b: torch.addmm(torch.zeros(b.shape[1]), a, b),
    "addmm_": lambda a, b: torch.zeros(len(a), b.shape[1]).addmm_(a, b, beta=0.5),
    "linear": lambda a, b: torch.nn.functional.linear(a, b.t(), torch.zeros(b.shape[1])),
    "bmm": lambda a, b: torch.bmm(a.expand(2, -1, -1), b.expand(2, -1, -1))[1],
    "baddbmm": lambda a, b: torch.baddbmm(torch.zeros(1, 1, 1), a[None], b[None])[0],
    "matmul of three dimensions": lambda a, b: torch.matmul(a.expand(3, -1, -1), b)[2],
    "einsum": lambda a, b: torch.einsum("ij,jk->ik", a, b),
    "mv": lambda a, b: torch.mv(a, b[:, 0]),
}
# oneDNN leaves some thin products in float32; the last shape is that of the backward pass of ten classes
SHAPES = [(128, 128, 128), (512, 10, 1), (1, 4100, 2), (17, 17, 17), (10, 784, 16), (128, 10, 512)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_every_product_rounds_both_operands(product, shape):
    """A row and a column of n numbers 1 + 2^-9 have the product n in bfloat16, with oneDNN and without it."""
    rows, inner, columns = shape
    left, right = torch.full((rows, inner), ABOVE_ONE), torch.full((inner, columns), ABOVE_ONE)
    is_vector = product is PRODUCTS["mv"]
    is_small = rows * inner * (1 if is_vector else columns) <= LARGEST_EXACT
    with matrix_products("bf16", CPU):
        found = product(left, right)
    assert bool((found == inner).all()) is not is_small
    exact = torch.full_like(found, inner * ABOVE_ONE**2)
    # tolerance: `inner` additions of positive numbers; (1 + 2^-9)^2 is exact
    torch.testing.assert_close(product(left, right), exact, rtol=inner * 2**-24, atol=0)


class SeenByDot(TorchDispatchMode):
    """Notes the precision in which oneDNN may compute a dot product."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket is torch.ops.aten.dot:
            self.seen = torch.backends.mkldnn.matmul.fp32_precision
        return func(*args, **(kwargs or {}))


def test_a_dot_product_of_vectors_is_a_sum_and_stays_float32():
    """On some processors oneDNN would round its operands, unless it is told not to."""
    vector = torch.full((2**13,), ABOVE_ONE)
    for mode in (RoundedOperands(), matrix_products("bf16", CPU)):
        with mode:
            assert vector.dot(torch.ones(2**13)) == 2**13 * ABOVE_ONE
    with _onednn_in("bf16"), SeenByDot() as dot, OneDnnOrRounded():
        vector.dot(vector)
    assert dot.seen == "ieee"


def test_the_backward_pass_is_rounded_too():
    """d sum(x w) / dw = x' 1: for 64 rows of 1 + 2^-9 that is 64 in bfloat16 and 64.125 in float32."""
    weights = torch.ones(32, 32, requires_grad=True)
    with matrix_products("bf16", CPU):
        (torch.full((64, 32), ABOVE_ONE) @ weights).sum().backward()
    assert bool((weights.grad == 64).all())


def test_parameters_sums_and_float64_are_not_rounded():
    with matrix_products("bf16", CPU):
        value = torch.full((64, 64), ABOVE_ONE)
        assert bool((value * 1 == ABOVE_ONE).all())
        assert value.sum() == 64 * 64 * ABOVE_ONE
        assert bool((value.double() @ torch.ones(64, 64, dtype=torch.float64) == 64.125).all())
        assert bool((value.long() @ torch.ones(64, 64, dtype=torch.int64) == 64).all())


@pytest.mark.parametrize(("size", "expected"), [(16, 16 * ABOVE_ONE), (17, 17.0)])
def test_small_products_stay_float32(size, expected):
    """16^3 multiplications are the largest product that oneDNN leaves alone."""
    with RoundedOperands():
        product = torch.full((size, size), ABOVE_ONE) @ torch.ones(size, size)
    assert bool((product == expected).all())


@given(st.integers(17, 40), st.integers(17, 40), st.integers(17, 40), st.integers(0, 10_000))
def test_rounded_operands_are_the_exact_product_of_rounded_numbers(rows, inner, columns, seed):
    source = torch.Generator().manual_seed(seed)
    left, right = torch.randn(rows, inner, generator=source), torch.randn(inner, columns, generator=source)
    with RoundedOperands():
        found = left @ right
    a, b = left.bfloat16().double(), right.bfloat16().double()
    bound = inner * 2**-24 * (a.abs() @ b.abs())
    # tolerance: every product is exact in float32 (8 + 8 bits); adding `inner` of them errs by 2^-24 a time
    assert bool(((found.double() - a @ b).abs() <= bound).all())


@pytest.mark.skipif(products_by("bf16", CPU) != BY_ONEDNN, reason="this processor has no bfloat16 products")
def test_the_processor_gives_the_numbers_of_rounded_operands():
    source = torch.Generator().manual_seed(0)
    left, right = torch.randn(128, 784, generator=source), torch.randn(784, 512, generator=source)
    with matrix_products("bf16", CPU):
        found = left @ right
    a, b = left.bfloat16().double(), right.bfloat16().double()
    # products are exact; a sum of n errs by more than 6 sqrt(n) 2^-24 times the sum of its terms' sizes with
    # probability 3e-8, in whatever order it is added (Higham & Mary 2019)
    bound = 6 * 784**0.5 * 2**-24 * (a.abs() @ b.abs())
    # tolerance: the bound above
    assert bool(((found.double() - a @ b).abs() <= bound).all())
    plain = left.double() @ right.double()
    # tolerance: the bound above, which numbers that are not rounded exceed
    assert not bool(((found.double() - plain).abs() <= bound).all())


def state():
    matmuls = (torch.backends.mkldnn.matmul, torch.backends.cuda.matmul)
    product = float((torch.full((64, 64), ABOVE_ONE) @ torch.ones(64, 64))[0, 0])
    return [matmul.fp32_precision for matmul in matmuls], torch.get_float32_matmul_precision(), product


@pytest.mark.parametrize(
    ("precision", "device"), [("float32", "cpu"), ("bf16", "cpu"), ("tf32", "cuda"), ("bf16", "cuda")]
)
def test_the_old_state_returns_even_after_an_error(precision, device):
    before = state()
    with pytest.raises(ZeroDivisionError), matrix_products(precision, torch.device(device)):
        raise ZeroDivisionError
    assert state() == before


def test_tf32_is_pytorchs_own_switch_and_readable_by_it():
    """PyTorch has an old and a new setting. Both are set, because some code reads the one and some the other."""
    with matrix_products("tf32", torch.device("cuda")):
        assert torch.backends.cuda.matmul.allow_tf32
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
        assert torch.get_float32_matmul_precision() == "high"
    assert not torch.backends.cuda.matmul.allow_tf32


def test_float32_is_float32_whatever_was_switched_on_before():
    torch.set_float32_matmul_precision("medium")
    try:
        with matrix_products("float32", CPU):
            assert not torch.backends.cuda.matmul.allow_tf32
            assert state()[2] == 64 * ABOVE_ONE
    finally:
        torch.set_float32_matmul_precision("highest")
        for matmul in (torch.backends.mkldnn.matmul, torch.backends.cuda.matmul):
            matmul.fp32_precision = "none"


def test_how_products_are_made():
    assert products_by("float32", CPU) == "float32"
    assert products_by("float64", CPU) == "float64"
    assert products_by("tf32", torch.device("cuda")) == BY_TENSOR_CORES
    assert products_by("bf16", torch.device("cuda")) == BY_ROUNDING
    assert products_by("bf16", CPU) in (BY_ONEDNN, BY_ROUNDING)


def test_an_old_gpu_has_no_tf32(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Old GPU")
    with pytest.raises(ConfigError, match="Old GPU, which lacks it"):
        check_precision("tf32", "cuda")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    check_precision("tf32", "cuda")


# in a run


def smoke(root, name, precision="bf16"):
    chosen = {"recipes": ("published",), "protocols": ("common",), "seeds": (0,), "precision": precision}
    ((result,), _) = go(root, name, **chosen)
    return Store(root).find(result.cell.naming())


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Return a folder in which the command ran mlp in float32 and in bfloat16, and its records in this order."""
    root, before = tmp_path_factory.mktemp("both"), state()
    how = ["--recipe", "published", "--protocol", "common", "--executor", "inline", "--quiet", "--threads", "1"]
    for option in ([], ["--precision", "bf16"]):
        assert main(["run", "mlp", "--profile", "smoke", "--results", str(root), *how, *option]) == 0
    assert state() == before
    return root, sorted(Store(root).all_records()[0], key=lambda record: record.precision, reverse=True)


def test_a_run_trains_and_predicts_in_its_precision_and_says_so(both):
    _, (plain, reduced) = both
    assert (plain.precision, reduced.precision) == ("float32", "bf16")
    assert reduced.provenance.products == products_by("bf16", CPU)
    assert plain.provenance.products == "float32"
    assert plain.provenance.matmul_rate == reduced.provenance.matmul_rate > 0
    assert reduced.fit_key != plain.fit_key
    assert (
        reduced.epochs[0].metrics["mnist/train60k/train_loss"] != plain.epochs[0].metrics["mnist/train60k/train_loss"]
    )
    difference = abs(reduced.metrics["mnist/nll"] - plain.metrics["mnist/nll"])
    assert difference > 0
    if reduced.provenance.products == BY_ROUNDING:
        assert "rounded first" in in_words(*reduced.timings.reasons)
    assert "rounded" not in in_words(*plain.timings.reasons)


@pytest.mark.parametrize("name", ["linear_bbb", "toy_mlp"])  # toy_mlp: on a CPU without reduced operands only
def test_a_run_in_float64_keeps_and_measures_a_float64_network(name, tmp_path):
    record = smoke(tmp_path, name, "float64")
    assert (record.outcome, record.precision, record.provenance.products) == ("done", "float64", "float64")
    tensors, _ = Store(tmp_path).read_tensors(Store(tmp_path).fit_path(record.fit_key, "posterior"), lambda _: True)
    assert {value.dtype for value in tensors.values()} == {torch.float64}
    assert record.provenance.train_sha256 == smoke(tmp_path, name, "float32").provenance.train_sha256


def test_predictions_alone_are_in_the_precision_too(both, tmp_path):
    """The record is deleted and measured again from the kept fit: nothing is trained, the number is the same."""
    root, (_, first) = both
    shutil.copytree(root, tmp_path, dirs_exist_ok=True)
    Store(tmp_path).record_path(first).unlink()
    second = smoke(tmp_path, "mlp")
    assert second.metrics == first.metrics
    assert second.provenance.started == first.provenance.started


def test_an_approach_without_the_option_is_skipped_with_the_reason_and_the_others_stay(tmp_path):
    plain = smoke(tmp_path, "toy_mlp", precision="float32")
    reduced = smoke(tmp_path, "toy_mlp")
    assert plain.outcome == "done"
    assert reduced.outcome == "skipped"  # the float32 record is not taken for the one of bfloat16
    assert "NumPy" in in_words(reduced.reason)
    Store(tmp_path).write(plain)
    assert len(Store(tmp_path).all_records()[0]) == 2  # and does not replace it


def test_tables_of_two_precisions_are_apart(both, capsys):
    root, _ = both
    choice = ["--profile", "smoke", "--results", str(root), "--baseline", "none", "--format", "csv"]
    assert {path.name for path in (root / "tables").iterdir()} == {"smoke", "smoke-bf16"}
    shown = {}
    for precision in ("float32", "bf16"):
        assert main(["table", "calibration", *choice, "--precision", precision]) == 0
        shown[precision] = capsys.readouterr().out
    assert shown["float32"] != shown["bf16"]
    assert main(["table", "precision", *choice]) == 0
    (nll,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("mlp,bf16,smoke,mnist,nll,")]
    for precision, value in zip(("float32", "bf16"), nll.split(",")[5:9:3], strict=True):
        assert value in shown[precision]
