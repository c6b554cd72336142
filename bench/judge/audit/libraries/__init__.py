"""Other people's libraries: what one epoch of their own examples makes of the KL. Nothing is trained.

setting     the network, the batches and the seed of all examples
layers      torchbnn, bayesian-torch, blitz, torch-uncertainty
functional  posteriors, Pyro's automatic guides, laplace-torch
reading     what was measured, as a file
examples    which objective of which library, in words
auditing    runs them

Each example is the objective of the library's own text on the network 784-400-400-10 for 60,000 images, at the batch
size of that text, and once more with one change that makes it an ELBO.
"""
