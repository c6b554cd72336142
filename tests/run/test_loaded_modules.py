"""A run loads and calls few modules of the suite: what judges and shows is imported after the last record is stored."""

from tests.run.loaded import modules, n_lines

MOST_MODULES, MOST_LINES, MOST_CALLED = 85, 10_000, 60
AFTER = ("bench.judge", "bench.show", "bench.api", "bench.run.remote", "bench.cli.table", "bench.cli.ending")


def test_a_run_loads_and_calls_what_training_measuring_and_storing_need(tmp_path):
    found = modules(tmp_path, "run", "mlp", "--profile", "smoke")
    assert {"bench.cli.run", "bench.run.supervisor"} <= found.of_run
    assert {"bench.run.process", "bench.measure.protocols", "implementations.mlp"} <= found.of_children
    every = found.of_run | found.of_children
    assert [name for name in sorted(every) if name.startswith(AFTER)] == []
    assert len(every) <= MOST_MODULES, sorted(every)
    assert n_lines(every) <= MOST_LINES
    assert {"bench.run.supervisor", "bench.run.child", "implementations.mlp"} <= found.called
    assert len(found.called) <= MOST_CALLED, sorted(found.called)
