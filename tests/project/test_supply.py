"""Packages: the locked files are those of the constraints, each with a hash, and what is asked for is among them."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)
EXTRAS = ("all", "bench", "dask", "libraries", "lint", "mxnet", "pyro", "test", "torchvision")
AGAIN = "run tox -e lock"


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(*names):
    return {plain(name): version for path in names for name, version in PIN.findall((ROOT / path).read_text())}


def test_every_locked_version_is_that_of_the_constraints_and_has_a_hash():
    locked, pinned = pins("constraints/hashes.txt"), pins("constraints/base.txt", "constraints.txt")
    pinned.setdefault("setuptools", locked["setuptools"])  # builds the package; any of its versions will do
    assert {name: pinned.get(name) for name in locked} == locked, AGAIN
    text = (ROOT / "constraints" / "hashes.txt").read_text()
    entries = [entry for entry in re.split(r"\n(?=\S)", text) if "==" in entry]
    assert len(entries) == len(locked)
    for entry in entries:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}(\s|$)", entry), entry.splitlines()[0]


def test_all_that_is_asked_for_is_locked_but_torch():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(text for name in EXTRAS for text in project["optional-dependencies"][name])]
    names = {plain(re.split(r"[\s\[<>=!~;]", text)[0]) for text in wanted}
    missing = names - pins("constraints/hashes.txt").keys() - {"torch", project["name"]}
    assert missing == set(), AGAIN


def test_a_wheel_holds_every_package():
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {file.parent for top in ("bench", "elbo_audit", "implementations") for file in (ROOT / top).rglob("*.py")}
    assert sorted(asked) == sorted(".".join(folder.relative_to(ROOT).parts) for folder in folders)
