"""The figures that the field expects, drawn from made-up records."""

from __future__ import annotations

import pytest

from bench.show.figures.figure import FIELD
from tests.figure_records import assert_drawn, figures, fill


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    fill(folder)
    return folder


def test_every_figure_of_the_field_is_drawn(root):
    for figure in figures(root):
        if figure.group == FIELD:
            assert_drawn(figure)


def test_several_seeds_are_drawn_too(tmp_path):
    fill(tmp_path, seeds=(0, 1, 2))
    several = {figure.name: figure for figure in figures(tmp_path)}
    for name in ("pruning", "ladder-dropout_fcn"):
        assert "seeds 0-2" in several[name].caption
        assert_drawn(several[name])
