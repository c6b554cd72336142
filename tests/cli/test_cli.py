"""The command line: exit codes, one-line errors, output for people and for machines."""

import dataclasses
import json
import re
import subprocess
import sys

import pytest

from bench.cli import INCOMPLETE, USAGE, data
from bench.cli.main import main
from bench.cli.options import seeds
from bench.core import timing
from bench.data.inventory import DatasetCheck
from bench.plan import costs
from tests.synthetic import write_records


@pytest.fixture(scope="module")
def mlp_smoke(tmp_path_factory):
    """Return a results folder with both records of one short fit."""
    root = tmp_path_factory.mktemp("results")
    choice = ["mlp", "--profile", "smoke", "--recipe", "published", "--results", str(root)]
    assert main(["run", *choice, "--executor", "inline", "--quiet", "--threads", "1"]) == 0
    return root


def lines(capsys):
    return capsys.readouterr().err.strip().splitlines()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "linear_bb"], "did you mean 'linear_bbb'"),
        (["run", "\x1b[2Jmlp"], r"unknown approach '\\x1b\[2Jmlp'"),  # no error moves the cursor
        (["run", "uniform", "--results", __file__], "is a file; give a results folder"),
        (["run"], "nothing chosen"),
        (["run", "--all", "mlp"], "not both"),
        (["run", "mlp", "--seeds", "-1"], "below 1"),
        (["run", "mlp", "--seeds", "0,-2"], "negative"),
        (["run", "mlp", "--seeds", "many"], "not numbers"),
        (["run", "mlp", "--profile", "ful"], "did you mean 'full'"),
        (["run", "mlp", "--protocol", "commn"], "did you mean 'common'"),
        (["run", "mlp", "--recipe", "corected"], "did you mean 'corrected'"),
        (["run", "mlp", "--device", "tpu"], "known: cpu, cuda"),
        (["run", "mlp", "--device", "cuda:99"], "CUDA devices"),
        (["run", "mlp", "--device", "cuda:²"], "known: cpu, cuda"),
        (["figures", "--device", "tpu", "--list"], "known: cpu, cuda"),
        (["run", "mlp", "--data-dir", "/no/folder"], "--data-dir: /no/folder is not a folder"),
        (["ablation", "mlp", "--data-dir", "/no/folder"], "--data-dir: /no/folder is not a folder"),
        (["audit", "mlp", "--data-dir", "/no/folder"], "--data-dir: /no/folder is not a folder"),
        (["run", "mlp", "--approach-path=~nosuchuser/x"], "--approach-path: ~nosuchuser/x is not a folder"),
        (["run", "mlp", "--executor", "inline", "--time-limit", "3"], "need a process for each fit"),
        (["run", "mlp", "--seeds", "0,0"], "contain a seed twice"),
        (["run", "mlp", "--seeds", ","], "not numbers"),
        (["run", "mlp", "--seeds", "4,,"], "not numbers"),
        (["verdict", "--results", "/no/folder"], "--results /no/folder is not a folder"),
        (["verdict", "--document", "feldman2018", "--recipe", "corrected"], "--recipe is for a number of your own"),
        (["run", "uniform", "--results", ""], "the name is empty"),
        (["report", "--output", ""], "the name is empty"),
        (["figures", "--to", ""], "the name is empty"),
        (["table", "--baseline", ""], "the name is empty"),
        (["compare", "", "."], "the name is empty"),
        (["gate", "--fresh", ""], "the name is empty"),
        (["data", "list", "--data-dir", ""], "the name is empty"),
        (["plan", "uniform", "--results", __file__], "is a file; give a results folder"),
        (["plan", "uniform", "--approach-path", __file__], "is not a folder"),
        (["predict", "a.png", "--results", __file__], "is a file"),
        (["predict", "a.png", "b.png", "--figure", "./b.png"], "give a .png or .svg that is none of the pictures"),
        (["table", "--list", "--write"], "--list does not go with --write"),
        (["table", "speed", "--list"], "--list does not go with speed"),
        (["table", "speed", "--readme", __file__], "leave out speed or --readme"),
        (["gate", "--baseline", "/no/folder"], "--baseline /no/folder does not fit"),
        (["ablation", "mlp", "--seeds", "3"], "--seeds is for --run"),
        (["ablation"], "no approach given: name one .*, or --all"),
        (["ablation", "--all", "mlp"], "give either --all or names"),
        (["ablation", "mpl"], "did you mean 'mlp'"),
        (["ablation", "mlp", "--data-set", "leters"], "did you mean 'letters'"),
        (["ablation", "mlp", "--profile", "ful"], "did you mean 'full'"),
        (["ablation", "toy_bbb"], "is not a classifier"),
        (["gate", "--threads", "0"], "below 1"),
        (["gate", "--fresh", "not-there"], "not a folder"),
        (["gate", "--gate", "none.toml", "--fresh", "."], "cannot be read"),
        (["gate", "--fresh", ".", "--workers", "2"], "--fresh judges an old one"),
        (
            ["verdict", "feldman2018.bbb.noise_entrop"],
            "nearest: feldman2018.bbb.noise_entropy, feldman2018.mlp.noise_e",
        ),
        (["verdict", "accuracy"], "several claims: rabanser2017.mxnet_bbb.epoch10.test_accuracy, rabanser2017-first-"),
        (["verdict", "--document", "nobody"], "nobody"),
        (["table", "calibration", "--profile", "smoke", "--only", "mine"], "no record with profile smoke"),
        (["table", "--check"], "name the document with --readme"),
        (["table", "--format", "md"], "--format md is for one table"),
        (["compare", ".", "--verify", "--json"], "--json does not apply to --verify"),
        (["audit", "documents", "--write"], "--write stores the audit of a library"),
        (["audit", "--library", "torchbnn", "--json"], "--json does not apply to --library"),
        (["audit", "--library", "torchbn"], "did you mean 'torchbnn'"),
        (["audit", "data", "--library", "torchbnn"], "leave out 'data'"),
        (["audit", "records", "data", "--results", "/no/folder"], "--results /no/folder is not a folder"),
        (["report", "--results", "/no/folder"], "--results /no/folder is not a folder"),
        (["status", "mlp", "--results", "a" * 300], "File name too long"),
        (["run", "mlp", "--approach-path", "b" * 300], "File name too long"),
        (["audit", "c" * 5000], "File name too long"),
        (["compare", "d" * 300, "/tmp"], "File name too long"),
        (["run", "mlp", "--precision", "tf32"], "device cpu, which has float32 and float64 only"),
        (["run", "mlp", "--precision", "float23"], "known: bf16, float32, float64, tf32; did you mean 'float32'"),
        (["table", "accuracy", "--precision", "bf61"], "did you mean 'bf16'"),
        (["run", "mlp", "--threads", "0"], "below 1"),
        (["run", "mlp", "--threads", "100000"], "above 1024"),
        (["run", "mlp", "--seeds", "99999999999"], "above 10000"),
        (["run", "mlp", "--seeds", "0,99999999999999999999"], "above 9223372036854775807"),
        (["run", "mlp", "--checkpoint-every", "-1"], "not a positive number"),
        (["run", "ml", "--checkpoint-every", "0.00"], "unknown approach"),  # 0 in any form is allowed
        (["run", "mlp", "--memory-limit", "0"], "not a positive number"),
        (["run", "mlp", "--quiet", "--json"], "not allowed with"),
        (["run", "mlp", "--time-limit", "-3"], "not a positive number"),
        (["run", "mlp", "--colour"], "--help"),
        (["run", "mlp", "--executor", "slurm"], "unknown executor"),
        (["submit", "mlp", "--to", "mine"], "submit is gone: .*compare FOLDER --verify"),
        (["ladder", "mlp"], "ladder is now called ablation"),
        (["rnu"], "did you mean 'run'"),
        (["run", "mlp", "--seed", "3"], "unrecognized arguments: --seed 3; did you mean '--seeds'"),
        (["data", "fetch", "mnist", "--fro", "x"], "did you mean '--from'"),
        (["table", "refusal", "--data-set", "leters"], "did you mean 'letters'"),
        (["table", "sure", "--data-set", "mnist"], "table sure has no data sets; leave --data-set out, or"),
        (["table", "sure", "--data-set", "all"], "table sure has no data sets; leave --data-set out, or"),
        (["table", "refusal", "--column", "refusd"], "did you mean 'refused'"),
        (["table", "--column", "refused"], "give its name"),
        (["table", "--all"], "give its name"),
        (
            ["table", "--format", "x" * 500],
            r"x\.\.\.x+' \(choose from 'text', 'md', 'csv', 'tex'\); see `python -m bench table",
        ),
        (
            ["run", "mlp", "--seeds", "x" * 500],
            r"\.\.\.x+' are not numbers; give .*; see `python -m bench run --help`$",
        ),
        (["--colour"], "unrecognized arguments: --colour"),
        (["compare", "results", "--verify", "."], r"unrecognized arguments: \.; see"),
        (["audit", "recrods"], "did you mean 'records'"),
        (["audit", "mlp", "data"], "'mlp' is not a part"),
        (["audit", "mlp", "--rule", "kl-sign"], "leave them out"),
        (["table", "accurcy"], "did you mean 'accuracy'"),
        (["data", "verify", "mnst"], "mnist"),
        (["data", "verfy"], "did you mean 'verify'"),
        (["run", "mlp", "--sedes", "3"], "did you mean '--seeds'"),
        (["table", "accuracy", "--format", "mdd"], "did you mean 'md'"),
        (["baseline", "ful"], "did you mean 'full'"),
        (["run", "mlp", "--executor", "dusk"], "known: dask://HOST:PORT, inline, process, tls://HOST:PORT"),
        (["run", "mlp", "--executor", "dask://nowhere"], "unknown executor"),
        (["run", "mlp", "--executor", "tls://127.0.0.1:1"], "tls://127.0.0.1:1 needs a certificate"),
        (["run", "mlp", "--executor", "inline", "--workers", "2"], "--workers is not for executor 'inline'"),
        (["run", "mlp", "--workers", "0"], "is not a count"),
        (["run", "mlp", "--workers", "2147483648"], "number of fits at a time 2147483648 is above 1000"),
        (["run", "mlp", "--workers", "٣"], "is not a count"),
        (["run", "mlp", "--workers", "  5 "], "is not a count"),
        (["run", "mlp", "--threads", "２"], "is not a number of threads"),
        (["run", "mlp", "--seeds", " 3"], "not numbers"),
        (["run", "mlp", "--seeds", "1_0"], "not numbers"),
        (["run", "mlp", "--time-limit", " 5"], "not a positive number"),
        (["run", "mlp", "--time-limit", "٣"], "not a positive number"),
        (["figures", "reliabilty"], "unknown figure 'reliabilty'"),
        (["figures", "--format", "gif"], "unknown format 'gif'"),
        (["figures", "sure", "--baseline", "none"], "figure 'sure' cannot be drawn: there is no finished record"),
    ],
)
def test_nonsense_is_one_line_and_exit_code_2(arguments, message, tmp_path, capsys):
    if arguments and (arguments[0] == "run" or {"none", "mine"} & {*arguments}):
        arguments = [*arguments, "--results", str(tmp_path)]
    assert main(arguments) == USAGE
    (line,) = lines(capsys)
    assert re.search(message, line)


