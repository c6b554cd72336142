"""Planted faults in real workers: a record with a reason, and the cells after it."""

from bench.faults.planted import plant


def test_each_fault_is_a_record_with_a_reason_and_the_others_go_on():
    found = plant(("exception", "segfault", "memory", "not-a-number"))
    assert found.faults == []
    assert {name: outcome for name, (outcome, _) in found.ends.items()} == {
        "exception": "failed",
        "segfault": "failed",
        "memory": "failed",
        "not-a-number": "diverged",
        "no byte can be written": "failed",
        "the posterior does not fit": "done",
        "records cannot be written": "failed",
    }
    assert "free space" in found.ends["no byte can be written"][1]
