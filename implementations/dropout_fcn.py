"""Fully connected network with dropout, left on when it predicts: Monte Carlo dropout by accident.

Implements the first network of alsibahi2019 (https://alsibahi.xyz/snippets/2019/06/15/pyro_mnist_bnn_kl.html):
784 - dropout .2 - three layers of 1024 with dropout .5 and leaky ReLU - 10 log-softmax. The document never switches
dropout off, so its test accuracy is that of one draw of masks per image.

Objective (mean per training row), published: the mean over B rows and K classes of the binary cross-entropy between
the sigmoid of the *log-probability* and the one-hot label. With sigmoid(log p) = p / (1 + p) a row costs
    L = 1/K [ -log p_c + sum_k log(1 + p_k) ]
    dL/dlog p_k = 1/K (s_k - y_k),  s_k = p_k / (1 + p_k),  and through log-softmax
    dL/dz_k = g_k - p_k sum_j g_j,  g = dL/dlog p.
So the likelihood has 1/K of the cross-entropy's weight, the other term rewards confidence, and L >= log(2)/K. The
trace holds the sum of L over the batches: never under 391 log(2)/10 = 27.102, and 127.30 for a blind network.
Target
    weights of largest likelihood under dropout; a draw is one set of masks, fresh for every image.
Departures from the document are the corrections listed in dropout_fcn.toml.

Masks: one random bit a hidden unit, 16 bits an input (keep probability 52429/65536, 3e-6 above .8).
Cost: 2.0 GFLOP of matrix products a step of 128 rows, and little else (docs/verdicts.md): the product that
makes the gradient adds it to the momentum, masks come from packed bits, nothing goes through autograd. A draw of one
image is 5.8 MFLOP. Memory: 2 P to train, P to predict.
Fails when: the loss gets another scale and the learning rate does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bench.core.errors import ConfigError, check_known
from bench.core.streams import StepNoise, row_bits
from bench.interface import Approach, Categorical, Context, Marginal, Noise, Posterior, Split, Task
from implementations import _dense, _seeds
from implementations._dropout_masks import Masks
from implementations._kernels.layout import Layout, affine, product


@dataclass(frozen=True)
class DropoutFcn(Approach):
    """Training of the network with dropout."""

    noise: ClassVar[Noise] = "row"

    epochs: int = 50  # the text says 30; the code runs, and prints, 50
    hidden: tuple[int, ...] = (1024, 1024, 1024)  # units of each hidden layer
    input_dropout: float = 0.2  # probability of dropping a pixel
    hidden_dropout: float = 0.5  # probability of dropping a hidden unit
    negative_slope: float = 0.01  # of the leaky ReLU
    loss: str = "bce_on_log_probs"  # or "cross_entropy"
    learning_rate: float = 0.1  # of SGD
    momentum: float = 0.95  # of SGD, without Nesterov's change
    batch_size: int = 128  # rows of a step; the last step of an epoch takes the remaining rows
    shuffle: bool = False  # a new order of the rows in every epoch

    def __post_init__(self) -> None:
        """Raise ConfigError on an unknown loss or a rate that is no probability."""
        check_known("loss of dropout_fcn", LOSSES, self.loss)
        for rate in (self.input_dropout, self.hidden_dropout):
            if not 0 <= rate < 1:
                raise ConfigError(f"dropout_fcn was given a dropout rate of {rate}; it must be in [0, 1)")

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace holds the sum of batch losses and the running accuracy, both with dropout on."""
        return self.fit_many(train, _seeds.all_rows(train), task, [ctx])[0]

    def fit_many(self, train: Split, rows: Tensor, task: Task, contexts: Sequence[Context]) -> list[Posterior]:
        """See `Approach.fit_many`."""
        _dense.check_task("dropout_fcn", task, "classification")
        return _seeds.fit_seeds(Seeds(self, train, rows, task, contexts), contexts, self.epochs)

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior with these matrices and biases."""
        del task
        layout, flat = _dense.from_named(arrays)
        return DropoutPosterior(layout, flat, Masks.of(self, layout, flat), self.negative_slope, seed)


class DropoutPosterior(Posterior):
    """The trained network with dropout on: every draw has its own masks for every row."""

    noise: Noise = "row"

    def __init__(self, layout: Layout, flat: Tensor, masks: Masks, negative_slope: float, seed: int) -> None:
        """Keep the weights `flat` [P], which the caller must not change afterwards."""
        self._layout = layout
        self._flat = flat
        self._masks = masks
        self._negative_slope = negative_slope
        self._seed = seed

    def predict(self, x: Tensor, draws: range, rows: Tensor) -> Categorical:
        """Predict x [B, n_inputs] under the masks of each draw and row, on the device of x."""
        x = x.to(self._flat.dtype)
        layers = self._layout.layers(self._flat.to(x.device))
        masks = self._masks.to(x.device)
        out = x.new_empty(len(draws), len(x), self._layout.sizes[-1])
        for logits, draw in zip(out, draws, strict=True):
            words = row_bits(self._seed, draw, rows.to(x.device), masks.n_words)
            for start in range(0, len(x), _dense.ROWS_AT_A_TIME):
                block = slice(start, start + _dense.ROWS_AT_A_TIME)
                logits[block] = forward(x[block], layers, masks.layers(words[block]), self._negative_slope)[1]
        return Categorical(torch.log_softmax(out, 2))

    def arrays(self) -> Mapping[str, Tensor]:
        """Return the matrices and biases by name."""
        return _dense.named_copy(self._layout, self._flat)

    def weights(self) -> Mapping[str, Marginal]:
        """Return the matrices and biases by name, without sigma: the noise is in the units."""
        return _dense.marginals(self._layout, self._flat)

    def masked(self, keep: Mapping[str, Tensor]) -> DropoutPosterior:
        """Return the posterior with zeros where keep=False and the same dropout; see `DensePosterior.masked`."""
        pruned = _dense.masked_copy(self._layout, self._flat, keep)
        return DropoutPosterior(self._layout, pruned, self._masks, self._negative_slope, self._seed)

    def mean_network(self) -> Posterior:
        """Return the network with dropout off, as PyTorch's `eval()` turns it off."""
        slope = self._negative_slope
        return _dense.DensePosterior(
            self._layout, self._flat, lambda z: torch.nn.functional.leaky_relu_(z, slope), "classification"
        )


