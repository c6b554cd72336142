"""`python -m bench.run.remote OWNER`: read one job from standard input, do it, and write events as lines of JSON.

`bench.run.supervisor` starts this process. It ends when its parent or the process with the number OWNER ends.
"""

from __future__ import annotations

import os
import socket
import sys

from bench.run import output
from bench.run.child import serve
from bench.run.events import Placed, encode
from bench.run.jobs import decode_job
from bench.run.orphans import end_with


def main() -> None:
    """Tell where the job runs, before the slow imports, and do the job."""
    lines = os.dup(output.STDOUT)
    output.keep(output.STDERR)  # the output of frameworks must not mix with the events
    end_with(int(sys.argv[1]), os.getppid())
    job = sys.stdin.buffer.readline()
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    os.write(lines, encode(Placed(socket.gethostname(), os.getpid(), os.getppid(), gpu)) + b"\n")
    serve(lambda: decode_job(job), lines)


if __name__ == "__main__":
    main()
