"""Other people's libraries: what one epoch of their own examples makes of the KL. Nothing is trained.

setting     the network, the batches and the seed of all examples
examples    which objective of which library, in words
objectives  the same as code, and its audit
reading     what was measured, as a file

Each example is the objective of the library's own text on the network 784-400-400-10 for 60,000 images, at the batch
size of that text, and once more with one change that makes it an ELBO.
"""
