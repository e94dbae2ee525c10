#!/usr/bin/env python3
"""Writes least_squares.json: targets on parts of a medium, fitted by NumPy with a column for every block, target and part.

fsb-stats takes the means of the blocks out beforehand and works on small matrices; here the whole design stands and the
matrix of residuals is formed. Run with NumPy and SciPy installed; the result is committed.
"""
import json
import pathlib

import numpy
import scipy
from scipy import stats

random = numpy.random.default_rng(20261123)


def made(targets, blocks, missing, segment_from):
    """Log rates of targets that rotate over as many parts; from a block on the parts are others."""
    effects = random.normal(0, 0.05, (targets + 1, 2 * targets))
    merits = random.normal(0, 0.1, targets)
    values = []
    for block in range(1, blocks + 1):
        luck = random.normal(0, 0.3)
        for target in range(targets):
            if [block, target] in missing:
                continue
            part = (target + block) % targets + (targets if block >= segment_from else 0)
            log = 12 + luck + merits[target] + effects[0, part] + random.normal(0, 0.02)
            values.append([block, target, part, float(numpy.exp(log))])
    return values


def fitted(values, targets, baseline, candidate):
    block, target, part = (numpy.array([value[i] for value in values]) for i in range(3))
    y = numpy.log([value[3] for value in values])
    columns = [block == b for b in sorted(set(block))] + [target == t for t in range(targets)]
    columns += [part == p for p in sorted(set(part))]
    design = numpy.stack(columns, axis=1).astype(float)
    solve = numpy.linalg.pinv(design)
    contrast = numpy.zeros(design.shape[1])
    first = len(set(block))
    contrast[first + baseline], contrast[first + candidate] = -1, 1
    weights = contrast @ solve
    residual = numpy.eye(len(y)) - design @ solve
    rows = []
    for b in sorted(set(block)):
        of = {target[i]: i for i in range(len(y)) if block[i] == b}
        if baseline in of and candidate in of:
            rows.append(residual[of[candidate]] - residual[of[baseline]])
    rows = numpy.array(rows)
    degrees = min((rows[:, target == t] ** 2).sum() for t in (baseline, candidate))
    share = {t: (weights[target == t] ** 2).sum() for t in range(targets)}
    leverage = max(sum(share.values()) / 2, share[baseline], share[candidate])
    variance = ((rows @ y) ** 2).sum() / degrees
    squares = variance * leverage
    for t in set(range(targets)) - {baseline, candidate}:
        own = (residual @ y)[target == t]
        squares += max(2 * (own**2).mean() - variance / 2, 0) * share[t]
    error = numpy.sqrt(squares)
    mean = weights @ y
    half = stats.t.ppf(0.975, degrees) * error
    return {
        "baseline": baseline,
        "candidate": candidate,
        "ratio": float(numpy.exp(mean)),
        "ci95": [float(numpy.exp(mean - half)), float(numpy.exp(mean + half))],
        "p": float(2 * stats.t.sf(abs(mean / error), degrees)),
        "n": len(rows),
    }


def main():
    cases = []
    for targets, blocks, missing, segment_from in [
        (2, 6, [], 99), (2, 12, [[3, 1]], 99), (3, 6, [], 99), (3, 9, [], 99), (3, 12, [[2, 0], [7, 2]], 99),
        (4, 8, [], 99), (4, 12, [[5, 1]], 99), (3, 10, [], 5), (2, 11, [], 6), (6, 12, [], 99),
    ]:
        values = made(targets, blocks, missing, segment_from)
        pairs = [fitted(values, targets, b, c) for c in range(1, targets) for b in range(c)]
        cases.append({"targets": targets, "values": values, "pairs": pairs})
    versions = {"numpy": numpy.__version__, "scipy": scipy.__version__}
    path = pathlib.Path(__file__).parent / "least_squares.json"
    path.write_text(json.dumps({"versions": versions, "cases": cases}) + "\n")


main()
