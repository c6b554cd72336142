"""That the campaigns see what they look for. The campaigns run by themselves: `python -m tests.stress ci`."""

import io
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.cli import FAILED, USAGE
from bench.core.errors import ConfigError, StoreError
from bench.core.row_scores import check_scores
from bench.core.score_files import LARGEST_SCORES
from bench.core.store import Store
from tests.stress import __main__ as command
from tests.stress import processes
from tests.stress.fuzz.engine import LARGEST, Target, Tried, damaged, damaged_value, fuzz
from tests.stress.fuzz.guarded import Guarded
from tests.stress.fuzz.stored import bomb, sound_scores
from tests.synthetic import record

ANY = st.binary()


def stored(root, loss, seconds):
    made = record("mlp", metrics={"mnist/accuracy": 0.98}, epochs=[{"epoch": 1, "loss": loss, "seconds": seconds}])
    return Store(root).write(made)


def test_a_comparison_sees_every_number_and_no_time(tmp_path):
    stored(tmp_path / "calm", 0.5, 1.0)
    stored(tmp_path / "slower", 0.5, 2.0)
    stored(tmp_path / "other", 0.5000000000000001, 1.0)
    calm, slower, other = (processes.contents(tmp_path / name) for name in ("calm", "slower", "other"))
    assert processes.differences(calm, slower) == []
    assert processes.differences(calm, other) == processes.differences(calm, {}) == list(calm)


def test_a_comparison_names_what_cannot_be_trusted(tmp_path):
    path = stored(tmp_path, 0.5, 1.0)
    assert list(processes.faults(tmp_path)) == []
    path.write_text(path.read_text().replace("0.98", "0.99"))
    assert any(str(path) in fault for fault in processes.faults(tmp_path))


def fuzzed(read, inputs=3) -> Tried:
    (tried,) = fuzz([Target("made up", st.binary(), read)], inputs, 0)
    return tried


def refuse(error):
    def read(data):
        raise error

    return read


def test_a_refusal_in_one_line_is_an_answer():
    tried = fuzzed(refuse(ConfigError("no such thing; give another")))
    assert (tried.inputs, tried.accepted, tried.findings) == (3, 0, [])


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("x"), "KeyError: 'x' (test_stress.py:"),
        (RecursionError("deep"), "RecursionError"),
        (SystemExit(1), "SystemExit"),
        (StoreError("one\ntwo"), "not one line"),
        (StoreError(""), "not one line"),
        (StoreError("x" * 10_000), "not one line"),
    ],
)
def test_anything_else_is_a_finding_with_its_smallest_input(error, words):
    (finding,) = fuzzed(refuse(error)).findings
    assert words in finding
    assert finding.endswith("input b''")


def test_a_hang_is_a_finding(monkeypatch):
    monkeypatch.setattr("tests.stress.fuzz.engine.HANG_S", 0.005)

    def read(data):
        while True:
            pass

    assert "not answered" in fuzzed(read, inputs=1).findings[0]


def test_asking_for_gigabytes_is_a_finding():
    assert "MemoryError" in fuzzed(lambda data: bytearray(1 << 34), inputs=1).findings[0]


def test_a_seed_gives_the_same_inputs_again():
    def seen(seed):
        found = []
        list(fuzz([Target("made up", damaged([b"good " * 20, b"other"], [b"word"]), found.append)], 50, seed))
        return found

    assert seen(7) == seen(7) != seen(8)
    assert len(set(seen(7))) > 25


def test_what_a_target_leaves_of_its_share_goes_to_the_next_ones():
    """Of 60 inputs, each has a third; two different inputs are all that the first has."""
    targets = [Target(str(number), one, list) for number, one in enumerate((st.sampled_from((b"", b"x")), ANY, ANY))]
    assert [tried.inputs for tried in fuzz(targets, 60, 0)] == [2, 29, 29]


def test_sound_scores_are_accepted_and_a_bomb_is_not():
    check_scores(sound_scores())
    with zipfile.ZipFile(io.BytesIO(bomb())) as archive:
        assert sum(member.file_size for member in archive.infolist()) > LARGEST_SCORES


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (lambda words: Path(words[0]).write_text("changed"), "outside --results was touched"),
        (lambda words: Path(words[0]).with_name("another").touch(), "outside --results was touched"),
        (lambda words: print(Path(words[0]).read_text()), "outside --results was read"),
        (lambda words: print("\x1b[2J"), "control character"),
    ],
)
def test_harm_that_a_command_does_is_seen(tmp_path, monkeypatch, command, message):
    guarded = Guarded(tmp_path)
    monkeypatch.setattr("tests.stress.fuzz.guarded.main", lambda words: command(words) and 0)
    with pytest.raises(AssertionError, match=message):
        guarded.run((str(guarded.canary),))


@given(damaged([b"0123456789" * 10_000], [b"word"]))
def test_damaged_input_is_bounded(data):
    assert len(data) <= LARGEST or data == b"0123456789" * 10_000


@given(damaged_value({"a": [1, {"b": 2}], "c": "text"}))
def test_a_damaged_value_can_be_written(value):
    json.dumps(value)


def test_a_finding_is_printed_and_fails_the_command(monkeypatch, capsys):
    broken = Target("made up", st.binary(), refuse(KeyError("x")))
    monkeypatch.setattr(command, "data_targets", lambda folder: [broken])
    for name in ("stored_targets", "folder_targets", "text_targets", "argument_targets"):
        monkeypatch.setattr(command, name, lambda folder: [])
    assert command.main(["fuzz", "--inputs", "2", "--seed", "0"]) == FAILED
    assert "fuzz: FAULT made up: KeyError: 'x'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kill"], "did you mean 'kills'"),
        ([], "CAMPAIGN"),
        (["kills", "--kills", "0"], "no count"),
        (["fuzz", "--seed", "-1"], "no seed"),
        (["soak", "--profile", "ful"], "did you mean 'full'"),
        (["determinism", "--approaches", "mpl"], "did you mean 'mlp'"),
    ],
)
def test_nonsense_is_one_line(arguments, message, capsys):
    assert command.main(arguments) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
