"""Clocks: how a call is timed on a CPU and on a GPU, and the rate that tells a machine's speed."""

import torch

from bench.core import timing


def test_repeats_stop_at_their_number_or_at_the_limit(monkeypatch):
    now, calls = [0.0], []
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def work():
        calls.append(now[0])
        now[0] += 2.0

    assert timing.repeat_seconds(work, torch.device("cpu"), 3, limit_s=9) == [2.0] * 3
    assert len(calls) == 4  # one to warm up
    assert timing.repeat_seconds(work, torch.device("cpu"), 9, limit_s=0) == [2.0]


class FakeEvent:
    """Stands in for an event of a GPU; 5 ms pass between two of them."""

    def __init__(self, enable_timing):
        assert enable_timing
        self.log = []

    def record(self, stream):
        self.log.append(stream)

    def elapsed_time(self, end):
        assert self.log == end.log == ["the current stream"]
        return 5.0


def test_a_gpu_is_timed_by_its_own_events_after_its_queue_is_empty(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "the current stream")
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    device = torch.device("cuda:0")
    assert timing.repeat_seconds(lambda: None, device, 4, limit_s=9) == [0.005] * 4
    assert waited == [device] * 8  # before and after each of the four


def test_the_rate_of_products_is_plausible_and_leaves_the_threads_alone():
    before = torch.get_num_threads()
    rate = timing.matmul_rate(torch.device("cpu"), 1)
    assert torch.get_num_threads() == before
    assert 1e8 < rate < 1e14
    assert rate == float(f"{rate:.3g}")
    assert timing.matmul_rate(torch.device("cpu"), 1) is rate  # measured once
