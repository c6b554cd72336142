"""No file from outside can run code here. The syntax trees of all modules are searched for calls that could run it."""

import ast
from pathlib import Path

import pytest

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
    assert {path: told for path, told in found.items() if told} == {}


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
