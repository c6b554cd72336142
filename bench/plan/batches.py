"""Which cells are fitted in one computation: those of one fit, and where the approach can, those of its other seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.core.canonical import digest
from bench.core.fits import checkpoint_info, fit_info
from bench.core.store import Info, Store
from bench.plan.cells import Cell

LARGEST = {"cpu": 8, "cuda": 16}  # seeds of one fit: its checkpoint is in memory thrice; alone it stays under 2 GiB


def arrange(cells: Sequence[Cell], store: Store) -> list[list[Cell]]:
    """Return the fits that answer the cells, each with its cells, as they will be keyed, in the order given.

    Seeds of one family are fitted together, unless only one is left or one has a fit of its own already.
    """
    fits: dict[str, list[Cell]] = {}
    for cell in cells:
        fits.setdefault(cell.fit_key, []).append(cell)
    families: dict[str, list[list[Cell]]] = {}
    for fit_key, members in fits.items():
        together = members[0].family and not _has_begun(fit_key, store)
        families.setdefault(members[0].family if together else fit_key, []).append(members)
    return [group for family in families.values() for group in _groups(family, store)]


def _groups(family: list[list[Cell]], store: Store) -> list[list[Cell]]:
    if not family[0][0].family:
        return family
    size = LARGEST[family[0][0].device.split(":")[0]]
    chunks = [family[start : start + size] for start in range(0, len(family), size)]
    groups = []
    for chunk in chunks:
        cells = [cell for members in chunk for cell in members]
        twins = [cell.twin() for cell in cells]
        kept = store.fit_path(twins[0].fit_key, "posterior").exists()
        groups.append(twins if len(chunk) > 1 or kept else cells)
    return groups


def _has_begun(fit_key: str, store: Store) -> bool:
    return any(store.fit_path(fit_key, kind).exists() for kind in ("posterior", "checkpoint"))


def fit_keys(group: Sequence[Cell]) -> list[str]:
    """Return the fit key of every seed of a group."""
    return list(dict.fromkeys(cell.fit_key for cell in group))


def checkpoint_key(group: Sequence[Cell]) -> str:
    """Return under which key a group's checkpoint lies: that of its fit, or one of all its seeds."""
    keys = fit_keys(group)
    return digest(sorted(keys)) if group[0].batched else keys[0]


def is_posterior_of(info: Info, fit_key: str) -> bool:
    """Return whether a kept posterior, by what it says of itself, is of this fit.

    Raises ValueError for a description of another form.
    """
    return fit_info(info).fit_key == fit_key


def is_checkpoint_of(info: Info, fit_keys: Mapping[str, str], source: str) -> bool:
    """Return whether a checkpoint belongs to exactly these fits and this version of the code.

    Work of two versions must not be mixed. Raises ValueError for a description of another form.

    Args:
        info: what the checkpoint says of itself.
        fit_keys: of the seeds, by the names of their contexts.
        source: hash of the approach's source.
    """
    found = checkpoint_info(info)
    same = all(found.fit_keys.get(name, fit_key) == fit_key for name, fit_key in fit_keys.items())
    return same and found.fit_keys.keys() == found.seeds.keys() and found.source_sha256 == source
