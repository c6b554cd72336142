"""Defines the numbers: the metrics, and the protocols that say how to measure a trained model.

In: a posterior and a split. Out: named metrics, or the reason why a metric is missing, and scores of each row. It
trains nothing, keeps no files and compares nothing with a reported number.
"""
