"""What a number means: metrics, and the protocols that say how a trained model is measured.

In: a posterior and a split. Out: named metrics, or the reason why one is missing, and scores of each row. It trains
nothing, keeps no files and compares nothing with a reported number.
"""
