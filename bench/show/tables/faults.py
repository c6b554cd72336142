"""What was tried to break the suite: the figures of the fault tests as a table."""

from __future__ import annotations

from collections.abc import Mapping

from bench.show.faults_files import FuzzedReaders, KilledRuns, PlantedFaults, RunsTogether, SoakedRun, Tested
from bench.show.tables.cells import Table, make_table

CAPTION = "Kills, planted failures, runs that share a folder, and hostile input, as last tried here."


def fault_table(tested: Mapping[str, Tested]) -> Table:
    """Return a row for each figure; `tested` by kind of test."""
    rows = [[kind, line.removeprefix(f"{kind}: ")] for kind, found in tested.items() for line in lines(found)]
    return make_table("fault_tests", "What was tried to break it", CAPTION, ("test", "result"), rows)


def lines(figures: Tested) -> list[str]:
    """Return what a kind of test came to, a line for each figure, faults last."""
    return [*_lines(figures), *(f"FAULT {fault}" for fault in figures.faults)]


def _lines(figures: Tested) -> list[str]:
    match figures:
        case KilledRuns():
            return _kills(figures)
        case PlantedFaults():
            return _planted(figures)
        case RunsTogether():
            return _together(figures)
        case FuzzedReaders():
            return _fuzz(figures)
        case SoakedRun():
            return _soak(figures)
    raise TypeError(f"no words for {type(figures).__name__}")


def _kills(f: KilledRuns) -> list[str]:
    return [
        f"kills: {f.kills} of real runs at random moments, {f.of_workers} of a worker, the rest of the run; "
        f"{f.in_training} in training, {f.in_measuring} in measuring, {f.while_writing} in a file's writing",
        f"kills: {f.identical} of {f.rounds} results folders completed with every number of the calm run, "
        f"to the bit; finished epochs lost by one kill: at most {f.finished_epochs_lost}; "
        f"workers outlived their run by at most {f.longest_orphan_s:.2f} s ({f.seconds:.0f} s)",
    ]


def _planted(f: PlantedFaults) -> list[str]:
    ends = [f"planted: {name}: {outcome}, {reason}" for name, (outcome, reason) in f.ends.items()]
    orphan = f"a worker that hangs outlived its killed run by {f.orphan_s:.2f} s"
    return [*ends, f"planted: {len(f.ends)} faults, the other cells went on; {orphan} ({f.seconds:.0f} s)"]


def _together(f: RunsTogether) -> list[str]:
    return [
        f"together: {f.runs} runs on one folder, {f.killed} of them killed: {f.cells} cells "
        f"({', '.join(map(str, f.done_by))}), {f.done_twice} done twice; the locks named {f.named} of "
        f"the processes ({f.seconds:.0f} s)"
    ]


def _fuzz(f: FuzzedReaders) -> list[str]:
    rows = [
        f"fuzz: {row.target}: {row.inputs:,} inputs, {row.accepted:,} accepted, the rest refused in one line; "
        f"slowest {row.slowest_s * 1000:.0f} ms, memory +{row.peak_mib:.0f} MiB"
        for row in f.targets
    ]
    whole = (
        f"fuzz: {f.inputs:,} inputs in {f.seconds:.0f} s: {len(f.faults)} tracebacks or hangs; slowest "
        f"{f.slowest_s * 1000:.0f} ms of the processor, memory +{f.peak_mib:.0f} MiB"
    )
    return [*rows, whole]


def _soak(f: SoakedRun) -> list[str]:
    memory = f"{f.run_mib[0]:.0f} to {f.run_mib[-1]:.0f} MiB" if f.run_mib else "not measured"
    return [
        f"soak: {f.seconds / 60:.0f} minutes, {f.rounds} rounds of {', '.join(f.approaches)} in profile "
        f"{f.profile}, {f.cells} cells, {f.kills} kills ({f.of_workers} of a worker): memory of the run "
        f"{memory}, grown by at most {f.growth_mib:.0f} MiB"
    ]
