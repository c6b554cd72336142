"""One approach's speed beside its document's, as records; in a process of its own, as fits run."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from itertools import product as combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from bench.core import environment
from bench.core.errors import ConfigError, MissingFramework, Unsupported, check_known
from bench.core.load import OtherLoad
from bench.core.precision import check_precision
from bench.core.products import BY_ROUNDING, matrix_products, products_by
from bench.core.reasons import in_words
from bench.core.records import Outcome, Versions
from bench.core.streams import stream_seed
from bench.data.splits import load_split
from bench.interface import Posterior, Split, Task
from bench.measure.measuring import draws_of
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest, manifests
from benchmarks.throughput import yardsticks
from benchmarks.throughput.blocks import Comparison, MatrixProduct
from benchmarks.throughput.prediction import compare_prediction, images_for, modes
from benchmarks.throughput.table import SPEEDS_SCHEMA, SpeedRow, Speeds, SpeedTimings, speeds_folder
from benchmarks.throughput.training import Subject, compare_training, overhead_seconds, short_fit
from benchmarks.throughput.yardsticks import Yardstick, source_files

WHATS = ("train", "predict")
SEED = 0


@dataclass(frozen=True)
class Request:
    """What to measure of one approach, and how."""

    approach: str
    what: str = "train"  # or "predict"
    device: str = "cpu"
    precision: str = "float32"  # of ours; the document's code runs in float32
    draws: int = 100  # of a prediction
    rounds: int = 7  # blocks of each side
    block_s: float = 1.0  # seconds of a block
    images: int | None = None  # predict at most so many test images
    threads: int | None = None
    data_dir: str | None = None


def requests(
    approaches: Sequence[str],
    whats: Sequence[str],
    devices: Sequence[str],
    precisions: Sequence[str],
    draws: Sequence[int],
    **how: Any,
) -> list[Request]:
    """Return the requests of every combination; raises ConfigError for what is unknown or below 1."""
    check_known("--what", WHATS, *whats)
    for precision in precisions:
        for device in devices:
            check_precision(precision, device)
    for name, value in [("draws", min(draws)), *((name, how.get(name)) for name in ("rounds", "images", "threads"))]:
        if value is not None and value < 1:
            raise ConfigError(f"--{name} {value} is below 1; give a count such as {getattr(Request, name) or 1}")
    names = yardsticks.choose(approaches)
    return [
        Request(name, what, device, precision, n_draws, **how)
        for name, what, device, precision in combinations(names, whats, devices, precisions)
        for n_draws in ([1] if what == "train" else draws)  # a step draws once
    ]


def run(asked: Sequence[Request], results: Path, tell: Callable[[str], object], isolate: bool = True) -> list[Speeds]:
    """Measure one request after the other, each in a new process unless told otherwise; write and return records."""
    found = []
    for request in asked:
        tell(f"{request.approach} {request.what}, {request.device}, {request.precision}")
        record = _in_process(request) if isolate else measure(request)
        speeds_folder(results).write(record)
        found.append(record)
        if record.outcome != "done" or not record.timings.valid:
            tell(f"  {record.reason or record.timings.reason}")
    return found


def _in_process(request: Request) -> Speeds:
    # A process each: a framework leaves its threads, allocator and generators behind, and the next one would be timed
    # among them.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(measure, request).result()
        except BrokenProcessPool:
            return _record(request, "failed", "its process ended without a word, perhaps for want of memory")


def measure(request: Request) -> Speeds:
    """Return the record of a request: its rows, or why there are none."""
    if request.threads:
        torch.set_num_threads(request.threads)
    for kind in (np.float32, np.float64):
        np.finfo(kind)  # NumPy looks at denormal numbers when first asked, and warns if it finds none
    torch.set_flush_denormal(True)  # as a child process does
    load_before, started, threads = environment.load_average(), environment.now(), torch.get_num_threads()
    others = OtherLoad(threads)
    try:
        rows = _rows(request, threads)
    except (MissingFramework, Unsupported) as error:
        return _record(request, "skipped", str(error))
    except Exception as error:  # noqa: BLE001 - an approach that fails must not take the others along
        return _record(request, "failed", f"{type(error).__name__}: {error}".rstrip(": \n").splitlines()[0])
    finally:
        torch.set_flush_denormal(False)
    load = in_words(*others.reasons())
    record = _record(request, "done", "")
    return msgspec.structs.replace(
        record,
        rows=msgspec.convert(rows, list[SpeedRow]),
        timings=SpeedTimings(valid=not load, reason=load),
        provenance=msgspec.structs.replace(
            record.provenance,
            started=started,
            threads=threads,
            load_average=(load_before, environment.load_average()),
            source_sha256=environment.source_hash(source_files(request.approach)),
            accelerator=torch.cuda.get_device_name(request.device) if request.device != "cpu" else "",
        ),
    )


def _record(request: Request, outcome: Outcome, reason: str) -> Speeds:
    made = environment.describe(torch.get_num_threads())
    return Speeds(
        schema=SPEEDS_SCHEMA,
        approach=request.approach,
        versions=versions_today(request.approach),
        what=request.what,
        device=request.device,
        precision=request.precision,
        draws=request.draws,
        outcome=outcome,
        reason=reason,
        rounds=request.rounds,
        rows=[],
        timings=SpeedTimings(valid=not reason, reason=reason),
        provenance=msgspec.structs.replace(made, started=environment.now(), measured=environment.now()),
    )


def versions_today(approach: str) -> Versions | None:
    """Return the versions of an approach's published recipe; None for an unknown approach."""
    entry = manifests().get(approach)
    return None if entry is None else Versions(recipe=dict(resolve(entry, "published").versions))


