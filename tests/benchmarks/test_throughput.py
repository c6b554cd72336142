"""Throughput: blocks in turn under one clock, worked ratios and shares, operations, files, table, one-line errors."""

from __future__ import annotations

import dataclasses
import json
from typing import ClassVar

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from bench.cli import INCOMPLETE, USAGE
from bench.cli.main import main
from bench.core import timing
from bench.core.canonical import plain
from bench.core.errors import ConfigError, MissingFramework, StoreError, Unsupported
from bench.core.products import matrix_products
from bench.core.reasons import OTHER_LOAD, Reason
from bench.interface import Approach, Categorical, Posterior, Split, Task
from bench.measure.measuring import ROW_NOISE_ROWS
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import load_class, manifest
from bench.show import throughput_files as files
from bench.show.material import Material
from bench.show.tables.cells import Missing, Number
from bench.show.tables.registry import one_table
from bench.show.tables.render import markdown
from bench.show.tables.throughput import load_targets, throughput_table
from benchmarks.throughput import blocks, measure, prediction, sources, training, yardsticks
from benchmarks.throughput.command import main as measure_speeds
from benchmarks.throughput.flops import prediction_flops, training_flops
from benchmarks.throughput.measure import Request
from benchmarks.throughput.training import Subject
from benchmarks.throughput.yardsticks import Yardstick
from tests.synthetic import manifests
from tests.tables import by_column

CPU = torch.device("cpu")
OURS_S, DOCUMENT_S, PRODUCT_S, SET_UP_S, FIRST_STEP_S = 2.0, 10.0, 0.5, 1000.0, 50.0
SIZES = {  # of small networks, for the documents' code
    "dropout_fcn": (20, 12, 12, 12, 10),
    "pyro_hidden_layer": (20, 12, 12, 12, 10),
    "pyro_random_module": (20, 12, 10),
    "mlp": (20, 12, 12, 10),
    "linear_bbb": (20, 12, 12, 10),
    "mxnet_bbb": (20, 12, 10),
}
SMALL = {
    "dropout_fcn": {"hidden": (12, 12, 12)},
    "pyro_hidden_layer": {"n_hidden": 12},
    "pyro_random_module": {"n_hidden": 12},
    "mlp": {"width": 12},
    "linear_bbb": {"hidden_units": 12},
    "mxnet_bbb": {"hidden_units": 12},
}
APPROACHES = sorted(SIZES)


def rows_of(n: int, n_inputs: int = 20) -> Split:
    source = torch.Generator().manual_seed(0)
    x, y = torch.rand(n, n_inputs, generator=source), torch.randint(10, (n,), generator=source)
    return Split("train60k", x, y, torch.arange(n))


def needs(name: str) -> None:
    try:
        load_class(name)
    except MissingFramework as error:
        pytest.skip(str(error))


def subject_of(name: str, n_rows: int = 300) -> Subject:
    needs(name)
    approach = build(manifest(name), resolve(manifest(name), "published"), profile("full"))
    approach = dataclasses.replace(approach, **SMALL[name])
    train = rows_of(n_rows)
    return Subject(approach, Task("classification", 10, n_rows, 20), train, rows_of(40), seed=0, device=CPU)


def yardstick_of(name: str, train: Split) -> Yardstick:
    needs(name)
    return yardsticks.load(name)(train, 0, SIZES[name])


# blocks in turn, under a clock that the tests move


