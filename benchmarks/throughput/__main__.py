"""`python -m benchmarks.throughput`: our code beside the documents' own, in turn in one run."""

import sys

from benchmarks.throughput.command import main

if __name__ == "__main__":
    sys.exit(main())
