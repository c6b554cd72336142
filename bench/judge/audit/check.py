"""Check one approach: the contract, then the audit rules. A failure says why, and what to do."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.core.errors import BenchError, BrokenApproach, ConfigError, ContractViolation
from bench.judge.audit.approach import audit_approach
from bench.judge.contract import CHECKS, ApproachUnderTest, ContractCheck
from bench.plan import plugins, registry
from bench.plan.manifests import ApproachManifest
from bench.plan.registry import load_class, manifest
from bench.plan.source_code import source_files


@dataclass(frozen=True)
class CheckLine:
    """One check of one recipe."""

    part: str  # contract or audit
    name: str
    recipe: str
    outcome: str  # passed, failed, known, not applicable, not measured
    detail: str
    remedy: str = ""


def approaches_of(given: str) -> list[str]:
    """Return the names of the approaches that are given by a name, a file NAME.py or a folder; register new ones.

    Raises:
        ConfigError: no approach has this name.
        BrokenApproach: the approach is there and cannot be read.
    """
    place = Path(os.path.expanduser(given))
    if place.suffix not in (".py", ".toml") and not place.is_dir():
        return [manifest(given).name]
    sources = plugins.in_place(place.absolute())
    known = registry.manifests()
    inside = [source.name for source in sources if _is_registered(source, known)]
    if inside:
        return inside
    for source in sources:
        if source.error:
            raise BrokenApproach(f"{source.where}: {source.error}")
    plugins.add_to_path(given)
    return [manifest(source.name).name for source in sources]


def _is_registered(source: plugins.ApproachSource, known: Mapping[str, ApproachManifest]) -> bool:
    """Return whether a path leads to the approach that is registered under its name."""
    if source.name not in known or source.error:
        return False
    files = [path.resolve() for path in source_files(source.name)]
    return (source.folder / f"{source.name}.py").resolve() in files


def check_approach(name: str) -> Iterator[CheckLine]:
    """Check every recipe of an approach. If the fit of a recipe fails, nothing else of it is checked.

    Raises:
        ConfigError, BrokenApproach, MissingFramework: the approach cannot be loaded.
    """
    entry = manifest(name)
    load_class(name)
    fit, *others = CHECKS
    for recipe in entry.recipes:
        subject = ApproachUnderTest(name, recipe)
        first = _contract(fit, subject, recipe)
        if first.outcome == "failed":
            yield first
            continue
        for check in others:
            yield _contract(check, subject, recipe)
        for found in audit_approach(name, recipe):
            outcome = {"passes": "passed", "fails": "failed"}.get(found.outcome, found.outcome)
            yield CheckLine("audit", found.rule, recipe, outcome, found.detail, found.remedy)


def _contract(check: ContractCheck, subject: ApproachUnderTest, recipe: str) -> CheckLine:
    if check.needs and not subject.declares(check.needs):
        detail = f"the manifest does not declare {check.needs}"
        return CheckLine("contract", check.name, recipe, "not applicable", detail)
    try:
        check.run(subject)
    except ConfigError as error:  # says itself what to do
        return CheckLine("contract", check.name, recipe, "failed", _reason(error, subject.name))
    except Exception as error:  # noqa: BLE001 - whatever another's code raises is a failed check with its reason
        detail = f"{_reason(error, subject.name)} (asked: {check.asks})"
        return CheckLine("contract", check.name, recipe, "failed", detail, check.remedy)
    return CheckLine("contract", check.name, recipe, "passed", check.asks)


def _reason(error: Exception, name: str) -> str:
    """Return the error's first line, and the last line of the approach's own files that it passed."""
    if isinstance(error, ContractViolation):
        return str(error)
    text = str(error) if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"
    files = {path.resolve() for path in source_files(name)}
    own = [step for step in traceback.extract_tb(error.__traceback__) if Path(step.filename).resolve() in files]
    place = f" at {Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
    return (text.splitlines() or [""])[0] + place
