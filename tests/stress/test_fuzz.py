"""The fuzzers: 2,000 inputs here, 100,000 by `python -m bench faults`; and that they find what they look for."""

import random
import re

import pytest

from bench.cli.main import main
from bench.cli.options import FAILED
from bench.core.errors import ConfigError, StoreError
from bench.show import faults_files as files
from tests.stress.fuzz import Target, all_targets, fuzz
from tests.stress.fuzz.engine import made
from tests.stress.fuzz.mutate import LARGEST, mutated

N_INPUTS = 2_000


def test_no_input_ends_in_a_traceback_a_hang_or_gigabytes(tmp_path):
    tried = list(fuzz(all_targets(tmp_path), N_INPUTS, seed=1))
    assert [finding for each in tried for finding in each.findings] == []
    assert sum(each.inputs for each in tried) >= N_INPUTS
    for each in tried:
        # a target that accepts nothing, or refuses nothing, would be fuzzed for nothing
        assert each.accepted > 0, each.target
    assert sum(each.accepted for each in tried) < 0.9 * N_INPUTS
    assert max(each.slowest_s for each in tried) < 2.0


def one(read, inputs=3):
    (tried,) = fuzz([Target("made up", [b"good"], read)], inputs, seed=0)
    return tried


def refuse(error):
    def read(data, rng):
        raise error

    return read


def test_a_refusal_in_one_line_is_an_answer():
    tried = one(refuse(ConfigError("no such thing; give another")))
    assert (tried.inputs, tried.accepted, tried.findings) == (3, 0, [])


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("x"), "KeyError: 'x' (test_fuzz.py:"),
        (RecursionError("deep"), "RecursionError"),
        (SystemExit(1), "SystemExit"),
        (StoreError("one\ntwo"), "not one line"),
        (StoreError(""), "not one line"),
        (StoreError("x" * 10_000), "not one line"),
    ],
)
def test_anything_else_is_a_finding(error, words):
    tried = one(refuse(error))
    assert [finding.index for finding in tried.findings] == [0, 1, 2]
    assert words in tried.findings[0].what


def test_a_hang_is_a_finding(monkeypatch):
    monkeypatch.setattr("tests.stress.fuzz.engine.HANG_S", 0.05)

    def read(data, rng):
        while True:
            pass

    assert "not answered" in one(read, inputs=1).findings[0].what


def test_asking_for_gigabytes_is_a_finding():
    assert "MemoryError" in one(lambda data, rng: bytearray(1 << 34), inputs=1).findings[0].what


def test_an_input_is_made_again_from_seed_target_and_number():
    target = Target("made up", [b"good " * 20, b"other"], lambda data, rng: None, (b"word",))
    assert made(target, 0, 7)[0] == b"good " * 20  # first what is right, to know that it is accepted
    assert [made(target, index, 7)[0] for index in range(50)] == [made(target, index, 7)[0] for index in range(50)]
    assert [made(target, index, 7)[0] for index in range(50)] != [made(target, index, 8)[0] for index in range(50)]


def test_mutations_are_many_and_bounded():
    rng = random.Random(0)
    found = {mutated(b"0123456789" * 100, rng, [b"other"], [b"word"]) for _ in range(500)}
    assert len(found) > 450
    assert max(map(len, found)) <= LARGEST


def test_the_command_prints_its_figures_and_keeps_them(tmp_path, capsys):
    options = ("--kills", "0", "--inputs", "60", "--no-planted", "--results", str(tmp_path))
    assert main(["faults", *options]) == 0
    assert re.search(r"fuzz: \d+ inputs in \d+ s: 0 tracebacks or hangs", capsys.readouterr().out)
    found, problems = files.read_all(tmp_path)
    assert (list(found), problems) == (["fuzz"], [])
    assert found["fuzz"].faults == []
    path = tmp_path / "faults" / "fuzz.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    assert files.read_all(tmp_path) == (
        {},
        [f"figures {path} was changed after it was written (its hash does not fit)"],
    )


def test_a_finding_is_printed_and_fails_the_command(tmp_path, monkeypatch, capsys):
    broken = Target("made up", [b"good"], refuse(KeyError("x")))
    monkeypatch.setattr("tests.stress.fuzz.all_targets", lambda folder: [broken])
    assert main(["faults", "--kills", "0", "--inputs", "2", "--no-planted", "--results", str(tmp_path)]) == FAILED
    assert "FAULT made up, input 1: KeyError" in capsys.readouterr().out
