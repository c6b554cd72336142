"""Eight styles of Pyro."""

from __future__ import annotations

import importlib
import math
from contextlib import contextmanager, nullcontext
from functools import partial

import torch
from torch.nn import functional

from tests.elbo_audit.corpus.common import Expected, Objective, Sizes, Style, class_batches, expected, real_batches

PLATES = ("KL in every batch", "wrong N after a split", "both scale and plate")
LATENTS = ("annealing stuck", "prior std given as variance")


def frozen_share(s: Sizes) -> float:
    """Return the scale of the latent sites where the annealing got stuck; Pyro's scale must be positive."""
    return max(s.beta, 0.01)


def wanted(fault: str | None, s: Sizes, kl: float | None = 1.0) -> Expected:
    """Return what the audit should tell a user."""
    if fault == "annealing stuck":
        return Expected(("kl-scale",), frozen_share(s))
    if fault == "sigma is a constant":  # the documentation: a mean without a partner is not measured
        return Expected(("sigma-frozen",), withheld=True)
    return expected(fault, s, kl)


class Rows:
    """The plate over the data, in one of two right ways or with a mistake."""

    def __init__(self, s: Sizes, fault: str | None, way: str) -> None:
        self.s, self.fault, self.way = s, fault, way

    def __call__(self, batch: int):
        """Return the context of the observed site."""
        pyro = importlib.import_module("pyro")
        total = round(self.s.n_train / self.s.share) if self.fault == "wrong N after a split" else self.s.n_train
        if self.fault == "KL in every batch":
            return pyro.plate("data", batch)
        if self.way == "scale":
            return both(pyro.poutine.scale(scale=total / batch), pyro.plate("data", batch))
        plate = pyro.plate("data", total, subsample_size=batch)
        return both(pyro.poutine.scale(scale=total / batch), plate) if self.fault == "both scale and plate" else plate


@contextmanager
def both(outer, inner):
    """Open two contexts, one inside the other."""
    with outer, inner as found:
        yield found


def finish(s: Sizes, fault: str | None, model, guide, batches, kl: float | None = 1.0, **more) -> Objective:
    """Return the audit's arguments."""
    arguments = {"model": model, "guide": guide, "batches": batches, "n_train": s.n_train, "prior_std": s.prior, **more}
    return Objective(arguments, wanted(fault, s, kl), pyro=True)


def latents(s: Sizes, fault: str | None, shapes: dict[str, tuple[int, ...]]):
    """Draw the weights from their prior."""
    pyro, dist = importlib.import_module("pyro"), importlib.import_module("pyro.distributions")
    std = s.prior**2 if fault == "prior std given as variance" else s.prior
    with pyro.poutine.scale(scale=frozen_share(s)) if fault == "annealing stuck" else nullcontext():
        return [pyro.sample(k, dist.Normal(torch.zeros(v), std).to_event(len(v))) for k, v in shapes.items()]


def by_hand(s: Sizes, fault: str | None, way: str, loss_name: str) -> Objective:
    """A network of two layers; a guide with pyro.param."""
    pyro, dist, infer = (importlib.import_module(f"pyro{part}") for part in ("", ".distributions", ".infer"))
    pyro.clear_param_store()
    batches = class_batches(s)
    shapes = {"w1": (s.hidden, s.n_in), "b1": (s.hidden,), "w2": (s.n_out, s.hidden), "b2": (s.n_out,)}
    rows = Rows(s, fault, way)

    def model(x, y=None):
        w1, b1, w2, b2 = latents(s, fault, shapes)
        logits = functional.linear(torch.relu(functional.linear(x, w1, b1)), w2, b2)
        with rows(len(x)):
            return pyro.sample("y", dist.Categorical(logits=logits), obs=y)

    def guide(x, y=None):
        with pyro.poutine.scale(scale=frozen_share(s)) if fault == "annealing stuck" else nullcontext():
            for name, shape in shapes.items():
                loc = pyro.param(f"{name}_loc", lambda shape=shape: 0.3 * torch.randn(shape))
                if fault == "sigma is a constant":
                    scale = torch.full(shape, s.sigma)
                else:
                    scale = pyro.param(
                        f"{name}_scale",
                        lambda shape=shape: torch.full(shape, s.sigma),
                        constraint=dist.constraints.positive,
                    )
                loc = loc.detach() if fault == "mean detached" else loc
                pyro.sample(name, dist.Normal(loc, scale).to_event(len(shape)))

    return finish(s, fault, model, guide, batches, loss=getattr(infer, loss_name)())


