"""For the tests of predict: pictures, and posteriors with known probabilities. For those of the page: a browser."""

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec import structs

from bench.core.canonical import digest
from bench.core.fits import FitInfo
from bench.core.records import NetworkSize, Provenance, Timings
from bench.core.store import Store
from bench.show.inputs import Inputs
from bench.show.page.build import write_report
from bench.show.page.content import collect
from tests import synthetic
from tests.drawings import THREE, save, strokes
from tests.show.browser import BROWSERS, OPTIONS, drain, marked, show
from tests.synthetic import HOSTILE, write_records

MLP = {
    "hidden1.weight": (400, 784),
    "hidden1.bias": (400,),
    "hidden2.weight": (400, 400),
    "hidden2.bias": (400,),
    "output.weight": (10, 400),
    "output.bias": (10,),
}
SURE = (0.02, 0.013, 0.007, 0.9, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01)
TORN = (0.19, 0.19, 0.19, 0.19, 0.04, 0.04, 0.04, 0.04, 0.04, 0.04)


def mlp(probabilities=SURE):
    """Return the weights of a network that answers the same for every picture: only its last biases are not zero."""
    arrays = {name: torch.zeros(shape) for name, shape in MLP.items()}
    return {**arrays, "output.bias": torch.tensor(probabilities).log()}


def linear_bbb(spread):
    """Return a posterior whose mean network gives the same answer, SURE; every weight has this standard deviation."""
    mu = torch.zeros(669_706)
    mu[-10:] = torch.tensor(SURE).log()
    return {"mu": mu, "sigma": torch.full_like(mu, spread)}


def described(fit_key):
    """Return the description that a stored posterior of this fit has."""
    return FitInfo(fit_key=fit_key, epochs=[], timings=Timings(), model=NetworkSize(), provenance=Provenance())


def put(store, approach, arrays, scores=None, **changes):
    """Write a fit and its record, and return the path of the posterior; without `arrays`, only the record."""
    named = synthetic.record(**{"approach": approach, "protocol": "common", "provenance": {}, **changes})
    fit_key = digest([approach, named.recipe, named.profile, named.precision, named.seed])
    record = structs.replace(named, fit_key=fit_key, key=fit_key + named.protocol)
    store.write(record, scores)
    if arrays is not None:
        store.write_tensors(store.fit_path(record.fit_key, "posterior"), arrays, described(record.fit_key))
    return store.fit_path(record.fit_key, "posterior")


@pytest.fixture
def store(tmp_path):
    """Return a store of an empty results folder."""
    return Store(tmp_path / "results")


@pytest.fixture(scope="session")
def three(tmp_path_factory):
    """Return the path of a drawn 3."""
    return save(tmp_path_factory.mktemp("pictures") / "three.png", 1 - strokes(THREE))


@pytest.fixture(scope="session")
def four(tmp_path_factory):
    """Return the path of a drawn 4."""
    points = ((0.7, 0), (0.1, 0.6), (0.9, 0.65), (0.65, 0.3), (0.65, 1))
    return save(tmp_path_factory.mktemp("pictures") / "four.png", 1 - strokes(points))


@pytest.fixture(scope="session")
def page(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("results")
    write_records(root, reason=HOSTILE)
    path = root / "report" / "index.html"
    content = dataclasses.replace(collect(Inputs(root), with_figures=False), figures=[marked()])
    write_report(content, path)
    return path


@pytest.fixture(scope="session")
def browser(tmp_path_factory) -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no Chromium with its chromedriver is installed")
    from selenium import webdriver  # the tests that need it skip where it is not installed

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for option in [*OPTIONS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield started
    started.quit()


@pytest.fixture
def opened(browser, page) -> Any:
    show(browser, 1280, prefers_reduced_motion="reduce")  # a click does not wait for a page that still scrolls
    browser.get("about:blank")
    drain(browser)
    browser.get(page.as_uri())
    browser.execute_script("document.querySelectorAll('details').forEach((box) => { box.open = true })")
    return browser
