"""The sampler of reference posteriors: is it right, how fast is it, and does a colder posterior predict better?

    python -m benchmarks.posterior ranks [DATA_SETS]    simulation-based calibration (Talts et al. 2018)
    python -m benchmarks.posterior speed [PYTHON]       gradients a second, beside NumPyro's and BlackJAX's HMC
    python -m benchmarks.posterior cold FILE            posteriors colder than the reference: who predicts better?

PYTHON has JAX, and NumPyro or BlackJAX or both; without it, this Python. It runs this file alone, which therefore
imports the suite and PyTorch only where it needs them. `speed` needs a quiet machine, and takes two minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

    from bench.posterior.gradient import Target
    from bench.posterior.network import Network

CHAINS, THIN, WARMUP = 2, 4, 60  # of the simulated data sets
TASKS = ("digits", "mnist14-sd1", "mnist28")
CLASSES, TOGETHER, LEAPFROGS, ROUNDS, THREADS = 10, 8, 50, 5, 2
STEP = 1e-3  # small enough for each task that no proposal diverges: all libraries do the same work


def simulated_ranks(network: Network, *, n_rows: int, data_sets: int, n_draws: int, seed: int) -> Tensor:
    """Return the ranks of parameters drawn from the prior among draws from the posterior of data that they simulate.

    Every fourth draw counts, so that draws are nearly independent, as uniform ranks require. The statistics: the
    log-likelihood of the data (Modrak et al. 2023), the log-probability of the first class at a new row, and the size
    of the last layer's first bias. None depends on the order of hidden units.

    Args:
        network: a classifier.
        n_rows: of each data set.
        data_sets: how many are simulated.
        n_draws: from each posterior.
        seed: of all random numbers.

    Returns:
        int64 [data_sets, 3], from 0 to n_draws.
    """
    import torch

    from bench.core import streams
    from bench.posterior.gradient import Target
    from bench.posterior.hmc import sample

    found = []
    for number in range(data_sets):
        source = streams.generator(seed, "simulated", number)
        x = torch.randn(n_rows + 1, network.n_inputs, generator=source)
        z = torch.randn(1, network.n_parameters, generator=source)
        probabilities = network.outputs(network.weights(z), x[:-1])[0].softmax(-1)
        y = torch.multinomial(probabilities, 1, generator=source)[:, 0]

        def statistics(z: Tensor, x: Tensor = x, y: Tensor = y) -> Tensor:
            weights = network.weights(z)
            new = network.outputs(weights, x[-1:]).log_softmax(-1)[:, 0, 0]
            of_rows = network.outputs(weights, x[:-1]).log_softmax(-1)[:, torch.arange(n_rows), y].sum(-1)
            return torch.stack([of_rows, new, weights.layers[-1][1][:, 0].abs()], 1)

        drawn = sample(
            Target(network, x[:-1], y),
            chains=CHAINS,
            draws=THIN * -(-n_draws // CHAINS),
            warmup=WARMUP,
            seed=streams.stream_seed(seed, "sampling", number),
            keep=statistics,
        ).draws[:, THIN - 1 :: THIN]
        found.append((drawn.transpose(0, 1).flatten(0, 1)[:n_draws] < statistics(z)).sum(0))
    return torch.stack(found)


def ranks(data_sets: int) -> None:
    """Print the ranks of each statistic and their p-value."""
    import torch
    from scipy import stats

    from bench.posterior.network import Network

    n_draws = 19
    found = simulated_ranks(Network(2, 3, 2, "tanh"), n_rows=8, data_sets=data_sets, n_draws=n_draws, seed=2)
    for name, of_statistic in zip(("log-likelihood", "log-probability", "bias"), found.T, strict=True):
        counts = torch.bincount(of_statistic, minlength=n_draws + 1)
        print(f"{name}: ranks {counts.tolist()}, p = {stats.chisquare(counts.numpy()).pvalue:.3g}")


def speed(python: str) -> None:
    """Print milliseconds a gradient of one chain of eight: the products alone, ours, and the peers'."""
    from bench.posterior.tasks import load, task_named

    with TemporaryDirectory() as folder:
        path = Path(folder, "task.npz")
        for name in TASKS:
            task = task_named(name)
            train = load(task).train
            n_parameters = task.network(train.x.shape[1]).n_parameters
            z = 0.3 * np.random.default_rng(0).standard_normal((TOGETHER, n_parameters), np.float32)
            np.savez(path, x=train.x.numpy(), y=train.y.numpy(), z=z, n_hidden=task.n_hidden)
            found = {**_ours(path), **_peers(python, path)}
            print(f"{name}: " + ", ".join(f"{key} {value:.3f} ms" for key, value in found.items()), flush=True)


