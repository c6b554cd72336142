"""What is committed of results: tables that a document links, archives and metrics.csv, all of the records.

The hosted workflow runs commands of .ci/run, word for word; README's links are those of pyproject's URLs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path, PurePath

import numpy as np
import pytest
import yaml
from msgspec import structs

from bench.core.project import RESULTS, VERSION
from bench.core.records import Record
from bench.core.store import Store
from bench.show.inputs import Inputs
from bench.show.page.links import WHEEL, WORKFLOW, project_urls, published_links
from bench.show.tables.files import update_readme
from bench.show.tables.registry import one_table
from bench.show.tables.render import render
from tools import archive

TOP = Path(__file__).resolve().parents[2]
TABLES = "results/tables"
LINK = re.compile(rf"\]\((?:\.\./)?{TABLES}/([\w.]+)")


def linked() -> list[str]:
    """Return the names of the files of tables that a document links."""
    texts = [page.read_text(encoding="utf-8") for page in (TOP / "README.md", *(TOP / "docs").glob("*.md"))]
    return sorted({name for text in texts for name in LINK.findall(text)})


@pytest.fixture(scope="module")
def inputs():
    return Inputs(RESULTS)


def test_the_committed_tables_are_those_that_a_document_links():
    listing = subprocess.run(["git", "ls-files", TABLES], cwd=TOP, capture_output=True, text=True, check=True).stdout
    committed = sorted(Path(line).name for line in listing.splitlines())
    assert committed == linked(), f"git rm what no document links; git add -f {TABLES}/NAME.md what one does"


@pytest.mark.parametrize("name", linked())
def test_a_committed_table_is_that_of_the_records(name, inputs):
    path = TOP / TABLES / name
    made = render(one_table(inputs, path.stem), path.suffix.removeprefix("."))
    assert path.read_text(encoding="utf-8") == made, "run python -m bench table --write"


MOST = 50_000  # bytes that a record may add to a clone beside its own scores
GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org")


def test_metrics_csv_is_that_of_the_archives():
    records, problems = Store(RESULTS).all_records()
    assert problems == []
    assert (RESULTS / archive.METRICS).read_bytes() == archive.metrics_csv(records)


def test_only_archives_are_committed():
    assert [path for kind in ("records", "derived_metrics") for path in (RESULTS / kind).glob("*/*.json")] == []


def packed_size(repository: Path) -> int:
    """Commit everything, and return the bytes of the repository's one pack."""
    for words in (("add", "-A"), ("commit", "-qm", "x"), ("gc", "-q", "--aggressive", "--prune=now")):
        subprocess.run([*GIT, "-C", str(repository), *words], check=True, capture_output=True)
    (pack,) = repository.glob(".git/objects/pack/*.pack")
    return pack.stat().st_size


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_one_more_record_adds_at_most_fifty_kilobytes_beside_its_scores(tmp_path):
    """The record is one of ours with other numbers in every metric, so that nothing but the archives' form is saved."""
    for name in ("records/mlp.jsonl", "records/mlp.npz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(RESULTS / name, tmp_path / name)
    archive._archive(tmp_path)
    subprocess.run([*GIT, "init", "-q", str(tmp_path)], check=True, capture_output=True)
    before = packed_size(tmp_path)
    store = Store(tmp_path)
    records, _ = store.all_records()
    old = next(one for one in records if one.combination == ("mlp", "corrected", "common") and store.scores(one))
    scores = {name: _others(values) for name, values in store.scores(old).items()}
    path = store.write(_with_other_numbers(old), scores)
    own_scores = path.with_suffix(".npz").stat().st_size
    archive._archive(tmp_path)
    assert len(Store(tmp_path).all_records()[0]) == len(records) + 1
    assert packed_size(tmp_path) - before - own_scores <= MOST


def _others(values: np.ndarray) -> np.ndarray:
    return values[np.random.default_rng(0).permutation(len(values))]


def _with_other_numbers(old: Record) -> Record:
    draw = np.random.default_rng(0)
    metrics = {name: None if value is None else value * draw.uniform(0.9, 1.0) for name, value in old.metrics.items()}
    return structs.replace(old, metrics=metrics, key="f" * 64, fit_key="e" * 64)


# packages: the locked files are those of the constraints, and what is asked for is among them

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)
EXTRAS = ("all", "bench", "dask", "ivon", "libraries", "lint", "mxnet", "pyro", "test", "torchvision", "uci")
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


