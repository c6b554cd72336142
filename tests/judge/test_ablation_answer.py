"""Ablations: the file that declares them, what it refuses, and the answer to an ablation's question."""

import pytest

from bench.core.errors import BenchError, ConfigError
from bench.judge.ablation.answer import find
from bench.judge.ablation.definition import ablation, chosen
from bench.judge.ablation.file import read_entries
from bench.judge.ablation.readers import parse
from bench.judge.results import Results
from bench.plan.manifests import DOCUMENTS
from bench.plan.registry import manifests, of_group
from bench.show.tables.answer import answer_table, conclusions
from tests.judge.test_ablation import BITS, CLAIMS, NOISE, numbers_of, trained_run

# --- what the single changes are
# ---------------------------------------------------------------------------------------------


def test_every_entry_of_the_file_is_an_ablation_and_every_classifier_with_a_document_has_one():
    named = set(read_entries())
    documented = {one.name for one in of_group(DOCUMENTS).values() if one.document and one.task == "mnist"}
    assert named == documented | {"blundell_bbb"}
    assert {one.approach for one in chosen(())} == documented
    for one in (*chosen(()), ablation("blundell_bbb")):
        names = [(single_change.kind, single_change.name) for single_change in one.single_changes]
        assert len(names) == len(set(names))
        assert all(single_change.title and single_change.numbers for single_change in one.single_changes)
        for place in one.places():
            if place.source == "derived":
                parse(place.key)  # raises for an unknown name


MEASURED = '[[mlp.measuring]]\nname = "a"\ntitle = "b"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[mlp]\nood = ['lettters']\n", "did you mean 'letters'"),
        ("[[mlp.control]]\nname='a'\ntitle='b'\nbefore='mlp'\nafter='mlp published'\n", "is not a fit"),
        ("[[mlp.control]]\nname='a'\ntitle='b'\nbefore='mlp publshed'\nafter='mlp published'\n", "unknown recipe"),
        (f'{MEASURED}numbers.mnist.acuracy = ["common a/b", "common a/b"]\n', "did you mean 'accuracy'"),
        (f'{MEASURED}numbers.mnst.accuracy = ["common a/b", "common a/b"]\n', "did you mean 'mnist'"),
        (f'{MEASURED}numbers.mnist.accuracy = ["common a/b"]\n', "give a list of length 2"),
        (f'{MEASURED}numbers.mnist.accuracy = ["corrected a/b", "common a/b"]\n', "is not a number"),
    ],
)
def test_a_bad_entry_is_one_line(tmp_path, text, message):
    path = tmp_path / "ablations.toml"
    path.write_text(text)
    with pytest.raises(BenchError, match=message) as caught:
        ablation("mlp", path)
    assert "\n" not in str(caught.value)


def test_what_has_no_ablation_says_so():
    with pytest.raises(ConfigError, match="toy_mlp is not a classifier"):
        ablation("toy_mlp")
    with pytest.raises(ConfigError, match="uniform has no ablation"):
        chosen(["uniform"])


RESULTS = Results([], manifests())


def noise(approach, recipe, bits, mean_bits=None):
    """Return a record for each seed, with two entropies on noise in bits: the document's, and of mean probabilities."""
    made = trained_run(approach, recipe, {seed: value * BITS for seed, value in enumerate(bits)}, NOISE)
    for one, value in zip(made, mean_bits or bits, strict=True):
        one.metrics["noise_gaussian/predictive_entropy"] = value * BITS
    return made


def found(*records):
    one = ablation("linear_bbb")
    return find(one.question, numbers_of([entry for made in records for entry in made]), CLAIMS)


def all_steps():
    return (
        noise("mlp", "published", (0.25, 0.5, 0.75)),
        noise("mlp", "published+sigmoid-512", (0.25, 0.5, 0.75)),
        noise("mlp", "published+sigmoid-512-uniform-init", (1.0, 1.25, 1.5)),
        noise("linear_bbb", "published+attached-mu", (2.0, 1.25, 0.5), (2.0, 2.25, 2.5)),
        noise("linear_bbb", "published", (2.0, 2.25, 2.5), (3.0, 3.25, 3.5)),
    )


def test_the_answer_is_computed_from_the_records():
    first, second = conclusions(found(*all_steps()))
    assert first.startswith(
        "By the document's entropy, the predictive entropy on Gaussian noise is raised by the width of its initial "
        "weights. It is not clearly changed by sigmoid-512 and its budget; Bayes, with the mean attached; the "
    )
    # by the mean probabilities 0 + .75 + 1 + 1 = 2.75 bits from the baseline to the number
    assert "raised by the width of its initial weights; Bayes, with the mean attached; the detached mean" in second
    # 1 of 2.75; the first of equals
    assert (
        "The largest, 36% of the +2.750 bits of all steps, is Bayes, with the mean attached, but its lead over "
        in second
    )
    assert second.endswith(
        "the detached mean is within chance: +0.000 bits [+0.000, +0.000] (3 seeds, adjusted for 3 comparisons)."
    )


