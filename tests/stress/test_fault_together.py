"""Runs that share a folder."""

from tests.stress.together import run_together


def test_runs_that_share_a_folder_do_nothing_twice_and_take_over_from_the_killed():
    found = run_together()
    assert found.faults == []
    assert (found.killed, found.done_twice) == (1, 0)
    assert found.named >= 1
