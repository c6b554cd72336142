"""Sixty objectives as people write them: 30 that are ELBOs and 30 with one mistake each.

The corpus was written before the audit ran on it, and without the audit's code in sight: a rule of the audit that fits
its own corpus too well shows here. Each case declares what is true of it, from the derivation in its comment:

- `right`: over one epoch, the losses add up to -log p(data) in expectation under q, plus KL(q || p) once, up to a
  factor and a constant; the gradient is that of this sum
- `mistake`: `weight` (the KL counts another number of times), `entropy` (log q is wrong or absent), `prior` (another
  one than documented), `another KL`, `likelihood`, `rows` (broadcast against each other), `gradient` (not that of the
  loss's value), `noise` (constant or repeated), `missing KL` (of a layer)
- `kl_per_epoch`: how many times the KL counts for each time that the likelihood of the data counts; None where the loss
  is no combination of the two. A likelihood that is too small by a factor has it too: its mistake is `likelihood`
- `mends`: the factor on the KL that makes the objective right, where there is one

What is documented of a case and cannot be seen in its code, such as a prior's sd, is in its arguments (`prior_std`).
Mistakes are one each; a wrong case is as its framework's users write it apart from that.

A call of a case builds it and gives the arguments of an audit: loss, parameters, batches, n_train and, where a user
would have them, nll, kl and others. `python -m tests.elbo_audit_field --verify` checks the truths in the frameworks
that are installed; `verify.py` says how.
"""
