"""The commit that a record names."""

import subprocess

from bench.core import environment


def test_sources_inside_another_repository_have_no_commit(tmp_path, monkeypatch):
    for words in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    inside = tmp_path / "unpacked"
    inside.mkdir()
    found = {}
    for top in (tmp_path, inside):
        monkeypatch.setattr(environment, "TOP", top)
        environment.code_state.cache_clear()
        found[top] = environment.code_state().commit
    environment.code_state.cache_clear()
    assert len(found[tmp_path]) == 40
    assert found[inside] == ""


def test_a_wheel_says_whether_its_clone_differed_from_the_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "IS_CLONE", False)
    monkeypatch.setattr(environment, "COMMIT", tmp_path / "commit.txt")
    found = []
    for text in ("0123abc", "0123abc+", ""):
        environment.COMMIT.write_text(text)
        found.append(environment.code_state.__wrapped__())
    assert found == [("0123abc", False), ("0123abc", True), ("", False)]
