#!/usr/bin/env python3
"""Writes scipy.json: what NumPy and SciPy say about data that the tests feed to fsb-stats.

Run with SciPy installed (pip install scipy); the result is committed, so the tests need neither Python nor SciPy.
"""
import json
import pathlib

import numpy
import scipy
from scipy import stats

random = numpy.random.default_rng(20260101)


def samples():
    """Name and values: small and large n, near-constant data, huge spread, ties, drift, other magnitudes."""
    yield "two", [100.0, 101.0]
    yield "three", [3.0, 1.0, 2.0]
    for n in range(2, 31):
        yield f"lognormal-{n}", list(4e8 * numpy.exp(random.normal(0, 0.03, n)))
    for n in (5, 10, 30):
        yield f"near-constant-{n}", list(1e9 * (1 + 1e-9 * random.normal(size=n)))
        yield f"huge-spread-{n}", list(numpy.exp(random.normal(0, 12, n)))
        yield f"ties-{n}", [float(x) for x in random.integers(1, 5, n)]
        yield f"falling-{n}", list(500 * 0.99 ** numpy.arange(n) * numpy.exp(random.normal(0, 0.004, n)))
        yield f"tiny-{n}", list(1e-9 * numpy.exp(random.normal(0, 0.1, n)))
    yield "rising-8", [float(x) for x in range(1, 9)]
    yield "long", list(numpy.exp(random.normal(0, 0.2, 75)))
    yield "outlier", [10.0, 10.1, 9.9, 30.0, 10.0, 10.05, 9.95]


def interval(values, level):
    """The t-interval of the mean."""
    return list(stats.t.interval(level, len(values) - 1, loc=numpy.mean(values), scale=stats.sem(values)))


def single(name, values):
    logs = numpy.log(values)
    q1, q3 = numpy.quantile(values, [0.25, 0.75])
    reach = 1.5 * (q3 - q1)
    n = len(values)
    case = {
        "name": name,
        "values": values,
        "mean": numpy.mean(values),
        "sd": numpy.std(values, ddof=1),
        "median": numpy.median(values),
        "q1": q1,
        "q3": q3,
        "geometric_mean": stats.gmean(values),
        "log_ci95": [float(numpy.exp(end)) for end in interval(logs, 0.95)],
        "ci90": interval(values, 0.90),
        "ci95": interval(values, 0.95),
        "ci99": interval(values, 0.99),
        "ci999": interval(values, 0.999),
        "outliers": [i for i, v in enumerate(values) if v < q1 - reach or v > q3 + reach] if n >= 5 else [],
    }
    if n >= 3:
        # Without ties the exact distribution up to 40 values, otherwise the normal approximation.
        exact = len(set(values)) == n and n <= 40
        place = numpy.arange(n)
        tau = stats.kendalltau(place, values, method="exact" if exact else "asymptotic")
        case["tau"], case["trend_p"] = tau.statistic, tau.pvalue
        case["change"] = float(numpy.exp(stats.theilslopes(logs, place).slope * (n - 1)))
    return case


def pair(name, a, b):
    """Paired where the lengths agree, and Welch always, both on logarithms, candidate over baseline."""
    x, y = numpy.log(a), numpy.log(b)
    case = {"name": name, "baseline": a, "candidate": b}
    welch = stats.ttest_ind(y, x, equal_var=False)
    ends = welch.confidence_interval(0.95)
    case["welch"] = {
        "ratio": float(numpy.exp(numpy.mean(y) - numpy.mean(x))),
        "p": welch.pvalue,
        "ci95": [float(numpy.exp(ends.low)), float(numpy.exp(ends.high))],
    }
    if len(a) == len(b):
        test = stats.ttest_rel(y, x)
        ends = test.confidence_interval(0.95)
        case["paired"] = {
            "ratio": float(numpy.exp(numpy.mean(y - x))),
            "p": test.pvalue,
            "ci95": [float(numpy.exp(ends.low)), float(numpy.exp(ends.high))],
        }
    return case


def pairs():
    for n in range(2, 31):
        luck = random.normal(0, 0.05, n)
        a = 400 * numpy.exp(luck + random.normal(0, 0.02, n))
        b = 420 * numpy.exp(luck + random.normal(0, 0.02, n))
        yield f"blocks-{n}", list(a), list(b)
    for n, m in ((2, 7), (5, 30), (30, 5), (12, 11), (3, 2)):
        a = 400 * numpy.exp(random.normal(0, 0.02, n))
        b = 300 * numpy.exp(random.normal(0, 0.2, m))
        yield f"unequal-{n}-{m}", list(a), list(b)
    yield "near-constant", list(1e6 * (1 + 1e-8 * random.normal(size=8))), list(1e6 * (1 + 1e-8 * random.normal(size=8)))
    yield "far-apart", list(numpy.exp(random.normal(0, 5, 9))), list(numpy.exp(random.normal(9, 5, 9)))


def quantiles():
    """Half-widths of t-intervals, whole and fractional degrees of freedom."""
    for degrees in (1, 1.5, 2, 2.7, 3, 4, 5.5, 9, 10, 17.3, 29, 30, 100, 1234.5):
        for level in (0.5, 0.8, 0.9, 0.95, 1 - 0.05 / 3, 1 - 0.05 / 45, 0.99, 0.999):
            yield {"degrees": degrees, "level": level, "t": stats.t.ppf(1 - (1 - level) / 2, degrees)}


def holm(p):
    """Holm's adjusted p-values, in the order given."""
    order = numpy.argsort(p)
    adjusted, largest = numpy.empty(len(p)), 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, p[index] * (len(p) - place)))
        adjusted[index] = largest
    return adjusted


def rows():
    """Rows of targets: adjusted p-values of all pairs, baseline before candidate."""
    for name, centers in (("apart", [400, 500, 300]), ("close", [400, 404, 398, 401]), ("mixed", [100, 100, 120, 90, 121])):
        luck = random.normal(0, 0.03, 10)
        targets = [list(c * numpy.exp(luck + random.normal(0, 0.015, 10))) for c in centers]
        places = [(b, c) for c in range(1, len(targets)) for b in range(c)]
        p = [stats.ttest_rel(numpy.log(targets[c]), numpy.log(targets[b])).pvalue for b, c in places]
        yield {"name": name, "targets": targets, "pairs": places, "p": p, "adjusted": list(holm(p))}


def plain(value):
    """NumPy numbers as JSON numbers."""
    if isinstance(value, (numpy.floating, numpy.integer)):
        return value.item()
    raise TypeError(type(value))


result = {
    "versions": {"numpy": numpy.__version__, "scipy": scipy.__version__},
    "samples": [single(name, [float(v) for v in values]) for name, values in samples()],
    "pairs": [pair(name, [float(v) for v in a], [float(v) for v in b]) for name, a, b in pairs()],
    "quantiles": list(quantiles()),
    "rows": list(rows()),
}
target = pathlib.Path(__file__).with_name("scipy.json")
target.write_text(json.dumps(result, default=plain, indent=1) + "\n")
