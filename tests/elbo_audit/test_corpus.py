"""The audit of objectives that were written before it ran on them: a fast part of the eighty.

`python -m tests.elbo_audit.corpus` audits all.
"""

import pytest

from tests.elbo_audit.corpus import __main__ as command
from tests.elbo_audit.corpus.running import GOOD, NOTES, judged, plan

FAST = (  # a few seconds
    *("counts", "tied weights", "blitz manner", "guide by hand, subsample", "latent noise"),
    *("scaled layers", "two names", "noise kept", "plain SGD"),
)


@pytest.mark.parametrize(("style", "fault"), [case for case in plan() if case[0].name in FAST])
def test_a_user_is_told_what_should_be_told(style, fault):
    cell, objective, answer = judged(style, fault)
    assert cell in GOOD, f"{cell}: {objective.expected}\n{answer.text}"


def test_the_notes_are_of_mistakes_that_a_style_can_have():
    known = {(style.name, fault) for style, fault in plan(every_mistake=True)}
    assert NOTES.keys() <= known


@pytest.mark.parametrize(
    ("words", "message"), [(["nope"], "unknown, or without its library: nope; known: AutoD"), (["--every"], "--every")]
)
def test_bad_arguments_are_one_line(words, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        command.main(words)
    assert message in capsys.readouterr().err.splitlines()[-1]
