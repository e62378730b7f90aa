r"""Who is ahead: paired differences over splits or seeds, with their standard errors.

Contenders meet on the same split or seed s, and ours is ahead there by

    a_s = 100 log(other_s / ours_s)   where lower is better,
    a_s = 100 (ours_s - other_s)      for probabilities of a right order, where higher is better,

so roughly in per cent, or in points. The standard error of the mean of n independent seeds is
sd / sqrt(n). Splits of one table share most of their training people; for them it is

    sd sqrt(1 / n + n_test / n_train)

(Nadeau and Bengio, 2003). Ours wins or loses where the mean is beyond the 97.5 % quantile of
Student's t with n - 1 degrees of freedom times the standard error; all else is a tie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

__all__ = ["METRICS", "Comparison", "Metric", "compare", "standard_error"]

#: n_test / n_train of the splits.
SPLIT_RATIO = 3 / 7


@dataclass(frozen=True)
class Metric:
    """How a number is read: its name in tables, whether lower is better, its digits."""

    name: str
    label: str
    lower: bool = True
    digits: int = 4

    def advantage(self, ours: float, other: float) -> float:
        """How far ours is ahead, in per cent or points."""
        if not self.lower:
            return 100 * (ours - other)
        # Times of nearly nothing would be worth infinitely much.
        floor = 1e-3 if self.name.endswith("cpu") else 1e-12
        return 100 * float(np.log(max(other, floor) / max(ours, floor)))

    @property
    def unit(self) -> str:
        return "%" if self.lower else "points"


METRICS = {
    metric.name: metric
    for metric in (
        Metric("ibs", "integrated Brier"),
        Metric("ibs_oracle", "integrated Brier, true weights"),
        Metric("isbs", "integrated survival Brier"),
        Metric("ise_x1000", "error to the truth × 1000", digits=2),
        Metric("cen_log_simple", "S_Cen-log-simple", digits=3),
        Metric("n_excluded", "events excluded", digits=1),
        Metric("log_loss", "integrated log-loss"),
        Metric("auc", "AUC", lower=False),
        Metric("c_index", "C-index", lower=False),
        Metric("c_index_0.25", "C-index, 25 %", lower=False),
        Metric("c_index_0.5", "C-index, 50 %", lower=False),
        Metric("c_index_0.75", "C-index, 75 %", lower=False),
        Metric("mae", "MAE", digits=1),
        Metric("mse", "MSE", digits=0),
        Metric("km_calibration", "KM calibration × 1000", digits=3),
        Metric("x_calibration", "X calibration × 1000", digits=3),
        Metric("aj_calibration", "AJ calibration × 1000", digits=3),
        Metric("fit_cpu", "fit, CPU s", digits=1),
        Metric("fit_wall", "fit, s", digits=1),
        Metric("predict_cpu", "predict, CPU s", digits=2),
        Metric("peak_mib", "peak MiB", digits=0),
    )
}


@dataclass(frozen=True)
class Comparison:
    """Ours against another: "win", "tie", "lose", or "one run" where nothing can be said."""

    verdict: str
    mean: float
    error: float
    n_pairs: int


def standard_error(differences: Any, *, splits: bool) -> float:
    """Of the mean of paired differences; NaN for a single one."""
    values = np.asarray(differences, dtype=float)
    if len(values) < 2:
        return float("nan")
    share = 1 / len(values) + (SPLIT_RATIO if splits else 0.0)
    return float(values.std(ddof=1) * np.sqrt(share))


def compare(
    metric: Metric, ours: Mapping[Any, float], other: Mapping[Any, float], *, splits: bool
) -> Comparison | None:
    """The verdict over the pairs that both have; None where there is none."""
    pairs = sorted(set(ours) & set(other))
    if not pairs:
        return None
    ahead = [metric.advantage(ours[pair], other[pair]) for pair in pairs]
    mean, error = float(np.mean(ahead)), standard_error(ahead, splits=splits)
    if len(pairs) < 2:
        return Comparison("one run", mean, error, 1)
    reach = float(student.ppf(0.975, len(pairs) - 1)) * error
    verdict = "win" if mean > reach else "lose" if mean < -reach else "tie"
    return Comparison(verdict, mean, error, len(pairs))
