"""Training and passes of many small dropout networks, in loops compiled by numba: no result depends on other networks.

A network has one hidden layer: f(x) = b2 + sum_j w2_j m_j max(0, b1_j + sum_k W_jk m_k x_k), where m are dropout's
multipliers: 0 or 1 / (1 - rate). Its parameters [P] are W [h, d], b1 [h], w2 [h], b2; P = h (d + 2) + 1. A block has
`ROWS` lanes: the rows of a training batch, or the passes of one point; the innermost loops run over lanes.

A multiplier takes 16 random bits: it is 0 if they are below `dropped`, so a rate is a multiple of 2^-16. Lane r of unit
u (inputs first, then hidden units) takes half-word u ROWS + r of a row of `bench.core.noise`.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-any-generics, no-warn-return-any
# (numba has no types, and its scalars are not Python's)
from __future__ import annotations

import math

import numpy as np
from numba import float32, uint32, uint64

from bench.core.noise_loops import BLOCK, LANES, inner, philox, unlocked

ROWS = 128
STEP = 32  # lanes in use are a multiple of it, so that loops have no rest
DECAY_1, DECAY_2, EPSILON = 0.9, 0.999, 1e-7


@inner
def _block(out, block, low, high, k0, k1):
    for lane in range(LANES):
        a, b, c, d = philox(uint32(block * LANES + lane), uint32(0), low, high, k0, k1)
        out[lane] = a
        out[LANES + lane] = b
        out[2 * LANES + lane] = c
        out[3 * LANES + lane] = d


@inner
def _words(out, row, key):
    """Fill out uint32 [whole blocks] with the words of a row of stream `key`."""
    for block in range(len(out) // BLOCK):
        low, high = uint32(row), uint32(uint64(row) >> uint64(32))
        _block(
            out[block * BLOCK : (block + 1) * BLOCK], block, low, high, uint32(key), uint32(uint64(key) >> uint64(32))
        )


@inner
def _shuffle(order, words, epoch, key):
    """Put 0 to n - 1 into order [n] (Fisher and Yates); each place's choice is even to n 2^-32."""
    n = len(order)
    _words(words, epoch, key)
    for i in range(n):
        order[i] = i
    for i in range(n - 1, 0, -1):
        other = np.int64((uint64(words[i]) * uint64(i + 1)) >> uint64(32))
        order[i], order[other] = order[other], order[i]


@inner
def _drop(x, bits, dropped, scale):
    for r in range(len(x)):
        x[r] = x[r] * scale if bits[r] >= dropped else float32(0)


@inner
def _add_four(out, a, b, c, d, wa, wb, wc, wd):
    for r in range(len(out)):
        out[r] += (wa * a[r] + wb * b[r]) + (wc * c[r] + wd * d[r])


@inner
def _add(out, a, weight):
    for r in range(len(out)):
        out[r] += weight * a[r]


@inner
def _activate(unit, bits, dropped, scale, output, weight):
    """Apply ReLU and dropout to unit [m] and add it to the network's output [m]."""
    for r in range(len(unit)):
        value = max(unit[r], float32(0)) * scale if bits[r] >= dropped else float32(0)
        unit[r] = value
        output[r] += weight * value


@inner
def _dot_four(g, a, b, c, d):
    sa = sb = sc = sd = float32(0)
    for r in range(len(g)):
        sa += g[r] * a[r]
        sb += g[r] * b[r]
        sc += g[r] * c[r]
        sd += g[r] * d[r]
    return sa, sb, sc, sd


@inner
def _dot(g, a):
    total = float32(0)
    for r in range(len(g)):
        total += g[r] * a[r]
    return total


@inner
def _sum(g):
    total = float32(0)
    for r in range(len(g)):
        total += g[r]
    return total


@inner
def _gate(unit, slope, factor, out):
    """Set out = factor slope where the unit is active: the gradient for what goes into it."""
    for r in range(len(unit)):
        out[r] = slope[r] * factor if unit[r] > float32(0) else float32(0)


