"""Statistics of sets whose runs lack cells: python3 pooled.py > pooled.json (NumPy and SciPy).

A set has runs, a run has values by file size and record size, and null where it lacks the cell. `pooled` describes all
values of the cells that both sets have. `value` is the geometric mean over runs with equal weights, each over the cells
that every run of both sets has.
"""

import json

import numpy as np
from scipy import stats

random = np.random.default_rng(20261129)
SIZES = [[size, record] for size in (16384, 65536, 262144) for record in (4096, 16384, 65536)]


def draw(level, lost):
    """Runs × cells; `lost` has pairs of a run and a cell."""
    values = level * np.exp(random.normal(0, 0.4, len(SIZES)) + random.normal(0, 0.1, (len(lost), len(SIZES))))
    for run, cells in enumerate(lost):
        values[run, cells] = np.nan
    return values


def describe(values, whole):
    present = values[~np.isnan(values)]
    n, mean, sd = len(present), present.mean(), present.std(ddof=1)
    q1, median, q3 = np.percentile(present, [25, 50, 75])
    return {
        "values": [[None if np.isnan(value) else value for value in run] for run in values],
        "pooled": {
            "n": n, "mean": mean, "sd": sd, "ci90": list(stats.t.interval(0.90, n - 1, mean, sd / np.sqrt(n))),
            "geometric_mean": stats.gmean(present), "median": median, "q1": q1, "q3": q3,
            "min": present.min(), "max": present.max(),
        },
        "value": stats.gmean([stats.gmean(run[whole]) for run in values]),
    }


def main():
    # No run lacks more than a fifth of the cells, so that every run counts for the estimate.
    sets = {
        "old": draw(4e8, [[], [8], [], [0], []]),
        "new": draw(3e8, [[2], [], [5]]),
    }
    whole = ~np.isnan(np.concatenate(list(sets.values()))).any(axis=0)
    described = {name: describe(values, whole) for name, values in sets.items()}
    print(json.dumps({"sizes": SIZES, "sets": described}, indent=1))


main()
