"""The counter noise as one kernel beside plain operations: python -m benchmarks.gpu.noise --device cuda.

Checks that the kernel gives the words of the CPU, and its normals up to rounding. Prints the time of the kernel and of
plain operations. On a CPU, it compiles the same code for the CPU. The exit code is 1 if a number differs, 2 if PyTorch
cannot compile the kernel.
"""

from __future__ import annotations

import sys

import torch

from bench.cli.main import Parser, guarded
from bench.core import noise
from bench.core.errors import Unsupported
from bench.core.precision import check_device
from bench.core.timing import repeat_seconds

KEY = 0x123456789ABCDEF
SHAPES = ((1, 669_706), (5, 1000), (1024, 64))  # rows, numbers: a step of linear_bbb, a short row, masks of a block
NEAR = 2e-6  # allowed difference; logarithm and sine have relative errors of some 1e-7, and normals are below 6.8
REPEATS, LIMIT_S = 30, 2.0


def main() -> int:
    """Compare and time; return the exit code."""
    parser = Parser(
        prog="python -m benchmarks.gpu.noise", description="The counter noise as one kernel.", allow_abbrev=False
    )
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N, or cpu for a rehearsal (default: cuda)")

    def act() -> int:
        name = parser.parse_args().device
        check_device(name)
        return _compare(torch.device(name))

    return guarded(act)


def _compare(device: torch.device) -> int:
    words, normals = (noise.fused(plain, device) for plain in (noise.words_of_blocks, noise.normals_of_blocks))
    if words is None or normals is None:
        raise Unsupported(
            f"PyTorch cannot compile a kernel for {device}: it needs a C++ compiler, on a GPU also Triton"
        )
    bad = 0
    for n_rows, n in SHAPES:
        rows = torch.arange(n_rows) + (1 << 33)
        there = noise.arguments(KEY, rows.to(device), n)
        same = torch.equal(words(*there)[:, :n].cpu(), noise.plain_words(KEY, rows, n))
        off = float((normals(*there)[:, :n].cpu() - noise.plain_normals(KEY, rows, n)).abs().max())
        bad += not same or off > NEAR
        one, many = (
            min(repeat_seconds(lambda call=call, given=there: call(*given), device, REPEATS, LIMIT_S))
            for call in (normals, noise.normals_of_blocks)
        )
        print(
            f"{n_rows} x {n}: words {'equal' if same else 'DIFFER'}, normals within {off:.1e}; "
            f"one kernel {one * 1e6:.0f} us, plain {many * 1e6:.0f} us"
        )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
