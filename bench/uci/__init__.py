"""The regression sets of the UCI table: data, splits, scores, methods, and the judgement of printed values.

In: a data set's file. Out: scores by split, and verdicts on what papers print. It is no part of `run --all`.
"""