def _shortest(call: Callable[[], object]) -> float:
    """Return the milliseconds a gradient of the fastest call of `LEAPFROGS` gradients of all chains, warm."""
    call()
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return 1000 * min(seconds) / LEAPFROGS / TOGETHER


def _ours(path: Path) -> dict[str, float]:
    import torch

    from bench.posterior.gradient import GROUP, Target, one_thread, side_by_side
    from bench.posterior.hmc import Walk
    from bench.posterior.network import Network

    torch.set_num_threads(THREADS)
    task = np.load(path, allow_pickle=False)
    x, y, z = (torch.from_numpy(task[name]) for name in "xyz")
    target = Target(Network(x.shape[1], int(task["n_hidden"]), CLASSES), x, y)
    walk = Walk(target, TOGETHER, 0)
    walk.z = z
    walk.energy, walk.gradient = target.energy_and_gradient(z)

    tasks = [_products_of(target, part) for part in z.split(GROUP)]

    def products() -> None:
        side_by_side(tasks, THREADS)

    with one_thread():  # but the target's own threads
        return {"products": _shortest(products), "ours": _shortest(lambda: walk.propose(0, STEP, LEAPFROGS))}


def _products_of(target: Target, z: Tensor) -> Callable[[], None]:
    """Return a task of nothing but the matrix products of some gradients at z [C, P]."""
    import torch

    n_rows = len(target.x)
    lower, upper = (matrix.contiguous() for matrix, _ in target.network.weights(z).layers)
    hidden, outputs = torch.empty(len(z), lower.shape[1], n_rows), torch.empty(len(z), CLASSES, n_rows)
    lower_gradient, upper_gradient = torch.empty_like(lower), torch.empty_like(upper)
    rows, columns = target.x.expand(len(z), -1, -1), target.x.T.contiguous().expand(len(z), -1, -1)

    def multiply() -> None:
        for _ in range(LEAPFROGS):
            torch.bmm(lower, columns, out=hidden)
            torch.bmm(upper, hidden, out=outputs)
            torch.bmm(outputs, hidden.mT, out=upper_gradient)
            torch.bmm(upper.mT, outputs, out=hidden)
            torch.bmm(hidden, rows, out=lower_gradient)

    return multiply


