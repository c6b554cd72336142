"""bnn-uncertainty-bench: do the published numbers of Bayesian neural networks on MNIST hold?"""

__version__ = "0.1.0"
