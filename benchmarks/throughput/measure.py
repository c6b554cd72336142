"""Measures one approach's speed beside its document's, in a process of its own, as fits run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from itertools import product as combinations
from pathlib import Path
from typing import Any

import msgspec
import torch

from bench.core import environment
from bench.core.denormals import without_denormals
from bench.core.errors import MissingFramework, Unsupported, check_known
from bench.core.load import OtherLoad
from bench.core.precision import check_gpu, check_precision, computing_in, dtype_of
from bench.core.reasons import in_words
from bench.core.streams import stream_seed
from bench.data.splits import load_split
from bench.interface import Posterior, Split, Task
from bench.measure.measuring import draws_of
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest
from benchmarks.command import in_own_process
from benchmarks.throughput import yardsticks
from benchmarks.throughput.blocks import MatrixProduct
from benchmarks.throughput.prediction import compare_prediction, images_for, modes
from benchmarks.throughput.table import Request, SpeedRow, Speeds
from benchmarks.throughput.training import Subject, compare_training, overhead_seconds, short_fit
from benchmarks.throughput.yardsticks import Yardstick

WHATS = ("train", "predict")
SEED = 0


def requests(
    approaches: Sequence[str],
    whats: Sequence[str],
    devices: Sequence[str],
    precisions: Sequence[str],
    draws: Sequence[int],
    **how: Any,
) -> list[Request]:
    """Return a request for each combination; raises ConfigError for an unknown name."""
    check_known("--what", WHATS, *whats)
    for precision in precisions:
        for device in devices:
            check_precision(precision, device)
            check_gpu(precision, device)
    names = yardsticks.choose(approaches)
    return [
        Request(name, what, device, precision, n_draws, **how)
        for name, what, device, precision in combinations(names, whats, devices, precisions)
        for n_draws in (draws if what == "predict" and manifest(name).noise != "none" else [1])  # a step draws once
    ]


def run(asked: Sequence[Request], tell: Callable[[str], object]) -> list[Speeds]:
    """Measure each request in a new process; return the measurements."""
    found: list[Speeds] = []
    for request in asked:
        tell(f"{request.approach} {request.what}, {request.device}, {request.precision}")
        found.append(_in_process(request))
        if found[-1].reason:
            tell(f"  {found[-1].reason}")
    return found


def _in_process(request: Request) -> Speeds:
    try:
        return in_own_process(measure, request)
    except BrokenProcessPool:
        reason = "its process ended without a message, perhaps because memory was short"
        return Speeds(request, environment.describe(torch.get_num_threads()), "failed", reason)


def measure(request: Request) -> Speeds:
    """Return the measurement of a request: its rows, or why there are none."""
    if request.threads:
        torch.set_num_threads(request.threads)
    others, threads = OtherLoad(torch.get_num_threads()), torch.get_num_threads()
    try:
        with without_denormals():  # as a child process does
            rows = tuple(_rows(request, threads))
    except (MissingFramework, Unsupported) as error:
        return Speeds(request, environment.describe(torch.get_num_threads()), "skipped", str(error))
    except Exception as error:  # noqa: BLE001 - an approach may raise anything; the table says what
        reason = f"{type(error).__name__}: {error}".rstrip(": \n").splitlines()[0]
        return Speeds(request, environment.describe(torch.get_num_threads()), "failed", reason)
    made = msgspec.structs.replace(
        environment.describe(threads),
        accelerator=torch.cuda.get_device_name(request.device) if request.device != "cpu" else "",
    )
    return Speeds(request, made, "done", in_words(*others.reasons()), rows)


def _rows(request: Request, threads: int) -> list[SpeedRow]:
    entry = manifest(request.approach)
    if entry.cpu_float32_only and (request.device, request.precision) != ("cpu", "float32"):
        raise Unsupported(f"{entry.name} runs on cpu in float32 only: {entry.cpu_float32_only}")
    if dtype_of(request.precision) != torch.float32:
        raise Unsupported(f"speed is measured in float32, tf32 or bf16, not in {request.precision}")
    subject = make_subject(request)
    with computing_in(request.precision, subject.device):
        return _compared(request, subject, threads)


def _compared(request: Request, subject: Subject, threads: int) -> list[SpeedRow]:
    with torch.random.fork_rng(devices=[subject.device] if subject.device.type == "cuda" else []):
        torch.manual_seed(stream_seed(SEED, "yardstick"))
        yardstick = yardsticks.YARDSTICKS[request.approach](subject.train, SEED)
        product = MatrixProduct(subject.device, threads)
        if request.what == "train":
            return [training_row(request, subject, yardstick, product)]
        predicting = modes(short_fit(subject))
        return [_prediction_row(request, subject, yardstick, product, posterior) for posterior in predicting]


def make_subject(request: Request) -> Subject:
    """Return the published approach with its training and test rows; raises MissingFramework, DataMissing."""
    entry = manifest(request.approach)
    recipe = resolve(entry, "published")
    approach = build(entry, recipe, profile("full"))
    data_dir = Path(request.data_dir) if request.data_dir else None
    device = torch.device(request.device)
    train = _to(load_split(recipe.split, SEED, data_dir), device)
    task = Task("classification", n_outputs=10, n_train=len(train), n_inputs=train.x.shape[1])
    test = _to(load_split("test10k", SEED, data_dir), device)
    return Subject(approach, task, train, test, SEED, device)


def _to(split: Split, device: torch.device) -> Split:
    """Return the split with its images and labels on the device, as a child process holds it."""
    return Split(split.name, split.x.to(device), split.y.to(device), split.rows)


def training_row(request: Request, subject: Subject, yardstick: Yardstick, product: MatrixProduct) -> SpeedRow:
    """Return the row of the training steps."""
    compared = compare_training(subject, yardstick, product, request.rounds, request.block_s)
    return SpeedRow(
        "training step",
        compared,
        yardstick.training_flops(subject.batch_size),
        f"{compared.ours.work:.0f} steps",
        f"{compared.document.work:.0f} steps",
        overhead_seconds(subject, yardstick),
    )


def _prediction_row(
    request: Request, subject: Subject, yardstick: Yardstick, product: MatrixProduct, posterior: Posterior
) -> SpeedRow:
    n_draws = len(draws_of(posterior, request.draws))
    images = images_for(posterior, subject.test, n_draws, request.images)
    compared = compare_prediction(
        subject, posterior, yardstick, product, images, request.draws, request.rounds, request.block_s
    )
    return SpeedRow(
        f"prediction, noise {posterior.noise}" + (", with refusal" if yardstick.refuses else ""),
        compared,
        yardstick.prediction_flops(len(images), n_draws, posterior.noise) / (n_draws * len(images)),
        _extent(compared.ours.work, n_draws, len(images)),
        _extent(compared.document.work, n_draws, min(len(images), yardstick.predict_rows)),
    )


def _extent(work: float, n_draws: int, n_images: int) -> str:
    times = round(work / (n_draws * n_images))
    return f"{n_draws} x {n_images} images" + (f", {times} times" if times > 1 else "")
