"""How often `fsb compare --fail-if slower` fails for equal sides: python3 gate.py (NumPy and SciPy, about a minute).

A page has 12 cases; a run has 12 blocks of 6 % standard deviation. Runs differ by a standard deviation of 0 to 10 %, each
case by itself or half of it shared by all cases of a run. "Blocks" is the rule of old: Welch over pooled blocks, each case
at 5 %. "Runs" is the present rule: one mean for each run, variances borrowed over the page, Welch, Holm over the page.
"Finds" is the share of pages on which a case that is 20 % slower is called slower. The seed is fixed.
"""

import sys

import numpy as np
from scipy import special, stats

CASES, BLOCKS, BLOCK_SD, THETA = 12, 12, 0.06, np.log(1.03)
PAGES = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
random = np.random.default_rng(29)


def side(runs, between, shared, change=0.0):
    """Logarithms, runs x cases x blocks; `shared` is the part of the variance that all cases of a run have in common."""
    common = random.normal(0, between * np.sqrt(shared), (runs, 1, 1))
    own = random.normal(0, between * np.sqrt(1 - shared), (runs, CASES, 1))
    values = common + own + random.normal(0, BLOCK_SD, (runs, CASES, BLOCKS))
    values[:, 0] += change
    return values


def welch(mean, parts):
    """Mean difference with variances of two means and their degrees of freedom: its 95 % interval and p."""
    (v1, d1), (v2, d2) = parts
    error = np.sqrt(v1 + v2)
    df = (v1 + v2) ** 2 / (v1**2 / d1 + v2**2 / d2)
    half = stats.t.ppf(0.975, df) * error
    return mean - half, mean + half, 2 * stats.t.sf(np.abs(mean) / error, df)


def by_blocks(old, new):
    """Cases that are slower by the rule of old."""
    sides = [values.transpose(1, 0, 2).reshape(CASES, -1) for values in (old, new)]
    parts = [(s.var(axis=1, ddof=1) / s.shape[1], s.shape[1] - 1.0) for s in sides]
    _, hi, _ = welch(sides[1].mean(axis=1) - sides[0].mean(axis=1), parts)
    return hi < -THETA


def inverse_trigamma(value):
    low, high = np.log(1e-8), np.log(1e12)
    for _ in range(100):
        middle = (low + high) / 2
        if special.polygamma(1, np.exp(middle)) > value:
            low = middle
        else:
            high = middle
    return np.exp(low)


def prior(sides):
    """Smyth's prior, limited to the cases that are as good as independent."""
    variances = np.concatenate([s.var(axis=0, ddof=1) for s in sides])
    degrees = len(sides[0]) - 1.0
    residuals = np.concatenate([s - s.mean(axis=0) for s in sides])
    chance = 1 / (len(residuals) - 2)
    r2 = np.corrcoef(residuals.T) ** 2
    # Residuals have a mean of zero on each side, so that the correlation is the one about zero.
    mean_r2 = (r2.sum() - CASES) / (CASES * (CASES - 1))
    rho2 = np.clip((mean_r2 - chance) / (1 - chance), 0, 1)
    effective = CASES / (1 + (CASES - 1) * rho2)
    e = np.log(variances) - special.digamma(degrees / 2) + np.log(degrees / 2)
    excess = e.var(ddof=1) - special.polygamma(1, degrees / 2)
    d0, s0 = np.inf, variances.mean()
    if excess > 0:
        half = inverse_trigamma(excess)
        d0, s0 = 2 * half, np.exp(e.mean() + special.digamma(half) - np.log(half))
    return min(d0, degrees * (effective - 1)), s0


def by_runs(old, new):
    """Cases that are slower by the present rule."""
    sides = [values.mean(axis=2) for values in (old, new)]
    d0, s0 = prior(sides)
    parts = []
    for s in sides:
        d = len(s) - 1.0
        parts.append(((d0 * s0 + d * s.var(axis=0, ddof=1)) / (d0 + d) / len(s), d0 + d))
    _, hi, p = welch(sides[1].mean(axis=0) - sides[0].mean(axis=0), parts)
    order = np.argsort(p)
    adjusted = np.empty(CASES)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * (CASES - np.arange(CASES))), 1)
    return (hi < -THETA) & (adjusted <= 0.05)


print("| between runs | shared | runs a side | exit 1, blocks | exit 1, runs | finds −20 % |")
print("|--:|--:|--:|--:|--:|--:|")
for between in (0.0, 0.02, 0.05, 0.1):
    for shared in (0.0, 0.5) if between else (0.0,):
        for runs in (1, 3, 5):
            before = after = found = 0
            for _ in range(PAGES):
                old, new = side(runs, between, shared), side(runs, between, shared)
                before += by_blocks(old, new).any()
                if runs > 2:
                    after += by_runs(old, new).any()
                    found += by_runs(old, side(runs, between, shared, np.log(0.8)))[0]
            share = lambda count: f"{100 * count / PAGES:.1f} %"
            now = (share(after), share(found)) if runs > 2 else ("exit 2", "exit 2")
            row = [f"{100 * between:.0f} %", "half" if shared else "none", str(runs), share(before), *now]
            print("| " + " | ".join(row) + " |", flush=True)
