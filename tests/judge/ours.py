"""Our training steps, as the ELBO auditor takes an objective.

An implementation that writes its gradient out is put behind one node of autograd, with a leaf for each parameter
tensor. N = 60,000 in batches of 128 are 468.75 steps an epoch: what a step divides its KL by is known from each
document, so that the KL's weight in an epoch is.
"""

import dataclasses
from functools import partial

import torch
from torch.nn.functional import cross_entropy

from bench.interface import Split, Task
from bench.judge.audit import elbo
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest

N_TRAIN, BATCH, INPUTS, WIDTH = 60_000, 128, 20, 16
STEPS = N_TRAIN / BATCH  # 468.75
TASK = Task("classification", n_outputs=10, n_train=N_TRAIN, n_inputs=INPUTS)


def recipe_of(name, recipe, **small):
    entry = manifest(name)
    return dataclasses.replace(build(entry, resolve(entry, recipe), profile("full")), **small)


def batches(dtype=torch.float64):
    source = torch.Generator().manual_seed(0)
    return [
        (torch.rand(BATCH, INPUTS, generator=source).to(dtype), torch.randint(10, (BATCH,), generator=source))
        for _ in range(3)
    ]


def split(x, y):
    return Split("train60k", x, y, torch.arange(len(x)))


class Written(torch.autograd.Function):
    """A loss whose gradient is not autograd's: `evaluate(flat)` returns both, [] and [P]."""

    @staticmethod
    def forward(ctx, evaluate, flat):
        loss, gradient = evaluate(flat.detach())
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    def backward(ctx, outer):
        return None, outer * ctx.saved_tensors[0]


def leaves(layout, **vectors):
    """One leaf for each parameter tensor of vectors [P], such as hidden1.weight.mu; as a vector: torch.cat of all."""
    return {
        f"{name}.{kind}": view.detach().clone().requires_grad_()
        for kind, vector in vectors.items()
        for name, view in layout.named(vector).items()
    }


def flat(parameters):
    return torch.cat([value.flatten() for value in parameters.values()])


def logits(x, layers, activation):
    for matrix, bias in layers[:-1]:
        x = activation(x @ matrix.T + bias)
    return x @ layers[-1][0].T + layers[-1][1]


def audit_written(evaluate, parameters, three, n_train, **options):
    """Audit an objective whose loss and gradient `evaluate(x, y, values)` gives at values [P] of the parameters."""

    def loss(x, y):
        return Written.apply(partial(evaluate, x, y), flat(parameters))

    return elbo.audit_torch(loss, parameters.items(), three, n_train, **options)


def summed_nll(outputs, y):
    return cross_entropy(outputs, y, reduction="sum")
