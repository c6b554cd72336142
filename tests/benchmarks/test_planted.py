"""Small planted faults: what a planted fault changes, and how its runs are kept."""

from msgspec import structs

from bench.judge.alternatives.trial import PlantedRun, read_runs
from bench.plan.recipes import profile, resolve
from bench.plan.registry import manifest
from bench.run import fitting, process
from benchmarks.planted import PLANTS, save
from benchmarks.power import field_times, kl_times

RUN = PlantedRun("KL x 1.1", "linear_bbb", 1000, "mnist/test10k/accuracy", 0.1 + 0.2, "2026-01-01", "abc")


def built(name):
    entry = manifest(name)
    return process.build(entry, resolve(entry, "published"), profile("epoch1"))


def test_a_field_is_multiplied_while_the_fault_is_planted():
    before = built("mlp").learning_rate
    with field_times("learning_rate", 1.1):
        assert built("mlp").learning_rate == 1.1 * before
    assert built("mlp").learning_rate == before
    with field_times("hidden_dropout", 0.9):
        assert built("dropout_fcn").hidden_dropout == 0.45


def test_the_kl_weighs_more_because_the_task_says_fewer_rows():
    with kl_times(1.1):
        assert fitting.Task("classification", 10, 60_000, 784).n_train == 54_545  # 60,000 / 1.1
    assert fitting.Task("classification", 10, 60_000, 784).n_train == 60_000


def test_saved_runs_take_the_place_of_older_ones_and_keep_every_digit(tmp_path):
    path = tmp_path / "runs.csv"
    later, other = structs.replace(RUN, value=0.9), structs.replace(RUN, seed=1001)
    save([RUN, other], path)
    assert read_runs(path) == [RUN, other]
    save([later], path)
    assert read_runs(path) == [later, other]


def test_the_shipped_runs_are_of_the_faults_that_can_be_planted():
    shipped = read_runs()
    assert {f"{run.fault}/{run.approach}" for run in shipped} == set(PLANTS)
    assert min(run.seed for run in shipped) >= 1000  # no seed of the records that judge
