"""The audit: a rule for each known mistake of measuring or training, and the code that checks the rule.

rules       the list of rules: what each looks for, and what to do
findings    what a rule finds
approach    rules for an approach as a black box, on the short fits of `probe`
records     rules for stored records, raw predictions and kept posteriors
data        rules for the data sets
documents   rules for the documents, from reading them and from running their code
check       the contract and the rules on one approach, a line for each check
libraries   other people's libraries, whose examples the package `elbo_audit` audits; it has the rules for objectives
"""
