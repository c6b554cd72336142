"""Where a record's numbers are shown: `list KEY --tables`."""

import pytest

from bench.cli.main import main
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.show.screens.record import tables_with
from tests.tables import inputs


def test_every_table_whose_numbers_a_record_changes_is_named():
    """A level and a single change of the ablation show the record as do the tables of means."""
    records = [one for one in Store(RESULTS).all_records()[0] if (one.approach, one.profile) == ("mlp", "full")]
    one = next(one for one in records if (one.recipe, one.protocol, one.seed) == ("corrected", "common", 1))
    found = dict(tables_with(one, inputs(records)).lines)
    assert {"accuracy", "calibration", "choice", "confidence", "mistakes", "ablation_mlp", "provenance"} <= found.keys()
    assert "verdicts" not in found  # they read the protocol of the document
    assert found["mistakes"] == "mlp lr-decay 5: accuracy, points, NLL, letters' AUROC, points"


@pytest.mark.parametrize("words", [["list", "--tables"], ["list", "", "--tables"]])
def test_tables_are_of_one_record(words, capsys):
    assert main(words) == 2
    assert "give the first letters" in capsys.readouterr().err
