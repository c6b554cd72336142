"""The gate's command around a fresh run: what it checks before, and the advice that it gives after its report."""

import json
import re
import shutil
import xml.etree.ElementTree as ET

import pytest

from bench.cli import FAILED, USAGE
from bench.cli.main import main
from bench.core.errors import StoreError
from bench.judge.gate.config import MORE
from tests.gate_folders import folders, fresh_folder, planned_records, write
from tests.judge.test_gate import PUBLISHED, TOY_TRAINED_RUN
from tests.judge.test_gate_config import UNOFFERED, WITH_MEAN, replace, words_of


def never(*_, **__):
    raise AssertionError("the fresh run began")


def shifted_at_first(monkeypatch):
    """Replace the fresh run: the first is shifted, and the later ones are not. Return their numbers of seeds."""
    made = []

    def train(gate, root, *_, **__):
        made.append({one.name: len(gate.seeds_of(one)) for one in gate.trained_runs})
        fresh_folder(root, gate, shift=0.2 if len(made) == 1 else 0.0)

    monkeypatch.setattr("bench.cli.gate.run_fresh", train)
    return made


@pytest.mark.parametrize("repeated", [True, False])
def test_a_failure_that_is_probably_chance_names_the_command_that_decides(tmp_path, repeated, monkeypatch, capsys):
    path, _, baseline, _ = folders(tmp_path)
    made = shifted_at_first(monkeypatch)
    monkeypatch.setattr("bench.cli.gate.repeats", lambda gate, names, *_: repeated and [*names] == [PUBLISHED])
    summary = tmp_path / "summary.md"
    words = ["gate", "--gate", str(path), "--baseline", str(baseline.root), "--summary", str(summary)]
    assert main(words) == FAILED
    told = " ".join(capsys.readouterr().out.split())
    assert ("probably chance" in told) == ("probably chance" in summary.read_text()) == repeated
    assert "at most 5% of first runs" in told
    if repeated:
        again = words_of(re.search(r"(?<=: )python -m bench gate --more .*", told)[0])
        assert main(again) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert "second look, after a failed first run" in told
        assert "of first runs" not in told
        assert made[1] == {name: seeds + MORE for name, seeds in made[0].items()}


def test_advice_is_no_part_of_the_json(tmp_path, monkeypatch, capsys):
    path, _, baseline, _ = folders(tmp_path)
    shifted_at_first(monkeypatch)
    monkeypatch.setattr("bench.cli.gate.repeats", lambda *_: True)
    assert main(["gate", "--gate", str(path), "--baseline", str(baseline.root), "--json"]) == FAILED
    answer = capsys.readouterr()
    assert not json.loads(answer.out)["passed"]
    assert "probably chance" in answer.err


@pytest.mark.parametrize("error", [StoreError("cannot write x"), OSError("disk full"), KeyboardInterrupt()])
def test_the_report_is_there_whatever_happens_to_the_advice(tmp_path, error, monkeypatch, capsys):
    def fails(*_):
        raise error

    path, _, baseline, _ = folders(tmp_path)
    shifted_at_first(monkeypatch)
    monkeypatch.setattr("bench.cli.gate.repeats", fails)
    junit = tmp_path / "gate.xml"
    code = main(["gate", "--gate", str(path), "--baseline", str(baseline.root), "--junit", str(junit)])
    answer = capsys.readouterr()
    assert "gate NOT PASSED" in answer.out
    assert ET.parse(junit).getroot().get("failures") == "2"
    if isinstance(error, Exception):
        assert code == FAILED
        assert answer.out.splitlines()[-1] == f"no advice on whether this is chance: {error}"


def lose_seed(gate, baseline):
    next(baseline.records.glob("toy_bbb/*seed7__*")).unlink()


def lose_approach(gate, baseline):
    shutil.rmtree(baseline.records / "toy_bbb")


def share_seed(gate, baseline):
    write(baseline, *planned_records(gate, gate.trained_run(TOY_TRAINED_RUN), [1003]))


@pytest.mark.parametrize(
    ("change", "more", "message"),
    [
        (lose_seed, [], f"the baseline has 7 of 8 seeds (of {TOY_TRAINED_RUN})"),
        (lose_approach, [], f"no baseline records (of {TOY_TRAINED_RUN})"),
        (share_seed, ["--more"], f"fresh seeds that the baseline lacks (of {TOY_TRAINED_RUN})"),
    ],
)
def test_a_baseline_that_does_not_fit_is_told_before_the_run(tmp_path, change, more, message, monkeypatch, capsys):
    path, gate, baseline, _ = folders(tmp_path)
    change(gate, baseline)
    monkeypatch.setattr("bench.cli.gate.run_fresh", never)
    assert main(["gate", "--gate", str(path), "--baseline", str(baseline.root), *more]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_baseline_of_another_profile_is_told_before_the_run(tmp_path, monkeypatch, capsys):
    path, _, baseline, _ = folders(tmp_path)
    path.write_text(path.read_text().replace('profile = "epoch1"', 'profile = "smoke"'))
    monkeypatch.setattr("bench.cli.gate.run_fresh", never)
    assert main(["gate", "--gate", str(path), "--baseline", str(baseline.root)]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "(profile smoke, device cpu, precision float32): no baseline records (of every trained run)" in line


def test_a_number_that_the_method_does_not_have_does_not_stop_the_run(tmp_path, monkeypatch):
    path, _, baseline, _ = folders(tmp_path, **WITH_MEAN)
    replace(baseline, "mlp/*", missing=UNOFFERED)
    monkeypatch.setattr("bench.cli.gate.run_fresh", never)
    with pytest.raises(AssertionError, match="the fresh run began"):
        main(["gate", "--gate", str(path), "--baseline", str(baseline.root)])


def test_a_device_that_is_not_there_is_told_before_the_run(tmp_path, monkeypatch, capsys):
    path, _, baseline, _ = folders(tmp_path)
    path.write_text(path.read_text().replace('device = "cpu"', 'device = "cuda:9999"'))
    monkeypatch.setattr("bench.cli.gate.run_fresh", never)
    assert main(["gate", "--gate", str(path), "--baseline", str(baseline.root)]) == USAGE
    assert "device 'cuda:9999' is not there" in capsys.readouterr().err
