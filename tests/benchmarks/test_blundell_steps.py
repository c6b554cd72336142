"""The step that public code takes is the step that we take, so that their times compare."""

import torch

from benchmarks import blundell_steps
from implementations._kernels.mixture_mlp import MixtureMlp
from implementations.blundell_bbb import BlundellBbb


def test_public_code_and_ours_take_the_same_step():
    """From the same means, without noise: sigma is so small (rho -14) that the draws are the means."""
    recipe = BlundellBbb(hidden_units=12, rho_start=-14.0, mixture_narrow_std=0.05)
    layout = recipe.layout(blundell_steps.TASK)
    torch.manual_seed(2)
    public = blundell_steps.PublicStyle(recipe)
    mu = torch.cat([part.detach().flatten() for part in public._mu])
    ours = MixtureMlp(layout, recipe.prior_of_weights(), 128, mu, torch.full_like(mu, recipe.rho_start))
    ours.epsilon.zero_()
    ours.weights.copy_(mu)
    x, y = torch.rand(128, 784), torch.randint(10, (128,))
    public.step(x, y)
    ours.backpropagate(x, y, 1.0)
    ours.descend(1 / blundell_steps.N_BATCHES, blundell_steps.RATE, None)
    moved = torch.cat([part.detach().flatten() for part in public._mu])
    # steps of up to .1, of sums of 128 rows in float32; draws of the public code differ from the means by 1e-6
    torch.testing.assert_close(ours.mu, moved, rtol=0, atol=2e-5)
    assert (moved - mu).abs().max() > 1e-3


def test_a_line_has_every_time_and_ratio():
    found = blundell_steps.line(8, steps=1, rounds=2)
    assert len(found) == len(blundell_steps.COLUMNS)
    assert found[0] == "8"
    assert all(one.value > 0 for one in found[1:])
