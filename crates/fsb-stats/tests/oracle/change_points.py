"""Change points of series: python3 change_points.py > change_points.json (NumPy and SciPy).

Independent of src/change_points.rs: every split is tested with SciPy's t distribution on the values themselves, not on
sums. Random numbers are NumPy's.
"""

import json

import numpy as np
from scipy import stats

random = np.random.default_rng(20261127)

SPENT, WEIGHED, LONGEST, LATE, WITHOUT_ONE, DROP = 2.4e-6, 16, 30, 1e-6, 1e-3, 7.35


def t_test(before, after, floor):
    """Two-sided p-value of Student's test with one variance, at least floor squared."""
    degrees = len(before) + len(after) - 2
    squares = ((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum()
    error = np.sqrt(max(squares / degrees, floor**2) * (1 / len(before) + 1 / len(after)))
    return 2 * stats.t.sf(abs(after.mean() - before.mean()) / error, degrees)


def clearness(before, after, floor):
    limit = SPENT * min(len(before), len(after), WEIGHED) if len(after) <= LONGEST else LATE
    return t_test(before, after, floor) / limit


def lasts(before, after, floor):
    sign = np.sign(after.mean() - before.mean())
    without = [(np.delete(before, (sign * before).argmin()), after), (before, np.delete(after, (sign * after).argmax()))]
    # A test with a part of one value has the variance of the other part.
    return all(np.sign(a.mean() - b.mean()) == sign and t_test(b, a, floor) <= WITHOUT_ONE for b, a in without)


def in_turn(logs, floor):
    start, found = 0, []
    for end in range(1, len(logs) + 1):
        best = None
        for first in range(start + 2, end - 1):
            before, after = logs[start:first], logs[first:end]
            clear = clearness(before, after, floor)
            if clear <= 1 and lasts(before, after, floor) and (best is None or clear < best[0]):
                best = (clear, first)
        if best:
            found.append((best[1], end - best[1]))
            start = best[1]
    return found


def describe(logs, found, at, floor):
    start = found[at - 1][0] if at else 0
    end = found[at + 1][0] if at + 1 < len(found) else len(logs)
    first, after = found[at]
    a, b = logs[start:first], logs[first:end]
    degrees = len(a) + len(b) - 2
    variance = (len(a) * a.var() + len(b) * b.var()) / degrees
    half = stats.t.ppf(0.975, degrees) * np.sqrt(variance * (1 / len(a) + 1 / len(b)))
    difference = b.mean() - a.mean()
    scatter = lambda split: max(
        sum(((part - part.mean()) ** 2).sum() for part in (logs[start:split], logs[split:end])),
        floor**2 * (end - start),
    )
    inside = [s for s in range(start + 1, end) if (end - start) * np.log(scatter(s) / scatter(first)) <= DROP]
    return {
        "first": first,
        "earliest": min(inside + [first]),
        "latest": max(inside + [first]),
        "found_after": after,
        "ratio": float(np.exp(b.mean() - a.mean())),
        "interval": [float(np.exp(difference - half)), float(np.exp(difference + half))],
        "p_value": float(min(1.0, 0.01 * clearness(a, b, floor))),
    }


def analyse(values, theta):
    logs, limit = np.log(values), np.log1p(theta)
    floor = limit / 3
    found = in_turn(logs, floor)
    while True:
        changes = [describe(logs, found, at, floor) for at in range(len(found))]
        ends = [np.log(change["interval"]) for change in changes]
        small = [i for i, (lo, hi) in enumerate(ends) if lo <= 0 <= hi or (-limit <= lo and hi <= limit)]
        if not small:
            return changes
        del found[small[0]]


def series(name, *parts, cv=0.03, noise=random.standard_normal):
    """Parts are (number of runs, level)."""
    values = np.concatenate([level * np.exp(cv * noise(runs)) for runs, level in parts])
    return {"name": name, "theta": 0.03, "values": list(values), "changes": analyse(values, 0.03)}


heavy = lambda runs: random.standard_t(3, runs)
cases = [
    series("steady", (60, 400.0)),
    series("a tenth slower", (40, 400.0), (8, 360.0)),
    series("a twentieth slower", (50, 400.0), (25, 380.0)),
    series("slower and back", (30, 400.0), (12, 320.0), (30, 400.0)),
    series("three levels", (25, 400.0), (25, 440.0), (25, 360.0)),
    series("heavy tails", (60, 400.0), (20, 340.0), noise=heavy),
    series("no scatter", (20, 400.0), (6, 300.0), cv=0.0),
    series("smaller than what matters", (150, 400.0), (150, 396.0), cv=0.004),
]
print(json.dumps({"cases": cases}, indent=1))
