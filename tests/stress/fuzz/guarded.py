"""A results folder beside a canary: no command may read the canary into its output, change it, or add a file to it."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import unicodedata
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from msgspec.structs import replace
from PIL import Image

from bench.cli.main import main
from bench.core.errors import BenchError
from bench.core.records import Record
from bench.core.store import Store
from tests.show.conftest import described
from tests.stress.fuzz.stored import sound_scores
from tests.synthetic import record

KEY = "b" * 64
RECORD, SCORES, ARCHIVE, POSTERIOR = "RECORD", "SCORES", "records/mlp.jsonl", "fits/KEY/posterior.safetensors"
CANARY = b"a file of the user: 7c1f"
SCORED = ("mlp", "linear_bbb", "pyro_random_module")
TIMES = {"valid": True, "fit_s": 1.5, "epoch_s_median": 1.5, "epoch_with_measuring_s": 2.0, "measure_s": 0.5}
BINS = {"lower": [0, 0.5], "upper": [0.5, 1], "count": [3, 4], "confidence": [None, 0.7], "accuracy": [None, 0.5]}
PRUNED = {"fraction": 0.5, "network": "mean", "accuracy": 0.9, "pruned_of_used": 0.5, "kept": 5, "bytes": 40}
CURVE = {"x": [-5.0, 5.0], "mean": [0.0, 1.0], "lower": [-1.0, 0.0], "upper": [1.0, 2.0]}
NETWORK = {
    **{"hidden1.weight": torch.zeros(400, 784), "hidden1.bias": torch.zeros(400)},
    **{"hidden2.weight": torch.zeros(400, 400), "hidden2.bias": torch.zeros(400)},
    **{"output.weight": torch.zeros(10, 400), "output.bias": torch.zeros(10)},
}


def scored(approach: str) -> Record:
    """Return a record with scores."""
    arrays = {"mnist/reliability": BINS, "mnist/risk_coverage": {"coverage": [0.5, 1], "risk": [0, 0.1]}}
    metrics = {"mnist/ece": 0.01, "mnist/mean_network/accuracy": 0.9}
    named = {"key": hashlib.sha256(approach.encode()).hexdigest(), "fit_key": KEY if approach == "mlp" else "c" * 64}
    return record(approach, protocol="common", metrics=metrics, arrays=arrays, timings=TIMES, **named)


def shown() -> list[Record]:
    """Return records of every kind that tables and figures show."""
    key = "mnist/test10k/accuracy"
    uncertain = {"rows": [5], "votes": [[28, 2, *[0] * 8]], "scanned": 9}
    printed = {"accuracy_percent": 89, "selective_accuracy_percent": 95, "skipped": 4}
    epochs = [{"epoch": epoch, key: 0.9, "mnist/train60k/train_loss": 0.25, "seconds": 1.5} for epoch in (1, 2)]
    return [
        record(
            "mlp",
            protocol="common",
            fit_key=KEY,
            metrics={"mnist/accuracy": 0.98, "mnist/nll": 0.1, "letters/auroc_max_probability": 0.9},
            missing={"notmnist459": "it is not there"},
            arrays={
                "noise": {"mnist": "weights"},
                "mnist/reliability": BINS,
                "mnist/risk_coverage": {"coverage": [0.5, 1], "risk": [0, 0.1]},
                "pruning": {"score": "|mu|/sigma", "rows": [PRUNED]},
            },
            epochs=epochs,
            timings=TIMES,
        ),
        record("mlp", metrics={key: 0.98}, epochs=epochs, timings=TIMES),
        record("toy_mlp", protocol="common", metrics={"toy/rmse": 0.1}, arrays={"toy/near": CURVE, "toy/far": CURVE}),
        record("pyro_hidden_layer", epochs=epochs, arrays={"mnist/heldout10k-of-train/first_uncertain": uncertain}),
        record("pyro_random_module", metrics={key: 0.89}, arrays={"mnist/test10k/printed": printed}),
        record("mlp", protocol="common", fit_key=KEY, outcome="failed", reason="no memory", detail="Traceback:\n  a\n"),
    ]


class Guarded:
    """A results folder beside a folder of the user, whose one file is the canary."""

    def __init__(self, place: Path) -> None:
        self.results, self.outside, self.sound = place / "results", place / "outside", place / "sound"
        self.picture = place / "digit.png"
        self.outside.mkdir(parents=True)
        self.canary = self.outside / "canary"
        self.canary.write_bytes(CANARY)
        self.good = scored("mlp")
        pixels = np.zeros((28, 28), np.uint8)
        pixels[4:24, 12:16] = 255
        Image.fromarray(pixels).save(self.picture)
        store = Store(self.sound)
        for approach in SCORED[1:]:
            store.write(scored(approach), sound_scores())
        for one in shown():
            store.write(one)
        store.write(replace(scored("mlp"), seed=1, key="d" * 64, fit_key="e" * 64))
        store.write_tensors(store.fit_path(KEY, "posterior"), NETWORK, described(KEY))

    def fresh(self) -> Store:
        """Return a new results folder with sound records."""
        shutil.rmtree(self.results, ignore_errors=True)
        shutil.copytree(self.sound, self.results)
        store = Store(self.results)
        store.write(self.good, sound_scores())
        return store

    def contents(self) -> dict[str, bytes]:
        """Return the content of a sound file of each kind, by its place."""
        self.fresh()
        found = {where: self.place(where).read_bytes() for where in (RECORD, SCORES, POSTERIOR)}
        return {**found, ARCHIVE: b"".join(path.read_bytes() for path in (self.sound / "records/mlp").glob("*.json"))}

    def place(self, where: str) -> Path:
        """Return the path of what `PLACES` of `folders` names."""
        path = Store(self.results).record_path(self.good)
        names = {RECORD: str(path), SCORES: str(path.with_suffix(".npz"))}
        return self.results / names.get(where, where.replace("KEY", KEY[:16]))

    def plant(self, where: str, kind: str) -> None:
        """Put something in the place of a file or folder, unless a link stands on the way to it."""
        target = self.place(where)
        on_the_way = [parent for parent in target.parents if self.results in parent.parents and os.path.lexists(parent)]
        if any(parent.is_symlink() or not parent.is_dir() for parent in on_the_way):
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        is_folder = target.is_dir() and not target.is_symlink()
        shutil.rmtree(target) if is_folder else target.unlink(missing_ok=True)
        if kind == "link to a file":
            target.symlink_to(self.canary)
        elif kind == "link to a folder":
            target.symlink_to(self.outside)
        elif kind == "hard link":
            os.link(self.canary, target)
        elif kind == "pipe":
            os.mkfifo(target)
        elif kind == "folder":
            target.mkdir()
        elif kind == "loop":
            target.symlink_to(target.name)

    def check(self) -> None:
        """Raise AssertionError if anything outside the results folder was touched."""
        if [path.name for path in self.outside.iterdir()] != ["canary"] or self.canary.read_bytes() != CANARY:
            raise AssertionError("a file outside --results was touched")
        if Path("pickle-was-read").exists():
            raise AssertionError("a pickle was read")

    def run(self, command: tuple[str, ...]) -> None:
        """Run a command on the folder and look at what it says; raises BenchError where it ends in an error."""
        places = {"RESULTS": str(self.results), "SOUND": str(self.sound), "PICTURE": str(self.picture)}
        output, errors = io.StringIO(), io.StringIO()
        # The shipped records are not what is tried, and `plan` takes seconds to read them for an estimate.
        without = mock.patch("bench.plan.costs.RESULTS", self.outside)
        with without, contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            code = main([places.get(word, word) for word in command])
        self.check()
        said, complained = output.getvalue(), errors.getvalue()
        if CANARY.decode() in said + complained:
            raise AssertionError("a file outside --results was read")
        if any(unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\t" for c in said + complained):
            raise AssertionError("a control character reached the terminal")
        if code not in (0, 1, 2, 3):
            raise AssertionError(f"exit code {code}")
        if code == 2:
            raise BenchError("\n".join(line for line in complained.splitlines() if not line.startswith("warning: ")))