class Time:
    """A clock that moves when told to, and what happened."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log = ""

    def pass_(self, what: str, seconds: float) -> None:
        self.log += what
        self.now += seconds


class FakeWatch:
    time: ClassVar[Time]

    def __init__(self, *_: object) -> None:
        self.mark = float("nan")

    def start(self) -> None:
        self.mark = self.time.now

    def stop(self) -> float:
        return self.time.now - self.mark


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    FakeWatch.time = Time()
    monkeypatch.setattr(training, "Stopwatch", FakeWatch)
    return FakeWatch.time


@dataclasses.dataclass(frozen=True)
class TimedApproach(Approach):
    """Steps that take 2 s, the first of a fit 50 s more, and a set-up of 1000 s."""

    noise = "none"
    epochs: int = 1
    batch_size: int = 10

    def fit(self, train, task, ctx):
        clock = FakeWatch.time
        clock.pass_("|", SET_UP_S)
        ctx.restore()
        for epoch in range(1, self.epochs + 1):
            for step in range(ctx.steps_per_epoch):
                clock.pass_("o", OURS_S + FIRST_STEP_S * (epoch == 1 and step == 0))
            ctx.epoch_end(epoch, {}, lambda: None, dict)

    def rebuild(self, arrays, task, seed):
        raise AssertionError("only training is timed here: nothing is rebuilt")


class TimedYardstick(Yardstick):
    """Steps of 10 s."""

    sizes = (4, 3)
    smallest: ClassVar = {}
    predict_rows = 1

    def __init__(self, *_: object) -> None:
        pass

    def step(self):
        FakeWatch.time.pass_("d", DOCUMENT_S)

    def predict(self, images, n_draws):
        raise AssertionError("only training is timed here: nothing is predicted")


class TimedProduct:
    flops, size = 1e9, 794

    def __call__(self):
        FakeWatch.time.pass_("p", PRODUCT_S)


def timed_subject(n_rows: int = 1000) -> Subject:
    train = rows_of(n_rows, 4)
    return Subject(TimedApproach(), Task("classification", 10, n_rows, 4), train, train, 0, CPU)


def test_blocks_alternate_and_neither_set_up_nor_the_first_round_counts(time):
    found = training.alternate(timed_subject(), TimedYardstick(), TimedProduct(), ours=3, document=2, rounds=2)
    assert time.log == "|" + "oooddp" * 1 + "oooddp" * 2
    assert found.ours.seconds == [3 * OURS_S] * 2
    assert found.document.seconds == [2 * DOCUMENT_S] * 2
    assert found.product.seconds == [PRODUCT_S] * 2
    # 3 steps in 6 s are 1/2 a second; 2 in 20 s are 1/10: ours is five times as fast
    assert [mine / theirs for mine, theirs in zip(found.ours.rates(), found.document.rates(), strict=True)] == [5, 5]


def test_blocks_last_as_long_as_asked_and_no_longer_than_an_epoch(time):
    found = training.compare_training(timed_subject(), TimedYardstick(), TimedProduct(), rounds=2, block_s=40)
    assert (found.ours.work, found.document.work) == (20, 4)  # 40 s of 2 s and of 10 s
    short = training.compare_training(timed_subject(95), TimedYardstick(), TimedProduct(), rounds=1, block_s=40)
    assert (short.ours.work, short.document.work) == (9, 4)  # 95 rows are 9 full batches of 10
    quick = training.compare_training(timed_subject(), TimedYardstick(), TimedProduct(), rounds=1, block_s=0.1)
    assert (quick.ours.work, quick.document.work) == (1, 1)


@given(st.floats(1e-6, 1e3), st.integers(1, 100), st.floats(1e-3, 10))
def test_a_block_is_within_half_a_unit_of_the_time_asked_for(seconds, units, block_s):
    count = blocks.fitting(seconds, units, block_s)
    assert count >= 1
    assert count == 1 or abs(count * seconds / units - block_s) <= 0.5001 * seconds / units


def test_cycle_repeats_full_batches():
    rows = blocks.cycle(7, 3)
    assert [(found.start, found.stop) for found in (next(rows) for _ in range(4))] == [(0, 3), (3, 6), (0, 3), (3, 6)]
    assert next(blocks.cycle(2, 3)) == slice(0, 3)  # fewer rows than a batch: all of them


def test_stopwatch_waits_for_foreign_queues_on_both_sides(monkeypatch):
    seen = []
    watch = timing.Stopwatch(CPU, lambda: seen.append("settle"))
    ticks = iter([10.0, 13.5])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: seen.append("tick") or next(ticks))
    watch.start()
    assert watch.stop() == 3.5
    assert seen == ["settle", "tick", "settle", "tick"]


# operations


def test_operations_of_a_small_network():
    # 4-3-2, 5 rows: forward 2 * 5 * (12 + 6) = 180; both gradients of the last layer and one of the first: 60 * 2 + 120
    assert training_flops((4, 3, 2), 5) == 180 + 2 * 60 + 120
    assert prediction_flops((4, 3, 2), 5, 10, "weights") == 1800
    # the first layer's mean and variance once, 2 * 120, the last layer for each draw, 10 * 60
    assert prediction_flops((4, 3, 2), 5, 10, "shared") == 240 + 600


@pytest.mark.parametrize("name", ["mlp", "dropout_fcn", "linear_bbb", "pyro_random_module"])
def test_operations_are_those_that_pytorch_counts_in_the_documents_code(name):
    yardstick = yardstick_of(name, rows_of(300))
    with yardstick.session(), FlopCounterMode(display=False) as counter:
        yardstick.step()
    assert counter.get_total_flops() == yardstick.training_flops(128)
    with yardstick.session(), FlopCounterMode(display=False) as counter:
        yardstick.predict(rows_of(8).x, 3)
    assert counter.get_total_flops() == yardstick.prediction_flops(8, 3, "weights")


def test_operations_of_hidden_layers():
    yardstick = yardstick_of("pyro_hidden_layer", rows_of(300))
    # 20-12-12-12-10: 240, 144, 144, 120 weights. A row of a step: means and variances, each 2 * 648 forward, again for
    # the draw after the step, 2 * 648 for the weights' and 2 * 408 for the inputs' gradient.
    assert yardstick.training_flops(1) == 2 * 2 * (648 + 648 + 648 + 408)
    assert yardstick.prediction_flops(1, 100, "row") == 2 * 2 * (240 + 100 * 408)
    # shared: the later layers are one product each, with drawn weights: 960 once and 816 for each of 100 draws
    assert yardstick.prediction_flops(1, 100, "shared") == 960 + 100 * 816
    assert yardstick.prediction_flops(1, 1, "none") == 2 * 648


# the documents' code beside ours


@pytest.mark.parametrize("name", APPROACHES)
def test_every_yardstick_trains_and_predicts_in_turn_with_our_fit(name):
    subject = subject_of(name)
    yardstick = yardstick_of(name, subject.train)
    product = blocks.MatrixProduct(CPU, size=16)
    found = training.alternate(subject, yardstick, product, ours=2, document=1, rounds=2)
    for side in (found.ours, found.document, found.product):
        assert len(side.seconds) == 2
        assert min(side.seconds) > 0
    posterior = training.short_fit(subject)
    compared = prediction.compare_prediction(subject, posterior, yardstick, product, subject.test, 3, 2, 1e-3)
    n_draws = posterior.n_draws or 3
    assert compared.ours.work % (n_draws * 40) == 0
    assert compared.document.work % (n_draws * min(40, yardstick.predict_rows)) == 0


@pytest.mark.parametrize("name", APPROACHES)
def test_the_documents_blocks_do_not_touch_our_fit(name):
    """Parameters of three interrupted epochs are those of three epochs without a document."""
    subject = subject_of(name)
    yardstick = yardstick_of(name, subject.train)
    kept = []

    def document() -> None:
        with yardstick.session():
            yardstick.step()

    for between in (lambda: None, document):
        context = training.BlockContext(0, CPU, 2, timing.Stopwatch(CPU), between)
        kept.append(dataclasses.replace(subject.approach, epochs=3).fit(subject.train, subject.task, context).arrays())
    assert kept[0].keys() == kept[1].keys()
    assert all(torch.equal(kept[0][key], kept[1][key]) for key in kept[0])


@pytest.mark.parametrize("name", APPROACHES)
def test_overhead_is_the_real_step_on_the_smallest_network(name, monkeypatch):
    monkeypatch.setattr(training, "TINY_STEPS", 2)
    subject = subject_of(name)
    seen = []
    fit = type(subject.approach).fit

    def spy(approach, train, task, context):
        seen.append((train.x.shape[1], len(train), context.steps_per_epoch))
        return fit(approach, train, task, context)

    monkeypatch.setattr(type(subject.approach), "fit", spy)
    assert training.overhead_seconds(subject, yardstick_of(name, subject.train)) > 0
    assert seen == [(training.TINY_INPUTS, 2 * 128, 2)]


def test_pyros_parameters_of_the_document_stay_its_own():
    pyro = pytest.importorskip("pyro")
    yardstick = yardstick_of("pyro_random_module", rows_of(300))
    with pyro.get_param_store().scope():
        pyro.param("fc1.weight_mu", torch.zeros(1))
        with yardstick.session():
            yardstick.step()
            first = pyro.param("fc1.weight_mu").detach().clone()
        assert pyro.param("fc1.weight_mu").shape == (1,)
        with yardstick.session():
            assert torch.equal(pyro.param("fc1.weight_mu"), first)  # what it has learnt is still there
            yardstick.step()
            assert not torch.equal(pyro.param("fc1.weight_mu"), first)


class FixedPosterior(Posterior):
    def __init__(self, noise="weights", fast=None):
        self.noise, self.fast = noise, fast

    def predict(self, x, draws, rows):
        return Categorical(torch.zeros(len(draws), len(x), 10).log_softmax(2))

    def arrays(self):
        return {}

    def per_row(self):
        if isinstance(self.fast, Exception):
            raise self.fast
        return self.fast or self


def test_shared_noise_is_a_row_of_its_own_where_there_is_any():
    fast = FixedPosterior("shared")
    slow = FixedPosterior("weights", fast)
    assert prediction.modes(slow) == [slow, fast]
    assert prediction.modes(fast) == [fast]
    refusing = FixedPosterior("row", Unsupported("no"))
    assert prediction.modes(refusing) == [refusing]


def test_all_images_are_predicted_unless_every_row_has_noise_of_its_own():
    test = rows_of(3000, 2)
    assert len(prediction.images_for(FixedPosterior("weights"), test, 100, 10, None)) == 3000
    assert len(prediction.images_for(FixedPosterior("row"), test, 100, 10, None)) == ROW_NOISE_ROWS
    assert len(prediction.images_for(FixedPosterior("row"), test, 100, 10, 5)) == 5


class NotingYardstick(TimedYardstick):
    """Notes in which precision the document's code multiplies."""

    def __init__(self, seen: list[tuple[str, str]]) -> None:
        self.seen = seen

    def step(self):
        self.seen.append(("document", torch.get_float32_matmul_precision()))

    def predict(self, images, n_draws):
        self.step()


