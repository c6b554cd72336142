"""What is read from the text of approaches: their files, asked for by many threads, and the values of their fields."""

from __future__ import annotations

import dataclasses
import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.core.canonical import plain
from bench.core.errors import ConfigError
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.plan import source_code
from bench.plan.recipes import build, profile, recipe_names, resolve, values_of
from bench.plan.registry import manifest, manifests
from bench.plan.source_code import source_files
from bench.plan.trained_runs import Selection, trained_runs


@pytest.mark.parametrize("name", [name for name, entry in manifests().items() if not entry.missing_framework()])
@pytest.mark.parametrize("budget", ["smoke", "full"])
def test_the_values_in_the_text_are_those_of_the_approach(name, budget):
    entry = manifest(name)
    for recipe in recipe_names(entry):
        given = entry, resolve(entry, recipe), profile(budget)
        assert list(values_of(*given).items()) == list(dataclasses.asdict(build(*given)).items())


def test_every_shipped_record_has_the_key_and_the_values_of_today():
    for record in Store(RESULTS).all_records()[0]:
        selection = Selection(
            approaches=(record.approach,),
            recipes=(record.recipe,),
            protocols=(record.protocol,),
            seeds=(record.seed,),
            profile=record.profile,
            device=record.device,
            precision=record.precision,
        )
        (trained_run,) = trained_runs(selection)
        assert (trained_run.key, trained_run.fit_key) == (record.key, record.fit_key)
        assert plain(trained_run.values) == record.recipe_values


TEXT = """
from dataclasses import dataclass, field
from typing import ClassVar
from bench.interface import Approach
from .others import Above
import bases


class Broad(Approach):
    noise: ClassVar[str] = "none"
    epochs: int = 3
    rate: float = 1 / 4
    sizes: tuple[int, ...] = (1, -2)


class Narrow(Broad):
    rate: float = 2.0
    given: int


class Listed(Broad):
    sizes: list[int] = field(default_factory=list)


class Named(Broad):
    rate: float = LIMIT


class Foreign(bases.Base):
    pass


class Infinite(Broad):
    rate: float = 1 / 0


class Huge(Broad):
    rate: float = HUGE / 2


class Itself(Itself):
    pass
""".replace("HUGE", "9" * 400)


def read(tmp_path, class_name, text=TEXT):
    (tmp_path / "mine.py").write_text(text)
    return source_code._values("package.mine", class_name, {"package": tmp_path})


def test_a_class_has_the_fields_of_those_that_it_extends(tmp_path):
    assert read(tmp_path, "Narrow") == {"epochs": 3, "rate": 2.0, "sizes": (1, -2)}


@pytest.mark.parametrize("name", ["Listed", "Named", "Foreign", "Infinite", "Huge", "Absent"])
def test_what_is_not_in_the_text_is_one_line(tmp_path, name):
    with pytest.raises(ConfigError, match="cannot be read from the text of") as caught:
        read(tmp_path, name)
    assert "\n" not in str(caught.value)


def test_a_text_that_is_no_python_is_one_line(tmp_path):
    for text in ("class Mine(:", "\0"):
        with pytest.raises(ConfigError, match=r"of class Mine cannot be read from the text of package\.mine"):
            read(tmp_path, "Mine", text)


@pytest.fixture
def restless():
    """Make threads switch inside the parser too, as a collection of garbage sometimes does."""
    before = gc.get_threshold()

    def give_way(*_):
        time.sleep(0)

    gc.callbacks.append(give_way)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(give_way)


def test_many_threads_may_ask_for_the_sources(restless):
    """Without a lock, CPython 3.11 raises SystemError: AST constructor recursion depth mismatch."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(source_files, ["pyro_hidden_layer"] * 24))
    assert found == [source_files("pyro_hidden_layer")] * 24
