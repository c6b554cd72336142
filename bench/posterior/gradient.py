"""The posterior's energy, its gradient and leapfrogs, by matrix products and compiled passes.

Chains move in groups. Each group has its own buffers, and a thread moves a group through a whole trajectory: threads
meet once a trajectory, and a group's activations stay in its core's cache. A chain's numbers depend neither on the
number of threads nor on the other groups. Inputs that are 0 in all rows, such as pixels of a border, take no part in
the products: in a trajectory their weights, about which only the prior speaks, stand behind all others.

Shapes: C chains, P parameters, B rows, n inputs, H hidden units, K outputs.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
from torch import Tensor

from bench.core.canonical import digest
from bench.core.store import tensor_hash
from bench.posterior import passes
from bench.posterior.network import Network

GROUP = 2  # chains: more share the cost of a call, fewer leave more groups to the threads


class Target:
    """The posterior of a network's whitened parameters, given rows and targets; float32 on a CPU."""

    def __init__(self, network: Network, x: Tensor, y: Tensor, temperature: float = 1.0) -> None:
        """Take rows x [B, n] and targets y [B]; groups move in as many threads as PyTorch has now.

        A temperature below 1 makes a cold posterior (Wenzel et al. 2020, "How Good is the Bayes Posterior in Deep
        Neural Networks Really?").
        """
        self.network, self.temperature = network, temperature
        self.threads = torch.get_num_threads()
        self.x = x.float().contiguous()
        self.y = y.long() if network.kind == "classification" else y.float()
        self._order, self.used = _order(network, self.x)
        self.rows = self.x[:, self.x.any(0)].contiguous()
        self.scales = network.scales().float()[self._order]
        self.scales[self.used.n_parameters :] = 0  # no slope but the prior's
        self.centres = torch.zeros(network.n_parameters)
        if network.kind == "regression":
            self.centres[self.used.n_parameters - 1] = network.log_noise_mean
        self.counts = torch.bincount(self.y, minlength=network.n_outputs) if self.y.dtype == torch.int64 else self.y
        if network.kind == "classification" and len(self.counts) != network.n_outputs:
            raise ValueError(f"a target is {len(self.counts) - 1}; the classes are 0 to {network.n_outputs - 1}")
        self._columns = self.rows.T.contiguous()
        self._groups: dict[tuple[int, int], _Group] = {}

    @property
    def n_parameters(self) -> int:
        """Return P."""
        return self.network.n_parameters

    def fingerprint(self) -> str:
        """Return a hash of all that determines the posterior."""
        data = tensor_hash({"x": self.x, "y": self.y}, "")
        return digest([repr(self.network), self.temperature, data])

    def energy_and_gradient(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the energy of z float32 [C, P], float64 [C], and its gradient [C, P].

        The energy is -log(likelihood x prior) / temperature without the prior's constant, nats.
        """
        still = self.leapfrogs(z, torch.zeros_like(z), torch.zeros_like(z), 0.0, 1)
        return still[2], still[3]

    def leapfrogs(
        self, z: Tensor, momentum: Tensor, gradient: Tensor, step: float, n_steps: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return where `n_steps` leapfrogs lead: z, momentum, its energy float64 [C] and its gradient.

        z, momentum and gradient (at z) are float32 [C, P], and are not changed.
        """
        z, momentum, gradient = (value[:, self._order] for value in (z, momentum, gradient))
        energy = torch.empty(len(z), dtype=torch.float64)
        tasks = []
        for number, start in enumerate(range(0, len(z), GROUP)):
            part = slice(start, start + GROUP)
            group = self._group(number, len(z[part]))
            tasks.append(group.trajectory(z[part], momentum[part], gradient[part], energy[part], step, n_steps))
        side_by_side(tasks, self.threads)
        back = self._order.argsort()
        return z[:, back], momentum[:, back], energy, gradient[:, back]

    def _group(self, number: int, n_chains: int) -> _Group:
        if (number, n_chains) not in self._groups:
            self._groups[number, n_chains] = _Group(self, self._columns, n_chains)
        return self._groups[number, n_chains]


def _order(network: Network, x: Tensor) -> tuple[Tensor, Network]:
    """Return the parameters' order in a trajectory, int64 [P], and the network of the inputs x [B, n] that are used."""
    is_used = x.any(0)
    out, n_inputs = network.widths[0]
    of_first = is_used.expand(out, -1).flatten()
    later = torch.ones(network.n_parameters - out * n_inputs, dtype=torch.bool)
    speaks = torch.cat([of_first, later])
    order = torch.cat([speaks.nonzero()[:, 0], (~speaks).nonzero()[:, 0]])
    return order, dataclasses.replace(network, n_inputs=int(is_used.sum()))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread in a `with` block.

    After a short operation on two threads the second would wait for the next one in a loop, and so take half a core
    from the threads that move the groups.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def side_by_side(tasks: list[Callable[[], None]], threads: int) -> None:
    """Run tasks side by side in so many threads at most, each with one thread of PyTorch."""
    with one_thread():
        if threads == 1 or len(tasks) == 1:
            for task in tasks:
                task()
            return
        # a new thread's matrix products take all cores, until it is told otherwise
        with ThreadPoolExecutor(min(threads, len(tasks)), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for done in [pool.submit(task) for task in tasks]:
                done.result()


class _Group:
    """Buffers of a few chains, and the gradient at their weights."""

    def __init__(self, target: Target, columns: Tensor, n_chains: int) -> None:
        self._target, network = target, target.used
        n_rows = len(target.rows)
        self._x = target.rows.expand(n_chains, -1, -1)
        self._columns = columns.expand(n_chains, -1, -1)
        self._weights = torch.empty(n_chains, target.n_parameters)
        self._gradient = torch.zeros(n_chains, target.n_parameters)
        layers, gradients = network.views(self._weights), network.views(self._gradient)
        self._matrices = [matrix for matrix, _ in layers]
        self._matrix_gradients = [matrix for matrix, _ in gradients]
        self._hidden = torch.empty(n_chains, network.n_hidden, n_rows)
        self._flowing = torch.empty(n_chains, network.n_hidden, n_rows)
        self._outputs = torch.empty(n_chains, network.n_outputs, n_rows)
        self._nll = torch.empty(n_chains, dtype=torch.float64)
        # the arguments of the passes, arrays of the same memory
        is_tanh = network.activation == "tanh"
        biases = [bias.numpy() for _, bias in layers]
        bias_gradients = [bias.numpy() for _, bias in gradients]
        hidden, flowing, nll = self._hidden.numpy(), self._flowing.numpy(), self._nll.numpy()
        self._activate = partial(passes.activate, hidden, biases[0], is_tanh)
        self._flow = partial(passes.differentiate, flowing, hidden, is_tanh, bias_gradients[0])
        above = (self._outputs.numpy(), biases[-1], target.y.numpy())
        if network.kind == "classification":
            self._judge = partial(passes.classify, *above, target.counts.numpy(), nll, bias_gradients[-1])
        else:
            last = network.n_parameters - 1
            log_noise, noise_gradient = self._weights[:, last].numpy(), self._gradient[:, last].numpy()
            self._judge = partial(passes.regress, *above, log_noise, nll, bias_gradients[-1], noise_gradient)

    def trajectory(
        self, z: Tensor, momentum: Tensor, gradient: Tensor, energy: Tensor, step: float, n_steps: int
    ) -> Callable[[], None]:
        """Return the task that moves z, momentum and gradient [C, P] in place and writes the energy [C]."""
        target = self._target
        moved = [value.numpy() for value in (z, momentum, self._gradient, self._weights, target.scales, target.centres)]

        def move() -> None:
            momentum.add_(gradient, alpha=-step / 2)
            z.add_(momentum, alpha=step)
            torch.addcmul(target.centres, z, target.scales, out=self._weights)
            for number in range(1, n_steps + 1):
                self._differentiate()
                is_last = number == n_steps
                passes.move(*moved, 1 / target.temperature, step / 2 if is_last else step, 0.0 if is_last else step)
            gradient.copy_(self._gradient)
            energy.copy_(self._nll + z.double().square().sum(-1) / 2).div_(target.temperature)

        return move

    def _differentiate(self) -> None:
        """Write the summed NLL of the weights, and its gradient."""
        matrix, matrix_gradient = self._matrices[0], self._matrix_gradients[0]
        if len(self._matrices) == 1:
            torch.bmm(matrix, self._columns, out=self._outputs)
            self._judge()
            torch.bmm(self._outputs, self._x, out=matrix_gradient)
            return
        torch.bmm(matrix, self._columns, out=self._hidden)
        self._activate()
        torch.bmm(self._matrices[1], self._hidden, out=self._outputs)
        self._judge()
        torch.bmm(self._outputs, self._hidden.mT, out=self._matrix_gradients[1])
        torch.bmm(self._matrices[1].mT, self._outputs, out=self._flowing)
        self._flow()
        torch.bmm(self._flowing, self._x, out=matrix_gradient)
