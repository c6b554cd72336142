"""Any picture of a digit, answered by a trained approach: the digit, or "I don't know".

>>> from bench.show.predict import Predictor
>>> p = Predictor("results", "linear_bbb")
>>> print(p("digit.png"))
"""

from bench.show.predict.predictor import PictureAnswer, Predictor

__all__ = ["PictureAnswer", "Predictor"]
