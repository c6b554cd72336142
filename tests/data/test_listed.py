"""Files with a list of hashes: `data verify` names each that is damaged or missing, in one line."""

import hashlib
import shutil

import pytest

from bench.cli import INCOMPLETE
from bench.cli import data as command
from bench.cli.main import main
from bench.core.project import REFERENCE
from bench.data.listed import LIST, listing, verify_listed


@pytest.fixture
def folder(tmp_path):
    """A copy of the reported numbers and of what is compared with them."""
    return shutil.copytree(REFERENCE, tmp_path / "reference")


def bad(folder):
    return [(check.file, check.missing, check.problem) for check in verify_listed((folder,)) if not check.ok]


def test_a_list_is_that_of_sha256sum(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "b").write_bytes(b"abc")
    (tmp_path / "inner" / "a").write_bytes(b"")
    abc, empty = (hashlib.sha256(content).hexdigest() for content in (b"abc", b""))
    assert listing(tmp_path) == f"{abc}  b\n{empty}  inner/a\n"
    (tmp_path / LIST).write_text(f"{abc} *b\n{empty}  inner/a\n")  # *: a file that was read as binary
    assert bad(tmp_path) == []


def test_each_flipped_byte_is_found(folder):
    names = [check.file for check in verify_listed((folder,))]
    assert bad(folder) == []
    assert "published.csv" in names
    for name in names:
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)
    assert [file for file, _, _ in bad(folder)] == names


def test_a_missing_file_a_link_and_a_path_outside_are_found(folder, tmp_path):
    (folder / "gate.toml").unlink()
    (folder / "papers.csv").rename(tmp_path / "papers.csv")
    (folder / "papers.csv").symlink_to(tmp_path / "papers.csv")
    digest = hashlib.sha256((tmp_path / "papers.csv").read_bytes()).hexdigest()
    with (folder / LIST).open("a") as file:
        file.write(f"{digest}  ../papers.csv\n")
    found = bad(folder)
    assert [(file, missing) for file, missing, _ in found] == [
        ("gate.toml", True),
        ("papers.csv", False),
        ("../papers.csv", False),
    ]
    for (_, _, problem), words in zip(found, ("No such file", "symbolic link", "lies outside"), strict=True):
        assert words in problem


@pytest.mark.parametrize("content", [None, "", "no hash  gate.toml\n", "\xff\n"])
def test_a_list_that_is_none_is_found(folder, content):
    (folder / LIST).unlink()
    if content is not None:
        (folder / LIST).write_text(content, encoding="latin-1")
    assert [(file, missing) for file, missing, _ in bad(folder)] == [(LIST, content is None)]


def test_the_command_names_a_damaged_file(folder, monkeypatch, capsys):
    monkeypatch.setattr(command, "verify", lambda names, data_dir: [])
    monkeypatch.setattr(command, "verify_listed", lambda: verify_listed((folder,)))
    assert main(["data", "verify"]) == 0
    number = (folder / "published.csv").read_text()
    (folder / "published.csv").write_text(number.replace("0.97", "0.98", 1))
    capsys.readouterr()
    assert main(["data", "verify"]) == INCOMPLETE
    told = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("ok")]
    line = " ".join(" ".join(told).split())  # folded to the width of the terminal
    assert line.startswith("FAIL")
    assert "published.csv: SHA-256" in line
