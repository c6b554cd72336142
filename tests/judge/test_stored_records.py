"""The records that the gate compares with: made by today's plan from today's data, by seeds that are not ignored."""

import pytest

from bench.core.project import RESULTS
from bench.data.manifest import data_hashes
from bench.judge.gate.config import load_gate
from bench.judge.gate.judge import Folder, key_of
from bench.judge.samples import metrics_of

GATE = load_gate()


@pytest.fixture(scope="module")
def stored():
    return Folder.read(RESULTS, GATE)


@pytest.mark.parametrize("cell", GATE.cells, ids=lambda cell: cell.name)
def test_stored_records_are_those_of_todays_plan_and_data(stored, cell):
    records = stored.cell(cell)
    assert len(records) >= GATE.reference_seeds
    for record, planned in zip(records, GATE.planned(cell, [record.seed for record in records]), strict=True):
        assert planned.skip or record.key == planned.key
        assert record.provenance.data_sha256.items() <= data_hashes().items()


@pytest.mark.parametrize("cell", GATE.cells, ids=lambda cell: cell.name)
def test_no_two_stored_seeds_agree(stored, cell):
    """Gated metrics are continuous, so that equality would mean an ignored seed."""
    for metric in cell.metrics:
        values = metrics_of(stored.cell(cell), key_of(cell, metric.key)).values
        assert len(values) == len({*values}) >= GATE.reference_seeds
