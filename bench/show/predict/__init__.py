"""Lets a trained approach read a user's picture of a digit. The answer is the digit, or "I don't know".

>>> from bench.show.predict import Predictor
>>> p = Predictor("results", "linear_bbb")
>>> print(p("digit.png"))
"""

from bench.show.predict.predictor import PictureAnswer, Predictor

__all__ = ["PictureAnswer", "Predictor"]
