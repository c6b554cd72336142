"""The audit: known mistakes of measuring and training, as rules that run.

rules       the list of mistakes
elbo/       the rules over an objective and its predictions, yours too: `from bench.judge.audit import elbo`
approach    the rules over an approach as a black box
records     the rules over stored records, raw predictions and kept posteriors
data        the rules over the data sets
documents   the rules over the documents, as read and as shown by running
check       the contract and the rules over one approach, a line a check
"""
