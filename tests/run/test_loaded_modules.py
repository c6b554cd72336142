"""A run loads few modules of the suite: what judges and shows results is imported after the last record is stored."""

from tests.run.loaded import loaded, n_lines

MOST_MODULES, MOST_LINES = 85, 10_000
AFTER = ("bench.judge", "bench.show", "bench.api", "bench.run.remote", "bench.cli.table", "bench.cli.ending")


def test_a_run_loads_what_training_measuring_and_storing_need(tmp_path):
    found = loaded(tmp_path, "run", "mlp", "--profile", "smoke")
    assert {"bench.cli.run", "bench.run.supervisor"} <= found["run"]
    assert {"bench.run.process", "bench.measure.protocols", "implementations.mlp"} <= found["children"]
    every = found["run"] | found["children"]
    assert [name for name in sorted(every) if name.startswith(AFTER)] == []
    assert len(every) <= MOST_MODULES, sorted(every)
    assert n_lines(every) <= MOST_LINES
