"""The figures of the documents, drawn from made-up records."""

from __future__ import annotations

import pytest

from bench.show.figures.figure import FIELD
from tests.figure_records import assert_drawn, figures, fill, filled


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return filled(tmp_path_factory.mktemp("results"))


def test_every_figure_of_a_document_is_drawn(root):
    for figure in figures(root):
        if figure.group != FIELD:
            assert_drawn(figure)


def test_several_seeds_are_drawn_too(tmp_path):
    fill(tmp_path, seeds=(0, 1, 2, 3, 4))
    several = {figure.name: figure for figure in figures(tmp_path)}
    for name in (
        "feldman2018-training-mlp",
        "feldman2018-training-toy_bbb",
        "feldman2018-verdicts",
        "feldman2018-toys",
    ):
        assert "seeds 0-4" in several[name].caption
        assert_drawn(several[name])
