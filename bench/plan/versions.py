"""Versions of protocols. Raise a version here when its numbers change.

The versions of recipes are in the manifests (`version` of a recipe, a correction or a variant), that of a metric is in
its declaration. A record contains the versions that made it. It is stale once one of them is raised: docs/freshness.md.
"""

from __future__ import annotations

PROTOCOLS = {
    "common": 2,
    "toy-common": 2,
    "shift": 1,
    "alsibahi2019": 2,
    "chopra2018": 2,
    "feldman2018": 2,
    "rabanser2017": 2,
    "blundell2015": 2,
}
"""Versions of the protocols common and shift, of the toys' protocol common, and of each document's own protocol."""
UNKNOWN = 0  # version for a document that the suite does not know


def protocol_version(protocol: str, task: str, document: str) -> int:
    """Return the version of a protocol for an approach with this task and document."""
    name = document if protocol == "published" else "toy-common" if task == "toy" else protocol
    return PROTOCOLS.get(name, UNKNOWN)
