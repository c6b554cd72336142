"""Does the advice mend the objective? A program follows `report.to_dict()` and audits again."""

import html
import json

import pytest
import torch

import elbo_audit
from elbo_audit.audits import line_of_kl
from tests.elbo_audit.corpus.common import sizes
from tests.elbo_audit.corpus.running import _own_store, plan
from tests.elbo_audit.mending import audited_again, has_factors, is_followed
from tests.elbo_audit.models import N_TRAIN, STEPS, Model, Single, batches
from tests.elbo_audit.test_two_parts import of_parts, reverse

ROUNDS = 3  # a group of few numbers is judged once the others are mended


def follow(audit, arguments):
    """Audit, follow the advice while it has factors, and audit again; return the first report and the last."""
    torch.manual_seed(0)
    answer = [json.loads(json.dumps(audit(**arguments).to_dict()))]  # nothing but what JSON holds
    again = None
    while has_factors(answer[-1]) and len(answer) <= ROUNDS:
        torch.manual_seed(0)
        again = audited_again(audit, arguments, answer)
        answer.append(json.loads(json.dumps(again.to_dict())))
    return answer[0], again


@pytest.mark.filterwarnings("ignore:The Tensor default of the field:FutureWarning")  # of a library's import
@pytest.mark.parametrize(("style", "fault"), [case for case in plan() if case[1]])
def test_advice_mends_what_was_planted_or_has_no_factor(style, fault):
    with torch.random.fork_rng(), _own_store(style):
        objective = style.build(sizes(style.name), fault)
        audit = elbo_audit.audit_pyro if objective.pyro else elbo_audit.audit_torch
        answer, again = follow(audit, objective.arguments)
    assert again is None or is_followed(answer, again), f"{answer['advice']}\n{again}"
    if set(objective.expected.fails) & {"kl-scale", "kl-sign"} and not answer["ok"] and again is None:
        assert "no factor" in str(answer["advice"]) or answer["numbers"].get("kl_per_epoch") is None


def of_model(change):
    """Return a model's loss with a KL of each layer that `change` makes of layer and name."""
    model = Model()

    def loss(x, y):
        return model.nll(x, y) + sum(change(getattr(model, name), name) for name in ("first", "second")) / STEPS

    return model, loss, {"nll": model.nll, "prior_std": 2.0}


def of_single(loss_of, **options):
    net = Single()
    return net, loss_of(net), {"nll": net.nll, **options, **({"kl": net.analytic} if "kl" in options else {})}


def with_kl(term):
    return lambda net: lambda x, y: net.nll(x, y) + term(net) / STEPS


MENDED = {
    "the entropy twice": lambda: of_single(lambda net: of_parts(net, 2.0, 1.0), prior_std=1.0),
    "half of the entropy": lambda: of_single(lambda net: of_parts(net, 0.5, 1.0), prior_std=1.0),
    "no entropy": lambda: of_single(lambda net: of_parts(net, 0.0, 1.0), prior_std=1.0),
    "a layer without its entropy": lambda: of_model(
        lambda layer, name: layer.kl() + (layer.sigma().log().sum() if name == "first" else 0.0)
    ),
    "a layer without its KL": lambda: of_model(lambda layer, name: layer.kl() * (name == "second")),
    "layers that weigh otherwise": lambda: of_model(lambda layer, name: layer.kl() * (0.3 if name == "first" else 5.0)),
    "the KL in each batch": lambda: of_model(lambda layer, name: layer.kl() * STEPS),
    "no KL": lambda: of_model(lambda layer, name: layer.kl() * 0.0),
    "the KL subtracted, and twice": lambda: of_model(lambda layer, name: -2.0 * layer.kl()),
    "the entropy added": lambda: of_single(lambda net: of_parts(net, -1.0, 1.0), prior_std=1.0),
    "a weight like that of no mistake": lambda: of_single(with_kl(lambda net: 0.0767 * net.analytic()), kl=True),
    "KL / (N // B), and a short batch": lambda: of_single(
        with_kl(lambda net: net.analytic() * STEPS / 2), n_train=288, n_batches=3
    ),
}
NO_FACTOR = {
    "the reverse KL": (lambda: of_single(with_kl(lambda net: reverse(net, net.transform(net.weight_rho))), kl=True)),
    "another prior than kl=": lambda: of_single(lambda net: of_parts(net, 1.0, 0.3**-2), kl=True),
    "another prior than meant": lambda: of_single(lambda net: of_parts(net, 1.0, 0.3**-2), prior_std=1.0),
    "another likelihood": lambda: of_single(
        lambda net: lambda x, y: net._nll(x, y, net.draw(), label_smoothing=0.1) + net.analytic() / STEPS
    ),
}


