"""`python -m tests.stress COMMAND`: what harms runs on purpose, and which numbers come out bit for bit."""

import sys

from bench.cli.main import main, make_parser
from tests.stress import command, determinism_command

if __name__ == "__main__":
    sys.exit(main(parser=make_parser((command, determinism_command), "python -m tests.stress", __doc__ or "")))
