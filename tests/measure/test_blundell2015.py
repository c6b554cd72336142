"""The protocol of blundell2015: which epoch counts."""

import pytest

from bench.measure.blundell2015 import HELD_OUT, TEST, chosen_epochs


def epochs(*pairs):
    return [{f"mnist/{HELD_OUT}/error": held_out, f"mnist/{TEST}/error": test} for held_out, test in pairs]


def test_the_honest_choice_is_the_first_epoch_of_least_held_out_error_and_the_other_looks_at_test_images():
    found = chosen_epochs(epochs((0.03, 0.025), (0.02, 0.021), (0.02, 0.018), (0.025, 0.017)))
    assert found[f"mnist/{TEST}/error_at_chosen_epoch"] == pytest.approx(0.021)
    assert found[f"mnist/{TEST}/error_at_best_test_epoch"] == pytest.approx(0.017)


def test_without_epochs_nothing_is_chosen():
    assert chosen_epochs([]) == {}
    assert chosen_epochs([{"mnist/train50k/train_nll": 0.1}]) == {}
