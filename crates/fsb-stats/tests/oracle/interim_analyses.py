#!/usr/bin/env python3
"""Writes interim_analyses.json: the level that interim analyses leave to the final one.

Each interim analysis has 8 % of alpha; the final one has the level at which all together reject with probability alpha. Every
path is drawn block by block and tested with the formula of the textbook at each analysis; fsb-stats draws sums and sums of
squares instead. Run with SciPy installed (pip install scipy); the result is committed.
"""
import json
import pathlib

import numpy
import scipy
from scipy import stats

random = numpy.random.default_rng(20261122)
PATHS = 400_000
INTERIM_SHARE = 0.08


def p_values(analyses, slices):
    """The smallest interim p-value and the final one, path by path; two targets exchange `slices` slices from block to block."""
    smallest, last = numpy.ones(PATHS), numpy.ones(PATHS)
    differences = random.standard_normal((PATHS, analyses[-1]))
    signs = numpy.where(numpy.arange(analyses[-1]) % 2 == 0, 1.0, -1.0)
    for n in analyses:
        d = differences[:, :n]
        design = numpy.ones((n, 1)) if slices == 1 else numpy.stack([numpy.ones(n), signs[:n]], axis=1)
        inverse = numpy.linalg.inv(design.T @ design)
        effects = d @ design @ inverse
        degrees = n - design.shape[1]
        variance = ((d - effects @ design.T) ** 2).sum(axis=1) / degrees
        t = effects[:, 0] / numpy.sqrt(variance * inverse[0, 0])
        smallest = numpy.minimum(smallest, last)
        last = 2 * stats.t.sf(numpy.abs(t), degrees)
    return smallest, last


def final_level(smallest, last, alpha):
    """The level of the final analysis at which all together reject with probability alpha."""
    rejected = smallest <= INTERIM_SHARE * alpha
    left = alpha - rejected.mean()
    return float(numpy.sort(last[~rejected])[int(left * PATHS)])


def main():
    cases = []
    for analyses in ([6, 9, 12], [6, 8, 10, 12], [8, 12], [6, 12, 18, 24, 30], [6, 12, 18, 24]):
        for slices in (1, 2):
            smallest, last = p_values(analyses, slices)
            for alpha in (0.05, 0.05 / 3, 0.05 / 6):
                cases.append({
                    "interim_analyses": analyses,
                    "lost": slices,
                    "alpha": alpha,
                    "nominal": final_level(smallest, last, alpha),
                    "relative_error": float((1 / (alpha * PATHS)) ** 0.5),
                })
    versions = {"numpy": numpy.__version__, "scipy": scipy.__version__}
    path = pathlib.Path(__file__).parent / "interim_analyses.json"
    path.write_text(json.dumps({"versions": versions, "paths": PATHS, "cases": cases}, indent=1) + "\n")


main()