class NotingProduct(TimedProduct):
    def __init__(self, seen: list[tuple[str, str]]) -> None:
        self.seen = seen

    def __call__(self):
        self.seen.append(("product", torch.get_float32_matmul_precision()))


def test_the_product_is_made_in_our_precision_and_the_documents_in_float32(time):
    """PyTorch's names of the two: "high" is tf32, "highest" float32."""
    subject, seen = timed_subject(), []
    with matrix_products("tf32", CPU):
        training.alternate(subject, NotingYardstick(seen), NotingProduct(seen), ours=1, document=1, rounds=1)
        assert set(seen) == {("document", "highest"), ("product", "high")}
        seen.clear()
        prediction.compare_prediction(
            subject, FixedPosterior(), NotingYardstick(seen), NotingProduct(seen), rows_of(4, 4), 2, 1, 1e-9
        )
    assert set(seen) == {("document", "highest"), ("product", "high")}


@pytest.mark.parametrize(
    ("block_s", "calls"),
    [
        (1.0, 1 + 3),  # a call of 2 s fills a block: it has warmed up, and three rounds of one call follow
        (6.0, 1 + 3 * (1 + 3)),  # three calls a block: a round to warm up, and three that count
    ],
)
def test_what_fills_a_block_at_once_needs_no_further_round_to_warm_up(monkeypatch, block_s, calls):
    made = []
    monkeypatch.setattr(prediction, "_predict", lambda *_: made.append(0) or 2.0)
    found = prediction.compare_prediction(
        timed_subject(), FixedPosterior(), NotingYardstick([]), NotingProduct([]), rows_of(4, 4), 2, 3, block_s
    )
    assert len(made) == calls
    assert found.ours.seconds == [2.0 * found.ours.work / (4 * 2)] * 3
    assert len(found.document.seconds) == len(found.product.seconds) == 3


