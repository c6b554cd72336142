"""Pictures that may be turned: every case of the rule, with a network that knows one upright picture."""

from types import SimpleNamespace

import numpy as np
import pytest

from bench.show.predict.normalise import Normalised
from bench.show.predict.turned import turn, with_remarks

UPRIGHT = np.zeros((28, 28), np.float32)
UPRIGHT[5:20, 13] = 1
UPRIGHT[5, 8:13] = 1


def picture(pixels, is_clear=True):
    return Normalised("p.png", (28, 28), pixels, dark_on_light=True, is_clear=is_clear, remarks=(), shown=pixels)


def network(upright=0.95, otherwise=0.5):
    """Return a network that gives digit 1 the probability `upright` if the picture is upright, else `otherwise`."""

    def answers(images):
        sure = [upright if (image.pixels == UPRIGHT).all() else otherwise for image in images]
        return [SimpleNamespace(probabilities=(0, p, 1 - p, 0, 0, 0, 0, 0, 0, 0)) for p in sure]

    return answers


def remarks(image, *networks):
    told = [network([image])[0] for network in networks]
    (found,) = with_remarks([image], [told], networks)
    return found.remarks


def test_turns_keep_the_middle_and_four_of_them_nothing_moves():
    middle = np.zeros((28, 28), np.float32)
    middle[14, 14] = 1
    for quarters in (1, 2, 3):
        assert (turn(middle, quarters) == middle).all()
        assert (turn(turn(UPRIGHT, quarters), 4 - quarters) == UPRIGHT).all()


@pytest.mark.parametrize(
    ("shown", "back"), [(3, "a quarter to the left"), (2, "by half"), (1, "a quarter to the right")]
)
def test_a_turned_picture_is_told_with_the_turn_that_helps(shown, back):
    (said,) = remarks(picture(turn(UPRIGHT, shown)), network())
    assert said == f"may be turned: turned {back}, it looks like a 1 (mean probability 0.95)"


def test_nothing_is_said_of_what_is_upright_unclear_or_known_in_no_direction():
    turned = turn(UPRIGHT, 1)
    assert remarks(picture(UPRIGHT), network()) == ()
    assert remarks(picture(turned, is_clear=False), network()) == ()
    assert remarks(picture(turned), network(otherwise=0.7)) == ()  # sure enough as it is
    assert remarks(picture(turned), network(upright=0.89)) == ()
    assert remarks(picture(turned), network(), network(upright=0.8)) == ()  # .95 and .8: mean .875
