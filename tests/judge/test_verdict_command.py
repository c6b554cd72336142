"""What people read of verdicts: the command, and the README's first table with intervals of one more run."""

import json

import pytest

from bench.cli import INCOMPLETE
from bench.cli.main import main
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.judge.claims import NATS_PER_BIT, ClaimRow, match, measured_key
from bench.judge.comparison import CANNOT_TELL, CONFIRMED, CONTRADICTED
from bench.judge.results import Results
from bench.judge.samples import Samples
from bench.judge.stats.one_more_run import Rerun, with_p
from bench.judge.stats.rule import EXACT, NOT_RUN, TOO_FEW, is_exact
from bench.judge.stats.verdicts import end_results, judge
from bench.show.reasoning import explain
from bench.show.screens.verdict import WIDE, all_text, ends_text, folded
from bench.show.tables.verdicts import headline_table, load_short_names, summary_table, verdicts_table
from tests.judge.claims import BY_ID
from tests.synthetic import record

ENTROPY = BY_ID["feldman2018.bbb.noise_entropy"]


@pytest.mark.parametrize("width", [80, 120])
def test_every_line_fits_a_terminal_and_the_end_results_a_screen(width):
    claims = [claim for claim in BY_ID.values() if not is_exact(claim)]
    rows = [ClaimRow(claim, Samples.of(tuple(claim.value * (1 - 0.01 * z) for z in range(6)))) for claim in claims]
    judgement = judge(rows)
    assert len(judgement.ends) == 30
    assert len(judgement.curves) == 16
    assert len(judgement.points) == 267
    lines = ends_text(judgement, {}, width).splitlines()
    assert len(lines) == 1 + 5 + 30  # heading, documents, end results
    assert any("no number of seeds can" in line for line in lines) == (width >= WIDE)
    everything = all_text(judgement, {}, width).splitlines()
    explained = folded(explain(judgement, judgement.verdicts[1]), width).splitlines()
    assert max(map(len, [*lines, *everything, *explained])) <= width


