"""Data sets: every byte is checked by SHA-256 before use, and only an explicit `fetch` uses the network.

In: the files of `datasets/`, of the folder that a user gives (`data_dir`), or of a public address. Out: images and
labels as tensors (`splits`), and an inventory. It knows no approach and trains nothing.
"""