def arguments_of(case):
    module, loss, options = case()
    return {
        "loss": loss,
        "parameters": [*module.named_parameters()],
        "batches": batches(),
        "n_train": N_TRAIN,
    } | options


@pytest.mark.parametrize("name", MENDED)
def test_advice_that_is_followed_gives_a_weight_of_one(name):
    answer, again = follow(elbo_audit.audit_torch, arguments_of(MENDED[name]))
    assert not answer["ok"]
    assert again is not None, answer["advice"]
    assert is_followed(answer, again), f"{answer['advice']}\n{again}"
    assert again.ok, str(again)


@pytest.mark.parametrize("name", NO_FACTOR)
def test_what_no_factor_mends_has_none(name):
    answer, again = follow(elbo_audit.audit_torch, arguments_of(NO_FACTOR[name]))
    assert not answer["ok"]
    assert again is None
    if "likelihood" not in name:
        assert "no factor" in answer["advice"][0]["text"]


def test_a_factor_has_an_interval_that_holds_it():
    report = elbo_audit.audit_torch(**arguments_of(MENDED["the KL in each batch"]))
    (entry,) = [entry for entry in report.advice if entry["rule"] == "kl-scale"]
    low, high = entry["interval"]
    assert low < entry["multiply"]["all"] < high
    assert low < 1 / STEPS < high or high / low < 1 + 1e-4
    assert entry["cause"] == "weight"


def test_a_report_has_at_most_ten_lines_and_begins_with_the_cause():
    report = elbo_audit.audit_torch(**arguments_of(MENDED["the KL in each batch"]))
    lines = str(report).splitlines()
    assert len(lines) <= 10
    assert lines[0].startswith(
        "fails         every batch pays the whole KL: divide it by the number of batches, 468.75"
    )
    assert "the KL counts 468.75 times in an epoch (95 % interval 468.7" in lines[0]
    shown = report._repr_html_()  # in a notebook
    assert html.unescape(shown) == f"<pre>{report}</pre>"
    assert "<" not in shown.removeprefix("<pre>").removesuffix("</pre>")


def test_the_line_that_names_the_kl_is_shown(model):
    def loss(x, y):
        nll = model.nll(x, y)
        return nll + model.kl()  # each batch pays the whole

    detail = (
        elbo_audit.audit_torch(loss, model.named_parameters(), batches(), N_TRAIN, nll=model.nll).of("kl-scale").detail
    )
    number = loss.__code__.co_firstlineno + 2
    assert f"the line to change may be test_advice.py:{number}: return nll + model.kl()" in detail
    assert line_of_kl(len) == line_of_kl(model.nll) == ""


def logged(nll, kl, n, log=print):
    loss = nll + kl / n  # the KL
    log("kl * 1", kl)
    return loss


def multiplied(model):
    beta = 0.1
    kl_term = beta * model.kl()
    assert kl_term is not None
    return kl_term


def augmented(loss, layers):
    for layer in layers:
        loss += layer.kl_loss()
    log_q = len(layers)
    return loss, log_q


def named_alone(model):
    kl = model.divergence()
    assert kl is not None
    return model


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (logged, "loss = nll + kl / n  # the KL"),
        (multiplied, "kl_term = beta * model.kl()"),
        (augmented, "loss += layer.kl_loss()"),
        (named_alone, "assert kl is not None"),
    ],
)
def test_the_line_that_weighs_the_kl_comes_before_one_that_names_it(function, text):
    assert line_of_kl(function).endswith(f": {text}")
