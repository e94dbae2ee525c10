#!/usr/bin/env python3
"""The classic comparison of IOzone sets, written straight from its definition with NumPy and SciPy.

    compare_peer.py [--whole] NAME=FILE,FILE,... NAME=FILE,...

The first set is the baseline. Each operation is described as a whole, by file size and by record size; with --whole
only as a whole. Prints the classic part of `fsb compare --format json`: P. Benas, "Porovnani vykonnosti
ruznych souborovych systemu", Brno University of Technology, 2011, section 5. It is the peer of `make bench` and the source of the expected values
in testdata/expected. Files are IOzone's automatic mode with all thirteen columns.
"""

import json
import sys

import numpy as np
from scipy import stats

OPERATIONS = [
    "write", "rewrite", "read", "reread", "random_read", "random_write", "backward_read", "record_rewrite",
    "stride_read", "fwrite", "frewrite", "fread", "freread",
]


def read(paths):
    """All values of a set: {(operation, file size, record size): [bytes a second, one a file]}."""
    cells = {}
    for path in paths:
        in_table = False
        with open(path) as file:
            for line in file:
                words = line.split()
                if "reclen" in words:
                    in_table = True
                elif in_table and len(words) == 2 + len(OPERATIONS):
                    size, record, *rates = (int(word) for word in words)
                    for operation, rate in zip(OPERATIONS, rates):
                        if rate > 0:  # a zero is a measurement that was not made
                            cells.setdefault((operation, size * 1024, record * 1024), []).append(rate * 1024.0)
    return cells


def describe(values):
    n = len(values)
    mean, sd = np.mean(values), np.std(values, ddof=1) if n > 1 else None
    low, high = stats.t.interval(0.90, n - 1, mean, sd / np.sqrt(n)) if n > 1 else (None, None)
    q1, median, q3 = np.percentile(values, [25, 50, 75])
    return {
        "n": n, "mean": mean, "sd": sd, "ci90": None if n < 2 else [low, high],
        "geometric_mean": stats.gmean(values), "median": median, "q1": q1, "q3": q3,
        "min": np.min(values), "max": np.max(values),
    }


def compare(x_values, y_values, x, y):
    """Two sets: all values for medians and the t-test, the means of cells for the line through the origin."""
    p = stats.ttest_ind(x_values, y_values, equal_var=True).pvalue if len(x_values) + len(y_values) > 2 else None
    a, b = np.sum(x * y), np.sum(x**2 - y**2)
    slope = (-b + np.sqrt(b**2 + 4 * a**2)) / (2 * a)
    distance = np.abs(slope * x - y) / np.sqrt(slope**2 + 1)
    n = len(x)
    error = np.sqrt(np.sum(distance**2) / np.sum((x - x.mean())**2) / (n - 1)) if n > 1 else None
    half = stats.t.ppf(0.95, n - 1) * error if n > 1 else None
    return {
        "median_change": np.median(y_values) / np.median(x_values) - 1,
        "t_p": p, "t_verdict": "DIFF" if p <= 0.1 else "SAME",
        "slope": slope, "slope_se": error, "slope_ci90": None if n < 2 else [slope - half, slope + half],
    }


def classic(sets, keys):
    pooled = {name: np.concatenate([cells[key] for key in keys]) for name, cells in sets.items()}
    means = {name: np.array([np.mean(cells[key]) for key in keys]) for name, cells in sets.items()}
    baseline, *others = sets
    return {
        "sets": {name: describe(values) for name, values in pooled.items()},
        "against": {
            name: compare(pooled[baseline], pooled[name], means[baseline], means[name]) for name in others
        },
    }


def by_size(sets, keys, place):
    sizes = sorted({key[place] for key in keys})
    return [{"bytes": size, "classic": classic(sets, [key for key in keys if key[place] == size])} for size in sizes]


def main(arguments):
    whole = "--whole" in arguments
    arguments = [argument for argument in arguments if argument != "--whole"]
    if not arguments:
        sys.exit(__doc__)
    sets = {}
    for argument in arguments:
        name, paths = argument.split("=", 1)
        sets[name] = read(paths.split(","))
    common = sorted(set.intersection(*(set(cells) for cells in sets.values())))
    if not common:
        sys.exit("the sets have no cell in common")
    operations = []
    for operation in OPERATIONS + ["ALL"]:
        keys = [key for key in common if operation in (key[0], "ALL")]
        if keys:
            entry = {"operation": operation, "classic": classic(sets, keys)}
            if not whole:
                entry["by_file_size"] = by_size(sets, keys, 1)
                entry["by_record_size"] = by_size(sets, keys, 2)
            operations.append(entry)
    lines = ",\n".join(json.dumps(entry, default=float, separators=(",", ":")) for entry in operations)
    print('{"baseline":%s,"operations":[\n%s\n]}' % (json.dumps(next(iter(sets))), lines))


if __name__ == "__main__":
    main(sys.argv[1:])
