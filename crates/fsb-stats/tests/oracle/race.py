"""Half-widths of the bound of races, another way than src/race/mod.rs: python3 race.py > race.json (SciPy 1.11 or newer).

The Bayes factor for a normal prior of precision PHI on a standardised difference, against none, is the mixture of
non-central t densities of the t statistic over its central one. It is integrated, and its root in t found.
"""

import json

import numpy as np
from scipy import integrate, optimize, stats

PHI = 0.25


def factor(t, v, degrees):
    """How much likelier t is under the mixture. With z = 1/v, t has the non-centrality delta * sqrt(z)."""
    root = np.sqrt(1.0 / v)

    def product(delta):
        return stats.nct.pdf(t, degrees, delta * root) * stats.norm.pdf(delta, scale=1 / np.sqrt(PHI))

    centre = t / root
    pieces = sorted([-12.0, centre - 3.0, centre - 0.5, centre, centre + 0.5, centre + 3.0, centre + 12.0])
    sums = [integrate.quad(product, a, b, limit=400)[0] for a, b in zip(pieces, pieces[1:]) if b > a]
    return sum(sums) / stats.t.pdf(t, degrees)


def half_width(v, degrees, error):
    t = optimize.brentq(lambda t: np.log(factor(t, v, degrees) * error), 1.0, 12.0, xtol=1e-10)
    return t * np.sqrt(v)


CASES = [(v, degrees, error) for v in (1.0, 0.3, 0.1) for degrees in (20, 40, 120) for error in (0.05, 2.5e-3)]
print(json.dumps([{"v": v, "degrees": d, "error": e, "half_width": half_width(v, d, e)} for v, d, e in CASES], indent=1))
