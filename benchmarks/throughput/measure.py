"""Measures one approach's speed beside its document's, in a process of its own, as fits run; the table of all."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import torch

from bench.core.environment import OtherLoad
from bench.core.errors import MissingFramework, Unsupported, check_known
from bench.core.precision import without_denormals
from bench.core.reasons import in_words
from bench.core.records import Outcome
from bench.core.streams import stream_seed
from bench.core.text import THREE, Digits
from bench.data.splits import load_split
from bench.interface import Posterior, Split, Task
from bench.judge.samples import MissingValue
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest
from bench.show.table import Entry, Missing, Number, Table
from benchmarks.command import in_own_process, notes
from benchmarks.throughput import documents
from benchmarks.throughput.blocks import Comparison
from benchmarks.throughput.documents import DocumentCode
from benchmarks.throughput.prediction import compare_prediction, images_for, modes
from benchmarks.throughput.training import Subject, compare_training, short_fit

WHATS = ("train", "predict")
SEED = 0


@dataclass(frozen=True)
class Request:
    """What is measured of one approach, and how."""

    approach: str
    what: str = "train"  # or "predict"
    device: str = "cpu"
    draws: int = 100  # of a prediction
    rounds: int = 7  # blocks of each side
    block_s: float = 1.0  # seconds of a block
    images: int | None = None  # test images to predict at most
    threads: int | None = None
    data_dir: str | None = None


@dataclass(frozen=True)
class Speeds:
    """The measurement of a request: by what was measured, the blocks of both sides."""

    request: Request
    outcome: Outcome = "done"
    reason: str = ""  # why nothing was measured, or why the times do not count
    compared: tuple[tuple[str, Comparison], ...] = ()


def requests(approaches: Sequence[str], whats: Sequence[str], **how: object) -> list[Request]:
    """Return a request for each combination; raises ConfigError for an unknown name."""
    check_known("--what", WHATS, *whats)
    return [Request(name, what, **how) for name in documents.choose(approaches) for what in whats]


def run(asked: Sequence[Request], tell: Callable[[str], object]) -> list[Speeds]:
    """Measure each request in a new process."""
    found: list[Speeds] = []
    for request in asked:
        tell(f"{request.approach} {request.what}, {request.device}")
        found.append(_in_process(request))
        if found[-1].reason:
            tell(f"  {found[-1].reason}")
    return found


def _in_process(request: Request) -> Speeds:
    try:
        return in_own_process(measure, request)
    except BrokenProcessPool:
        return Speeds(request, "failed", "its process ended without a message, perhaps because memory was short")


def measure(request: Request) -> Speeds:
    """Return the measurement of a request, or why there is none."""
    if request.threads:
        torch.set_num_threads(request.threads)
    others = OtherLoad(torch.get_num_threads())
    try:
        with without_denormals():  # as a child process does
            compared = tuple(_compared(request))
    except (MissingFramework, Unsupported) as error:
        return Speeds(request, "skipped", str(error))
    except Exception as error:  # noqa: BLE001 - an approach may raise anything; the table says what
        return Speeds(request, "failed", f"{type(error).__name__}: {error}".rstrip(": \n").splitlines()[0])
    return Speeds(request, "done", in_words(*others.reasons()), compared)


def _compared(request: Request) -> list[tuple[str, Comparison]]:
    reason = manifest(request.approach).cpu_float32_only
    if reason and request.device != "cpu":
        raise Unsupported(f"{request.approach} runs on cpu only: {reason}")
    subject = make_subject(request.approach, request.device, request.data_dir)
    with torch.random.fork_rng(devices=[subject.device] if subject.device.type == "cuda" else []):
        torch.manual_seed(stream_seed(SEED, "documents code"))
        code = documents.DOCUMENTS_CODE[request.approach](subject.train, SEED)
        if request.what == "train":
            return [("training step", compare_training(subject, code, request.rounds, request.block_s))]
        return [_predicted(request, subject, code, posterior) for posterior in modes(short_fit(subject))]


def _predicted(request: Request, subject: Subject, code: DocumentCode, posterior: Posterior) -> tuple[str, Comparison]:
    images = images_for(posterior, subject.test, request.draws, request.images)
    return (
        f"prediction, noise {posterior.noise}" + (", with refusal" if code.refuses else ""),
        compare_prediction(subject, posterior, code, images, request.draws, request.rounds, request.block_s),
    )


def make_subject(name: str, device: str = "cpu", data_dir: str | None = None) -> Subject:
    """Return the published approach with its training and test rows; raises MissingFramework, DataMissing."""
    entry = manifest(name)
    recipe = resolve(entry, "published")
    approach = build(entry, recipe, profile("full"))
    place, folder = torch.device(device), Path(data_dir) if data_dir else None
    train, test = (_to(load_split(split, SEED, folder), place) for split in (recipe.split, "test10k"))
    task = Task("classification", n_outputs=10, n_train=len(train), n_inputs=train.x.shape[1])
    return Subject(approach, task, train, test, SEED, place)


def _to(split: Split, device: torch.device) -> Split:
    """Return the split with its images and labels on the device, as a child process holds it."""
    return Split(split.name, split.x.to(device), split.y.to(device), split.rows)


COLUMNS = ("approach", "what", "unit", "ours", "range", "document", "its range", "ratio", "its range", "target")
RATIO, TARGET = COLUMNS.index("ratio"), COLUMNS.index("target")
TWO = Digits(significant=2)
TARGETS = {  # how many times as fast as the document's code ours is meant to be: our own, for two cores
    "train": {
        "pyro_hidden_layer": 35.0,
        "mxnet_bbb": 3.0,
        "pyro_random_module": 3.0,
        "linear_bbb": 2.5,
        "dropout_fcn": 1.6,
        "mlp": 1.5,
    },
    "predict": {"pyro_hidden_layer": 100.0, "pyro_random_module": 25.0, "linear_bbb": 12.0, "mxnet_bbb": 5.0},
}
CAPTION = (
    "One process runs blocks of our code and of the document's own code in turn: medians and ranges over the rounds. "
    "Ratio: how many times as fast ours is. Training: milliseconds per step; ours is the real fit and gathers its "
    "batches, the document's batches lie ready. Prediction: draws x images per second, ours through the harness, the "
    "document's in its own loop and batches. '!' marks times that do not count."
)


def throughput_table(found: Sequence[Speeds]) -> Table:
    """Return a row for each measurement, and for each request without one."""
    lines = [line for one in found for line in _lines(one)]
    reasons = {f"!: {one.reason}" for one in found if one.outcome == "done" and one.reason}
    missed = [
        f"{line[0]}, {line[1]} ({ratio} of {target})"
        for line in lines
        if isinstance(ratio := line[RATIO], Number) and isinstance(target := line[TARGET], Number)
        if ratio.value < target.value
    ]
    below = [f"Below the target: {'; '.join(missed)}."] if missed else []
    title = "Our code's speed beside the documents'"
    return Table("throughput", title, CAPTION, COLUMNS, lines, [*sorted(reasons), *below, *notes()])


def _lines(one: Speeds) -> list[list[Entry]]:
    if one.outcome != "done":
        missing_value = Missing(MissingValue(one.outcome, one.reason))
        return [
            [one.request.approach, one.request.what, "", missing_value, "", missing_value, "", missing_value, "", ""]
        ]
    mark = " !" if one.reason else ""
    return [_line(one.request, what + mark, compared) for what, compared in one.compared]


def _line(asked: Request, what: str, compared: Comparison) -> list[Entry]:
    is_training = asked.what == "train"
    rates = compared.ours.rates, compared.document.rates
    ours, document = ([1000 / rate for rate in one] if is_training else one for one in rates)
    target = TARGETS[asked.what].get(asked.approach) if asked.device == "cpu" else None
    return [
        *(asked.approach, what, "ms" if is_training else "1/s"),
        *median_and_range(ours),
        *median_and_range(document),
        *median_and_range([mine / theirs for mine, theirs in zip(*rates, strict=True)]),
        "" if target is None else Number(target, TWO),
    ]


def median_and_range(values: Sequence[float]) -> tuple[Number, str]:
    """Return two entries: the median, and the range."""
    return Number(statistics.median(values), THREE), f"{THREE.text(min(values))} - {THREE.text(max(values))}"
