"""`throughput`: our code beside the documents' own, in turn in one run."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench.cli.options import INCOMPLETE, check_device, counts, names, positive
from bench.core.store import Store
from bench.plan.registry import manifests


def add(commands: Any) -> None:
    """Declare the commands of this file."""
    throughput = commands.add_parser(
        "throughput",
        help="how fast our code is beside the documents' own, in turn in one run",
        description="Times blocks of our code, of the document's code and of one large matrix product in turn, and "
        "writes RESULTS/throughput and the table 'throughput'. Needs the repository: no wheel holds the documents' "
        "code. Let nothing else run on the machine meanwhile.",
    )
    throughput.add_argument("approaches", nargs="*", metavar="APPROACH", help="default: all that have a yardstick")
    throughput.add_argument("--what", type=names, default=("train", "predict"), help="default: train,predict")
    throughput.add_argument("--device", type=names, default=("cpu",), help="a list of devices (default: cpu)")
    throughput.add_argument("--precision", type=names, default=("float32",), help="a list (default: float32)")
    throughput.add_argument("--draws", type=counts, default=(100,), help="a list of draws to predict (default: 100)")
    throughput.add_argument("--rounds", type=int, default=7, metavar="N", help="blocks of each side (default: 7)")
    throughput.add_argument("--block", type=positive, default=1.0, metavar="SECONDS", help="a block (default: 1)")
    throughput.add_argument("--images", type=int, metavar="N", help="predict at most N test images (default: all)")
    throughput.add_argument("--threads", type=int, help="threads of the frameworks (default: all cores)")
    throughput.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    throughput.add_argument("--data-dir", type=Path, help="folder with the data sets, looked at first")
    throughput.add_argument("--json", action="store_true", help="for machines")
    throughput.set_defaults(action=_throughput)


def _throughput(arguments: argparse.Namespace) -> int:
    from bench.show import throughput_files as files
    from bench.show.tables.files import write_tables
    from bench.show.tables.render import render
    from bench.show.tables.throughput import throughput_table
    from benchmarks.throughput import measure

    for device in arguments.device:
        check_device(device)
    asked = measure.requests(
        arguments.approaches,
        arguments.what,
        arguments.device,
        arguments.precision,
        arguments.draws,
        rounds=arguments.rounds,
        block_s=arguments.block,
        images=arguments.images,
        threads=arguments.threads,
        data_dir=str(arguments.data_dir.resolve()) if arguments.data_dir else None,
    )
    Store(arguments.results).check_writable()
    found = measure.run(asked, arguments.results, lambda line: print(line, file=sys.stderr, flush=True))
    everything, problems = files.read_all(arguments.results)
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    table = throughput_table(everything, manifests())
    write_tables([table], arguments.results / "tables")
    print(json.dumps(found, indent=1) if arguments.json else render(throughput_table(found, manifests())))
    return 0 if all(record["outcome"] == "done" for record in found) else INCOMPLETE
