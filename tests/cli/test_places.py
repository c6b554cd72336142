"""Which records a command reads if the user names none, and that it writes only to the user's folders."""

import shutil
from importlib.metadata import version

import pytest

from bench.cli import USAGE
from bench.cli.main import main
from bench.core import files, locks, project
from bench.core.errors import StoreError
from bench.core.folder import name_once
from bench.core.project import RESULTS
from bench.core.text import program

TELLS = f"reading what comes with the suite, in {RESULTS}\n"


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty folder, which is the current folder of the command."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "shown"),
    [(["verdict", "--json"], "feldman2018"), (["table", "accuracy"], "0.9800"), (["ablation", "mlp"], "0.98")],
)
def test_a_command_that_reads_takes_the_shipped_records_and_says_so(words, shown, elsewhere, capsys):
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert err == TELLS
    assert shown in out
    assert not list(elsewhere.iterdir())


def test_a_users_own_records_are_read_first_without_a_message(elsewhere, capsys):
    (elsewhere / "results" / "records").mkdir(parents=True)
    shutil.copy(RESULTS / "records" / "uniform.jsonl", elsewhere / "results" / "records")
    assert main(["table", "accuracy", "--baseline", "none"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "0.0980" in out
    assert "0.9797" not in out  # of mlp, which only the shipped records have


def test_an_ablation_shows_ones_own_records_beside_the_shipped_ones_and_a_line_says_so(elsewhere, capsys):
    (elsewhere / "results" / "records").mkdir(parents=True)
    shutil.copy(RESULTS / "records" / "dropout_fcn.jsonl", elsewhere / "results" / "records")
    assert main(["ablation", "mlp", "--results", str(RESULTS)]) == 0
    shipped = capsys.readouterr().out
    assert main(["ablation", "mlp"]) == 0  # of which the user has none
    out, err = capsys.readouterr()
    assert out == shipped
    what = "results has no finished record of mlp with profile full, cpu, float32"
    assert err == f"{what}: what is shown is of the shipped records\n"
    shutil.copy(RESULTS / "records" / "mlp.jsonl", elsewhere / "results" / "records")
    assert main(["ablation", "mlp"]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("yours, in results: ")
    assert "mine" in out
    assert main(["ablation", "mlp", "--baseline", "none"]) == 0
    assert capsys.readouterr().err == ""


def test_a_plan_says_whose_times_it_learns_from(elsewhere, capsys):
    words = ["plan", "uniform", "mlp", "--protocol", "common", "--recipe", "published"]
    assert main(words) == 0
    assert "times of 2 trained runs are learnt from the shipped records" in capsys.readouterr().out
    (elsewhere / "results" / "records").mkdir(parents=True)
    shutil.copy(RESULTS / "records" / "mlp.jsonl", elsewhere / "results" / "records")
    assert main([*words, "--seeds", "99,"]) == 0
    assert (
        "times of 1 trained run are learnt from the shipped records, the others from yours" in capsys.readouterr().out
    )


def test_a_command_that_makes_records_uses_the_users_folder(elsewhere, capsys):
    assert main(["plan", "uniform", "--profile", "smoke", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert '"state": "to do"' in out


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["ablation", "mlp", "--run"], "--results DIR"),
        (["baseline", "epoch1", "--run"], "--results DIR"),
    ],
)
def test_nothing_is_written_beside_the_shipped_records(words, option, elsewhere, capsys):
    assert main(words) == USAGE
    out, err = capsys.readouterr()
    expected = f"error: the shipped records are read-only; give {option}\n"
    assert (out, err) == ("", expected)


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (["table", "--write"], "tables/accuracy.md"),
        (["report", "--format", "csv"], "report/tables/accuracy.csv"),
        (["figures", "mistakes"], "figures/mistakes.svg"),
        (["ablation", "mlp", "--write"], "tables/ablation_mlp.md"),
    ],
)
def test_what_is_made_from_the_shipped_records_is_written_to_the_users_folder(words, written, elsewhere):
    assert main(words) == 0
    assert (elsewhere / "results" / written).is_file()
    assert not (elsewhere / "results" / "records").exists()


def test_an_installed_package_is_only_read(tmp_path, monkeypatch):
    """Functions that write or lock refuse a folder of the package, also if a link leads there."""
    package = tmp_path / "package"
    (package / "results").mkdir(parents=True)
    (tmp_path / "link").symlink_to(package / "results")
    monkeypatch.setattr(files, "IS_CLONE", False)
    monkeypatch.setattr(files, "TOP", package)
    for place in (package / "results", tmp_path / "link"):
        for act in (
            lambda place=place: files.write_atomically(place / "it.json", b""),
            lambda place=place: locks.lock(place, "0" * 64).__enter__(),
        ):
            with pytest.raises(StoreError, match="belongs to the installed package"):
                act()
    assert not list((package / "results").iterdir())
    files.write_atomically(tmp_path / "it.json", b"")