def automatic(
    s: Sizes, fault: str | None, kind: str, loss_name: str = "Trace_ELBO", trained: int = 0, normalised: bool = False
) -> Objective:
    """Multinomial regression with an automatic guide, after `trained` steps; `normalised`: all divided by N."""
    pyro, dist, infer, auto = (
        importlib.import_module(f"pyro{part}") for part in ("", ".distributions", ".infer", ".infer.autoguide")
    )
    pyro.clear_param_store()
    batches = class_batches(s)
    rows = Rows(s, fault, "subsample")
    shapes = {"weight": (s.n_out, s.n_in), "bias": (s.n_out,)}

    def model(x, y=None):
        with pyro.poutine.scale(scale=1 / s.n_train) if normalised else nullcontext():
            weight, bias = latents(s, fault, shapes)
            with rows(len(x)):
                return pyro.sample("obs", dist.Categorical(logits=functional.linear(x, weight, bias)), obs=y)

    guide = getattr(auto, kind)(model, init_scale=s.sigma)
    if fault == "annealing stuck":
        guide = pyro.poutine.scale(guide, scale=frozen_share(s))
    if normalised and fault != "guide left unscaled":
        guide = pyro.poutine.scale(guide, scale=1 / s.n_train)
    loss = getattr(infer, loss_name)()
    svi = infer.SVI(model, guide, pyro.optim.Adam({"lr": 0.01}), loss)
    for k in range(trained):
        svi.step(*batches[k % len(batches)])
    return finish(s, fault, model, guide, batches, loss=loss)


def latent_noise(s: Sizes, fault: str | None) -> Objective:
    """Regression whose noise is latent too; its prior is no Gaussian, so the user passes factors=[]."""
    pyro, dist, infer, auto = (
        importlib.import_module(f"pyro{part}") for part in ("", ".distributions", ".infer", ".infer.autoguide")
    )
    pyro.clear_param_store()
    batches, rows = real_batches(s), Rows(s, fault, "subsample")

    def model(x, y=None):
        (weight,) = latents(s, fault, {"weight": (s.n_in,)})
        noise = pyro.sample("noise", dist.Gamma(2.0, 2.0))
        with rows(len(x)):
            return pyro.sample("obs", dist.Normal(x @ weight, noise), obs=y)

    guide = auto.AutoNormal(model, init_scale=s.sigma)
    return finish(s, fault, model, guide, batches, loss=infer.Trace_ELBO(), factors=[], prior_std=None)


def hierarchy(s: Sizes, fault: str | None) -> Objective:
    """A latent scale of the weights' prior; PyroModule and PyroSample; the user passes factors=[]."""
    pyro, dist, infer, auto, nn = (
        importlib.import_module(f"pyro{part}") for part in ("", ".distributions", ".infer", ".infer.autoguide", ".nn")
    )
    pyro.clear_param_store()
    batches, rows = class_batches(s), Rows(s, fault, "scale")

    class Net(nn.PyroModule):
        def __init__(self) -> None:
            super().__init__()
            self.tau = nn.PyroSample(dist.LogNormal(math.log(s.prior), 0.5))
            self.linear = nn.PyroModule[torch.nn.Linear](s.n_in, s.n_out)
            self.linear.weight = nn.PyroSample(
                lambda _: dist.Normal(0.0, self.tau).expand([s.n_out, s.n_in]).to_event(2)
            )
            self.linear.bias = nn.PyroSample(dist.Normal(0.0, 1.0).expand([s.n_out]).to_event(1))

        def forward(self, x, y=None):
            self.tau  # noqa: B018 - reading it draws it, and the weights need it
            logits = self.linear(x)
            with rows(len(x)):
                return pyro.sample("obs", dist.Categorical(logits=logits), obs=y)

    model = Net()
    guide = auto.AutoNormal(model, init_scale=s.sigma)
    return finish(s, fault, model, guide, batches, loss=infer.Trace_ELBO(), factors=[], prior_std=None)


def automatic_style(kind: str, faults: tuple[str, ...], **how) -> Style:
    """Return the style of a kind of automatic guide."""
    return Style(kind, partial(automatic, kind=kind, **how), faults, "pyro")


STYLES = [
    Style(
        "guide by hand, subsample",
        partial(by_hand, way="subsample", loss_name="Trace_ELBO"),
        (*PLATES, *LATENTS, "sigma is a constant", "mean detached"),
        "pyro",
    ),
    Style(
        "guide by hand, mean field",
        partial(by_hand, way="scale", loss_name="TraceMeanField_ELBO"),
        (*PLATES[:2], *LATENTS, "sigma is a constant", "mean detached"),
        "pyro",
    ),
    automatic_style("AutoNormal", PLATES + LATENTS, loss_name="TraceMeanField_ELBO"),
    automatic_style("AutoDiagonalNormal", ("guide left unscaled",), normalised=True),
    automatic_style("AutoMultivariateNormal", (*PLATES, "annealing stuck"), trained=40),
    automatic_style("AutoLowRankMultivariateNormal", (*PLATES, "annealing stuck"), trained=40),
    Style("latent noise", latent_noise, PLATES, "pyro"),
    Style("hierarchy", hierarchy, PLATES[:2], "pyro"),
]
