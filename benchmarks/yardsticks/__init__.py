"""The documents' code (`benchmarks/documents`) as `python -m benchmarks.throughput` times it, a file an approach.

Each file has `yardstick(train, seed)`, which returns the document's network at its published size, on the device that
`train` lies on. Further arguments make it smaller, for tests.
"""
