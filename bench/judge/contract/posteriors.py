"""What the contract asks of every posterior: predictions that belong to draws and rows, and nothing but its arrays."""

from __future__ import annotations

import math

import torch

from bench.core.errors import ContractViolation, Unsupported
from bench.interface import Categorical, Gaussian
from bench.judge.contract.under_test import PREDICTED, SAME, ApproachUnderTest, contract_check, require
from bench.measure.measuring import check_answer

PER_ROW_DRAWS = 100


@contract_check("return Categorical(log_softmax over the classes, float32 [S, B, K])")
def prediction_shape(subject: ApproachUnderTest) -> None:
    """Predictions are float32 [S, B, K] and normalised, or a Gaussian with variances that are not negative."""
    posterior = subject.fit()
    draws = subject.draws_of(posterior)
    answer = posterior.predict(subject.x, draws, subject.rows)
    shape, who = (len(draws), PREDICTED, subject.task.n_outputs), type(posterior).__name__
    if isinstance(answer, Categorical):
        check_answer(answer.log_probs, shape, "classes", who)
        require(answer.log_probs.dtype == torch.float32, f"type {answer.log_probs.dtype}, wanted float32")
        worst = float(answer.log_probs.double().logsumexp(dim=2).abs().max())
        require(worst < SAME, f"probabilities sum to exp({worst})")
    else:
        assert isinstance(answer, Gaussian)
        for part in (answer.mean, answer.variance):
            check_answer(part, shape, "outputs", who)
        require(bool((answer.variance >= 0).all()), "a variance is negative")


@contract_check("seed draw d from the run seed and d alone: bench.core.streams.normals_ or row_noise")
def draws_have_names(subject: ApproachUnderTest) -> None:
    """Draw d is the same draw whatever other draws are asked for beside it, and draws differ."""
    for posterior in subject.posteriors():
        draws = subject.draws_of(posterior)
        together = subject.predict(posterior)
        for draw in draws:
            alone = subject.predict(posterior, range(draw, draw + 1))[0]
            same = torch.allclose(together[draw], alone, atol=SAME)
            require(same, f"draw {draw} predicted alone differs from draw {draw} predicted among {len(draws)}")
        if len(draws) > 1:
            require(not torch.allclose(together[0], together[1], atol=SAME), "two draws are equal")


@contract_check("let no row see another; no batch statistics; noise named by `rows`")
def blocks_do_not_matter(subject: ApproachUnderTest) -> None:
    """A row's prediction depends neither on the rows predicted with it nor on their order."""
    for posterior in subject.posteriors():
        whole = subject.predict(posterior)
        for size in (1, 7, PREDICTED):
            last_first = [range(end - 1, max(end - size, 0) - 1, -1) for end in range(PREDICTED, 0, -size)]
            parts = torch.cat([subject.predict(posterior, block=block) for block in last_first], dim=1).flip(1)
            gap = float(((parts - whole).abs() / (1 + whole.abs())).max())
            said = f"blocks of {size} rows, the last row first, differ from one block by {gap} (relative)"
            require(gap < 10 * SAME, said)


@contract_check("store in arrays() all that predict needs")
def rebuild(subject: ApproachUnderTest) -> None:
    """The stored arrays are all that a posterior is."""
    posterior = subject.fit()
    arrays = {name: value.clone() for name, value in posterior.arrays().items()}
    rebuilt = subject.approach().rebuild(arrays, subject.task, 0)
    same = torch.equal(subject.predict(posterior), subject.predict(rebuilt, subject.draws_of(posterior)))
    require(same, "the rebuilt posterior predicts otherwise")


@contract_check("return self, or a posterior with noise 'shared' and the same distribution of each row")
def per_row(subject: ApproachUnderTest) -> None:
    """`per_row` is the posterior itself, or has the same distribution for each row and says that it shares noise.

    If the distributions are the same, the differences d of two independent draws are symmetric around zero, so that
    |sum d| / sqrt(sum d^2) exceeds t with probability 2 exp(-t^2 / 2) at most (Efron 1969). With this t, a correct
    `per_row` fails once in a million, over all rows and outputs together.
    """
    posterior, *fast = subject.posteriors()
    for alone in fast:
        require(alone.noise == "shared", f"per_row has noise '{alone.noise}', wanted 'shared'")
        require(alone.n_draws is None, f"per_row has n_draws {alone.n_draws}, wanted None")
        both = [subject.predict(one, range(PER_ROW_DRAWS)).double() for one in (posterior, alone)]
        if subject.is_classifier:
            both = [log_probs.exp() for log_probs in both]
        gap = both[0] - both[1]
        gap /= gap.abs().amax(0).clamp(min=1e-300)  # the square of a probability of 1e-200 would be 0
        limit = math.sqrt(2 * math.log(2 * gap[0].numel() / 1e-6))
        same = bool((gap.sum(0).abs() <= limit * gap.square().sum(0).sqrt()).all())
        require(same, f"a row's mean over draws of per_row is more than {limit:.1f} standard errors away")
        try:
            alone.log_density_ratio(range(1))
        except Unsupported:
            continue
        raise ContractViolation("a draw of per_row is not one network, but has a log_density_ratio")