def test_the_command_has_a_line_for_every_claim(tmp_path, capsys):
    assert main(["verdict", "--results", str(tmp_path), "--baseline", "none", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) == 303
    assert {line["verdict"] for line in found} == {EXACT, NOT_RUN}  # the worked example needs no records


def test_a_damaged_record_stands_in_for_its_seed(tmp_path, capsys):
    """Seven seeds are enough for a verdict, but there is none as long as the eighth cannot be read."""
    folder = tmp_path / "records" / "linear_bbb"
    folder.mkdir(parents=True)
    archive = Store(RESULTS).records / "linear_bbb.jsonl"
    for name, line in zip(Store(RESULTS).folder.archived(archive)[0], archive.read_bytes().splitlines(), strict=True):
        if "/published__published__epoch1__" in name:
            (folder.parent / name).write_bytes(line)
    place = ["--profile", "epoch1", "--results", str(tmp_path), "--json"]
    asked = ["verdict", "feldman2018.bbb.epoch01.test_loss", *place]

    def answer():
        code = main(asked)
        (found,) = json.loads(capsys.readouterr().out)
        return code, found["n"], found["verdict"], found["missing value"]

    assert answer() == (0, 8, CONFIRMED, None)
    broken = sorted(folder.iterdir())[3]
    whole = broken.read_bytes()
    broken.write_bytes(whole[:500])
    *found, missing_value = answer()
    assert found == [INCOMPLETE, 7, TOO_FEW]
    assert broken.name in missing_value
    # a readable record of the same seed counts instead, and no note speaks of an older record
    again = folder / f"published__published__epoch1__seed{broken.name.partition('seed')[2][0]}__ffffffff.json"
    broken.rename(again)
    broken.write_bytes(whole)
    assert answer() == (INCOMPLETE, 8, CONFIRMED, None)
    assert main(["verdict", *asked[1:-1]]) == INCOMPLETE
    assert "left out" not in capsys.readouterr().out
    (folder / broken.name).unlink()
    broken = again
    # a file of another profile, or whose name is not a record's, does not count for any seed
    for name in ("published__published__full__seed3__00000000.json", "notes.json"):
        broken.rename(folder / name)
        code, n, _, missing_value = answer()
        assert (code, n, missing_value) == (INCOMPLETE, 7, None)
        broken = folder / name


def test_the_command_explains_one_claim(tmp_path, capsys):
    place = ["--results", str(tmp_path), "--baseline", "none"]
    assert main(["verdict", "feldman2018.bbb.noise_entropy", *place]) == 0
    text = capsys.readouterr().out
    assert "a tenth of a bit" in text
    assert "no record of this trained run" in text
    for name in ("feldman2018.linear_bbb.noise_entropy", "noise entropy, Bayes"):  # by approach, as on the screen
        assert main(["verdict", name, *place]) == 0
        assert capsys.readouterr().out == text


def lines(claim, values):
    """Return the table of one claim with these seeds, as lists of text."""
    return headline_table(Results([], {}), judge([ClaimRow(claim, Samples.of(tuple(values), None))])).texts()


@pytest.mark.parametrize(
    ("claim", "values", "shown"),
    [
        # mean 1.0; squares of .1 (-2, -1, 0, 1, 2) add up to .1, over 4: sd .158114; half-width 3.0414 of it = .48088
        ("bbb.noise_entropy", [0.8, 0.9, 1.0, 1.1, 1.2], ["0.9909", "1.000 [0.5191, 1.481]", "no single run can tell"]),
        # sd .05, mean .95, t(2, .975) = 4.3027: .9500 - .05 * 4.9683; a share ends at 1, not at 1.10
        ("mlp.epoch10.test_accuracy", [0.9, 0.95, 1.0], ["0.9800", "0.9500 [0.7016, 1.0000]", "too few seeds"]),
        ("mlp.noise_entropy", [0.14], ["0.1446", "0.1400", "too few seeds"]),
        ("mlp.noise_entropy", [], ["0.1446", "-", "not run"]),
    ],
)
def test_the_interval_is_that_of_one_more_run(claim, values, shown):
    assert lines(BY_ID[f"feldman2018.{claim}"], values)[0][2:] == shown


def test_the_caption_speaks_of_the_interval_that_is_shown():
    results = Results([record("mlp", seed=seed) for seed in (0, 1)], {})
    assert headline_table(results, judge([])).caption.endswith(" Profile full, cpu, float32, seeds 0, 1.")


def test_the_caption_names_the_seeds_of_the_verdicts_alone():
    of_other_recipe = record("linear_bbb", "published+wide-start", seed=7)
    metrics = {measured_key(ENTROPY)[1]: 0.7}
    results = Results([record("linear_bbb", seed=seed, metrics=metrics) for seed in (0, 1)] + [of_other_recipe], {})
    for table in (headline_table, verdicts_table, summary_table):
        assert "float32, seeds 0, 1" in table(results, judge(match([ENTROPY], results))).conditions


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
    assert "2 end results of the documents: 2 confirmed. Ours:" in table.caption
    assert [note.partition(":")[0] for note in table.notes] == ["confirmed", "feldman2018"]
    assert [row[1] for row in table.rows] == ["noise entropy, Bayes", "accuracy, no Bayes"]
    assert "5 seeds of linear_bbb, 5 seeds of mlp; all its end results together: p = 1.00" in table.notes[1]
    # .8 to .98 round about .89: the interval of one more run ends above 1
    wide = ClaimRow(claims[4], Samples.of((0.8, 0.85, 0.9, 0.95, 0.98), None))
    notes = headline_table(Results([], {}), judge([wide])).notes
    assert [note.partition(":")[0] for note in notes[:2]] == ["no single run can tell", "chopra2018"]
    assert "truncates" in notes[2]
    assert "is cut there" in notes[3]


def test_every_end_result_has_a_short_name():
    names = load_short_names()
    assert {claim.id for claim in end_results(BY_ID.values())} == set(names)
    assert max(map(len, names.values())) <= 23


def entropies(root, values, **changes):
    """Write records of linear_bbb as published with these numbers of bits by seed; return the folder as text."""
    for seed, value in values.items():
        metrics = {measured_key(ENTROPY)[1]: value * NATS_PER_BIT}
        key = f"{root.name}-{seed}"
        Store(root).write(record("linear_bbb", seed=seed, key=key, metrics=metrics, **changes))
    root.mkdir(exist_ok=True)
    return str(root)


SHIPPED = dict(enumerate([0.80, 0.90, 1.00, 1.10, 1.20, 1.05, 0.95]))


def asked(capsys, *words):
    code = main([*words])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out, err


@pytest.mark.parametrize(
    ("own", "outcome", "said"),
    [
        ({0: 0.8}, "the same", "1 of 1 end result like the shipped seeds."),
        ({9: 1.02}, "like", "1 of 1 end result like the shipped seeds."),
        ({9: 2.5}, "unlike", "0 of 1 end result like the shipped seeds; unlike: noise entropy, Bayes (feldman2018)."),
    ],
)
def test_a_few_seeds_of_ones_own_stand_beside_the_shipped_ones(own, outcome, said, tmp_path, capsys):
    folders = ["--results", entropies(tmp_path / "own", own, provenance={"cpu": "another CPU"})]
    folders += ["--baseline", entropies(tmp_path / "shipped", SHIPPED)]
    out, err = asked(capsys, "verdict", ENTROPY.id, *folders, "--json")
    (found,) = json.loads(out)
    assert found["n"] == 7  # the verdict is of the shipped seeds
    assert found["verdict"] == CANNOT_TELL
    assert found["yours"]["outcome"] == outcome
    assert found["yours"]["processors"] == [["another CPU"], ["made-up CPU"]]
    assert f"yours, in {folders[1]}: 1 trained run; the rest is of the records in {folders[3]}" in err
    assert "verdicts where you have fewer than 5 seeds" in err
    out, _ = asked(capsys, "verdict", *folders)
    assert said in " ".join(out.split())
    assert "Your processor (another CPU) is none of theirs (made-up CPU)." in " ".join(out.split())
    out, _ = asked(capsys, "verdict", ENTROPY.id, *folders)
    assert f"yours: {next(iter(own.values())):.7g} (seed {next(iter(own))})" in out


def test_five_seeds_of_ones_own_have_a_verdict_of_their_own(tmp_path, capsys):
    own = {seed: 2.5 + 0.01 * seed for seed in range(5)}
    folders = ["--results", entropies(tmp_path / "own", own)]
    folders += ["--baseline", entropies(tmp_path / "shipped", SHIPPED | {seed: 1.0 for seed in range(7, 12)})]
    (found,) = json.loads(asked(capsys, "verdict", ENTROPY.id, *folders, "--json")[0])
    assert (found["n"], found["verdict"], found["yours"]["outcome"]) == (5, CONTRADICTED, "unlike")


@pytest.mark.parametrize("profile", ["smoke", None])
def test_verdicts_and_tables_without_records_of_ones_own_are_the_shipped_ones_and_say_so(profile, tmp_path, capsys):
    own = entropies(tmp_path / "own", {0: 1.0} if profile else {}, profile=profile or "full")
    folders = ["--results", own, "--baseline", entropies(tmp_path / "shipped", SHIPPED)]
    verdict, said = asked(capsys, "verdict", *folders)
    table, too = asked(capsys, "table", "headline", *folders)
    assert said == too
    reason = " (profile smoke cuts epochs short and is no evidence)" if profile else ""
    assert said == (
        f"{own} has no finished record with profile full, cpu, float32{reason}: what is shown is of the records in "
        f"{folders[3]}\n"
    )
    for text in (verdict, table):
        assert "1: no single run can tell, 29 not run" in " ".join(text.split())
        assert "seeds 0-6." in " ".join(text.split())


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_lines_with_ones_own_numbers_fit_and_a_narrow_screen_has_no_interval(width):
    claims = end_results(BY_ID.values())
    rows = [ClaimRow(claim, Samples.of(tuple(claim.value * (1 - 0.01 * z) for z in range(6)))) for claim in claims]
    yours = with_p([Rerun(row.claim, Samples({9: row.claim.value * 3}), row.sample) for row in rows])
    lines = ends_text(judge(rows), load_short_names(), width, yours).splitlines()
    assert len(lines) == 1 + 5 + 30
    assert max(map(len, lines)) <= width
    assert ("[" in lines[2]) == (width >= 96)
    assert any("!" in line for line in lines)