@pytest.mark.parametrize(("text", "expected"), [("3", (0, 1, 2)), ("0,4,7", (0, 4, 7)), ("4,", (4,))])
def test_seeds_are_a_count_or_a_list(text, expected):
    assert seeds(text) == expected


PLANNING = ["list", "plan --all", "status --all"]
READING = ["list", "data list", "verdict", "ablation linear_bbb", "table accuracy"]
FRAMEWORKS = ["torch", "pyro", "mxnet", "scipy.stats", "pandas"]
WITHOUT = """
import functools, sys
sys.modules |= dict.fromkeys(sys.argv.pop(1).split(","))
from bench.cli.main import main
from bench.core.store import Store
# three commands read the records that come with the suite
read = functools.cache(lambda root, without, read=Store.all_records: read(Store(root), without))
Store.all_records = lambda store, without=(): read(store.root, without)
for command in sys.argv[1:]:
    if command.startswith(("table", "report")):
        sys.modules.pop("pandas", None)  # only tables need it
    print("$", command, main(command.split()))
"""


def test_reading_needs_no_framework(tmp_path):
    """A user must not wait seconds for PyTorch to see a table. None in `sys.modules` makes an import an error."""
    write_records(tmp_path, n_seeds=1)
    report = f"report --no-figures --baseline none --results {tmp_path}"
    words = [*READING, report, "--help"]  # the help ends the program, which is why it comes last
    assert codes_without(FRAMEWORKS, words) == [f"$ {one} 0" for one in words[:-1]]


