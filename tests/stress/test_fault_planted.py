"""Planted faults in real workers: a record with a reason, and the cells after it; all by `python -m bench faults`."""

from tests.stress.planted import LONGEST_ORPHAN_S, plant


def test_each_fault_is_a_record_with_a_reason_and_the_others_go_on():
    found = plant(("exception", "segfault", "memory", "not-a-number"), disks=False)
    assert found.faults == []
    assert {name: outcome for name, (outcome, _) in found.ends.items()} == {
        "exception": "failed",
        "segfault": "failed",
        "memory": "failed",
        "not-a-number": "diverged",
        "a posterior that does not fit on the disk": "done",
    }
    reason = found.ends["a posterior that does not fit on the disk"][1]
    assert "free space" in reason
    assert "cannot write .../" in reason  # where the trial was made is nobody's business
    assert found.orphan_s < LONGEST_ORPHAN_S