def test_the_largest_step_is_compared_with_the_next_seed_by_seed():
    steps = all_steps()
    # the widths add .75 each; sigmoid-512 now .25, .5, .75: .25 less on average, seed by seed .5, .25, 0: sd .25. One
    # of four steps was chosen, so that each of the three comparisons has a third of the 5 %:
    # half-width t(2, 1 - .05 / 6) .25 / sqrt 3 = 7.649 * .1443 = 1.104
    near = (steps[0], noise("mlp", "published+sigmoid-512", (0.5, 1.0, 1.5)))
    widths = noise("mlp", "published+sigmoid-512-uniform-init", (1.25, 1.75, 2.25))
    attached = noise("linear_bbb", "published+attached-mu", (1.25, 1.75, 2.25))
    first, _ = conclusions(found(*near, widths, attached, noise("linear_bbb", "published", (1.25, 1.75, 2.25))))
    assert (
        "is the width of its initial weights, but its lead over sigmoid-512 and its budget is within chance: +0.250"
        in first
    )
    assert first.endswith("[-0.854, +1.354] (3 seeds, adjusted for 3 comparisons).")
    # without a second step .75 against nothing, in every seed
    alone = noise("linear_bbb", "published+attached-mu", (1.0, 1.25, 1.5))
    first, _ = conclusions(found(*steps[:3], alone, noise("linear_bbb", "published", (1.0, 1.25, 1.5))))
    assert "The largest, 100% of the +0.750 bits of all steps, is the width of its initial weights, ahead of " in first
    assert first.endswith("by +0.750 bits [+0.750, +0.750] (3 seeds, adjusted for 3 comparisons).")


def test_the_largest_step_is_ahead_only_over_the_seeds_in_common():
    # sigmoid-512 adds .9 on average over five seeds, but .25 over the three seeds of the widths, which add .5
    published = noise("mlp", "published", (0.0,) * 5)
    near = noise("mlp", "published+sigmoid-512", (0.25, 0.25, 0.25, 1.75, 2.0))
    later = [
        noise(approach, recipe, (0.75, 0.75, 0.75))
        for approach, recipe in (
            ("mlp", "published+sigmoid-512-uniform-init"),
            ("linear_bbb", "published+attached-mu"),
            ("linear_bbb", "published"),
        )
    ]
    first, _ = conclusions(found(published, near, *later))
    assert (
        "is sigmoid-512 and its budget, but its lead over the width of its initial weights is within chance: -0.250"
        in first
    )
    assert first.endswith("(3 seeds, adjusted for 3 comparisons).")


def test_levels_are_of_the_seeds_that_every_fit_has():
    # the fit of the last step has two more seeds, far away
    *before, last = all_steps()
    more = noise("linear_bbb", "published", (2.0, 2.25, 2.5, 3.25, 3.25))
    for walk, other in zip(found(*before, more).walks, found(*before, last).walks, strict=True):
        assert [level.n for level in walk.levels] == [3] * 5
        assert walk.levels[:-1] == other.levels[:-1]


def test_steps_of_opposite_sign_have_no_share():
    steps = all_steps()
    back = noise("linear_bbb", "published+attached-mu", (0.5, 0.75, 1.0))
    first, _ = conclusions(found(*steps[:3], back, noise("linear_bbb", "published", (0.5, 0.75, 1.0))))
    assert "It is lowered by Bayes, with the mean attached. It is " in first
    assert "The largest is the width of its initial weights, ahead of Bayes, with the mean attached by +0.250" in first


def test_the_steps_of_an_answer_add_up_to_what_is_between_the_baseline_and_the_number():
    for walk in found(*all_steps()).walks:
        added = sum(effect.estimate.difference for effect in walk.added.values())
        assert added == pytest.approx(walk.levels[-1].mean - walk.levels[0].mean)


def test_each_step_of_an_answer_is_a_fit_that_differs_from_the_one_before():
    for one in chosen(()):
        if one.question is not None:
            fits = [(step.approach, step.recipe) for step in one.question.steps]
            assert len(set(fits)) == len(fits) == len({step.name for step in one.question.steps})
            claims = {claim.id: claim for claim in CLAIMS}
            ends = (claims[one.question.baseline].approach, claims[one.question.claim].approach)
            assert ends == (fits[0][0], fits[-1][0])


def test_what_is_not_measured_leaves_the_answer_open():
    one = found(noise("mlp", "published", (0.25,)), noise("linear_bbb", "published", (1.0,)))
    assert all(text.endswith("is open until all are measured.") for text in conclusions(one))
    assert any("--recipe published+sigmoid-512 " in note for note in answer_table("linear_bbb", one, RESULTS).notes)


def test_the_answer_as_a_table():
    answers = found(*all_steps())
    steps = answer_table("linear_bbb", answers, RESULTS).texts()
    assert [row[0] for row in steps[:-1]] == [step.name for step in answers.question.steps]
    assert steps[0][2:] == ["0.500 +- 0.250 (3)", "-", "0.500 +- 0.250 (3)", "-"]
    # differences 1, 0, -1: mean 0, sd 1, t(2, .975) / sqrt 3 = 2.484
    assert steps[3][3:] == ["+0.000 [-2.484, +2.484] (3)", "2.250 +- 0.250 (3)", "+1.000 [+1.000, +1.000] (3)"]
    assert steps[-1][2:] == ["-", "-1.000 [-1.000, -1.000] (3)", "-", "-"]


ANSWER = "[mlp.answer]\nquestion='q'\nclaim='c'\nbaseline='b'\n"
STEPS = "step=[{name='a', fit='mlp published'}, {name='b', fit='mlp published'}]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{ANSWER}step=[]\nestimator=[{{name='x', number='common a/b'}}]", "step: .* give a list of length >= 2"),
        (f"{ANSWER}{STEPS}estimator=[]", "estimator: .* give a list of length >= 1"),
        (f"{ANSWER}{STEPS}estimator=[{{name='x', number='entropy'}}]", "'entropy' is not a number; give 'SOURCE KEY'"),
    ],
)
def test_a_question_that_cannot_be_read_is_named(tmp_path, text, message):
    path = tmp_path / "ablations.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        ablation("mlp", path)