def _peers(python: str, path: Path) -> dict[str, float]:
    """Return the times of the libraries that another Python has, each in its own process."""
    found = {}
    for name in PEERS:
        done = subprocess.run([python, __file__, name, str(path)], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found[name] = float(json.loads(done.stdout.splitlines()[-1]))
        else:
            print(f"{name}: {(done.stderr.strip() or 'no answer').splitlines()[-1]}")
    return found


def _potential(path: Path) -> tuple[Callable[[Any], Any], Any]:
    """Return the energy of one chain's z in JAX, in the order of our parameters, and all chains' start."""
    import jax
    import jax.numpy as jnp

    task = np.load(path, allow_pickle=False)
    x, y, n_hidden = jnp.asarray(task["x"]), jnp.asarray(task["y"]), int(task["n_hidden"])
    end = n_hidden * x.shape[1]

    def energy(z: Any) -> Any:
        lower, rest = z[:end].reshape(n_hidden, -1), z[end:]
        hidden = jax.nn.relu(x @ lower.T + rest[:n_hidden])
        upper, bias = rest[n_hidden:-CLASSES].reshape(CLASSES, n_hidden), rest[-CLASSES:]
        log_probs = jax.nn.log_softmax(hidden @ upper.T + bias)
        return -jnp.take_along_axis(log_probs, y[:, None], 1).sum() + (z * z).sum() / 2

    return energy, jnp.asarray(task["z"])


def blackjax(path: Path) -> float:
    """Return the time of one iteration of BlackJAX's HMC, compiled, for all chains by vmap."""
    import blackjax as library
    import jax
    import jax.numpy as jnp

    energy, z = _potential(path)
    kernel = library.hmc(lambda at: -energy(at), STEP, jnp.ones(z.shape[1]), LEAPFROGS)
    states = jax.vmap(kernel.init)(z)
    keys = jax.random.split(jax.random.PRNGKey(0), TOGETHER)
    move = jax.jit(jax.vmap(kernel.step))
    return _shortest(lambda: jax.block_until_ready(move(keys, states)))


def numpyro(path: Path) -> float:
    """Return the time of one iteration of NumPyro's HMC, compiled, for all chains by vmap."""
    import jax
    from numpyro.infer import HMC

    energy, z = _potential(path)
    settings = {"adapt_step_size": False, "adapt_mass_matrix": False}
    kernel = HMC(potential_fn=energy, step_size=STEP, trajectory_length=None, num_steps=LEAPFROGS, **settings)
    keys = jax.random.split(jax.random.PRNGKey(0), TOGETHER)
    states = kernel.init(keys, 0, init_params=z, model_args=(), model_kwargs={})
    move = jax.jit(lambda states: kernel.sample(states, (), {}))  # several keys have made it one for all chains
    assert (move(states).num_steps == LEAPFROGS).all(), move(states).num_steps
    return _shortest(lambda: jax.block_until_ready(move(states)))


PEERS = {"numpyro": numpyro, "blackjax": blackjax}


COLD_TASK, TEMPERATURES = "digits", (1.0, 0.3, 0.1, 0.03)
COLD_CHAINS, COLD_DRAWS, COLD_WARMUP = 4, 1000, 500
COLD_FIELDS = ("temperature", "chain", "nll", "accuracy", "auroc_clothes", "total_variation", "acceptance", "rhat")


def cold(file: Path) -> None:
    """Draw from the posterior of a task to the power 1/T; write a CSV with a row for each temperature and chain.

    The energy of likelihood and prior is divided by T (Wenzel et al. 2020, arXiv 2002.02405). Total variation is to the
    reference, which has T = 1 and other chains. rhat: 99.9 % of the predictions' split R-hats lie below it.
    """
    import csv

    rows = [row for temperature in TEMPERATURES for row in _cold(temperature)]
    with file.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows([COLD_FIELDS, *rows])


def _cold(temperature: float) -> list[tuple[float | int, ...]]:
    from bench.measure.metrics.classification import accuracy
    from bench.measure.metrics.ood import auroc
    from bench.measure.metrics.uncertainty import entropy
    from bench.posterior.distance import total_variation
    from bench.posterior.gradient import Target
    from bench.posterior.hmc import sample
    from bench.posterior.making import predict
    from bench.posterior.reference import find
    from bench.posterior.tasks import DIGITS, load, task_named

    task = task_named(COLD_TASK)
    data, reference = load(task, None), find(COLD_TASK, task)
    target = Target(task.network(data.train.x.shape[1]), data.train.x, data.train.y, temperature)
    sizes = {"chains": COLD_CHAINS, "draws": COLD_DRAWS, "warmup": COLD_WARMUP}
    print(f"T = {temperature}: {COLD_CHAINS} chains of {COLD_DRAWS} draws", flush=True)
    found = sample(target, **sizes, seed=2)
    predicted = predict(target.network, found.draws, data)
    rhat = float(np.quantile(np.concatenate([one.ravel() for one in predicted.rhat.values()]), 0.999))
    digits, clothes = (predicted.arrays[name].astype(float) for name in (DIGITS, "clothes"))
    labels, rows = data.sets[DIGITS].y.numpy(), []
    for chain in range(COLD_CHAINS):
        own = digits[chain] / digits[chain].sum(-1, keepdims=True)
        nll = -np.log(np.maximum(own[np.arange(len(labels)), labels], np.finfo(np.float16).smallest_subnormal)).mean()
        detected = auroc(entropy(np.log(np.maximum(own, 1e-12))), entropy(np.log(np.maximum(clothes[chain], 1e-12))))
        moved = total_variation(own, reference.predictive(DIGITS))
        good = (accuracy(own, labels), detected, moved, found.acceptance[chain].item(), rhat)
        rows.append((temperature, chain, *(round(float(one), 6) for one in (nll, *good))))
    return rows


def main() -> None:
    """Do what the first argument says."""
    what, *rest = sys.argv[1:] or ["speed"]
    if what in PEERS:
        # as a module it has this name, and as a script its folder would hide the library of the same name
        sys.path = [place for place in sys.path if Path(place or ".").resolve() != Path(__file__).parent]
        print(json.dumps(PEERS[what](Path(rest[0]))))
    elif what == "cold":
        cold(Path(rest[0]))
    elif what == "ranks":
        ranks(int(rest[0]) if rest else 200)
    else:
        speed(rest[0] if rest else sys.executable)


if __name__ == "__main__":
    main()
