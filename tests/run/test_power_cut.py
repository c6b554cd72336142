"""After a power cut, a full disk or a kill at any point of a run or a score, files are whole: all old or all new ones.

The model of the disk: the content of a file is safe when the file has been synced, and its name when the folder has
been synced. Of the names that are not yet safe, the disk has either all or none. A score has one file of records.
"""

import errno
import os
import shutil
import stat
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from msgspec import structs

import bench
from bench.core import files
from bench.core.canonical import digest
from bench.core.errors import StoreError
from bench.core.locks import lock
from bench.core.store import Store
from bench.plan.trained_runs import Selection, trained_runs
from bench.run import scoring
from bench.run.events import Options, Recorded
from bench.run.process import work
from bench.run.runner import run
from tests.run.test_scoring import flat, stored
from tests.run.toys import Recorder

# Six epochs with a checkpoint after each, so that files are replaced.
TRAINED_RUNS = trained_runs(
    Selection(approaches=("toy_mlp",), recipes=("published",), protocols=("common",), profile="faults")
)
TORN = b"torn"


class Step(NamedTuple):
    """An operation below the results folder, or the event of a record."""

    kind: str  # file synced, renamed, removed, folder made, folder synced, told
    folder: str
    name: str = ""
    source: str = ""  # what a renamed file was called
    content: bytes = b""


