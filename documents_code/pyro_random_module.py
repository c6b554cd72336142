"""The Bayesian network of chopra2018 as its notebook runs it: Pyro's own Normal, training step and prediction loops.

Our code is tested against it and timed beside it; no result comes from it. It differs from the notebook only where Pyro
1.9 needs it: `to_event` instead of `independent`, validation off. Tensors that NumPy reads are copied from a GPU. The
caller clears Pyro's parameter store.
"""

from __future__ import annotations

import numpy as np
import pyro
import torch
from pyro import distributions
from pyro.infer import SVI, Trace_ELBO
from torch import Tensor, nn

PERCENTILE = 50  # of the drawn networks' probabilities of a class
THRESHOLD = 0.2  # a class is a candidate where that percentile exceeds it


class Net(nn.Module):
    """One hidden layer with ReLU."""

    def __init__(self, n_inputs: int, n_hidden: int, n_classes: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(n_inputs, n_hidden)
        self.out = nn.Linear(n_hidden, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [B, n_classes]."""
        return self.out(torch.relu(self.fc1(x)))


class DocumentNetwork:
    """Model, guide, one training step and the two ways of predicting."""

    def __init__(self, n_hidden: int = 1024, n_inputs: int = 784) -> None:
        self.net = Net(n_inputs, n_hidden, 10)
        self.svi = SVI(self.model, self.guide, pyro.optim.Adam({"lr": 0.01}), loss=Trace_ELBO())

    def model(self, x: Tensor, y: Tensor) -> None:
        """Draw a network from standard normals, and the labels given its outputs."""
        priors = {}
        for name, weight in self.net.named_parameters():
            priors[name] = distributions.Normal(loc=torch.zeros_like(weight), scale=torch.ones_like(weight))
        lifted = pyro.random_module("module", self.net, priors)()
        logits = torch.log_softmax(lifted(x), dim=1)
        pyro.sample("obs", distributions.Categorical(logits=logits), obs=y)

    def guide(self, x: Tensor | None, y: Tensor | None) -> nn.Module:
        """Draw a network from the variational Gaussians."""
        del x, y
        priors = {}
        for name, weight in self.net.named_parameters():
            mu, sigma = self.start(weight), self.start(weight)
            loc = pyro.param(f"{name}_mu", mu)
            scale = nn.functional.softplus(pyro.param(f"{name}_sigma", sigma))
            priors[name] = distributions.Normal(loc=loc, scale=scale)
        priors["out.weight"] = priors["out.weight"].to_event(1)
        return pyro.random_module("module", self.net, priors)()

    def start(self, weight: Tensor) -> Tensor:
        """Draw initial values. The document draws them in every pass; Pyro uses only those of the first pass."""
        return torch.randn_like(weight)

    def training_step(self, images: Tensor, labels: Tensor) -> float:
        """Take one step and return its loss."""
        return self.svi.step(images, labels)

    def predict(self, images: Tensor, n_draws: int = 10) -> np.ndarray:
        """Return the classes [B] of the mean logits of newly drawn networks."""
        networks = [self.guide(None, None) for _ in range(n_draws)]
        logits = torch.stack([network(images).data for network in networks])
        return np.argmax(torch.mean(logits, 0).cpu().numpy(), axis=1)

    def predict_or_refuse(self, images: Tensor, n_draws: int = 100) -> list[int | None]:
        """Return for each image the class of the largest median probability, None where no median exceeds 0.2."""
        networks = [self.guide(None, None) for _ in range(n_draws)]
        log_probs = [torch.log_softmax(network(images).data, dim=1).cpu().numpy() for network in networks]
        probabilities = np.exp(np.asarray(log_probs))
        classes: list[int | None] = []
        for image in range(len(images)):
            medians = [np.percentile(probabilities[:, image, digit], PERCENTILE) for digit in range(10)]
            classes.append(int(np.argmax(medians)) if any(median > THRESHOLD for median in medians) else None)
        return classes