def test_a_block_says_how_many_images_and_how_often():
    assert measure._extent(100 * 10_000, 100, 10_000) == "100 x 10000 images"
    assert measure._extent(3 * 100 * 128, 100, 128) == "100 x 128 images, 3 times"


def test_the_network_of_random_module_lies_where_its_images_do():
    """ "meta" stands for a GPU."""
    train = rows_of(300)
    yardstick = yardstick_of("pyro_random_module", dataclasses.replace(train, x=train.x.to("meta")))
    assert {weight.device.type for weight in yardstick.document.net.parameters()} == {"meta"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", [name for name in APPROACHES if not manifest(name).cpu_float32_only])
def test_every_yardstick_that_a_gpu_can_run_trains_and_predicts_there(name):
    train, device = rows_of(300), torch.device("cuda")
    moved = dataclasses.replace(train, x=train.x.to(device), y=train.y.to(device))
    yardstick = yardstick_of(name, moved)
    with blocks.as_documented(device), yardstick.session():
        yardstick.step()
        assert len(yardstick.predict(moved.x[:8], 3)) in (3, 8)  # draws, or a class for each image


# records and the table


def speeds(row=None, **changes):
    """Speeds with three rounds of made-up seconds; `row` changes what was measured."""
    measured = {
        "title": "training step",
        "ours": {"work": 10, "seconds": [2.0, 1.0, 4.0]},  # 5, 10, 2.5 steps a second: median 5
        "document": {"work": 2, "seconds": [2.0, 4.0, 2.0]},  # 1, 0.5, 1
        "product": {"work": 1e9, "seconds": [0.01, 0.02, 0.01]},  # median 100 GFLOP a second
        "flops_per_unit": 8e9,
        "product_size": 794,
        "measured": {"ours": "10 steps", "document": "2 steps"},
        "overhead_s": 0.02,
    }
    made = {
        "schema": files.SCHEMA,
        "approach": "mlp",
        "what": "train",
        "device": "cpu",
        "precision": "float32",
        "draws": 1,
        "outcome": "done",
        "reason": "",
        "rounds": 3,
        "rows": [{**measured, **(row or {})}],
        "timings": {"valid": True, "reason": ""},
        "versions": {"recipe": {"published": 1}},
        "provenance": {"cpu": "made-up CPU", "threads": 2, "commit": "0123456789abcdef", "dirty": False},
        **changes,
    }
    return msgspec.convert(made, files.Speeds)


def test_medians_ranges_ratios_and_shares_of_a_row():
    table = throughput_table([speeds()], manifests())
    (row,) = by_column(table)
    assert (row["ours"].value, row["ours, range"]) == (200.0, "100 - 400")
    assert (row["document"].value, row["document, range"]) == (1000.0, "1000 - 2000")
    # the rounds' own ratios are 5, 20 and 2.5, not the ratio of the medians, which happens to be 5 too
    assert (row["ratio"].value, row["ratio, range"], row["rounds"]) == (5.0, "2.50 - 20.0", "3")
    assert row["of the product rate"].value == pytest.approx(5 * 8e9 / 100e9)
    # 8 GFLOP a step at 100 GFLOP a second are 12.5 steps a second, the document's are 1
    assert row["ratio, products alone"].value == pytest.approx(12.5)
    assert row["overhead"].value == pytest.approx(0.02 * 5)  # 20 ms of 200 ms
    assert "794 x 794" in table.caption
    assert "made-up CPU" in table.notes[-1]


def test_the_ratio_is_the_median_of_ratios():
    # rates of 2, 0.5 and 0.5 a second: ratios 2.5, 20 and 5, where the medians 5 and 0.5 would give 10
    record = speeds(row={"document": {"work": 2, "seconds": [1.0, 4.0, 4.0]}})
    (row,) = by_column(throughput_table([record], manifests()))
    assert row["ratio"].value == 5.0


def test_predictions_are_rates_and_have_no_overhead():
    record = speeds(row={"overhead_s": None}, what="predict", draws=100)
    (row,) = by_column(throughput_table([record], manifests()))
    assert row["ours"].value == 5.0
    assert isinstance(row["overhead"], Missing)


def test_rows_stand_in_the_order_of_the_approaches_and_say_what_is_missing_or_does_not_count():
    records = [
        speeds(approach="mxnet_bbb", outcome="skipped", reason="mxnet_bbb needs mxnet", rows=[]),
        speeds(timings={"valid": False, "reason": "other load on the machine"}),
        speeds(approach="dropout_fcn"),
    ]
    table = throughput_table(records, manifests())
    rows = by_column(table)
    assert [row["approach"] for row in rows] == ["dropout_fcn", "mlp", "mxnet_bbb"]
    assert [row["what"] for row in rows] == ["training step", "training step !", "training step"]
    assert isinstance(rows[2]["ours"], Missing)
    assert isinstance(rows[1]["ours"], Number)
    assert {"skipped: mxnet_bbb needs mxnet", "!: other load on the machine"} <= set(table.notes)
    assert markdown(table)


def test_rows_of_another_version_are_marked():
    def row(versions):
        table = throughput_table([speeds(versions=versions)], manifests())
        return by_column(table)[0]["what"], [note for note in table.notes if note.startswith("~")]

    assert row({"recipe": {"published": 1}}) == ("training step", [])
    for other in ({"recipe": {"published": 2}}, None):
        title, notes = row(other)
        assert title == "training step ~"
        assert "made at another version" in notes[0]


def test_sources_of_a_speed_are_ours_and_the_documents():
    found = [path.relative_to(sources.REPOSITORY).as_posix() for path in sources.source_files("mlp")]
    assert {"implementations/mlp.py", "benchmarks/yardsticks/mlp.py", "benchmarks/documents/mlp.py"} <= set(found)


def test_targets_stand_beside_the_ratios_and_missed_ones_are_named(monkeypatch):
    aims = {("mlp", "train"): 7.5, ("linear_bbb", "train"): 2.0}
    monkeypatch.setattr("bench.show.tables.throughput.load_targets", lambda: aims)
    # the ratio of `speeds` is 5
    records = [speeds(), speeds(approach="linear_bbb"), speeds(approach="dropout_fcn"), speeds(device="cuda")]
    table = throughput_table(records, manifests())
    rows = {(row["approach"], row["device"]): row["target"] for row in by_column(table)}
    assert rows["mlp", "cpu"].value == 7.5
    assert rows["linear_bbb", "cpu"].value == 2.0
    assert rows["dropout_fcn", "cpu"] == rows["mlp", "cuda"] == ""
    assert [note for note in table.notes if "target" in note] == ["Below the target: mlp, training step (5.00 of 7.5)."]
    assert not [note for note in throughput_table(records[1:3], manifests()).notes if "target" in note]


def test_targets_are_of_approaches_with_a_yardstick_and_a_broken_file_is_named(tmp_path):
    targets = load_targets()
    assert {name for name, _ in targets} == set(yardsticks.names())
    assert min(targets.values()) > 1
    path = tmp_path / "targets.toml"
    for text in ("[train]\nmlp = 'fast'\n[predict]", "[train]", "train = 3", "["):
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"speed targets .*targets\.toml"):
            load_targets(path)


