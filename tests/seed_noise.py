"""How far errors of models may differ by their seeds alone."""

from __future__ import annotations

import numpy as np
from scipy.stats import t as student

# One false alarm in a thousand pairs of equally good methods. Seeds are fixed, so a false alarm can
# only appear with another version of an engine, never from run to run.
LEVEL = 1e-3


def largest_mean(reference, n_seeds=1, level=LEVEL):
    """Mean of ``n_seeds`` further errors that seeds exceed with probability ``level`` only.

    ``reference`` are errors of models that differ by their seeds. For normal errors, the mean of m
    further errors minus the mean of these n, divided by s (1/n + 1/m)^(1/2), has Student's
    distribution with n - 1 degrees of freedom, where s is the standard deviation of these n.
    """
    reference = np.asarray(reference)
    n = len(reference)
    spread = reference.std(ddof=1) * np.sqrt(1 / n + 1 / n_seeds)
    return reference.mean() + student.ppf(1 - level, n - 1) * spread
