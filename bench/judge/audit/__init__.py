"""The audit: a rule for each known mistake of measuring or training, and the code that checks the rule.

rules       the list of rules: what each looks for, and what to do
findings    what a rule finds
predictions rules for predictions
elbo/       rules for an objective; for your own code: `from bench.judge.audit import elbo`
approach    rules for an approach as a black box, on the short fits of `probe`
records     rules for stored records, raw predictions and kept posteriors
data        rules for the data sets
libraries/  the rules of elbo/ on the examples of other people's libraries
documents   rules for the documents, from reading them and from running their code
check       the contract and the rules on one approach, a line for each check
"""
