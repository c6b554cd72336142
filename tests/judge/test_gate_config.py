"""The gate's file: the committed one, files with mistakes, the first one of an approach of one's own, and its gate."""

import json
import shlex
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench.cli import FAILED, INCOMPLETE, USAGE
from bench.cli.main import main
from bench.core.errors import ConfigError
from bench.judge.claims import load_claims
from bench.judge.gate.config import GONE, MORE, load_gate
from bench.plan import plugins, registry
from bench.plan.manifests import DOCUMENTS
from bench.plan.registry import manifests, of_group
from tests.gate_folders import folders, gate_file
from tests.judge.test_gate import PUBLISHED, TOY, change, command, judged, replace

ROOT = Path(__file__).resolve().parents[2]
OLD = """
[repeat]
seed = 0
cells = ["mlp/published/common"]
[splits]
train60k = "3f"
[[waiver]]
cell = "mlp/published/common"
until = 2030-01-31
reason = "r"
"""


def test_the_committed_file_gates_both_recipes_of_every_approach_of_the_documents():
    gate = load_gate()
    names = {trained_run.name for trained_run in gate.trained_runs}
    for name, entry in of_group(DOCUMENTS).items():
        if entry.task == "mnist" and entry.document:
            assert {f"{name}/published/common", f"{name}/corrected/common"} <= names
    assert {"toy_mlp/published/published", "toy_bbb/published/published"} <= names
    assert gate.baseline_seeds == 8


def test_margins_of_the_training_losses_are_those_of_the_claims():
    claims = {
        (claim.approach, claim.metric): claim.margin for claim in load_claims() if claim.stage in ("epoch:1", "step:0")
    }
    compared = 0
    for trained_run in load_gate().trained_runs:
        for metric in trained_run.metrics:
            margin = claims.get((trained_run.approach, metric.key.rsplit("/", 1)[-1]))
            if margin and trained_run.recipe == "published" and metric.reason.startswith("as the claim:"):
                assert metric.margin == pytest.approx(margin, rel=0.02), metric.key
                compared += 1
    assert compared >= 5


