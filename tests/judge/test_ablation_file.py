"""The file that declares ablations, and what it refuses."""

import pytest

from bench.core.errors import BenchError, ConfigError
from bench.judge.ablation.definition import ablation
from bench.judge.ablation.file import read_entries
from bench.judge.ablation.readers import parse
from bench.judge.ablation.selection import chosen
from bench.plan.manifests import DOCUMENTS
from bench.plan.registry import of_group

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
