"""What the audit of the libraries' examples measured, kept in libraries.json so that a table needs no library."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from bench.core.files import reason
from elbo_audit.errors import AuditError
from elbo_audit.findings import ElboReport

FILE = Path(__file__).with_name("libraries.json")


class ObjectiveAudit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the audit of one objective measured."""

    slopes: Literal["passes", "fails", "not measured"]  # whether autograd's gradient is the slope of the loss
    slopes_detail: str
    kl_weights: Mapping[str, float] = {}  # how often an epoch counts each tensor's KL; empty where nothing shows it
    kl_detail: str = ""  # why `kl_weights` is empty
    prior_std: float | None = None

    @classmethod
    def of(cls, report: ElboReport) -> ObjectiveAudit:
        """Return what a report says of gradients, KL and prior."""
        slopes, scale = report.of("detached-gradient"), report.of("kl-scale")
        found = report.kl_weights
        if not found and "kl_per_epoch" in report.numbers:  # a KL that kl= draws is measured of all weights together
            found = {"all weights": report.numbers["kl_per_epoch"]}
        weights = {name: _rounded(value) for name, value in found.items()}
        return cls(
            "passes" if slopes.outcome == "passes" else "fails" if slopes.outcome == "fails" else "not measured",
            slopes.detail,
            weights,
            "" if weights else scale.detail,
            _rounded(report.numbers["prior_std"]) if "prior_std" in report.numbers else None,
        )


def _rounded(value: float) -> float:
    """Round to six digits: more would differ between processors."""
    return float(f"{value:.6g}")


class LibraryAudit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the audit of one example measured: as the library's text writes it, and with the change."""

    versions: Mapping[str, str]  # of the library and of torch
    published: ObjectiveAudit
    changed: ObjectiveAudit


@cache
def library_audits(path: Path = FILE) -> Mapping[str, LibraryAudit]:
    """Return what was measured of each example, by its name; raises AuditError if the file has a mistake."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, LibraryAudit])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        again = "python -m bench audit --library all --write makes it"
        raise AuditError(f"{path.name} cannot be read: {reason(error)}; {again}") from error


def keep(found: Mapping[str, LibraryAudit], path: Path = FILE) -> None:
    """Write what was measured. Those of examples that `found` lacks stay in the file."""
    kept = dict(library_audits(path)) if path.exists() else {}
    merged = kept | dict(found)
    text = msgspec.json.format(msgspec.json.encode({name: merged[name] for name in sorted(merged)}), indent=1)
    path.write_bytes(text + b"\n")
    library_audits.cache_clear()
