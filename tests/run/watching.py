"""For tests of runs: a watcher that keeps events, and results to compare."""

import numpy as np
import torch


class Recorder:
    """A watcher that keeps groups and events, and calls `act` with every event."""

    def __init__(self, act=lambda event: None):
        self.groups, self.events, self.act = [], [], act

    def begin(self, groups, done):
        self.groups = list(groups)

    def event(self, group, event):
        self.events.append(event)
        self.act(event)

    def finish(self):
        pass

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


def results(store):
    """Return the numbers, scores and posteriors of a store by the names of their trained runs, without times."""
    records, problems = store.all_records()
    assert problems == []
    found = {}
    for record in records:
        epochs = [(epoch.epoch, epoch.metrics) for epoch in record.epochs]
        learnt = store.read_tensors(store.fit_path(record.fit_key, "posterior"))[0]
        scores = store.scores(record)
        assert scores or (record.approach, record.protocol) != ("mlp", "common")
        name = (record.approach, record.recipe, record.protocol, record.seed)
        found[name] = (record.metrics, record.arrays, epochs, learnt, scores)
    return found


def assert_equal(left, right):
    assert left.keys() == right.keys()
    for name, (metrics, arrays, epochs, learnt, scores) in left.items():
        other = right[name]
        assert (metrics, arrays, epochs) == other[:3], name
        assert learnt.keys() == other[3].keys()
        assert all(torch.equal(value, other[3][key]) for key, value in learnt.items()), name
        assert scores.keys() == other[4].keys()
        assert all(np.array_equal(value, other[4][key]) for key, value in scores.items()), name
