#!/usr/bin/env python3
"""Writes pages.json: all pairs of simulated pages with moderated variances and the correlation of neighbouring blocks.

Independent of src: every fit has a column for each block, target and part, residual covariances are those of the projection
matrix, digamma, trigamma, roots and t distributions are SciPy's. Run with NumPy and SciPy installed; the result is committed.
"""
import json
import pathlib

import numpy as np
import scipy
from scipy import optimize, special, stats

random = np.random.default_rng(20261126)
THETA = 0.03
USUAL_MEAN, USUAL_SD = 0.13, 0.1


def fit(case):
    """The pairs of a case: differences, errors, and what is left of each block."""
    values, blocks, targets = case["logs"], case["blocks"], len(case["logs"][0])
    n = len(blocks)
    parts = [[(t + b) % targets for t in range(targets)] for b in blocks]
    rows = [(i, t) for i in range(n) for t in range(targets)]
    design = np.zeros((len(rows), n + 2 * targets))
    for r, (i, t) in enumerate(rows):
        design[r, i] = design[r, n + t] = 1
        if case["exchange"]:
            design[r, n + targets + parts[i][t]] = 1
    y = np.array([values[i][t] for i, t in rows])
    pseudo = np.linalg.pinv(design)
    left = np.eye(len(rows)) - design @ pseudo
    of = np.array([t for _, t in rows])
    pairs = []
    for c in range(1, targets):
        for b in range(c):
            pick = np.zeros((n, len(rows)))
            for r, (i, t) in enumerate(rows):
                pick[i, r] = (t == c) - float(t == b)
            residual_maker = pick @ left
            residuals = residual_maker @ y
            contrast = np.zeros(design.shape[1])
            contrast[n + c], contrast[n + b] = 1, -1
            weights = contrast @ pseudo
            k = min((residual_maker[:, of == t] ** 2).sum() for t in (b, c))
            variance = (residuals**2).sum() / k
            leverage = max((weights**2).sum() / 2, *((weights[of == t] ** 2).sum() for t in (b, c)))
            within = np.mean([case["within"][i][b] + case["within"][i][c] for i in range(n)]) if case["within"] else None
            pairs.append({
                "baseline": b, "candidate": c, "mean": weights @ y, "variance": variance, "degrees": k,
                "error": np.sqrt(variance * leverage), "residuals": residuals, "within": within,
                "h": residual_maker @ pick.T / 2, "blocks": blocks,
            })
    return pairs


def neighbours(pair):
    marks = np.zeros((len(pair["blocks"]),) * 2)
    for i in range(len(pair["blocks"]) - 1):
        marks[i, i + 1] = pair["blocks"][i + 1] == pair["blocks"][i] + 1
    return marks


def independent_share(pairs):
    m, excess = len(pairs), []
    for i in range(m):
        for j in range(i):
            one, other = (dict(zip(p["blocks"], p["residuals"])) for p in (pairs[i], pairs[j]))
            common = sorted(one.keys() & other.keys())
            a, b = (np.array([side[block] for block in common]) for side in (one, other))
            chance = 1 / (len(common) - 1)
            excess.append(((a @ b) ** 2 / ((a @ a) * (b @ b)) - chance) / (1 - chance))
    return 1 / (1 + (m - 1) * float(np.clip(np.mean(excess), 0, 1)))


def prior(pairs, share):
    """Smyth's prior with the logarithm of the variance within blocks as a trend; the spread a standard error larger."""
    s2, d = (np.array([p[key] for p in pairs]) for key in ("variance", "degrees"))
    follows = pairs[0]["within"] is not None
    e = np.log(s2) - special.digamma(d / 2) + np.log(d / 2)
    x = np.log([p["within"] for p in pairs]) if follows else np.zeros(len(pairs))
    slope = max(np.polyfit(x, e, 1)[0], 0) if follows else 0.0
    trend = e.mean() + slope * (x - x.mean())
    lost, independent = (2 if follows else 1), share * len(pairs)
    spread = ((e - trend) ** 2).mean() / (1 - lost / independent)
    excess = spread * (1 + np.sqrt(2 / (independent - lost))) - special.polygamma(1, d / 2).mean()
    if excess <= 0:
        return d.mean() * (independent - lost), np.exp(trend)
    half = np.exp(optimize.brentq(lambda z: special.polygamma(1, np.exp(z)) - excess, -18, 27, xtol=1e-14))
    d0 = min(2 * half * share, d.mean() * (independent - lost))
    return d0, np.exp(trend + special.digamma(half) - np.log(half))