@inner
def _forward(weights, x, hidden, output, bits, dropped, scale, m):
    """Set hidden [h, m], after dropout, and output [m] of x [d, m], which is dropped in place."""
    d, h = len(x), len(hidden)
    for k in range(d):
        _drop(x[k, :m], bits[k * ROWS : k * ROWS + m], dropped, scale)
    output[:m] = weights[h * (d + 2)]
    for j in range(h):
        unit = hidden[j, :m]
        unit[:] = weights[h * d + j]
        row = weights[j * d : (j + 1) * d]
        whole = d - d % 4
        for k in range(0, whole, 4):
            _add_four(
                unit, x[k, :m], x[k + 1, :m], x[k + 2, :m], x[k + 3, :m], row[k], row[k + 1], row[k + 2], row[k + 3]
            )
        for k in range(whole, d):
            _add(unit, x[k, :m], row[k])
        at = (d + j) * ROWS
        _activate(unit, bits[at : at + m], dropped, scale, output[:m], weights[h * (d + 1) + j])


@inner
def _backward(weights, x, hidden, slope, flow, gradient, m):
    """Set gradient [P] from slope [m], the loss's derivative for the output; flow [m] is scratch."""
    d, h = len(x), len(hidden)
    whole = d - d % 4
    gradient[h * (d + 2)] = _sum(slope[:m])
    for j in range(h):
        unit = hidden[j, :m]
        gradient[h * (d + 1) + j] = _dot(slope[:m], unit)
        _gate(unit, slope[:m], weights[h * (d + 1) + j], flow[:m])
        gradient[h * d + j] = _sum(flow[:m])
        row = gradient[j * d : (j + 1) * d]
        for k in range(0, whole, 4):
            found = _dot_four(flow[:m], x[k, :m], x[k + 1, :m], x[k + 2, :m], x[k + 3, :m])
            row[k], row[k + 1], row[k + 2], row[k + 3] = found
        for k in range(whole, d):
            row[k] = _dot(flow[:m], x[k, :m])


@inner
def _adam(weights, gradient, first, second, size, correction):
    """Take a step of Adam: size = lr / (1 - .9^t), correction = (1 - .999^t)^-1/2."""
    for i in range(len(weights)):
        g = gradient[i]
        first[i] += (g - first[i]) * float32(1 - DECAY_1)
        second[i] += (g * g - second[i]) * float32(1 - DECAY_2)
        weights[i] -= size * first[i] / (math.sqrt(second[i]) * correction + float32(EPSILON))


@inner
def _decay(gradient, weights, factor):
    for i in range(len(weights)):
        gradient[i] += factor * weights[i]


