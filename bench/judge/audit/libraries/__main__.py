"""Command line: python -m bench.judge.audit.libraries EXAMPLE [EXAMPLE ...], of examples in TensorFlow or JAX.

It does what `python -m bench audit --library LIBRARY` does, where only the example's framework is installed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

import msgspec

from bench.judge.audit.libraries.audited import keep
from bench.judge.audit.libraries.examples import EXAMPLES
from bench.judge.audit.libraries.foreign_audits import FOREIGN, audit_foreign
from elbo_audit.errors import AuditError, unknown_name

USAGE = 2  # exit code, as of `bench.cli`


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise AuditError(f"{message}; see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Audit the named examples, print what was measured as JSON, and return the exit code."""
    parser = _Parser(
        prog="python -m bench.judge.audit.libraries", description="Audit foreign examples.", allow_abbrev=False
    )
    parser.add_argument("examples", nargs="+", metavar="EXAMPLE", help=f"one of: {'; '.join(FOREIGN)}")
    parser.add_argument("--write", action="store_true", help="store the result for the table")
    try:
        arguments = parser.parse_args(argv)
        for name in arguments.examples:
            if name not in FOREIGN:
                raise unknown_name("example", name, FOREIGN)
        for name in arguments.examples:
            found = {name: audit_foreign(EXAMPLES[name])}
            print(msgspec.json.format(msgspec.json.encode(found)).decode(), flush=True)
            if arguments.write:
                keep(found)
    except AuditError as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main())
