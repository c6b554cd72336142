"""Known measuring and training mistakes as rules: over the documents, over our records, over any approach or model.

For a model of yours, `from bench.judge.audit import elbo` is all that is needed; see docs/audit.md.
"""
