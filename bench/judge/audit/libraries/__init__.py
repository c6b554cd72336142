"""Other people's libraries: how often an epoch of their own examples counts the KL. Nothing is trained.

setting         the network, the batches and the seed of all examples in PyTorch
examples        the examples in words: the library, the text that it follows, the change that makes it an ELBO
objectives      the examples in PyTorch as code, and their audit, with `objectives_more`
foreign_audits  the audit of those of `tensorflow_objectives` and `numpyro_objectives`, in the form of `foreign`
audited         the file of what was measured

Each example is the objective of the library's README or tutorial, on the network 784-400-400-10 for 60,000 images, at
the batch size of that text. It is audited as it is, and with one change that makes it an ELBO.
"""
