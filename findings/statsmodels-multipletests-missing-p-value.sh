#!/usr/bin/env bash
# One missing p-value makes statsmodels 0.15.0 lose every adjusted p-value, and Hommel's method every finding.
#
# A comparison of file systems tests many workloads at once and corrects the p-values together. A workload without a value
# (one test of separate samples returns nan, see scipy-brunnermunzel-of-separate-samples.sh) is expected to be refused, as
# SciPy's own correction does, or to stay alone without a result. multipletests() counts it as one more test without a
# word. With the three methods that are cited most for it, the adjusted p-values of all other workloads become nan while the
# decisions beside them remain; with Hommel's method nothing is rejected, although the uncorrected p-value is 0.001.
# Needs pip. Prints decisions and adjusted p-values with and without the missing one, and fails if they change.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary=:all: --no-warn-conflicts \
    --target "$work/lib" statsmodels==0.15.0
PYTHONPATH=$work/lib python3 -W ignore - <<'PYTHON'
import math

import scipy
import statsmodels
from scipy.stats import false_discovery_control
from statsmodels.stats.multitest import multipletests

print("statsmodels", statsmodels.__version__)
whole = [0.001, 0.012, 0.2]
missing = whole + [math.nan]
# Method: how many are rejected of three without and of four with the missing one, and how many adjusted p-values are nan.
expected = {"holm": (2, 2, 1), "simes-hochberg": (2, 2, 4), "hommel": (2, 0, 4), "fdr_bh": (2, 2, 4)}
for method, counts in expected.items():
    without = multipletests(whole, method=method)
    with_missing = multipletests(missing, method=method)
    lost = sum(math.isnan(p) for p in with_missing[1])
    print(f"{method}: {sum(without[0])} of 3 rejected; with a missing one {sum(with_missing[0])}, adjusted p-values "
          f"{[round(float(p), 4) for p in with_missing[1]]}")
    assert (sum(without[0]), sum(with_missing[0]), lost) == counts, f"{method} changed"
try:
    false_discovery_control(missing)
    raise SystemExit("SciPy accepts a missing p-value now")
except ValueError as error:
    print("SciPy", scipy.__version__, "refuses it:", error)
PYTHON
