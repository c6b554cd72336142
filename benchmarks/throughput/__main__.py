"""`python -m benchmarks.throughput throughput`: our code beside the documents' own, in turn in one run."""

import sys

from bench.cli.main import main, make_parser
from benchmarks.throughput import command

if __name__ == "__main__":
    sys.exit(main(parser=make_parser((command,), "python -m benchmarks.throughput", __doc__ or "")))
