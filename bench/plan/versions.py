"""Versions of protocols and metrics: who changes what one of them computes raises its version here.

Recipes have theirs in the manifests (`version` of a recipe, a correction or a variant). A record carries the versions
that made it. It is stale once one of them is raised: docs/freshness.md.
"""

from __future__ import annotations

METRICS = 1  # of the definitions in `bench.measure.metrics`
PROTOCOLS = {
    "common": 2,
    "toy-common": 2,
    "alsibahi2019": 2,
    "chopra2018": 2,
    "feldman2018": 2,
    "rabanser2017": 2,
}
"""Versions of the common protocol, of the toys' common protocol, and of each document's own."""
UNKNOWN = 0  # of the protocol of a document that the suite does not know


def protocol_version(protocol: str, task: str, document: str) -> int:
    """Return the version of protocol `common` or `published` for an approach to a task, from a document."""
    name = document if protocol == "published" else "toy-common" if task == "toy" else "common"
    return PROTOCOLS.get(name, UNKNOWN)
