"""Everything that can be checked of one approach: the contract, then the audit rules, each with why and what to do."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.core.errors import BenchError, BrokenApproach, ContractViolation
from bench.judge.audit.approach import audit_approach
from bench.judge.audit.findings import Finding
from bench.judge.contract import CHECKS, Subject
from bench.plan import plugins, registry
from bench.plan.registry import load_class, manifest

NEEDS = {
    "check_pruning": "masked",
    "check_mean_network": "mean_network",
    "check_density_ratio": "log_density_ratio",
    "check_many_seeds": "fit_many",
}

REMEDIES = {
    "check_fit": "mend that first; all other checks need a fit",
    "check_manifest": "make manifest and class agree: noise, the fields that changes set, @dataclass(frozen=True)",
    "check_fields_unchanged": "keep what fit computes in local variables, not in the approach",
    "check_epochs_reported": "call ctx.epoch_end(epoch, trace, ...) after each epoch, with finite numbers "
    "named mnist/<split name>/<metric>",
    "check_prediction_shape": "return Categorical(log_softmax over the classes, float32 [S, B, K])",
    "check_draws_have_names": "seed draw d from the run seed and d alone: bench.core.streams.normals_ or row_noise",
    "check_blocks_do_not_matter": "let no row see another; no batch statistics; noise named by `rows`",
    "check_seed_repeats": "take all randomness from ctx.generator(name) or ctx.stream(name)",
    "check_measuring_is_harmless": "predict must not draw from a generator that training uses, nor change its state",
    "check_resume": "return parameters and optimiser in `state`, and start where ctx.restore() says",
    "check_fits_are_apart": "copy the weights into the posterior; keep nothing in module globals",
    "check_rebuild": "store in arrays() all that predict needs",
    "check_capabilities": "list in `capabilities` exactly the optional methods that are there",
    "check_pruning": "set mean and sigma to zero where keep is False, and nothing elsewhere",
    "check_mean_network": "return one network without noise, n_draws 1",
    "check_density_ratio": "return log q - log p of the networks that predict draws for the same indices, float64 [S]",
    "check_many_seeds": "draw each seed's noise from its own context, as fit does",
    "check_per_row": "return self, or a posterior with noise 'shared' and the same distribution of each row",
    "check_global_state": "use generators of your own; do not write into x",
}


@dataclass(frozen=True)
class Line:
    """One check of one recipe."""

    part: str  # contract or audit
    name: str
    recipe: str
    outcome: str  # passed, failed, known, not applicable, not measured
    detail: str
    remedy: str = ""

    def text(self) -> str:
        """Return the line."""
        more = f"; to do: {self.remedy}" if self.remedy else ""
        return f"{self.outcome:<14}  {self.part:<8}  {self.name:<27}  {self.recipe}: {self.detail}{more}"

    def as_json(self) -> dict[str, Any]:
        """Return the line for machines."""
        return dict(vars(self))


def approaches_of(given: str) -> list[str]:
    """Return the approaches that a name, a file NAME.py or a folder stands for; files and folders are registered.

    Raises:
        ConfigError: there is nothing of that name.
        BrokenApproach: it is there and cannot be read.
    """
    place = Path(given)
    if place.suffix not in (".py", ".toml") and not place.is_dir():
        return [manifest(given).name]
    sources = plugins.sources(str(place.expanduser().absolute()))
    known = registry.manifests()
    inside = [source.name for source in sources if _is_ours(source, known)]
    if inside:
        return inside
    for source in sources:
        if source.error:
            raise BrokenApproach(f"{source.where}: {source.error}")
    plugins.add_to_path(given)
    return [manifest(source.name).name for source in sources]


def _is_ours(source: plugins.ApproachSource, known: Any) -> bool:
    """Return whether a path leads to an approach that is registered already under its name."""
    if source.name not in known or source.error:
        return False
    files = [path.resolve() for path in registry.source_files(source.name)]
    return (source.folder / f"{source.name}.py").resolve() in files


def check_approach(name: str, contract: bool = True, audit: bool = True) -> Iterator[Line]:
    """Check every recipe of an approach, line by line.

    Raises:
        ConfigError, BrokenApproach, MissingFramework: it cannot be loaded, so that nothing can be checked.
    """
    entry = manifest(name)
    load_class(name)
    for recipe in entry.recipes:
        if contract:
            subject = Subject(name, recipe)
            first = _contract(check_fit, subject, recipe)
            if first.outcome == "failed":
                yield first
                continue
            for check in CHECKS:
                yield _contract(check, subject, recipe)
        if audit:
            for finding in audit_approach(name, recipe):
                yield _audit(finding, recipe)


def check_fit(subject: Subject) -> None:
    """Fit trains on a few rows and returns a posterior."""
    with contextlib.suppress(ContractViolation):  # a check of its own has the remedy
        subject.fit()


def _contract(check: Callable[[Subject], None], subject: Subject, recipe: str) -> Line:
    name = check.__name__.removeprefix("check_").replace("_", "-")
    title = (check.__doc__ or "").splitlines()[0]
    needed = NEEDS.get(check.__name__)
    if needed and needed not in subject.manifest.capabilities:
        return Line("contract", name, recipe, "not applicable", f"the manifest does not declare {needed}")
    try:
        check(subject)
    except ContractViolation as error:
        return Line("contract", name, recipe, "failed", f"{error} (asked: {title})", REMEDIES[check.__name__])
    except Exception as error:  # noqa: BLE001 - whatever another's code raises is a failed check with its reason
        detail = _reason(error, subject.name)
        return Line("contract", name, recipe, "failed", f"{detail} (asked: {title})", REMEDIES[check.__name__])
    return Line("contract", name, recipe, "passed", title)


def _reason(error: Exception, name: str) -> str:
    text = str(error) if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"
    files = {path.resolve() for path in registry.source_files(name)}
    own = [step for step in traceback.extract_tb(error.__traceback__) if Path(step.filename).resolve() in files]
    place = f" at {Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
    return (text.splitlines() or [""])[0] + place


def _audit(finding: Finding, recipe: str) -> Line:
    outcome = {"passes": "passed", "fails": "failed"}.get(finding.outcome, finding.outcome)
    return Line("audit", finding.rule, recipe, outcome, finding.detail, finding.remedy)