@pytest.mark.parametrize(
    "words", ["run uniform", "plan uniform", "status uniform", "ablation mlp", "gate", "table accuracy", "report"]
)
def test_a_results_folder_that_is_a_loop_of_links_is_one_line(words, tmp_path, capsys):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert main([*words.split(), "--results", str(tmp_path / "loop")]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "Too many levels of symbolic links" in line


def test_an_unknown_user_in_a_folder_of_approaches_is_one_line(tmp_path, monkeypatch, capsys):
    """The folder's own name begins with a tilde."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BNN_BENCH_APPROACHES", "~nosuchuser/x")
    (tmp_path / "~nosuchuser" / "x").mkdir(parents=True)
    assert main(["list", "--approach-path", "~nosuchuser/x"]) == 0
    assert "it holds no NAME.py" in capsys.readouterr().out


def test_a_path_that_begins_with_a_tilde_is_below_the_users_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine").mkdir()
    assert main(["data", "list", "--data-dir=~/mine"]) == 0
    assert main(["data", "list", "--data-dir=~/other"]) == USAGE
    assert "~/other is not a folder" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["status", "plan"])
def test_records_of_an_older_version_are_named_in_one_line(command, elsewhere, caplog):
    archive = RESULTS / "records" / "uniform.jsonl"
    folder = elsewhere / "results" / "records" / "uniform"
    folder.mkdir(parents=True)
    for number, line in enumerate(archive.read_bytes().splitlines()[:2]):
        (folder / f"{number}.json").write_bytes(line.replace(b'"schema":3', b'"schema":2'))
    main([command, "uniform", "--profile", "smoke", "--results", str(elsewhere / "results")])  # named once a process
    (message,) = [one.getMessage() for one in caplog.records]
    assert "2 records" in message
    assert "version 0.1 of this suite reads it" in message
    assert f"`{program()} run` makes it again" in message


@pytest.mark.parametrize(
    "words",
    [
        ["score", "FOLDER"],
        ["score", "MISSING"],
        ["predict", "FOLDER"],
        ["predict", "MISSING"],
        ["gate", "--junit", "MISSING/it.xml"],
        ["table", "--readme", "MISSING"],
        ["audit", "MISSING.py"],
        ["figures", "sure", "--to", "FILE"],
    ],
)
def test_a_file_that_cannot_be_used_is_named_once(words, elsewhere, capsys):
    (elsewhere / "FOLDER").mkdir()
    (elsewhere / "FILE").write_text("")
    if words[0] == "gate":
        (elsewhere / "MISSING").write_text("a file where a folder is needed")
    path = str(elsewhere / words[-1])
    assert main([*words[:-1], path]) == USAGE
    (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith("error: ")]
    assert line.count(path.removesuffix("/it.xml")) == 1


@pytest.mark.parametrize("called", ["bnn-bench", "python -m bench"])
@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["ablation", "toy_mlp"],
        ["list", "--nosuch"],
        ["predict", "it.png", "--approach", "mlp", "--results", "results", "--baseline", "none"],
        ["table", "methods_fashion", "--results", "results", "--baseline", "none"],
        ["status", "uniform", "--results", "results"],
    ],
)
def test_the_program_that_an_error_names_is_the_one_that_was_called(
    words, called, elsewhere, monkeypatch, caplog, capsys
):
    monkeypatch.setattr("sys.argv", [called if called == "bnn-bench" else "/clone/bench/__main__.py"])
    folder = elsewhere / "results" / "records" / "uniform"
    folder.mkdir(parents=True)
    line = (RESULTS / "records" / "uniform.jsonl").read_bytes().splitlines()[0]
    (folder / "0.json").write_bytes(line.replace(b'"schema":3', b'"schema":2'))
    name_once.cache_clear()
    main(words)
    said = " ".join([capsys.readouterr().err, *(one.getMessage() for one in caplog.records)])
    assert f"{called} " in said
    assert {"bnn-bench": "python -m bench", "python -m bench": "bnn-bench"}[called] not in said
    assert "`bench " not in said


def test_a_hint_to_install_keeps_the_tested_versions(monkeypatch):
    assert project.install("pyro") == "pip install -c constraints.txt -e '.[pyro]'"
    monkeypatch.setattr(
        project, "IS_CLONE", False
    )  # as in a wheel: whatever pip chooses, it keeps the PyTorch that is here
    assert project.install("pyro") == f"pip install torch=={version('torch')} 'bnn-uncertainty-bench[pyro]'"
