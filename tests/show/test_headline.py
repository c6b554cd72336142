"""The README's first table: every quoted number is a claim, and its interval is that of one more run."""

import pytest

from bench.judge.claims import ClaimRow
from bench.judge.results import Results
from bench.judge.samples import Samples
from bench.judge.stats.verdicts import is_end, judge
from bench.show.tables.verdicts import headline_table, load_quoted, load_short_names
from tests.judge.claims import BY_ID
from tests.synthetic import record


def lines(claim, values):
    """Return the table of one claim with these seeds, as lists of text."""
    return headline_table(Results([], {}), judge([ClaimRow(claim, Samples.of(tuple(values), None))])).texts()


def test_every_quoted_number_is_a_claim_and_named_once():
    quoted = [number.claim for number in load_quoted()]
    assert set(quoted) <= set(BY_ID)
    assert len(set(quoted)) == len(quoted)
    assert {BY_ID[claim].source for claim in quoted} == {"alsibahi2019", "chopra2018", "feldman2018", "rabanser2017"}


@pytest.mark.parametrize(
    ("claim", "values", "shown"),
    [
        # mean 1.0; squares of .1 (-2, -1, 0, 1, 2) add up to .1, over 4: sd .158114; half-width 3.0414 of it = .48088
        ("bbb.noise_entropy", [0.8, 0.9, 1.0, 1.1, 1.2], ["0.9909", "1.000 [0.5191, 1.481]", "agrees, coarsely"]),
        # sd .05, mean .95, t(2, .975) = 4.3027: .9500 - .05 * 4.9683; a share ends at 1, not at 1.10
        ("mlp.epoch10.test_accuracy", [0.9, 0.95, 1.0], ["0.9800", "0.9500 [0.7016, 1.0000]", "too few seeds"]),
        ("mlp.noise_entropy", [0.14], ["0.1446", "0.1400", "too few seeds"]),
        ("mlp.noise_entropy", [], ["0.1446", "-", "not run"]),
    ],
)
def test_the_interval_is_that_of_one_more_run(claim, values, shown):
    assert lines(BY_ID[f"feldman2018.{claim}"], values)[0][1:] == shown


def test_the_caption_speaks_of_the_interval_that_is_shown():
    results = Results([record("mlp", seed=seed) for seed in (0, 1)], {})
    assert headline_table(results, judge([])).caption.endswith(" Profile full, cpu, float32, seeds 0, 1.")


def test_only_end_results_are_counted_and_the_outcomes_explained():
    claims = [
        BY_ID["feldman2018.bbb.noise_entropy"],
        BY_ID["feldman2018.mlp.epoch09.test_accuracy"],
        BY_ID["feldman2018.mlp.epoch10.test_accuracy"],
        BY_ID["feldman2018.worked_example.w"],
        BY_ID["chopra2018.random_module.accepted_accuracy"],
    ]
    rows = [ClaimRow(claim, Samples.of((claim.value,) * 5, None)) for claim in claims]
    table = headline_table(Results([], {}), judge(rows[:4]))
    assert "All 1 end results of the documents, which `verdict` lists: 1 agrees. No records." in table.caption
    notes = [note.partition(":")[0] for note in table.notes]
    assert notes == ["*", "agrees", "feldman2018"]  # *: the last point of the curve, which is not counted
    assert [row[0] for row in table.rows if str(row[0]).endswith(" *")] == ["accuracy of the network without Bayes *"]
    assert "5 seeds of mlp, 5 seeds of linear_bbb; all its end results together: p = 1.00" in table.notes[2]
    # .8 to .98 round about .89: the interval of one more run ends above 1
    wide = ClaimRow(claims[4], Samples.of((0.8, 0.85, 0.9, 0.95, 0.98), None))
    notes = headline_table(Results([], {}), judge([wide])).notes
    assert [note.partition(":")[0] for note in notes[:2]] == ["agrees, coarsely", "chopra2018"]
    assert "truncates" in notes[2]
    assert "is cut there" in notes[3]


def test_every_end_result_has_a_short_name():
    names = load_short_names()
    assert {claim.id for claim in BY_ID.values() if is_end(claim)} <= set(names) <= set(BY_ID)
    assert max(map(len, names.values())) <= 23
