r"""The neutral benchmark of Burk et al. (2024): its tables, folds, reference scores and score.

``FOLDER/burk2024/NAME.csv`` has ``time``, ``status`` (1 = event), features, and ``test_1`` to
``test_5`` that mark the test people of the outer folds; ``reference_scores.csv`` has the scores of
the authors' learners, each tuned, on those folds. "simulated" is a small table for rehearsals.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives.datasets import make_competing_risks

__all__ = [
    "BURK_TABLES",
    "REFERENCE_PREFIX",
    "burk_folder",
    "fold_of",
    "integrated_survival_brier",
    "reference_of",
    "reference_scores",
    "scoring_times",
]

FloatArray = npt.NDArray[np.float64]
Outcomes = tuple[npt.NDArray[np.int64], FloatArray]

BURK_TABLES = (
    "aids.id",
    "bladder0",
    "cat_adoption",
    "channing",
    "colrec",
    "dataFTR",
    "e1684",
    "flchain",
    "gbsg",
    "grace",
    "lung",
    "nwtco",
    "support",
    "uis",
    "wa_churn",
    "whas",
)
#: Of the metrics of a record that are the authors' scores on the same fold.
REFERENCE_PREFIX = "isbs, "
_REHEARSAL = "simulated"
_MIN_UNCENSORED = 0.001
# Scores are integrated until more than this share of the test people have left.
_LEFT_SHARE = 0.8


def burk_folder(folder: str | None) -> Path:
    """The folder of the tables; an error that says what is missing where there is none."""
    found = None if folder is None else Path(folder) / "burk2024"
    if found is None or not (found / "reference_scores.csv").exists():
        msg = (
            f"No reference scores at {str(found)!r}. "
            "The data folder (--data or SURVIVAL_DATA_DIR) must have burk2024/reference_scores.csv "
            "and burk2024/NAME.csv."
        )
        raise FileNotFoundError(msg)
    return found


def fold_of(
    table: str, fold: int, folder: str | None
) -> tuple[FloatArray, npt.NDArray[np.int64], FloatArray, npt.NDArray[np.bool_]]:
    """Features, event, duration and who is tested; categories are columns of zeros and ones."""
    if table == _REHEARSAL:
        data = make_competing_risks(160, n_causes=1, random_state=0)
        is_test = np.arange(160) % 3 == fold % 3
        event = data.y["event"].to_numpy(np.int64)
        return data.X.to_numpy(np.float64), event, data.y["duration"].to_numpy(), is_test
    frame = pd.read_csv(burk_folder(folder) / f"{table}.csv")
    marks = [name for name in frame if name.startswith("test_")]
    features = pd.get_dummies(frame.drop(columns=["time", "status", *marks]), drop_first=True)
    values = features.to_numpy(np.float64)
    return (
        # A column of dates loses digits in float32, which boosters compute in.
        values - np.nanmin(values, axis=0),
        frame["status"].to_numpy(np.int64),
        frame["time"].to_numpy(np.float64),
        frame[f"test_{fold}"].to_numpy() == 1,
    )


@lru_cache(maxsize=4)
def reference_scores(folder: str | None) -> pd.DataFrame:
    """Integrated survival Brier scores of the authors' learners: one row per table and fold."""
    scores = pd.read_csv(burk_folder(folder) / "reference_scores.csv")
    return scores.pivot_table(index=["task_id", "iteration"], columns="learner_id", values="isbs")


def reference_of(table: str, fold: int, folder: str | None) -> dict[str, float]:
    """Scores of the authors' learners on this fold."""
    if table == _REHEARSAL:
        return {"KM": 0.25, "CPH": 0.2}
    known = reference_scores(folder).loc[(table, fold)].dropna()
    return {str(learner): float(score) for learner, score in known.items()}


def scoring_times(duration: FloatArray) -> FloatArray:
    """Distinct test durations up to the first before which more than 80 % have left."""
    times = np.unique(duration)
    left = np.searchsorted(np.sort(duration), times, side="left") / len(duration)
    is_late = np.flatnonzero(left > _LEFT_SHARE)
    return times[: is_late[0] + 1] if len(is_late) else times


def integrated_survival_brier(
    train: Outcomes, test: Outcomes, survival: FloatArray, times: FloatArray
) -> float:
    r"""The score of Burk et al., for one cause.

        ISBS = 1/(t_T - t_1) int_{t_1}^{t_T} 1/n sum_i e_i(t) dt
        e_i(t) = (1 - S(t|x_i))^2 / G(t)    if t_i > t
                 S(t|x_i)^2 / G(t_i)        if t_i <= t and there was an event

    with the trapezoidal rule. G is the Kaplan-Meier curve of censoring of the training people,
    where people with an event at t count as at risk of censoring at t, and at least 0.001.

    Parameters
    ----------
    train, test : pairs (event, duration)
    survival : array of shape (n_test, n_times)
    times : array of shape (n_times,)
    """
    event, duration = test
    steps, position = np.unique(train[1], return_inverse=True)
    at_risk = np.bincount(position)[::-1].cumsum()[::-1]
    censored = np.bincount(position, weights=train[0] == 0)
    curve = np.concatenate([[1.0], np.cumprod(1 - censored / at_risk)])

    def uncensored(at: FloatArray) -> FloatArray:
        return np.maximum(curve[np.searchsorted(steps, at, side="right")], _MIN_UNCENSORED)

    stayed = duration[:, None] > times
    had_event = ~stayed & (event > 0)[:, None]
    squared = stayed * (1 - survival) ** 2 / uncensored(times)
    squared += had_event * survival**2 / uncensored(duration)[:, None]
    return float(np.trapezoid(squared.mean(axis=0), times) / (times[-1] - times[0]))