def test_the_table_is_there_where_there_are_speeds(tmp_path):
    with pytest.raises(ConfigError, match=r"python -m benchmarks\.throughput measures speeds"):
        one_table(Material(tmp_path), "throughput")
    files.folder(tmp_path).write(speeds())
    assert len(one_table(Material(tmp_path), "throughput").rows) == 1


def test_files_are_sealed_and_replaced(tmp_path):
    folder = files.folder(tmp_path)
    path = folder.write(speeds())
    folder.write(speeds(rounds=4))
    records, problems = files.folder(tmp_path).read_all()
    assert [record.rounds for record in records] == [4]
    assert problems == []
    path.write_text(path.read_text().replace('"rounds": 4', '"rounds": 40'))
    with pytest.raises(StoreError, match="changed after"):
        folder.read(path)
    other = path.with_name("other.json")
    other.write_text(json.dumps({"schema": 1}))
    with pytest.raises(StoreError, match="its hash does not fit"):
        folder.read(other)
    other.write_text("{")
    assert len(files.folder(tmp_path).read_all()[1]) == 2


# the command


@pytest.fixture
def small(monkeypatch):
    """The command's own path on small networks and made-up images, in this process."""
    monkeypatch.setattr(blocks, "PRODUCT_SIZE", {"cpu": 32})
    monkeypatch.setattr(training, "TINY_STEPS", 2)
    monkeypatch.setattr(measure, "make_subject", lambda request: subject_of(request.approach))
    load = yardsticks.load
    monkeypatch.setattr(yardsticks, "load", lambda name: lambda train, seed: load(name)(train, seed, SIZES[name]))
    monkeypatch.setattr(measure, "_in_process", measure.measure)


