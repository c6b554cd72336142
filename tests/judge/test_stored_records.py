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


@pytest.mark.parametrize("trained_run", GATE.trained_runs, ids=lambda trained_run: trained_run.name)
def test_stored_records_are_those_of_todays_plan_and_data(stored, trained_run):
    records = stored.trained_run(trained_run)
    assert len(records) >= GATE.baseline_seeds
    for record, planned in zip(records, GATE.planned(trained_run, [record.seed for record in records]), strict=True):
        assert planned.skip or record.key == planned.key
        assert record.provenance.data_sha256.items() <= data_hashes().items()


@pytest.mark.parametrize("trained_run", GATE.trained_runs, ids=lambda trained_run: trained_run.name)
def test_no_two_stored_seeds_agree(stored, trained_run):
    """Gated metrics are continuous, so that equality would mean an ignored seed."""
    for metric in trained_run.metrics:
        values = metrics_of(stored.trained_run(trained_run), key_of(trained_run, metric.key)).values
        assert len(values) == len({*values}) >= GATE.baseline_seeds
