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