class Disk:
    """Notes this process's file operations below a folder. From number `full_from`, `full_for` syncs fail."""

    def __init__(self, root, monkeypatch, full_from=None, full_for=1):
        self.root, self.steps, self.n_syncs = root, [], 0
        self._full = range(0) if full_from is None else range(full_from, full_from + full_for)
        self._real = {name: getattr(os, name) for name in ("fsync", "replace", "unlink", "mkdir")}
        for name in self._real:
            monkeypatch.setattr(os, name, getattr(self, f"_{name}"))

    def answer(self, event):
        if isinstance(event, Recorded):
            self.steps.append(Step("told", ""))

    def _path(self, name, handle):
        return Path(os.readlink(f"/proc/self/fd/{handle}"), name) if handle is not None else Path(name)

    def _note(self, kind, path, **more):
        if path.is_relative_to(self.root):
            self.steps.append(Step(kind, str(path.parent), path.name, **more))

    def _fsync(self, handle):
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        self.n_syncs += 1
        if self.n_syncs - 1 in self._full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._real["fsync"](handle)
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            self.steps.append(Step("folder synced", str(path)))
        else:
            self._note("file synced", path, content=path.read_bytes())

    def _replace(self, source, name, *, src_dir_fd=None, dst_dir_fd=None):
        content = self._path(source, src_dir_fd).read_bytes()
        self._real["replace"](source, name, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        self._note("renamed", self._path(name, dst_dir_fd), source=Path(source).name, content=content)

    def _mkdir(self, name, mode=0o777, *, dir_fd=None):
        self._real["mkdir"](name, mode, dir_fd=dir_fd)
        self._note("folder made", self._path(name, dir_fd))

    def _unlink(self, name, *, dir_fd=None):
        self._real["unlink"](name, dir_fd=dir_fd)
        self._note("removed", self._path(name, dir_fd))


def after_a_cut(steps, keeps_unsafe_names):
    """Return the files of the disk after these steps and a power cut, by folder and name."""
    synced, names, unsafe = {}, {}, defaultdict(list)
    for step in steps:
        if step.kind == "file synced":
            synced[step.folder, step.name] = step.content
        elif step.kind in ("renamed", "removed", "folder made"):
            is_safe = synced.get((step.folder, step.source)) == step.content
            unsafe[step.folder].append((step, step.content if is_safe else TORN))
        if step.kind == "folder synced":
            _apply(names, unsafe.pop(step.folder, []))
    for waiting in unsafe.values() if keeps_unsafe_names else ():
        _apply(names, waiting)
    if keeps_unsafe_names:
        return names
    waiting = [step for steps in unsafe.values() for step, _ in steps]
    lost = {Path(step.folder, step.name) for step in waiting if step.kind == "folder made"}
    return {
        (folder, name): content
        for (folder, name), content in names.items()
        if not lost & {Path(folder), *Path(folder).parents}
    }


def _apply(names, waiting):
    for step, content in waiting:
        if step.kind == "folder made":
            continue
        if step.kind == "renamed":
            names[step.folder, step.name] = content
        else:
            names.pop((step.folder, step.name), None)


def options(root):
    return Options(str(root), threads=1, checkpoint_every_s=0.0)


def assert_sound(root):
    """Every file is whole."""
    store = Store(root)
    records, problems = store.all_records()
    assert problems == []
    for path in sorted((root / "fits").rglob("*.safetensors")):
        assert store.read_tensors(path) is not None
    return records


def test_a_rename_before_the_sync_would_be_seen():
    renamed, folder = Step("renamed", "f", "name", "part", b"new"), Step("folder synced", "f")
    synced = Step("file synced", "f", "part", content=b"new")
    assert after_a_cut([synced, renamed, folder], False) == {("f", "name"): b"new"}
    assert after_a_cut([renamed, folder], False) == {("f", "name"): TORN}
    assert after_a_cut([renamed], False) == {}


def test_after_a_power_cut_at_any_point_every_file_is_the_old_or_the_new_one(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        disk = Disk(tmp_path / "run", patch)
        work(TRAINED_RUNS, options(disk.root), disk.answer)
    versions = defaultdict(set)
    for step in disk.steps:
        if step.kind == "renamed":
            versions[step.folder, step.name].add(step.content)
    assert max(map(len, versions.values())) == 5  # checkpoints: the last of six epochs needs none
    seen = {}
    for cut in range(len(disk.steps) + 1):
        for keeps_unsafe_names in (False, True):
            found = after_a_cut(disk.steps[:cut], keeps_unsafe_names)
            assert all(content in versions[place] for place, content in found.items())
            n_told = sum(step.kind == "told" for step in disk.steps[:cut])
            is_record = [Path(folder).parent.name == "records" and name.endswith(".json") for folder, name in found]
            assert sum(is_record) >= n_told  # the run reports a record only when it is safe
            seen[frozenset((folder, name, content) for (folder, name), content in found.items())] = found
    for number, found in enumerate(seen.values()):
        root = tmp_path / f"cut{number}"
        for (folder, name), content in found.items():
            path = root / Path(folder).relative_to(disk.root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        assert_sound(root)


@pytest.mark.parametrize("full_for", [1, 1000])
def test_a_disk_that_is_full_at_any_point_leaves_whole_files(full_for, tmp_path, monkeypatch):
    n_syncs = 1
    number = 0
    while number < n_syncs:
        root = tmp_path / f"full{number}"
        (root / "fits").mkdir(parents=True)
        with monkeypatch.context() as patch:
            disk = Disk(root, patch, full_from=number + 2, full_for=full_for)  # the first two test the folder
            ended = run(TRAINED_RUNS, Store(root), options(root), Recorder(), "inline")
            n_syncs = max(n_syncs, disk.n_syncs - 2)
        records = assert_sound(root)
        assert {record.outcome for record in records} <= {"done", "failed"}
        assert {result.outcome for result in ended} <= {"done", "failed"}
        assert not [path for path in root.rglob("*") if files.PART.fullmatch(path.name)]
        number += 1


def other(images):
    return flat(1 - images)


def by_row(images):
    """Return two draws, in which equal images have answers of their own."""
    noise = np.random.default_rng(0).normal(size=(2, len(images), 10))
    logits = np.log(flat(images)) + noise
    return torch.from_numpy(logits).softmax(2)


class Killed(BaseException):
    """Ends a score, as a kill does, between two of its acts on files."""


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """Return the predictions' hashes of two scores, and a folder with the first."""
    folder = tmp_path_factory.mktemp("twice")
    found = []
    for place, predict in (("first", flat), ("second", other)):
        bench.score(predict, "flat", folder / place, profile="smoke")
        found.append(stored(folder / place)["common"].provenance.predictions_sha256)
    return folder / "first", found


def test_a_score_replaces_the_records_of_its_name_and_profile(twice, tmp_path):
    store, first = Store(tmp_path), Store(twice[0])
    for record in stored(twice[0]).values():  # in files of their own, as an older version wrote them
        for profile_of_it in ("smoke", "full"):
            store.write(structs.replace(record, profile=profile_of_it), first.scores(record))
    for n, predict in enumerate((flat, other)):
        assert bench.score(predict, "flat", tmp_path, profile="smoke") == tmp_path / "records" / "flat.jsonl"
        found, problems = Store(tmp_path).all_records()
        assert (len(found), problems) == (4, [])
        short = {one.protocol: one for one in found if one.profile == "smoke"}
        assert {one.provenance.predictions_sha256 for one in short.values()} == {twice[1][n]}
        assert all(Store(tmp_path).scores(one) for one in found if one.protocol == "common")
        names = [path.name for path in tmp_path.rglob("*__smoke__*")]
        assert names == [f"not-retrained__common__smoke__seed0__{short['common'].key[:8]}.npz"]


@pytest.mark.parametrize("n_acts", range(4))
def test_a_killed_score_leaves_all_old_records_or_all_new_ones(n_acts, twice, tmp_path, monkeypatch):
    first, hashes = twice
    shutil.copytree(first, tmp_path / "results")
    done = []

    def counted(act):
        def or_killed(path, *rest):
            if "records" in path.parts and path.name != ".writable":
                if len(done) == n_acts:
                    raise Killed
                done.append(path)
            return act(path, *rest)

        return or_killed

    with monkeypatch.context() as patched:
        for name in ("write_atomically", "remove"):
            patched.setattr(scoring, name, counted(getattr(scoring, name)))
        if n_acts == 3:  # the scores, the records, and the older scores: nothing is left to be killed
            bench.score(other, "flat", tmp_path / "results", profile="smoke")
        else:
            with pytest.raises(Killed):
                bench.score(other, "flat", tmp_path / "results", profile="smoke")
    assert len(done) == n_acts
    found = stored(tmp_path / "results")
    assert found.keys() == {"common", "shift"}
    assert {one.provenance.predictions_sha256 for one in found.values()} == {hashes[n_acts >= 2]}
    assert Store(tmp_path / "results").scores(found["common"])
    bench.score(other, "flat", tmp_path / "results", profile="smoke")  # the same command again completes it
    assert {one.provenance.predictions_sha256 for one in stored(tmp_path / "results").values()} == {hashes[1]}
    assert len(list((tmp_path / "results" / "records").rglob("*.*"))) == 2


def test_two_scores_of_one_name_do_not_mix(twice, tmp_path):
    with lock(tmp_path, digest({"not retrained": "flat"})), pytest.raises(StoreError, match="another process"):
        bench.score(flat, "flat", tmp_path, profile="smoke")
    assert not list(tmp_path.rglob("*.json*"))


@pytest.mark.parametrize(
    ("predict", "noise"), [(lambda images: np.stack([flat(images), other(images)]), "weights"), (by_row, "row")]
)
def test_noise_by_row_is_found_out_and_has_no_spread_over_draws(predict, noise, tmp_path):
    bench.score(predict, "draws", tmp_path, profile="smoke")
    found = stored(tmp_path)
    assert set(found["common"].arrays.noise.values()) == set(found["shift"].arrays.noise.values()) == {noise}
    key = "mnist/draw_accuracy_std"
    assert (key in found["common"].metrics) == (noise == "weights")
    if noise == "row":
        assert found["common"].missing[key].kind == "row-noise"
