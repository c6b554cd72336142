"""Runs of several seeds: which are fitted together, what is not done twice, and the effects of a bad seed or a kill."""

import json
import os
import socket
from functools import partial

import pytest
import torch

import implementations.toy_mlp
from bench.cli.main import main
from bench.core import locks
from bench.core.reasons import Reason, in_words
from bench.core.store import Store
from bench.data.splits import load_split
from bench.plan import seed_batches
from bench.plan.costs import estimate
from bench.plan.trained_runs import Selection, trained_runs
from bench.run import fitting
from bench.run.events import EpochEnded, Measuring, Options, Recorded, Started, Waiting
from bench.run.recording import existing, why_again
from tests import synthetic
from tests.run.toys import another_run_holds, close, go, ill_seed, numbers, published, records, stopped

pytestmark = pytest.mark.usefixtures("short_intervals")


@pytest.mark.parametrize(
    ("names", "protocols"), [(("toy_mlp", "toy_bbb"), ("published", "common")), (("linear_bbb", "mlp"), ("published",))]
)
def test_seeds_together_have_the_numbers_of_each_alone(tmp_path, names, protocols):
    chosen = {"recipes": ("published",), "protocols": protocols, "seeds": (0, 1)}
    results, watcher = go(tmp_path / "together", *names, **chosen)
    assert {result.outcome for result in results} == {"done"}
    assert [result.trained_run.seed for result in results[: len(protocols)]] == [0] * len(
        protocols
    )  # in the order given
    assert [event.seeds for event in watcher.of(EpochEnded)] == [2] * len(names)
    _, watcher = go(tmp_path / "apart", *names, **chosen, apart=True)
    assert [event.seeds for event in watcher.of(EpochEnded)] == [1] * 2 * len(names)
    together, apart = records(tmp_path / "together"), records(tmp_path / "apart")
    assert together.keys() == apart.keys()
    for key, record in together.items():
        close(record, apart[key])
        assert record.fit_key == apart[key].fit_key  # how seeds are trained is a fact, not part of the key
        assert (record.timings.batched, apart[key].timings.batched) == (2, None)
        assert record.model == apart[key].model


def test_seeds_together_have_the_same_numbers_in_a_child_process(tmp_path):
    results, _ = go(tmp_path / "there", "toy_mlp", seeds=(3, 1), executor="process")
    assert {result.outcome for result in results} == {"done"}
    go(tmp_path / "here", "toy_mlp", seeds=(3, 1))
    here, there = records(tmp_path / "here"), records(tmp_path / "there")
    assert here.keys() == there.keys()
    for key, record in here.items():
        close(record, there[key])


def test_seeds_together_learn_from_the_split_of_each():
    chosen = trained_runs(
        Selection(approaches=("dropout_fcn",), recipes=("published",), protocols=("common",), seeds=(3, 1))
    )
    train, rows, _ = fitting._load_train(chosen, Options("unused"))
    for own, trained_run in zip(rows, chosen, strict=True):
        assert torch.equal(train.rows[own], load_split("train50k", trained_run.seed).rows)


def test_times_of_seeds_together_are_shares_that_do_not_count(tmp_path):
    go(tmp_path, "toy_mlp", profile="full")
    found = list(records(tmp_path).values())
    go(tmp_path / "alone", "toy_mlp", seeds=(0,), profile="full")
    for record in found:
        timings = record.timings
        assert timings.batched == 3
        assert not timings.valid
        assert timings.reasons[0] == Reason("seeds-together", {"n": 2})
        assert timings.fit_s == pytest.approx(sum(epoch.seconds for epoch in record.epochs))
        assert timings.fit_s == found[0].timings.fit_s  # equal shares
    for record in records(tmp_path / "alone").values():
        assert record.timings.batched is None
        assert "together" not in in_words(*record.timings.reasons)


