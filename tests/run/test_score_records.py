"""The records of a score: all old or all new ones after a kill, with the hash of what was scored, and its noise."""

import shutil

import numpy as np
import pytest
import torch
from msgspec import structs

import bench
from bench.core.canonical import digest
from bench.core.errors import StoreError
from bench.core.locks import lock
from bench.core.store import Store
from bench.run import scoring
from tests.run.test_scoring import flat, stored


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