def test_planning_needs_what_few_seconds_allow():
    """The keys of all trained runs are known without a framework, and the shipped results lack none of them."""
    heavy = [*FRAMEWORKS, "scipy", "matplotlib", "numba"]
    assert codes_without(heavy, [*PLANNING, "--help"]) == [f"$ {one} 0" for one in PLANNING]


def codes_without(packages, words):
    """Return the exit codes of commands in a process that cannot import these packages."""
    command = [sys.executable, "-c", WITHOUT, ",".join(packages), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [line for line in done.stdout.splitlines() if line.startswith("$")]


def test_run_ends_with_tables_and_code_0(tmp_path, capsys):
    assert main(["run", "uniform", "--profile", "smoke", "--results", str(tmp_path), "--executor", "inline"]) == 0
    captured = capsys.readouterr()
    assert "wiring fine: 1 of 1, in " in captured.out
    assert captured.err.count(": done in ") == 1
    assert "\x1b" not in captured.err + captured.out  # no colour codes where the output is no terminal
    assert (tmp_path / "tables" / "smoke" / "accuracy.csv").exists()


def test_an_unreadable_record_is_named_and_the_code_says_so(tmp_path, capsys):
    broken = tmp_path / "records" / "mlp" / "broken.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    assert main(["table", "accuracy", "--results", str(tmp_path), "--baseline", "none"]) == INCOMPLETE
    assert str(broken) in capsys.readouterr().err


def test_a_plan_without_own_records_uses_the_shipped_ones(mlp_smoke, capsys):
    assert main(["plan", "mlp", "linear_bbb", "--results", str(mlp_smoke), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trained_runs_of_unknown_length"] == 0


def test_a_plan_on_a_busy_machine_says_so_and_is_not_longer_for_it(tmp_path, capsys, monkeypatch):
    """This machine's measured rate is tiny here. A plan that was scaled by it would be a million times as long."""
    monkeypatch.setattr(timing, "matmul_rate", lambda device, threads: 1.0)
    monkeypatch.setattr(costs, "busy_cores", lambda threads: 1.8)
    choice = ["plan", "uniform", "toy_mlp", "--profile", "epoch1", "--results", str(tmp_path)]
    assert main([*choice, "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["busy_cores"] == 1.8
    assert planned["expected_s"] < 3600
    main(choice)
    assert "This machine is busy: other processes use 1.8 of " in capsys.readouterr().out


def test_an_optional_data_set_that_is_absent_is_no_failure(monkeypatch, capsys):
    absent = DatasetCheck("notmnist", "images", "not here; fetch it", missing=True, optional=True)
    checks = [DatasetCheck("mnist", "images"), absent]
    monkeypatch.setattr(data, "verify", lambda names, data_dir: checks)
    assert main(["data", "verify"]) == 0
    assert [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()] == ["ok", "absent (optional)"]
    checks[1] = dataclasses.replace(absent, optional=False)
    assert main(["data", "verify"]) == INCOMPLETE
    assert "FAIL" in capsys.readouterr().out


def test_a_stored_fit_costs_no_training(mlp_smoke, capsys):
    choice = ["mlp", "--profile", "smoke", "--recipe", "published", "--results", str(mlp_smoke)]
    for protocol in ("common", "published"):
        (path,) = (mlp_smoke / "records" / "mlp").glob(f"published__{protocol}__*.json")
        kept = path.read_bytes()
        path.unlink()
        capsys.readouterr()
        assert main(["plan", *choice, "--json"]) == 0
        (trained_run,) = [row for row in json.loads(capsys.readouterr().out)["trained runs"] if row["state"] == "to do"]
        assert trained_run["training"] == 0.0
        path.write_bytes(kept)


@pytest.mark.parametrize("command", ["list", "env"])
def test_listings_for_machines(command, capsys):
    assert main([command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