def test_a_second_call_does_nothing_whether_seeds_were_fitted_together_or_alone(tmp_path):
    first, _ = go(tmp_path, "toy_mlp")
    for options in ({}, {"seeds": (1,)}, {"seeds": (2, 0)}):
        again, watcher = go(tmp_path, "toy_mlp", **options)
        assert all(result.was_there for result in again)
        assert watcher.events == []
    apart, watcher = go(tmp_path, "toy_mlp", apart=True)
    assert all(result.was_there for result in apart)
    assert len(list(tmp_path.glob("records/toy_mlp/*.json"))) == len(first)


def test_only_missing_seeds_are_trained_and_one_missing_seed_alone(tmp_path):
    go(tmp_path, "toy_mlp", seeds=(1,))
    before = {path: path.read_bytes() for path in tmp_path.glob("records/*/*.json")}
    results, watcher = go(tmp_path, "toy_mlp", seeds=(0, 1, 2))
    assert [event.seeds for event in watcher.of(EpochEnded)] == [2]
    assert [result.was_there for result in results] == [result.trained_run.seed == 1 for result in results]
    assert all(path.read_bytes() == content for path, content in before.items())
    _, watcher = go(tmp_path, "toy_mlp", seeds=(0, 1, 2, 3))
    assert [event.seeds for event in watcher.of(EpochEnded)] == [1]
    found = records(tmp_path)
    assert len(found) == 8
    batched = {seed: record.timings.batched is not None for (_, seed, _), record in found.items()}
    assert batched == {0: True, 1: False, 2: True, 3: False}


def test_a_deleted_record_is_measured_again_without_training(tmp_path):
    go(tmp_path, "toy_mlp")
    path = next(tmp_path.glob("records/toy_mlp/published__common__smoke__seed1__*.json"))
    before = json.loads(path.read_text())["metrics"]
    path.unlink()
    _, watcher = go(tmp_path, "toy_mlp")
    assert watcher.of(EpochEnded) == []
    assert [type(event) for event in watcher.events] == [Started, Measuring, Recorded]
    assert json.loads(path.read_text())["metrics"] == before


def test_large_requests_are_split(tmp_path):
    size = seed_batches.LARGEST["cpu"]
    for n_seeds, expected in ((size, [size]), (size + 1, [size, 1]), (2 * size + 3, [size, size, 3])):
        chosen = trained_runs(Selection(approaches=("toy_mlp",), seeds=tuple(range(n_seeds))))
        groups = seed_batches.arrange(chosen, Store(tmp_path))
        assert [len(seed_batches.fit_keys(group)) for group in groups] == expected
        assert [trained_run.key for group in groups for trained_run in group] == [
            trained_run.key for trained_run in chosen
        ]


