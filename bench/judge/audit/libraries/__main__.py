"""Command line: python -m bench.judge.audit.libraries NAME [NAME ...], of examples in TensorFlow or JAX.

It stores what `python -m bench audit --library LIBRARY --write` does, where only the example's framework is installed.
"""

from __future__ import annotations

import sys

from bench.judge.audit.libraries.audited import keep
from bench.judge.audit.libraries.examples import EXAMPLES
from bench.judge.audit.libraries.foreign_audits import FOREIGN, audit_foreign
from elbo_audit.errors import AuditError, unknown_name

try:
    for given in sys.argv[1:]:
        if given not in FOREIGN:
            raise unknown_name("example", given, FOREIGN)
        keep({given: audit_foreign(EXAMPLES[given])})
except AuditError as error:
    sys.exit(f"error: {error}")
