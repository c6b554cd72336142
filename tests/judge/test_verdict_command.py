"""The command `verdict`."""

import json

import pytest

from bench.cli import INCOMPLETE
from bench.cli.main import main
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.judge.claims import ClaimRow
from bench.judge.comparison import AGREES
from bench.judge.samples import Samples
from bench.judge.stats.rule import EXACT, NOT_RUN, TOO_FEW, is_exact
from bench.judge.stats.verdicts import judge
from bench.show.reasoning import explain
from bench.show.screens.verdict import WIDE, all_text, ends_text, folded
from tests.judge.claims import BY_ID


@pytest.mark.parametrize("width", [80, 120])
def test_every_line_fits_a_terminal_and_the_end_results_a_screen(width):
    claims = [claim for claim in BY_ID.values() if not is_exact(claim)]
    rows = [ClaimRow(claim, Samples.of(tuple(claim.value * (1 - 0.01 * z) for z in range(6)))) for claim in claims]
    judgement = judge(rows)
    assert len(judgement.ends) == 26
    assert len(judgement.curves) == 16
    assert len(judgement.points) == 267
    lines = ends_text(judgement, {}, width).splitlines()
    assert len(lines) == 1 + 5 + 26 + 4  # heading, documents, end results, last points of accuracy curves
    assert any("might not have shown" in line for line in lines) == (width >= WIDE)
    everything = all_text(judgement, {}, width).splitlines()
    explained = folded(explain(judgement, judgement.verdicts[1]), width).splitlines()
    assert max(map(len, [*lines, *everything, *explained])) <= width


def test_the_command_has_a_line_for_every_claim(tmp_path, capsys):
    assert main(["verdict", "--results", str(tmp_path), "--json"]) == 0
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

    def told():
        code = main(asked)
        (found,) = json.loads(capsys.readouterr().out)
        return code, found["n"], found["verdict"], found["missing value"]

    assert told() == (0, 8, AGREES, None)
    broken = sorted(folder.iterdir())[3]
    whole = broken.read_bytes()
    broken.write_bytes(whole[:500])
    *found, missing_value = told()
    assert found == [INCOMPLETE, 7, TOO_FEW]
    assert broken.name in missing_value
    # a readable record of the same seed counts instead, and no note speaks of an older record
    again = folder / f"published__published__epoch1__seed{broken.name.partition('seed')[2][0]}__ffffffff.json"
    broken.rename(again)
    broken.write_bytes(whole)
    assert told() == (INCOMPLETE, 8, AGREES, None)
    assert main(["verdict", *asked[1:-1]]) == INCOMPLETE
    assert "left out" not in capsys.readouterr().out
    (folder / broken.name).unlink()
    broken = again
    # a file of another profile, or whose name is not a record's, does not count for any seed
    for name in ("published__published__full__seed3__00000000.json", "notes.json"):
        broken.rename(folder / name)
        code, n, _, missing_value = told()
        assert (code, n, missing_value) == (INCOMPLETE, 7, None)
        broken = folder / name


def test_the_command_explains_one_claim(tmp_path, capsys):
    assert main(["verdict", "feldman2018.bbb.noise_entropy", "--results", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "a tenth of a bit" in text
    assert "no record of this trained run" in text
    for name in ("feldman2018.linear_bbb.noise_entropy", "noise entropy, Bayes"):  # by approach, as on the screen
        assert main(["verdict", name, "--results", str(tmp_path)]) == 0
        assert capsys.readouterr().out == text