def _rows(request: Request, threads: int) -> list[dict[str, Any]]:
    entry = manifest(request.approach)
    if entry.cpu_float32_only and (request.device, request.precision) != ("cpu", "float32"):
        raise Unsupported(f"{entry.name} runs on cpu in float32 only: {entry.cpu_float32_only}")
    subject = make_subject(request)
    if products_by(request.precision, subject.device) == BY_ROUNDING:
        raise Unsupported(f"{request.device} has no {request.precision} products of its own whose speed could be told")
    with matrix_products(request.precision, subject.device):
        return _compared(request, subject, threads)


def _compared(request: Request, subject: Subject, threads: int) -> list[dict[str, Any]]:
    with torch.random.fork_rng(devices=[subject.device] if subject.device.type == "cuda" else []):
        torch.manual_seed(stream_seed(SEED, "yardstick"))
        yardstick = yardsticks.load(request.approach)(subject.train, SEED)
        product = MatrixProduct(subject.device, threads)
        if request.what == "train":
            return [training_row(request, subject, yardstick, product)]
        return prediction_rows(request, subject, yardstick, product)


def make_subject(request: Request) -> Subject:
    """Return the published approach and the rows it trains on and predicts; raises MissingFramework, DataMissing."""
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
    """Return the split with all but its rows' numbers on the device, as a child process holds it."""
    return Split(split.name, split.x.to(device), split.y.to(device), split.rows)


def training_row(request: Request, subject: Subject, yardstick: Yardstick, product: MatrixProduct) -> dict[str, Any]:
    """Return the row of the training steps."""
    compared = compare_training(subject, yardstick, product, request.rounds, request.block_s)
    flops = yardstick.training_flops(subject.batch_size)
    return {
        **_row("training step", compared, flops, product),
        "measured": {"ours": f"{compared.ours.work:.0f} steps", "document": f"{compared.document.work:.0f} steps"},
        "overhead_s": overhead_seconds(subject, yardstick),
    }


def prediction_rows(
    request: Request, subject: Subject, yardstick: Yardstick, product: MatrixProduct
) -> list[dict[str, Any]]:
    """Return a row for each way to predict."""
    return [_prediction_row(request, subject, yardstick, product, posterior) for posterior in modes(short_fit(subject))]


def _prediction_row(
    request: Request, subject: Subject, yardstick: Yardstick, product: MatrixProduct, posterior: Posterior
) -> dict[str, Any]:
    n_draws = len(draws_of(posterior, request.draws))
    images = images_for(posterior, subject.test, n_draws, subject.task.n_outputs, request.images)
    compared = compare_prediction(
        subject, posterior, yardstick, product, images, request.draws, request.rounds, request.block_s
    )
    flops = yardstick.prediction_flops(len(images), n_draws, posterior.noise) / (n_draws * len(images))
    title = f"prediction, noise {posterior.noise}"
    title += ", with refusal" if yardstick.refuses else ""
    n_document = min(len(images), yardstick.predict_rows)
    return {
        **_row(title, compared, flops, product),
        "measured": {
            "ours": _extent(compared.ours.work, n_draws, len(images)),
            "document": _extent(compared.document.work, n_draws, n_document),
        },
        "document_batch": yardstick.predict_rows,
    }


def _extent(work: float, n_draws: int, n_images: int) -> str:
    times = round(work / (n_draws * n_images))
    return f"{n_draws} x {n_images} images" + (f", {times} times" if times > 1 else "")


def _row(title: str, compared: Comparison, flops: float, product: MatrixProduct) -> dict[str, Any]:
    return {"title": title, **asdict(compared), "flops_per_unit": flops, "product_size": product.size}
