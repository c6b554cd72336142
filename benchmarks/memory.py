"""Memory of many draws of many images, above the model's: python -m benchmarks.memory RESULTS [DRAWS [IMAGES]].

RESULTS is a folder that keeps fits. Each posterior predicts in a process of its own: as the protocols ask it, whole
networks where it has them, after it has predicted one image with one draw, which makes all that is made once.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from bench.data.splits import load_split
from bench.faults.processes import memory_mib
from bench.measuring import draws_of, first_rows, predict_split
from bench.predict.fits import choose, rebuilt
from bench.store import Store

N_CLASSES = 10
HEAD = "approach            noise       model     above  time"


def main() -> None:
    """Print a line for each published fit that is kept."""
    folder, *numbers = sys.argv[1:]
    draws, images = (int(text) for text in (numbers + ["1000", "10000"][len(numbers) :]))
    sys.stdout.write(f"{draws:,} draws of {images:,} images\n{HEAD}\n")
    sys.stdout.flush()
    for fit in choose(Store(Path(folder))):
        child = [sys.executable, "-m", "benchmarks.memory", "--one", folder, fit.approach, str(draws), str(images)]
        subprocess.run(child, check=True)


def one(folder: str, approach: str, draws: str, images: str) -> None:
    """Print the line of one posterior."""
    (fit,) = choose(Store(Path(folder)), [approach])
    posterior = rebuilt(Store(Path(folder)), fit)
    split = first_rows(load_split("test10k", 0), int(images))
    predict_split(posterior, first_rows(split, 1), draws_of(posterior, 1), N_CLASSES)
    before, start = memory_mib("VmRSS"), time.perf_counter()
    predict_split(posterior, split, draws_of(posterior, int(draws)), N_CLASSES)
    above, seconds = memory_mib() - before, time.perf_counter() - start
    sys.stdout.write(f"{approach:18}  {posterior.noise:7}  {before:4.0f} MiB  {above:4.0f} MiB  {seconds:.0f} s\n")


if __name__ == "__main__":
    one(*sys.argv[2:]) if sys.argv[1] == "--one" else main()
