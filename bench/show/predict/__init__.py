"""Shows a user's picture to a trained approach. The answer is a digit, or "I don't know".

>>> from bench.show.predict import Predictor
>>> p = Predictor("results", "linear_bbb")
>>> print(p("digit.png"))
"""

from bench.show.predict.predictor import PictureAnswer, Predictor

__all__ = ["PictureAnswer", "Predictor"]