def forward(
    x: Tensor, layers: list[tuple[Tensor, Tensor]], masks: list[Tensor], negative_slope: float
) -> tuple[list[Tensor], Tensor]:
    """Return the input of every layer after dropout, and the logits [B, K]; for E networks, with E in front."""
    inputs = [x * masks[0]]
    *hidden, (matrix, bias) = layers
    for (hidden_matrix, hidden_bias), mask in zip(hidden, masks[1:], strict=True):
        z = affine(inputs[-1], hidden_matrix, hidden_bias).mul_(mask)
        inputs.append(torch.nn.functional.leaky_relu_(z, negative_slope))
    return inputs, affine(inputs[-1], matrix, bias)


def bce_on_log_probs(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the published loss of logits [B, K] and its gradient [B, K]; derivation at the top of this file.

    For E networks at once, every shape has E in front, and the loss is [E].
    """
    log_p = torch.log_softmax(logits, -1)
    p = log_p.exp()
    onehot = torch.zeros_like(p).scatter_(-1, y.unsqueeze(-1), 1.0)
    loss = (torch.log1p(p) - log_p * onehot).mean((-2, -1))
    g = (p / (1 + p)).sub_(onehot).div_(p.shape[-2] * p.shape[-1])
    return loss, g - p * g.sum(-1, keepdim=True)


LOSSES: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "bce_on_log_probs": bce_on_log_probs,
    "cross_entropy": _dense.cross_entropy,
}


class Seeds(_seeds.Seeds):
    """Seeds that train together."""

    def __init__(self, recipe: DropoutFcn, train: Split, rows: Tensor, task: Task, contexts: Sequence[Context]) -> None:
        """Draw the initial weights of every seed; see `Approach.fit_many`."""
        layout = Layout((task.n_inputs, *recipe.hidden, task.n_outputs))
        starts = [_dense.linear_init(layout, context.generator("init"), context.dtype) for context in contexts]
        self.training = Training(recipe, layout, _seeds.stacked(starts).to(contexts[0].device))
        self._recipe, self._contexts, self._name = recipe, contexts, train.name
        self._rows = _seeds.TrainingRows(train, rows, contexts[0].device)

    def restore(self, states: Sequence[_seeds.State]) -> None:
        """See `_seeds.Seeds`."""
        self.training.restore(states)

    def epoch(self, epoch: int) -> list[dict[str, float]]:
        """See `_seeds.Seeds`."""
        if self._recipe.shuffle:
            self._rows.shuffle([context.generator("shuffle", epoch) for context in self._contexts])
        noise = [StepNoise(context.stream("noise", epoch)) for context in self._contexts]
        losses, correct, n_rows = [], [], 0
        for where in self._rows.batches(self._recipe.batch_size, self._contexts[0].steps_per_epoch):
            x, y = self._rows.take(where)
            words = [self.training.masks.random_words(y.shape[-1], source) for source in noise]
            loss, right = self.training.step(x, y, _seeds.stacked(words))
            losses.append(loss)
            correct.append(right)
            n_rows += y.shape[-1]
        sums = torch.stack(losses).double().sum(0).view(-1).tolist()
        rights = torch.stack(correct).sum(0).view(-1).tolist()
        return [
            {f"mnist/{self._name}/train_loss_sum": total, f"mnist/{self._name}/accuracy": right / n_rows}
            for total, right in zip(sums, rights, strict=True)
        ]

    def posterior(self, index: int) -> Posterior:
        """See `_seeds.Seeds`."""
        return self.training.posterior(index, self._contexts[index].seed)

    def state(self, index: int) -> _seeds.State:
        """See `_seeds.Seeds`."""
        return self.training.state(index)


class Training:
    """The network in training: weights, momentum, and one step of SGD without autograd.

    With weights [E, P], E networks train at once, and every shape below has E in front.
    """

    def __init__(self, recipe: DropoutFcn, layout: Layout, flat: Tensor) -> None:
        """Take over the initial weights `flat` [P]; steps change them in place."""
        self.masks = Masks.of(recipe, layout, flat)
        self.flat = flat
        self.velocity = torch.zeros_like(flat)
        self._recipe = recipe
        self._layout = layout
        self._layers = layout.layers(self.flat)
        self._velocities = layout.layers(self.velocity)
        self._loss = LOSSES[recipe.loss]

    def step(self, x: Tensor, y: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step of SGD; see `differentiate`."""
        found = self.differentiate(x, y, words)
        self.flat.add_(self.velocity, alpha=-self._recipe.learning_rate)
        return found

    def differentiate(self, x: Tensor, y: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Add the gradient to the momentum; x [B, n_inputs], y int64 [B], words int64 [B, n_words].

        Returns:
            The loss and the number of correct predictions, as tensors [].
        """
        masks = self.masks.layers(words.to(x.device).flatten(0, -2))
        if x.dim() > 2:
            masks = [mask.reshape(*x.shape[:-1], -1) for mask in masks]
        inputs, logits = forward(x, self._layers, masks, self._recipe.negative_slope)
        loss, delta = self._loss(logits, y)
        self._accumulate(inputs, masks, delta)
        return loss, logits.argmax(-1).eq(y).sum(-1)

    def _accumulate(self, inputs: list[Tensor], masks: list[Tensor], delta: Tensor) -> None:
        """Replace the velocity v by momentum v + gradient; delta [B, K] is the loss gradient at the logits."""
        momentum = self._recipe.momentum
        for depth in reversed(range(len(self._layers))):
            matrix_velocity, bias_velocity = self._velocities[depth]
            left, right = delta.mT.to(self.flat.dtype), inputs[depth].to(self.flat.dtype)  # autocast
            if delta.dim() == 2:
                matrix_velocity.addmm_(left, right, beta=momentum)
            else:
                matrix_velocity.baddbmm_(left, right, beta=momentum)
            bias_velocity.mul_(momentum).add_(delta.sum(-2))
            if depth > 0:
                delta = product(delta, self._layers[depth][0])
                # dropped units are zero and take the negative slope here; their mask makes the product zero
                delta = torch.ops.aten.leaky_relu_backward(delta, inputs[depth], self._recipe.negative_slope, True)
                delta.mul_(masks[depth])

    def posterior(self, index: int, seed: int) -> DropoutPosterior:
        """Return the network of one seed at this moment."""
        flat = self._of_seed(self.flat, index).clone()
        return DropoutPosterior(self._layout, flat, self.masks, self._recipe.negative_slope, seed)

    def state(self, index: int) -> dict[str, Tensor]:
        """Return weights and momentum of one seed, [P] each, as CPU copies."""
        vectors = {"flat": self.flat, "velocity": self.velocity}
        return {name: self._of_seed(value, index).to("cpu", copy=True) for name, value in vectors.items()}

    def restore(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        """Go on from what `state` returned for each seed."""
        for index, state in enumerate(states):
            self._of_seed(self.flat, index).copy_(state["flat"])
            self._of_seed(self.velocity, index).copy_(state["velocity"])

    def _of_seed(self, vectors: Tensor, index: int) -> Tensor:
        return vectors.view(-1, self._layout.n_weights)[index]
