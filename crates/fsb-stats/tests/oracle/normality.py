"""Writes normality.json: samples with SciPy's Shapiro-Wilk statistic and p-value."""

import json
import pathlib

import numpy
from scipy import stats

random = numpy.random.default_rng(7)
samples = {
    "normal, 30": random.normal(1000, 20, 30),
    "normal, 12": random.normal(1, 0.1, 12),
    "normal, 500": random.normal(-5, 3, 500),
    "log-normal, 30": random.lognormal(7, 0.8, 30),
    "exponential, 40": random.exponential(250, 40),
    "two modes, 60": numpy.concatenate([random.normal(10, 0.2, 30), random.normal(14, 0.2, 30)]),
    "one outlier, 30": numpy.append(random.normal(100, 1, 29), 900),
    "uniform, 100": random.uniform(0, 1, 100),
    "normal, 5000": random.normal(0, 1, 5000),
    "ties, 24": numpy.repeat([1.0, 2.0, 2.5, 3.0], 6),
}
cases = []
for name, values in samples.items():
    values = numpy.round(values, 6)
    found = stats.shapiro(values)
    cases.append(
        {"name": name, "values": values.tolist(), "w": float(found.statistic), "p": float(found.pvalue)}
    )
path = pathlib.Path(__file__).with_suffix(".json")
path.write_text(json.dumps(cases) + "\n")