def _train(parameters, first, second, x, y, part, keys, dropped, decay, start, stop, rate, begin, end):
    """Train networks `begin` to `end` - 1 from step `start` to before `stop`, by the mean squared error of a batch.

    parameters and moments of Adam float32 [E, P]; x float32 [S, n, d] and y [S, n], of which network e takes
    part[e]; keys int64 [E, 2], of masks (a row for each step) and of shuffles (a row for each epoch); dropped uint16
    [E]; decay float32 [E], the coefficient of the squares of W and w2; rate, the step size.
    """
    n, d = x.shape[1], x.shape[2]
    h = (parameters.shape[1] - 1) // (d + 2)
    per_epoch = (n + ROWS - 1) // ROWS
    inputs, hidden = np.zeros((d, ROWS), np.float32), np.empty((h, ROWS), np.float32)
    output, flow = np.empty(ROWS, np.float32), np.empty(ROWS, np.float32)
    gradient = np.empty(parameters.shape[1], np.float32)
    words = np.empty(((d + h) * ROWS // 2 + BLOCK - 1) // BLOCK * BLOCK, np.uint32)
    bits = words.view(np.uint16)
    order, choices = np.empty(n, np.int64), np.empty((n + BLOCK - 1) // BLOCK * BLOCK, np.uint32)
    for e in range(begin, end):
        weights, features, targets = parameters[e], x[part[e]], y[part[e]]
        scale = float32(65536.0 / (65536.0 - dropped[e]))
        epoch = -1
        for step in range(start, stop):
            if step // per_epoch != epoch:
                epoch = step // per_epoch
                _shuffle(order, choices, epoch, keys[e, 1])
            rows = order[(step % per_epoch) * ROWS : (step % per_epoch + 1) * ROWS]
            count = len(rows)
            m = (count + STEP - 1) // STEP * STEP
            inputs[:, count:m] = float32(0)
            for r in range(count):
                for k in range(d):
                    inputs[k, r] = features[rows[r], k]
            if dropped[e] > 0:
                _words(words, step, keys[e, 0])
            _forward(weights, inputs, hidden, output, bits, dropped[e], scale, m)
            for r in range(count):
                output[r] = float32(2.0 / count) * (output[r] - targets[rows[r]])
            output[count:m] = float32(0)
            # a gate's factor: an active unit's derivative is 1 / (1 - rate)
            _backward(weights, inputs, hidden, output, flow, gradient, m)
            gradient[: h * (d + 1)] *= scale
            _decay(gradient[: h * d], weights[: h * d], float32(2) * decay[e])
            _decay(gradient[h * (d + 1) : h * (d + 2)], weights[h * (d + 1) : h * (d + 2)], float32(2) * decay[e])
            size = float32(rate / (1 - DECAY_1 ** (step + 1)))
            _adam(weights, gradient, first[e], second[e], size, float32((1 - DECAY_2 ** (step + 1)) ** -0.5))


def _predict(parameters, x, y, part, keys, dropped, precision, passes, sums, logs, draws, begin, end):
    """Make passes of networks `begin` to `end` - 1, each with a fresh mask, for the points of x [S, n, d].

    keys int64 [E]: block b of `ROWS` passes of point i takes row i ceil(passes / ROWS) + b. precision float64 [E, K].
    sums float64 [E, n, 3] takes the mean of the passes, their variance (divisor `passes`) and the first pass; logs
    float64 [E, n, K] the log of the mean over passes of exp(-precision (y - f)^2 / 2); draws float32 [E, passes, n] the
    passes, or has no passes.
    """
    n, d = x.shape[1], x.shape[2]
    h = (parameters.shape[1] - 1) // (d + 2)
    inputs, hidden = np.empty((d, ROWS), np.float32), np.empty((h, ROWS), np.float32)
    output = np.empty(ROWS, np.float32)
    words = np.empty(((d + h) * ROWS // 2 + BLOCK - 1) // BLOCK * BLOCK, np.uint32)
    bits = words.view(np.uint16)
    n_blocks = (passes + ROWS - 1) // ROWS
    largest, total = np.empty(logs.shape[2]), np.empty(logs.shape[2])
    for e in range(begin, end):
        scale = float32(65536.0 / (65536.0 - dropped[e]))
        for i in range(n):
            features, target = x[part[e], i], np.float64(y[part[e], i])
            largest[:], total[:] = -np.inf, 0.0
            middle, shifted, squares = np.float64(0), np.float64(0), np.float64(0)
            for block in range(n_blocks):
                count = min(ROWS, passes - block * ROWS)
                m = (count + STEP - 1) // STEP * STEP
                for k in range(d):
                    inputs[k, :m] = features[k]
                if dropped[e] > 0:
                    _words(words, i * n_blocks + block, keys[e])
                _forward(parameters[e], inputs, hidden, output, bits, dropped[e], scale, m)
                if block == 0:
                    middle = np.float64(output[0])
                for r in range(count):
                    difference = output[r] - middle
                    shifted += difference
                    squares += difference * difference
                for c in range(len(total)):
                    _add_logs(output[:count], target, precision[e, c], largest, total, c)
                if draws.shape[1] > 0:
                    draws[e, block * ROWS : block * ROWS + count, i] = output[:count]
            mean = shifted / passes
            sums[e, i, 0], sums[e, i, 1], sums[e, i, 2] = middle + mean, squares / passes - mean * mean, middle
            for c in range(len(total)):
                logs[e, i, c] = largest[c] + math.log(total[c] / passes)


@inner
def _add_logs(output, target, precision, largest, total, c):
    """Add the passes' exp(-precision (y - f)^2 / 2) to total[c], in units of exp(largest[c])."""
    nearest = np.inf
    for r in range(len(output)):
        nearest = min(nearest, abs(target - output[r]))
    best = max(largest[c], -0.5 * precision * nearest * nearest)
    found = total[c] * math.exp(largest[c] - best)
    for r in range(len(output)):
        distance = target - output[r]
        found += math.exp(-0.5 * precision * distance * distance - best)
    largest[c], total[c] = best, found


train = unlocked(_train)
predict = unlocked(_predict)
