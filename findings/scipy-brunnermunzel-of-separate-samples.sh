#!/usr/bin/env bash
# The Brunner-Munzel test of SciPy 1.17.1 and statsmodels 0.15.0 has no p-value if the samples do not overlap.
#
# The test is recommended for benchmarks because it assumes neither normal times nor equal variances. Where every time of
# one system is below every time of the other, the clearest difference there is, its variance estimate is 0: the
# statistic is infinite, and the p-value and the confidence interval are nan. A comparison with a threshold is false for nan,
# so a script reports "no difference" for a factor of ten and "difference" for five per cent. SciPy warns on stderr.
# Needs pip. Prints the results for samples that overlap and that do not, and fails if the latter have a p-value.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary=:all: --no-warn-conflicts \
    --target "$work/lib" scipy==1.17.1 statsmodels==0.15.0
PYTHONPATH=$work/lib python3 -W ignore - <<'PYTHON'
import math

import scipy
import statsmodels
from scipy.stats import brunnermunzel, mannwhitneyu
from statsmodels.stats.nonparametric import rank_compare_2indep

print("SciPy", scipy.__version__, "and statsmodels", statsmodels.__version__)
base = [10.0, 10.4, 10.1, 10.6, 10.2, 10.5, 10.3, 10.7, 10.15, 10.45]
for name, factor in [("slower by 3 %", 1.03), ("slower by a factor of 10", 10)]:
    other = [time * factor for time in base]
    scipy_p = brunnermunzel(base, other).pvalue
    statsmodels_p = rank_compare_2indep(base, other).pvalue
    print(f"{name}: SciPy p = {scipy_p:.4f}, statsmodels p = {statsmodels_p:.4f}, "
          f"Mann-Whitney p = {mannwhitneyu(base, other).pvalue:.4f}, "
          f"significant at 0.05: {bool(scipy_p < 0.05)}, {bool(statsmodels_p < 0.05)}")
    separated = max(base) < min(other)
    assert separated == math.isnan(scipy_p) == math.isnan(statsmodels_p), "the p-values changed"
PYTHON