def test_the_command_writes_records_and_the_table_that_table_makes_again(small, tmp_path, capsys):
    arguments = ["mlp", "linear_bbb", "--rounds", "2", "--block", "0.001", "--draws", "3,4"]
    assert measure_speeds([*arguments, "--results", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert "linear_bbb" in shown.out
    assert shown.err.splitlines()[0] == "mlp train, cpu, float32"
    records, problems = files.folder(tmp_path).read_all()
    assert not problems
    assert [(r.approach, r.what, r.draws, len(r.rows)) for r in records if r.approach == "mlp"] == [
        ("mlp", "predict", 3, 1),
        ("mlp", "predict", 4, 1),
        ("mlp", "train", 1, 1),
    ]
    for record in records:
        assert len(record.rows[0].ours.seconds) == 2
        assert record.provenance.cpu
        assert record.provenance.load_average
    written = (tmp_path / "tables" / "throughput.md").read_text()
    assert written.count("| mlp ") == 3
    (tmp_path / "tables" / "throughput.md").unlink()
    assert main(["table", "throughput", "--write", "--results", str(tmp_path)]) == 0
    assert (tmp_path / "tables" / "throughput.md").read_text() == written


def test_json_is_what_the_files_hold(small, tmp_path, capsys):
    arguments = ["mlp", "--what", "train", "--rounds", "1", "--block", "0.001", "--json"]
    assert measure_speeds([*arguments, "--results", str(tmp_path)]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    (kept,) = files.folder(tmp_path).read_all()[0]
    assert shown["rows"] == plain(kept.rows)


def test_a_missing_framework_is_a_row_and_exit_code_3(small, monkeypatch, tmp_path, capsys):
    def absent(request):
        raise MissingFramework("mxnet_bbb needs mxnet")

    monkeypatch.setattr(measure, "make_subject", absent)
    assert measure_speeds(["mxnet_bbb", "--what", "train", "--results", str(tmp_path)]) == INCOMPLETE
    assert "skipped: mxnet_bbb needs mxnet" in capsys.readouterr().out


def test_an_approach_that_fails_is_told_in_one_line_and_the_others_are_measured(small, monkeypatch, tmp_path, capsys):
    def break_mlp(request):
        if request.approach == "mlp":
            raise RuntimeError("no such luck\nand more of it")
        return subject_of(request.approach)

    monkeypatch.setattr(measure, "make_subject", break_mlp)
    arguments = ["mlp", "linear_bbb", "--what", "train", "--rounds", "1", "--block", "0.001"]
    assert measure_speeds([*arguments, "--results", str(tmp_path)]) == INCOMPLETE
    assert capsys.readouterr().err.splitlines()[:2] == [
        "mlp train, cpu, float32",
        "  RuntimeError: no such luck",
    ]
    assert [(r.approach, r.outcome) for r in files.folder(tmp_path).read_all()[0]] == [
        ("linear_bbb", "done"),
        ("mlp", "failed"),
    ]


@pytest.mark.parametrize("change", [{"device": "cuda"}, {"precision": "bf16"}])
def test_what_runs_on_cpu_in_float32_only_is_skipped_elsewhere(change):
    record = measure.measure(Request("mxnet_bbb", **change))
    assert (record.outcome, record.rows) == ("skipped", [])
    assert record.reason.startswith("mxnet_bbb runs on cpu in float32 only: ")


def test_load_of_others_is_marked(small, monkeypatch):
    monkeypatch.setattr(measure.OtherLoad, "reasons", lambda self: [Reason(OTHER_LOAD)])
    record = measure.measure(Request("mlp", rounds=1, block_s=1e-3))
    assert (record.timings.valid, record.timings.reason) == (False, "other load on the machine")


def test_a_table_without_speeds_says_where_they_come_from(tmp_path, capsys):
    assert main(["table", "throughput", "--results", str(tmp_path), "--baseline", "none"]) == USAGE
    assert "python -m benchmarks.throughput measures speeds" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "unknown approach 'nope'"),
        (["linear_bb"], "did you mean 'linear_bbb'"),
        (["toy_bbb"], "unknown approach with a yardstick 'toy_bbb'"),
        (["mlp", "--rounds", "0"], "--rounds 0 is below 1"),
        (["mlp", "--draws", "0"], "--draws 0 is below 1"),
        (["mlp", "--draws", "many"], "no list of counts"),
        (["mlp", "--images", "-1"], "--images -1 is below 1"),
        (["mlp", "--threads", "0"], "--threads 0 is below 1"),
        (["mlp", "--block", "0"], "not a positive number"),
        (["mlp", "--what", "trian"], "did you mean 'train'"),
        (["mlp", "--device", "tpu"], "known: cpu, cuda"),
        (["mlp", "--precision", "half"], "known: bf16, float32, tf32"),
    ],
)
def test_nonsense_is_one_line(arguments, message, tmp_path, capsys):
    assert measure_speeds([*arguments, "--results", str(tmp_path)]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_errors_of_the_process_of_a_measurement_are_its_record():
    record = measure._in_process(Request("nope"))
    assert record.outcome == "failed"
    assert record.reason.startswith("ConfigError: unknown approach 'nope'")
