"""Where the project's own files lie: the folder above `bench`, its results, its reference files and its data sets."""

from __future__ import annotations

from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
RESULTS = TOP / "results"
REFERENCE = RESULTS / "reference"
DATASETS = TOP / "datasets"
