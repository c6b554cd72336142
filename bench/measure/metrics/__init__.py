"""Metrics: pure functions of predictions, each declared with its unit, direction, definition, source and version.

`draws.reduce_draws` turns a block of draws into a summary of each row. `evaluate` calls the declared functions.
`published` has the estimators of the documents. The files imported here declare metrics: importing them needs no
PyTorch, pandas or SciPy, because every reader of records checks numbers against the declarations.
"""

from bench.measure.metrics import classification as classification
from bench.measure.metrics import ood as ood
from bench.measure.metrics import published as published
from bench.measure.metrics import refusal as refusal
from bench.measure.metrics import shifts as shifts
from bench.measure.metrics import uncertainty as uncertainty
