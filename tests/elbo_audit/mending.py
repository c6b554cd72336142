"""Follows the advice of a report, without a person: audits the loss again with the factors and terms of `to_dict()`."""

import dataclasses
import math
from unittest import mock

import numpy as np

from elbo_audit import audits
from elbo_audit.audits import apply_rules
from elbo_audit.objective import Objective


class Mended(Objective):
    """An objective whose loss has the factors and the further terms that a report advises."""

    def __init__(self, case, answer):
        vars(self).update(vars(case.objective))  # shapes, batches and terms
        self.inner, self.case, self.base = case.objective, case, case.objective.parameters
        self.is_divisible = False  # the weight of the data is that of this number of rows
        self.data_weight = answer["numbers"].get("data_weight", 1.0)
        steps = case.n_batches or case.n_train / case.objective.batch_size
        self.step = self.data_weight / steps
        self.prior = case.prior_std or answer["numbers"].get("prior_std", 1.0)
        self.factors, self.entropies, self.terms_to_add = {}, {}, []
        for entry in answer["advice"]:
            kept = self.entropies if entry["part"] == "entropy" else self.factors
            for name, factor in entry["multiply"].items():
                kept[name] = kept.get(name, 1.0) * factor
            self.terms_to_add += [(entry["part"], name, times) for name, times in entry["add"].items()]

    def value(self, name):
        return self.inner.value(name)

    def assign(self, name, value):
        self.inner.assign(name, value)

    @property
    def epsilon(self):
        return self.inner.epsilon

    def take(self, batch, rows):
        return self.inner.take(batch, rows)

    def _evaluate(self, term, batch, draw, slopes):
        value, gradient = self.inner._evaluate(term, batch, draw, slopes)
        if term == "loss":
            for more, by in self.extra(batch, draw, slopes):
                value += more
                gradient = {name: part + by.get(name, 0.0) for name, part in gradient.items()}
        return value, gradient

    def extra(self, batch, draw, slopes):
        """Yield value and gradient of each term that the advice adds to the loss."""
        for name, factor in self.factors.items():
            names = set(self.shapes) if name == "all" else self.names_of(name)
            with self.others_as_they_were(names):
                value, by = self.rest(batch, draw, slopes)
            yield (factor - 1) * value, {each: (factor - 1) * part for each, part in by.items() if each in names}
        for name, factor in self.entropies.items():  # it counts 1 / factor times
            yield from self.parts(name, (factor - 1) / factor * self.step, 0.0)
        for part, name, times in self.terms_to_add:
            if self.case.has_kl and part == "KL":
                value, by = self.inner._evaluate("kl", (), draw, slopes)
                yield times * value, {each: times * slope for each, slope in by.items()}
            else:
                yield from self.parts(name, times, times / self.prior**2 if part == "KL" else 0.0)

    def rest(self, batch, draw, slopes):
        """Return value and gradient of what is left of the loss without its data part."""
        whole = self.inner._evaluate("loss", batch, draw, slopes)
        if self.case.has_nll:
            other, times, weight = self.inner._evaluate("nll", batch, draw, slopes), 1.0, self.data_weight
        else:
            other, times, weight = self.inner._evaluate("loss", self.inner.twice(batch), draw, slopes), 2.0, 1.0
        return times * whole[0] - weight * other[0], {
            name: times * part - weight * other[1][name] for name, part in whole[1].items()
        }

    def parts(self, name, entropy, pull):
        """Yield terms of the entropies and of the squares of these groups."""
        for group in self.groups(name):
            spread, mean = group.spread(), group.mean()
            value = -entropy * np.log(spread).sum() + pull * (np.square(mean) + np.square(spread)).sum() / 2
            by, moment = group.entropy(), group.second_moment()
            both = by.keys() | moment.keys()
            yield float(value), {n: entropy * by.get(n, 0.0) + pull * moment.get(n, 0.0) for n in both}

    def groups(self, name):
        return [group for group in self.case.trained if name == "all" or group.name in name.split("; ")]

    def names_of(self, name):
        groups = self.groups(name)
        return {name} if name in self.shapes else set().union(*(group.means | group.scales for group in groups))

    def others_as_they_were(self, names):
        """Let a term depend on these parameters alone."""
        other = {each: self.base[each] - self.value(each) for each in self.shapes if each not in names}
        return self.inner.moved(other)


def audited_again(audit, arguments, answer):
    """Audit with the loss that follows the advice of `told`: a report's `to_dict()`, and those of earlier rounds."""

    def apply(case, training=None):
        for report in answer:
            case = dataclasses.replace(case, objective=Mended(case, report))
        return apply_rules(case, training)

    with mock.patch.object(audits, "apply_rules", apply):
        return audit(**arguments)


def has_factors(answer):
    """Return whether any advice has a factor or a term."""
    return any(entry["multiply"] or entry["add"] for entry in answer["advice"])


def is_followed(answer, again):
    """Return whether the rules whose advice was followed no longer fail, and the KL counts once."""
    rules = {entry["rule"] for entry in answer["advice"] if entry["multiply"] or entry["add"]}
    weights = [*again.kl_weights.values(), again.numbers.get("kl_per_epoch", 1.0)]
    # tolerance: the audit's own, of a twentieth; a factor that was measured with the same noise leaves rounding
    once = all(math.isclose(weight, 1.0, rel_tol=0.05) for weight in weights)
    return once and all(again.of(rule).outcome == "passes" for rule in rules)
