"""The hosted workflow runs commands of .ci/run, word for word; README's links are those of pyproject's URLs."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from bench.core.project import VERSION
from bench.show.page.links import WHEEL, WORKFLOW, project_urls, published_links
from bench.show.tables.files import update_readme

TOP = Path(__file__).resolve().parents[2]
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
