"""Group trained runs into seed batches. A seed batch trains one fit or, with `fit_many`, the fits of several seeds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from bench.core.canonical import digest
from bench.core.fits import CheckpointInfo, described
from bench.core.store import Info, Store
from bench.plan.freshness import is_fit_stale
from bench.plan.trained_runs import TrainedRun

LARGEST = {"cpu": 8, "cuda": 16}  # most seeds of a seed batch: three copies of its checkpoint stay under 2 GiB


def arrange(trained_runs: Sequence[TrainedRun], store: Store, finished: Collection[str] = ()) -> list[list[TrainedRun]]:
    """Group trained runs into seed batches, in the order of the trained runs.

    Seeds of one recipe share a seed batch, unless only one is left or a seed has a checkpoint of its own.

    Finished trained runs are not done again, but they count when seeds are divided among seed batches. So an
    interrupted seed batch keeps its seeds, and finds its checkpoint, even if other seeds have finished since.

    Args:
        trained_runs: all trained runs that were asked for.
        store: where kept fits are looked for.
        finished: keys of the trained runs that need no seed batch.
    """
    fits: dict[str, list[TrainedRun]] = {}
    for trained_run in trained_runs:
        fits.setdefault(trained_run.fit_key, []).append(trained_run)
    batches: dict[str, list[list[TrainedRun]]] = {}
    for fit_key, members in fits.items():
        batches.setdefault(members[0].together or fit_key, []).append(members)
    groups = []
    for batch in batches.values():
        size = LARGEST[batch[0][0].device.split(":")[0]]
        for start in range(0, len(batch), size):
            chunk = [[one for one in members if one.key not in finished] for members in batch[start : start + size]]
            groups += _groups([members for members in chunk if members], store)
    return groups


def _groups(fits: list[list[TrainedRun]], store: Store) -> list[list[TrainedRun]]:
    """Return the seed batches for the fits of one recipe; each fit is given by its trained runs."""
    groups: list[list[TrainedRun]] = []
    together: list[list[TrainedRun]] = []
    for members in fits:
        has_own = store.fit_path(members[0].fit_key, "checkpoint").exists()
        (together if members[0].together and not has_own else groups).append(members)
    if together:
        groups.append([trained_run for members in together for trained_run in members])
    return groups


def fit_keys(group: Sequence[TrainedRun]) -> list[str]:
    """Return the fit key of every seed of a group."""
    return list(dict.fromkeys(trained_run.fit_key for trained_run in group))


def checkpoint_key(group: Sequence[TrainedRun]) -> str:
    """Return the key of a group's checkpoint: the key of its one fit, or one made of the fit keys of all seeds."""
    keys = fit_keys(group)
    return digest(sorted(keys)) if len(keys) > 1 else keys[0]


def is_checkpoint_of(info: Info, fit_keys: Mapping[str, str], approach: str) -> bool:
    """Return whether a checkpoint belongs to exactly these fits at today's recipe versions.

    Work of two versions must not be mixed. Raises ValueError if `info` cannot be read.

    Args:
        info: description of the checkpoint.
        fit_keys: fit keys of the seeds, by the names of their contexts.
        approach: name of the approach.
    """
    found = described(info, CheckpointInfo)
    has_same_fits = all(found.fit_keys.get(name, fit_key) == fit_key for name, fit_key in fit_keys.items())
    is_whole = found.fit_keys.keys() == found.seeds.keys()
    return has_same_fits and is_whole and not is_fit_stale(approach, found.versions)