def test_the_keys_of_an_old_file_are_named_in_one_line(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_gate(gate_file(tmp_path, more=OLD))
    (line,) = str(caught.value).splitlines()
    assert all(f"{name} ({instead})" in line for name, instead in GONE.items() if name != "reference_seeds")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema = 1", "schema = 2", "schema: '2'; known: 1"),
        ('profile = "epoch1"', 'profile = "epoch2"', "did you mean 'epoch1'"),
        ('device = "cpu"', 'device = ""', "device: '' given; give a text$"),
        ('precision = "float32"', 'precision = "float23"', "did you mean 'float32'"),
        ("alpha = 0.05", "alpha = 1.5", "alpha: 1.5"),
        ("baseline_seeds = 8", "reference_seeds = 8", "reference_seeds .its name is now baseline_seeds"),
        ("baseline_seeds = 8", "baseline_seeds = 3", "whole number >= 8"),
        ("[1000, 1001, 1002]", "[1000]", "list of length >= 2"),
        ("[1000, 1001, 1002]", "[1000, 1000]", "fresh seed 1000 appears twice"),
        ("[1000, 1001, 1002]", "[1000, -1]", "fresh_seeds #2: -1 given; give a whole number >= 0"),
        ("[1000, 1001, 1002]", f"[1000, {2**63 - MORE}]", f"give a whole number <= {2**63 - 1 - MORE}"),
        ('device = "cpu"', 'device = "gpu"', "device 'gpu' is unknown; known: cpu, cuda, cuda:N$"),
        ("seeds = 2", "seeds = 4", "at most 3"),
        ("seeds = 2", "seeds = 1", "gated #2.seeds: 1 given; give a whole number >= 2"),
        ('"toy_bbb"', '"toy_bb"', "did you mean 'toy_bbb'"),
        ('["published", "corrected"]', '["published", "corect"]', "recipe of mlp"),
        ('["published", "corrected"]', '["published", "published"]', "name each once"),
        ('["published", "corrected"]', "[]", "list of length >= 1"),
        ('protocol = "common"', 'protocol = "usual"', "known: common, published"),
        ("margin = 0.02", "margin = -1", "margin: -1"),
        ('reason = "r"', 'reason = " "', "a text"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, old, new, message):
    with pytest.raises(ConfigError, match=message):
        load_gate(gate_file(tmp_path, old=old, new=new))


def test_a_ci_run_that_ends_before_its_gate_leaves_no_earlier_gates_files(tmp_path):
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "README.md").write_text("<!-- command:test -->\n```\nfalse\n```\n")
    old = tmp_path / "build" / "ci" / "gate.xml"
    old.parent.mkdir(parents=True)
    old.write_text("<testsuite/>")
    ended = subprocess.run(["bash", str(tmp_path / ".ci" / "run")], capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    assert "README's test command" in ended.stdout
    assert not old.exists()


EXAMPLE = ROOT / "examples" / "my_dropout"
MEAN_NLL = '{ key = "mnist/mean_network/nll", margin = 0.02, reason = "r" }'
METRICS = '    { key = "mnist/nll", margin = 0.02, reason = "r" },\n'
WITH_MEAN = {"old": METRICS, "new": f"{METRICS}    {MEAN_NLL},\n"}
UNOFFERED = {"mnist/mean_network/nll": {"kind": "unsupported", "values": {"message": "it has no mean network"}}}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """An empty folder to work in, with the example in its folder `mine`, which no variable names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(plugins.VARIABLE, "")
    registry._look.cache_clear()
    (tmp_path / "mine").mkdir()
    for suffix in (".py", ".toml"):
        shutil.copy(EXAMPLE.with_suffix(suffix), tmp_path / "mine")
    yield tmp_path
    registry._look.cache_clear()


def words_of(line):
    """Return the words of a command line that the gate printed, after `python -m bench`."""
    python, dash, bench, *words = shlex.split(line)
    assert (python, dash, bench) == ("python", "-m", "bench")
    return words


def test_an_approach_of_ones_own_gets_a_gate_that_sees_twice_the_learning_rate(mine, capsys, monkeypatch):
    assert main(["gate", "--init", "my_dropout", "--approach-path", "mine", "--profile", "smoke"]) == 0
    written, *lines = capsys.readouterr().out.splitlines()
    assert written.startswith("wrote gate.toml")
    run, gate = map(words_of, lines)
    assert main([*run, "--executor", "inline", "--threads", "1", "--quiet"]) == 0
    monkeypatch.setenv(plugins.VARIABLE, "")  # as for the next command of a user: the option alone names the folder
    assert main([*gate, "--threads", "1", "--quiet"]) == 0
    assert "gate passed: 2 pass" in capsys.readouterr().out
    code = mine / "mine" / "my_dropout.py"
    code.write_text(code.read_text().replace("self.learning_rate * g", "2 * self.learning_rate * g"))
    assert main([*gate, "--threads", "1", "--quiet"]) == FAILED
    assert "fail: my_dropout/published/common mnist/nll" in " ".join(capsys.readouterr().out.split())


def test_a_file_that_is_there_is_not_overwritten(mine, capsys):
    (mine / "gate.toml").write_text("mine")
    assert main(["gate", "--init", "mlp"]) == USAGE
    assert "gate.toml is there already; remove it, or give another name with --gate" in capsys.readouterr().err
    assert (mine / "gate.toml").read_text() == "mine"
    assert main(["gate", "--init", "mlp", "--gate", "mlp.toml"]) == 0
    assert "gate --gate mlp.toml" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--init", "mpl"], "did you mean 'mlp'"),
        (["--init", "mlp", "--profile", "epoch2"], "did you mean 'epoch1'"),
        (["--init", "toy_bbb", "--profile", "smoke_fashion"], "toy_bbb/published/common: the selection holds no"),
        (["--profile", "smoke"], "--profile is for --init"),
        (["--init", "mlp", "--fresh", "."], "not allowed with"),
    ],
)
def test_what_no_file_can_be_written_for(mine, words, message, capsys):
    assert main(["gate", *words]) == USAGE
    assert message in capsys.readouterr().err
    assert not (mine / "gate.toml").exists()


def test_every_approach_of_the_suite_gets_a_file_that_can_be_read(mine):
    for name in manifests():
        assert main(["gate", "--init", name, "--gate", f"{name}.toml"]) == 0
        gate = load_gate(mine / f"{name}.toml")
        assert {row.approach for row in gate.gated} == {name}


def test_all_mistakes_are_told_at_once(tmp_path):
    path = gate_file(tmp_path)
    wrong = {
        'profile = "epoch1"': 'profile = "epoch2"',
        "alpha = 0.05": "alpha = 1.5",
        "limit_s = 720": "limits = 720",
        "[1000, 1001, 1002]": "[1000, 1000]",
        '"corrected"]': '"corect"]',
        "margin = 0.1,": "margin = -1,",
        '"toy_bbb"': '"toy_bb"',
        "seeds = 2": "seeds = 4",
    }
    text = path.read_text()
    for old, new in wrong.items():
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_gate(path)
    answer = str(caught.value)
    assert answer.count(str(path)) == 1
    for words in (
        *("unknown profile 'epoch2'", "alpha: 1.5 given", "did you mean 'limit_s'", "fresh seed 1000 appears twice"),
        *("mlp/corect/common: unknown recipe of mlp 'corect'", "gated #2.metrics #1.margin: -1 given"),
        *("unknown approach 'toy_bb'", "toy_bb/published/common asks for 4 seeds; give at most 2"),
    ):
        assert words in answer
    assert answer.count("; also: ") == len(wrong) - 1


def test_a_value_of_another_type_hides_no_wrong_name_and_adds_none(tmp_path):
    path = gate_file(tmp_path, old='"toy_bbb"', new='"toy_bb"')
    path.write_text(path.read_text().replace("[1000, 1001, 1002]", '"many"').replace("seeds = 2", "seeds = 9"))
    with pytest.raises(ConfigError) as caught:
        load_gate(path)
    first, second = str(caught.value).split("; also: ")
    assert "fresh_seeds: 'many' given" in first
    assert "unknown approach 'toy_bb'" in second


def test_a_number_that_the_method_does_not_have_is_counted_apart(tmp_path, capsys):
    path, _, baseline, fresh = folders(tmp_path, **WITH_MEAN)
    for store in (baseline, fresh):
        replace(store, "mlp/*", missing=UNOFFERED)
    code, bad, found = judged(tmp_path, path, capsys)
    name = f"{PUBLISHED} mnist/mean_network/nll"
    apart = {one: state for one, state in bad.items() if state == "not applicable"}
    assert (code, bad) == (0, apart)
    assert name in apart
    assert "it has no mean network" in json.dumps(found)
    assert command(tmp_path, path, "--junit", str(tmp_path / "gate.xml")) == 0
    answer = " ".join(capsys.readouterr().out.split())
    assert f"gate passed: 5 pass, {len(apart)} not applicable" in answer
    suite = ET.parse(tmp_path / "gate.xml").getroot()
    assert suite.get("skipped") == str(len(suite.findall("testcase/skipped"))) == str(len(apart))


@pytest.mark.parametrize("side", ["baseline", "fresh"])
def test_a_number_that_one_side_alone_does_not_have_is_missing(tmp_path, side, capsys):
    path, _, baseline, fresh = folders(tmp_path, **WITH_MEAN)
    for store, name in ((baseline, "baseline"), (fresh, "fresh")):
        said = {"missing": UNOFFERED} if name == side else {"metrics": {"mnist/mean_network/nll": 0.3}}
        change(store, "mlp/*", **said)
    code, bad, _ = judged(tmp_path, path, capsys)
    assert (code, bad[f"{PUBLISHED} mnist/mean_network/nll"]) == (INCOMPLETE, "missing")


def test_a_seed_without_a_record_is_missing_also_where_the_number_is_not_offered(tmp_path, capsys):
    path, _, baseline, fresh = folders(tmp_path, **WITH_MEAN)
    for store in (baseline, fresh):
        replace(store, "mlp/*", missing=UNOFFERED)
    for file in fresh.records.glob("mlp/published*seed1001*"):
        file.unlink()
    code, bad, _ = judged(tmp_path, path, capsys)
    assert (code, bad[f"{PUBLISHED} mnist/mean_network/nll"]) == (INCOMPLETE, "missing")


def test_a_gate_of_which_nothing_applies_does_not_pass(tmp_path, capsys):
    path, _, baseline, fresh = folders(tmp_path)
    for store in (baseline, fresh):
        replace(store, "toy_bbb/*", metrics={}, missing={"toy/rmse": UNOFFERED["mnist/mean_network/nll"]})
    start, *_, toy = path.read_text().split("[[gated]]")
    path.write_text(f"{start}[[gated]]{toy}")
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, {TOY: "not applicable"})
