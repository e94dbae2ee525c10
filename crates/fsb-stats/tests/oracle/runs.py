"""Comparisons of runs with variances borrowed over a page: python3 runs.py > runs.json (NumPy and SciPy).

Independent of src/runs: digamma, trigamma, roots and t distributions are SciPy's. The prior is Smyth's (2004), limited to
the cases that are as good as independent; the test is Welch's on the moderated variances.
"""

import json

import numpy as np
from scipy import optimize, special, stats

random = np.random.default_rng(20261124)


def effective_cases(cases):
    """m / (1 + (m - 1) rho^2), with the mean squared correlation of residuals less what chance gives it."""
    residuals = np.array([np.concatenate([b - b.mean(), c - c.mean()]) for b, c in cases])
    degrees = len(residuals[0]) - 2
    m = len(cases)
    excess = []
    for i in range(m):
        for j in range(i):
            squares = (residuals[i] ** 2).sum() * (residuals[j] ** 2).sum()
            if degrees > 1.5 and squares > 0:
                r2 = (residuals[i] @ residuals[j]) ** 2 / squares
                excess.append((r2 - 1 / degrees) / (1 - 1 / degrees))
    return 1.0 if not excess else m / (1 + (m - 1) * float(np.clip(np.mean(excess), 0, 1)))


def fit(variances, degrees):
    """Smyth's estimates of d0 and s0 squared, from sample variances."""
    e = np.log(variances) - special.digamma(degrees / 2) + np.log(degrees / 2)
    excess = e.var(ddof=1) - special.polygamma(1, degrees / 2).mean()
    if excess <= 0:
        return np.inf, variances.mean()
    half = optimize.brentq(lambda x: special.polygamma(1, np.exp(x)) - excess, -18, 27, xtol=1e-14)
    half = np.exp(half)
    return 2 * half, np.exp(e.mean() + special.digamma(half) - np.log(half))


def page(name, cases):
    sides = [side for case in cases for side in case]
    variances = np.array([side.var(ddof=1) for side in sides])
    degrees = np.array([len(side) - 1.0 for side in sides])
    effective = effective_cases(cases)
    prior = None
    if len(variances) >= 3:
        d0, s0 = fit(variances, degrees)
        d0 = min(d0, degrees.mean() * (effective - 1))
        prior = {"degrees": d0, "variance": s0} if d0 > 0 else None
    shown = []
    for b, c in cases:
        parts, weights = [], []
        for side in (b, c):
            d, s2 = len(side) - 1.0, side.var(ddof=1)
            if prior:
                s2, d = (prior["degrees"] * prior["variance"] + d * s2) / (prior["degrees"] + d), prior["degrees"] + d
            parts.append(s2 / len(side))
            weights.append(d)
        error = np.sqrt(sum(parts))
        df = sum(parts) ** 2 / sum(p**2 / w for p, w in zip(parts, weights))
        mean = c.mean() - b.mean()
        half = stats.t.ppf(0.975, df) * error
        shown.append(
            {
                "baseline": list(b),
                "candidate": list(c),
                "ci95": [mean - half, mean + half],
                "p": 2 * stats.t.sf(abs(mean) / error, df),
            }
        )
    return {"name": name, "effective_cases": effective, "prior": prior, "cases": shown}


def cases(m, n_b, n_c, sd=lambda: 0.05, shared=0.0):
    luck = [random.normal(0, shared, n_b), random.normal(0, shared, n_c)]
    drawn = []
    for _ in range(m):
        s = sd()
        drawn.append(tuple(5 + lucky + random.normal(0, s, len(lucky)) for lucky in luck))
    return drawn


pages = [
    page("equal variances", cases(12, 3, 3)),
    page("unequal variances", cases(12, 3, 3, sd=lambda: 0.05 * np.exp(random.normal(0, 1.2)))),
    page("unequal numbers of runs", cases(14, 5, 3, sd=lambda: 0.05 * np.exp(random.normal(0, 0.8)))),
    page("shared luck", cases(12, 4, 4, sd=lambda: 0.01, shared=0.06)),
    page("two cases", cases(2, 3, 3, sd=lambda: 0.02)),
    page("one case", cases(1, 5, 5)),
]
print(json.dumps({"pages": pages}, indent=1))