def test_a_wheel_holds_every_other_file_of_the_packages():
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    patterns = [f"{package.replace('.', '/')}/{name}" for package, names in asked.items() for name in names]
    listing = ["git", "ls-files", "bench", "elbo_audit", "implementations"]
    committed = subprocess.run(listing, cwd=TOP, capture_output=True, text=True, check=True).stdout.splitlines()
    others = [name for name in committed if not name.endswith(".py")]
    assert others
    assert [name for name in others if not any(PurePath(name).match(one) for one in patterns)] == []


TEXT = (TOP / WORKFLOW).read_text()
README = (TOP / "README.md").read_text()


def commands_of_ci():
    """Return the lines of .ci/run, and those of README's test command, which it runs."""
    block = re.search(r"<!-- command:test -->\n```\n(.*?)```", README, re.DOTALL)
    return {line.strip() for line in ((TOP / ".ci" / "run").read_text() + "\n" + block[1]).splitlines()}


def steps(text):
    return [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]


def foreign_commands(text):
    """Return the commands of a workflow that .ci/run does not run."""
    lines = [line.strip() for step in steps(text) for line in step.get("run", "").splitlines()]
    assert lines
    return sorted(set(lines) - commands_of_ci())


def test_every_command_is_one_of_the_ci_word_for_word():
    assert foreign_commands(TEXT) == []
    variable = re.search(r"^python=(.*)$", (TOP / ".ci" / "run").read_text(), re.MULTILINE)
    assert yaml.safe_load(TEXT)["env"] == {"python": variable[1]}


@pytest.mark.parametrize("was", ["-n 2 --dist worksteal", "ruff check .", "report --output build/site/index.html"])
def test_a_command_of_another_wording_is_named(was):
    assert was in TEXT
    (named,) = foreign_commands(TEXT.replace(was, f"{was} --more"))
    assert named.endswith("--more")


def test_it_runs_the_tests_and_keeps_the_wheel_and_the_page():
    text = "\n".join(str(step) for step in steps(TEXT))
    for part in ("-m pytest", "bench report --output build/site/index.html", "pip wheel", "build/site/*.whl"):
        assert part in text
    used = [step["uses"].partition("@")[0] for step in steps(TEXT) if "uses" in step]
    assert {"actions/upload-artifact", "actions/upload-pages-artifact", "actions/deploy-pages"} <= {*used}


def test_actions_are_pinned_by_tags_which_the_head_says_and_one_job_alone_may_write():
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]) for step in steps(TEXT) if "uses" in step)
    head = " ".join(line.removeprefix("# ") for line in TEXT.splitlines() if line.startswith("# "))
    assert "pinned by tags and not by commits, because a commit cannot be checked offline" in head
    workflow = yaml.safe_load(TEXT)
    assert workflow["permissions"] == {"contents": "read"}
    writing = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
    assert writing == {"publish": {"pages": "write", "id-token": "write"}}


def test_links_are_those_of_the_urls_and_left_out_where_there_is_none():
    assert published_links({}) == ""
    runs = "https://example.org/a/actions/workflows/ci.yml"
    badge = f"[![tests]({runs}/badge.svg)]({runs})"
    assert published_links({"Repository": "https://example.org/a/"}) == badge
    page = f"[The results on one page](https://p.example/). Without a clone: `pip install https://p.example/{WHEEL}`"
    assert published_links({"Page": "https://p.example"}) == page
    assert published_links({"Page": "https://p.example/", "Repository": "https://example.org/a"}) == f"{badge} {page}"


def test_readme_has_the_links_of_pyproject():
    urls = tomllib.loads((TOP / "pyproject.toml").read_text())["project"].get("urls", {})
    assert project_urls() == urls
    block = re.search(r"<!-- finding:links -->(.*?)<!-- /finding -->", README, re.DOTALL)
    assert block[1].strip() == published_links(urls)


def test_urls_fill_a_readme(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- finding:links -->\n<!-- /finding -->")
    assert not update_readme(page, {}, {"links": published_links({})})
    assert update_readme(page, {}, {"links": published_links({"Page": "https://p.example"})})
    assert "](https://p.example/)" in page.read_text()


def test_the_wheel_has_the_name_that_the_link_has():
    """PEP 427: name with underscores, version, and the tags of a wheel of pure Python."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    assert f"{project['name'].replace('-', '_')}-{VERSION}-py3-none-any.whl" == WHEEL