def test_finished_seeds_do_not_move_others_to_another_seed_batch(tmp_path):
    """The checkpoint of seeds 8 to 15 is found again, although seeds 0 to 3 have finished meanwhile."""
    size = seed_batches.LARGEST["cpu"]
    chosen = trained_runs(Selection(approaches=("toy_mlp",), seeds=tuple(range(2 * size))))
    before = seed_batches.arrange(chosen, Store(tmp_path))
    finished = {trained_run.key for trained_run in chosen if trained_run.seed < size // 2}
    after = seed_batches.arrange(chosen, Store(tmp_path), finished)
    assert [len(seed_batches.fit_keys(group)) for group in after] == [size // 2, size]
    assert seed_batches.checkpoint_key(after[1]) == seed_batches.checkpoint_key(before[1])


def test_approaches_without_the_capability_are_fitted_one_by_one(tmp_path):
    chosen = trained_runs(Selection(approaches=("uniform",), seeds=(0, 1)))
    assert seed_batches.arrange(chosen, Store(tmp_path)) == [[trained_run] for trained_run in chosen]


def test_a_diverging_seed_does_not_affect_the_others(tmp_path, monkeypatch):
    go(tmp_path / "healthy", "toy_mlp")
    healthy = records(tmp_path / "healthy")
    ill_seed(monkeypatch, 1)
    results, _ = go(tmp_path, "toy_mlp")
    assert {(result.trained_run.seed, result.outcome) for result in results} == {
        (0, "done"),
        (1, "diverged"),
        (2, "done"),
    }
    assert all("nan in epoch 1" in result.reason for result in results if result.trained_run.seed == 1)
    for key, record in records(tmp_path).items():
        if key[1] != 1:
            assert numbers(record) == numbers(healthy[key])
    again, watcher = go(tmp_path, "toy_mlp")
    assert all(result.was_there for result in again)
    assert watcher.events == []


def test_all_seeds_diverge(tmp_path, monkeypatch):
    ill_seed(monkeypatch, 0, 1, 2)
    results, watcher = go(tmp_path, "toy_mlp", profile="full")
    assert {result.outcome for result in results} == {"diverged"}
    assert watcher.of(EpochEnded) == []  # training stops when the last seed has diverged


def test_an_error_gives_every_seed_a_record_and_other_fits_go_on(tmp_path, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("a planted fault")

    monkeypatch.setattr(implementations.toy_mlp.Seeds, "epoch", broken)
    results, _ = go(tmp_path, "toy_mlp", "uniform")
    assert {(each.trained_run.approach, each.outcome) for each in results} == {
        ("toy_mlp", "failed"),
        ("uniform", "done"),
    }
    record = existing(next(each.trained_run for each in results if each.outcome == "failed"), Store(tmp_path))
    assert "ZeroDivisionError: a planted fault" in in_words(record.reason)
    assert "in broken" in record.detail
    assert why_again(record, Store(tmp_path)) == "failed"  # the next call tries again


@pytest.mark.parametrize("diverged", [(), (1,)])
def test_an_interrupted_fit_goes_on_with_all_seeds_at_one_epoch(tmp_path, monkeypatch, diverged):
    ill_seed(monkeypatch, *diverged)
    published(tmp_path / "whole")
    stopped(tmp_path, monkeypatch, when=3 * 4)  # seed 2 reports epoch 4, which the other two have reported already
    assert records(tmp_path) == {}
    (path,) = tmp_path.glob("fits/*/checkpoint.safetensors")
    tensors, info = Store(tmp_path).read_tensors(path)
    assert info["epoch"] == 3
    healthy = [name for name in "012" if int(name) not in diverged]
    assert {len(info["seeds"][name]["epochs"]) for name in healthy} == {3}
    assert {name.split("/")[0] for name in tensors} == {"0", "1", "2"}
    _, watcher = published(tmp_path)
    assert [event.epoch for event in watcher.of(EpochEnded)] == [4, 5, 6]
    assert not path.exists()
    whole, resumed = records(tmp_path / "whole"), records(tmp_path)
    for key, record in resumed.items():
        assert record.outcome == ("diverged" if key[1] in diverged else "done")
        assert numbers(record) == numbers(whole[key])
        if record.outcome == "done":
            assert "interrupted and resumed" in in_words(*record.timings.reasons)


def test_a_kill_between_two_posteriors_trains_nothing_twice(tmp_path, monkeypatch):
    n_checkpoints = 5  # after epochs 1 to 5 of 6
    stopped(tmp_path, monkeypatch, n_checkpoints + 2, Store, "write_tensors")
    assert len(list(tmp_path.glob("fits/*/posterior.safetensors"))) == 1
    _, watcher = published(tmp_path)
    assert [(event.epoch, event.seeds) for event in watcher.of(EpochEnded)] == [(6, 2)]
    published(tmp_path / "whole")
    whole = records(tmp_path / "whole")
    for key, record in records(tmp_path).items():
        close(record, whole[key])


def test_a_checkpoint_of_other_seeds_is_not_used(tmp_path, monkeypatch):
    """Seeds that are fitted together must resume from one checkpoint of exactly these seeds."""
    stopped(tmp_path, monkeypatch, 7)
    _, watcher = published(tmp_path, seeds=(0, 1))
    assert [event.epoch for event in watcher.of(EpochEnded)] == [1, 2, 3, 4, 5, 6]


def test_an_interrupted_single_fit_goes_on_alone(tmp_path, monkeypatch):
    stopped(tmp_path, monkeypatch, 4, seeds=(0,))
    _, watcher = published(tmp_path, seeds=(0, 1, 2))
    assert [(event.seeds, event.epoch) for event in watcher.of(EpochEnded)] == [(1, 4), (1, 5), (1, 6)] + [
        (2, epoch) for epoch in range(1, 7)
    ]


def test_at_most_one_process_works_on_a_seed(tmp_path, monkeypatch):
    """Another process fits one of the seeds. The run waits for it, then fits only the other seeds together."""
    another_run_holds(tmp_path, monkeypatch, 1)
    results, watcher = go(tmp_path, "toy_mlp")
    assert {result.outcome for result in results} == {"done"}
    assert isinstance(watcher.events[0], Waiting)
    assert [event.seeds for event in watcher.of(EpochEnded)] == [2]
    assert {key: record.timings.batched is not None for key, record in records(tmp_path).items()} == {
        ("toy_mlp", seed, protocol): seed != 1 for seed in range(3) for protocol in ("published", "common")
    }


def test_plan_and_status_show_what_a_run_would_do(tmp_path, monkeypatch, capsys):
    place = ("--results", str(tmp_path), "--json")
    go(tmp_path, "toy_mlp", seeds=(3,), profile="full")

    def rows(command, *options):
        main([command, "toy_mlp", "--seeds", "4", *options, *place])
        return json.loads(capsys.readouterr().out)

    planned = rows("plan")["trained runs"]
    assert [row["seeds together"] for row in planned] == [3] * 6 + [0] * 2
    assert [row["state"] for row in planned] == ["to do"] * 6 + ["done"] * 2
    assert all((row["training"] > 0) == ("x published" in row["trained run"]) for row in planned[:6])
    assert [row["seeds together"] for row in rows("plan", "--apart")["trained runs"]] == [1] * 6 + [0] * 2
    stopped(tmp_path, monkeypatch, 7, seeds=(0, 1, 2, 3))
    assert [row["state"] for row in rows("status")] == ["interrupted, will resume"] * 6 + ["done"] * 2
    with locks.hold(tmp_path, [trained_runs(Selection(approaches=("toy_mlp",)))[0].fit_key]):
        held = rows("status")
    assert [row["state"] for row in held][:3] == ["running", "running", "interrupted, will resume"]
    assert held[0]["by"].startswith(f"process {os.getpid()} on {socket.gethostname()} since 20")
    go(tmp_path, "toy_mlp", seeds=(0, 1, 2, 3), profile="full")
    assert {row["state"] for row in rows("status")} == {"done"}
    assert {row["state"] for row in rows("plan")["trained runs"]} == {"done"}


def test_a_share_of_a_batch_is_no_estimate_of_a_single_fit():
    trained_run = trained_runs(Selection(approaches=("toy_mlp",), protocols=("common",)))[0]
    made = partial(synthetic.record, "toy_mlp", "published", "common", provenance={"cpu": "x"})
    alone = made(timings={"epoch_with_measuring_s": 8.0, "measure_s": 1.0, "valid": True})
    share = made(timings={"epoch_with_measuring_s": 2.0, "measure_s": 3.0, "valid": False, "batched": 16})
    epochs = trained_run.values["epochs"]
    assert estimate(trained_run, [share]).fit_s is None
    assert estimate(trained_run, [share, alone]).fit_s == 8.0 * epochs
    assert estimate(trained_run, [share, alone], in_batch=True).fit_s == 2.0 * epochs
    assert estimate(trained_run, [alone], in_batch=True).fit_s == 8.0 * epochs  # no more than one after the other
    assert estimate(trained_run, [share], in_batch=True).basis == "1 record on x"


def test_events_for_machines_are_lines_of_json(tmp_path, capsys):
    place = ("--profile", "smoke", "--results", str(tmp_path), "--executor", "inline", "--json")
    assert main(["run", "toy_mlp", *place]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    kinds = ["begin", "start", "epoch", "measure", "record", "start", "measure", "record", "finish"]
    assert [event["kind"] for event in events] == kinds
    assert events[1]["trained run"] == "toy_mlp published x published, seed 0"
