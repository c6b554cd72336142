"""Defines the metrics, and the protocols that say how to measure a trained model.

In: a posterior and the rows of a data set. Out: metrics by name, or reasons why they are missing, and scores of each
row. It trains nothing, writes no files and compares nothing with a reported number.
"""
