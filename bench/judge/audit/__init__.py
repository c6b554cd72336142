"""The audit: a rule for each known mistake of measuring or training, and the code that checks the rule.

rules       the list of mistakes
predictions rules for predictions
elbo/       rules for an objective; for your own code: `from bench.judge.audit import elbo`
approach    rules for an approach as a black box
records     rules for stored records, raw predictions and kept posteriors
data        rules for the data sets
libraries/  the objectives of other people's libraries, by the rules of elbo/
documents   rules for the documents: what reading them showed, and what running showed
check       checks one approach by the contract and the rules, and gives one line per check
"""