def holm(p):
    order, largest, adjusted = np.argsort(p, kind="stable"), 0.0, np.zeros(len(p))
    for place, index in enumerate(order):
        largest = min(max(largest, p[index] * (len(p) - place)), 1.0)
        adjusted[index] = largest
    return adjusted


def page(name, cases):
    fits = [fit(case) for case in cases]
    pairs = [pair for case in fits for pair in case]
    share = independent_share(pairs)
    products = slopes = 0.0
    for pair in pairs:
        marks, h = neighbours(pair), pair["h"]
        by_fit = (marks * h).sum()
        products += pair["residuals"] @ marks @ pair["residuals"] / pair["variance"] - by_fit
        slopes += np.trace(marks @ h @ (marks + marks.T) @ h) - 2 * by_fit**2 / np.trace(h)
    estimate, information = products / slopes, share * slopes
    rho = (estimate * information + USUAL_MEAN / USUAL_SD**2) / (information + 1 / USUAL_SD**2)
    inflation = np.sqrt((1 + max(rho, 0)) / (1 - max(rho, 0)))
    d0, s0 = prior(pairs, share)
    shown = []
    for index, pair in enumerate(pairs):
        d = pair["degrees"]
        variance = (d0 * s0[index] + d * pair["variance"]) / (d0 + d)
        error = pair["error"] * np.sqrt(variance / pair["variance"]) * inflation
        tests = len(fits[0])
        half = stats.t.ppf(1 - 0.05 / tests / 2, d0 + d) * error
        tail = lambda distance: stats.t.sf(distance / error, d0 + d)
        mean, theta = abs(pair["mean"]), np.log1p(THETA)
        shown.append({
            "ci": [float(np.exp(pair["mean"] - half)), float(np.exp(pair["mean"] + half))],
            "p": 2 * tail(mean),
            "p_theta": 1.0 if mean <= theta else tail(mean - theta) + tail(mean + theta),
        })
    for key, adjusted in (("p", "page_p"), ("p_theta", "page_p_theta")):
        for pair, value in zip(shown, holm(np.array([pair[key] for pair in shown]))):
            pair[adjusted] = float(value)
    return {
        "name": name, "correlation": {"estimate": estimate, "error": 1 / np.sqrt(information)},
        "cases": cases, "pairs": shown,
    }


def case(targets, blocks, exchange, within, sd):
    merits = random.normal(0, 0.05, targets)
    logs = [[float(5 + merits[t] + random.normal(0, sd)) for t in range(targets)] for _ in blocks]
    told = [[float((sd * random.uniform(0.5, 2)) ** 2) for _ in range(targets)] for _ in blocks] if within else None
    return {"blocks": list(blocks), "exchange": exchange, "logs": logs, "within": told}


def main():
    sds = [0.01, 0.02, 0.04, 0.03, 0.015, 0.06, 0.02, 0.03]
    pages = [
        page("two targets", [case(2, range(1, 11), False, False, sd) for sd in sds]),
        page("two targets on parts", [case(2, range(1, 13), True, True, sd) for sd in sds]),
        page("three targets on parts", [case(3, range(1, 13), True, True, sd) for sd in sds]),
        page("a block is missing", [case(2, [1, 2, 3, 4, 6, 7, 8, 9], False, True, sd) for sd in sds]),
    ]
    versions = {"numpy": np.__version__, "scipy": scipy.__version__}
    path = pathlib.Path(__file__).parent / "pages.json"
    path.write_text(json.dumps({"versions": versions, "pages": pages}, indent=1) + "\n")


main()
