"""What the contenders are given, and how their curves are scored: alike for all of them."""

from __future__ import annotations

import subprocess
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.model_selection import train_test_split

from benchmarks._burk import (
    REFERENCE_PREFIX,
    fold_of,
    integrated_survival_brier,
    reference_of,
    scoring_times,
)
from benchmarks._environments import Environments
from benchmarks._time_errors import margin_error
from benchmarks._truths import draw_truth
from survival_objectives._people import check_survival_target
from survival_objectives.datasets import (
    integrated_squared_error,
    load_covid_hospital,
    load_gbsg,
    load_metabric,
    load_support,
    make_competing_risks,
)
from survival_objectives.marginal import aalen_johansen
from survival_objectives.metrics import (
    Evaluation,
    concordance_index,
    integrated_brier_score,
    likelihood_score,
    time_dependent_auc,
)
from survival_objectives.metrics._scores import integrated_score

__all__ = ["LOADED", "STORED", "Problem", "load_stored", "make_problem", "read_table"]

FloatArray = npt.NDArray[np.float64]
Metrics = dict[str, float]

LOADED: dict[str, Any] = {"METABRIC": load_metabric, "SUPPORT": load_support, "GBSG": load_gbsg}
#: Competing risks in FOLDER/competing/NAME.csv.
STORED = ("ebmt2", "hd", "wihs")
#: Which people of the tables with competing risks are tested on: a row a table and split, with a
#: digit a person.
FOLDS = Path(__file__).parent / "competing_bench" / "folds.csv"
N_TIMES = 50
N_NODES = 32
N_FINE = 200
QUANTILES = (0.25, 0.5, 0.75)
TEST_SHARE = 0.3
#: An observed event with a smaller predicted probability counts as excluded by the model.
EXCLUDED = 1e-6


@dataclass(frozen=True)
class Problem:
    """People to learn from, people to predict for, times, and the judge of the curves."""

    X: FloatArray
    event: npt.NDArray[np.int64]
    duration: FloatArray
    X_test: FloatArray
    times: FloatArray
    score: Callable[[FloatArray], Metrics]


def make_problem(
    kind: str, data: dict[str, Any], seed: int, folder: str | None, environments: Environments
) -> Problem:
    """The problem of a job; the last few are kept, as contenders take turns on each."""
    return _make(kind, tuple(sorted(data.items())), seed, folder, environments)


@lru_cache(maxsize=2)
def _make(
    kind: str,
    data: tuple[tuple[str, Any], ...],
    seed: int,
    folder: str | None,
    environments: Environments,
) -> Problem:
    options = dict(data)
    if kind == "simulated":
        return simulated(seed, **options)
    if kind == "truth":
        return truth_problem(seed, **options)
    if kind == "burk":
        return burk_problem(options["table"], seed, folder)
    table = options.pop("table")
    X, y = real_table(table, folder, environments)
    if kind == "competing":
        return split_problem(X, y, fixed_split(table, seed, len(y)), one_cause=False)
    split = train_test_split(
        np.arange(len(y)), test_size=TEST_SHARE, random_state=seed, stratify=y["event"]
    )
    return split_problem(X, y, split, one_cause=True)


def real_table(
    name: str, folder: str | None, environments: Environments
) -> tuple[Any, pd.DataFrame]:
    """Features and outcomes of a table by its name in the suites."""
    if name in LOADED:
        dataset = LOADED[name](folder)
        return dataset.X.to_numpy(np.float64), dataset.y
    if name == "covid":
        dataset = load_covid_hospital()
        return dataset.X.to_numpy(np.float64), dataset.y
    if name == "simulated":
        # For rehearsals: real data may not be at hand.
        dataset = make_competing_risks(240, n_causes=1, random_state=0)
        return dataset.X.to_numpy(np.float64), dataset.y
    if name in STORED:
        return load_stored(name, folder)
    X, y = read_table(name, environments)
    return X.to_numpy(np.float64), y


def read_table(name: str, environments: Environments) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Columns and outcomes of a table that another package brings."""
    python = environments.python("tables")
    reader = Path(__file__).parent / "workers" / "read_tables.py"
    with tempfile.TemporaryDirectory() as place:
        table = Path(place) / "table.npz"
        subprocess.run([python, reader, name, table], check=True, capture_output=True)
        with np.load(table) as stored:
            y = pd.DataFrame({"event": stored["event"], "duration": stored["duration"]})
            return pd.DataFrame(stored["X"], columns=stored["names"]), y


def load_stored(name: str, folder: str | None) -> tuple[FloatArray, pd.DataFrame]:
    """A table of FOLDER/competing; categories are columns of zeros and ones."""
    path = None if folder is None else Path(folder) / "competing" / f"{name}.csv"
    if path is None or not path.exists():
        msg = (
            f"No table at {str(path)!r}. The data folder (--data or SURVIVAL_DATA_DIR) must have "
            f"competing/{name}.csv."
        )
        raise FileNotFoundError(msg)
    frame = pd.read_csv(path)
    features = pd.get_dummies(frame.drop(columns=["event", "duration"]), drop_first=True)
    return features.to_numpy(np.float64), frame[["event", "duration"]]


# -------------------------------------------------------------------------------------- real data
def fixed_split(table: str, split: int, n_samples: int) -> tuple[Any, Any]:
    """People to learn from and people to predict for, by the file of folds."""
    folds = pd.read_csv(FOLDS, dtype={"tested": str}).set_index(["table", "split"])["tested"]
    is_test = np.array(list(folds[table, split])) == "1"
    if len(is_test) != n_samples:
        msg = f"{table} has {n_samples} people; {FOLDS.name} is of {len(is_test)}."
        raise ValueError(msg)
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def split_problem(X: Any, y: pd.DataFrame, split: tuple[Any, Any], *, one_cause: bool) -> Problem:
    """70 % of the people to learn from and 30 % to predict for."""
    train, test = split
    y_train, y_test = y.iloc[train], y.iloc[test]
    event = y_train["event"].to_numpy(np.int64)
    duration = y_train["duration"].to_numpy(np.float64)
    grid = np.linspace(0, np.quantile(duration, 0.95), N_TIMES + 1)[1:]
    grid = grid[grid < y_test["duration"].max()]
    horizons = np.quantile(duration[event > 0], QUANTILES)
    nodes = np.linspace(0, float(y["duration"].max()), N_NODES + 1)
    # Where many have events soon, curves between a few nodes would look badly calibrated.
    fine = np.quantile(duration[event > 0], np.linspace(0, 1, N_FINE + 1), method="inverted_cdf")
    fine = np.unique(np.concatenate([fine[fine > 0], nodes[1:]]))
    times = np.unique(np.concatenate([grid, horizons, fine]))

    def score(curves: FloatArray) -> Metrics:
        at = _Reader(curves, times)
        shared = _shared_scores(y_train, y_test, at, grid, horizons)
        if one_cause:
            found = _survival_scores(y_train, y_test, at, grid, horizons, fine)
            return {**shared, **_likelihood(y_train, y_test, at(nodes[1:]), nodes), **found}
        return {**shared, **_competing_scores(y_train, y_test, at, grid, horizons, nodes)}

    return Problem(X[train], event, duration, X[test], times, score)


class _Reader:
    """Curves at some of the times they were predicted for."""

    def __init__(self, curves: FloatArray, times: FloatArray) -> None:
        self.curves, self.times = curves, times

    def __call__(self, wanted: FloatArray) -> FloatArray:
        return self.curves[:, :, np.searchsorted(self.times, wanted)]


def _shared_scores(
    y_train: Any, y_test: Any, at: _Reader, grid: FloatArray, horizons: FloatArray
) -> Metrics:
    log_loss = Evaluation(y_train, y_test, at(grid), grid).log_loss(integrated=True).value
    found = {
        "ibs": float(integrated_brier_score(y_train, y_test, at(grid), grid)),
        "log_loss": float(log_loss),
    }
    n_causes = at.curves.shape[1] - 1
    c_index = concordance_index(y_train, y_test, at(horizons), horizons)
    auc = time_dependent_auc(y_train, y_test, at(horizons), horizons)
    for column, quantile in enumerate(QUANTILES):
        for cause in range(1, n_causes + 1):
            suffix = f"_{quantile:g}" + (f"_cause{cause}" if n_causes > 1 else "")
            found[f"c_index{suffix}"] = float(c_index[cause, column])
    found["c_index"] = float(np.nanmean(c_index[1:]))
    found["auc"] = float(np.nanmean(auc[1:]))
    return found


def _survival_scores(
    y_train: Any,
    y_test: Any,
    at: _Reader,
    grid: FloatArray,
    horizons: FloatArray,
    known: FloatArray,
) -> Metrics:
    survival = at(known)
    middle = horizons[1:2]
    bins = Evaluation(y_train, _untied(y_test), survival, known).d_calibration()
    groups = Evaluation(y_train, y_test, at(middle), middle).risk_groups(0)
    return {
        "mae": margin_error(y_train, y_test, survival[:, 0], known),
        "d_calibration_p": bins.p_value,
        "one_calibration_p": groups.p_value,
        "km_calibration": _distances(y_test, at(grid), grid)[0],
        "x_calibration": float(((bins.shares - 1 / len(bins.shares)) ** 2).sum()),
    }


def _distances(y: pd.DataFrame, curves: FloatArray, times: FloatArray) -> FloatArray:
    """Mean squared distance over time of the mean curves and Aalen-Johansen, per state."""
    states = curves if curves.ndim == 3 else np.stack([curves, 1 - curves], axis=1)
    target = check_survival_target(y, event_ids=np.arange(states.shape[1]))
    gap = states.mean(axis=0) - aalen_johansen(target)(times).T
    known = times <= target.duration.max()
    return integrated_score(gap[:, known] ** 2, times[known])


def _untied(y: pd.DataFrame) -> pd.DataFrame:
    """The same with events of whole days at random moments of their days.

    F(T|x) is uniform only where T is continuous. If hundreds share a day, all of them fall into one
    bin of D-calibration, which then rejects even the Kaplan-Meier curve.
    """
    duration, happened = y["duration"].to_numpy(np.float64), y["event"].to_numpy() > 0
    if (duration != np.round(duration)).any():
        return y
    earlier = np.random.default_rng(0).random(len(y)) * happened
    return y.assign(duration=np.maximum(duration - earlier, 0))


def _likelihood(y_train: Any, y_test: Any, curves: FloatArray, nodes: FloatArray) -> Metrics:
    """Minus the log-likelihood in 32 intervals, and how many observed events the model excludes."""
    event, duration = y_test["event"].to_numpy(), y_test["duration"].to_numpy()
    rises = np.diff(curves, axis=2, prepend=0)
    interval = np.clip(np.searchsorted(nodes, duration, side="left") - 1, 0, len(nodes) - 2)
    happened = np.flatnonzero(event > 0)
    own = rises[happened, event[happened], interval[happened]]
    return {
        "cen_log_simple": likelihood_score(y_train, y_test, curves, nodes[1:], nodes=nodes),
        "n_excluded": float(np.count_nonzero(own < EXCLUDED)),
    }


def _competing_scores(
    y_train: Any,
    y_test: Any,
    at: _Reader,
    grid: FloatArray,
    horizons: FloatArray,
    nodes: FloatArray,
) -> Metrics:
    by_curve = integrated_brier_score(y_train, y_test, at(grid), grid, average=None)
    middle = horizons[1:2]
    found = {f"ibs_cause{cause}": float(by_curve[cause]) for cause in range(1, len(by_curve))}
    found["ibs_event_free"] = float(by_curve[0])
    found |= _likelihood(y_train, y_test, at(nodes[1:]), nodes)
    found["aj_calibration"] = float(_distances(y_test, at(grid), grid)[1:].mean())
    groups = Evaluation(y_train, y_test, at(middle), middle).risk_groups(0)
    found["one_calibration_p"] = groups.p_value
    return found


# --------------------------------------------------------------------------------------- simulated
def simulated(
    seed: int,
    *,
    n_samples: int,
    n_test: int = 2000,
    n_times: int = N_TIMES,
    polar: bool = False,
    **options: Any,
) -> Problem:
    """A simulated population whose curves and censoring are known.

    The effects of its features on log-hazards are linear, as Cox regression assumes. With
    ``polar``, contenders are shown each pair of features as distance and angle instead: the same
    knowledge, but no longer linear.
    """
    data = make_competing_risks(n_samples, random_state=seed, **options)
    test = data.draw(n_test, random_state=seed + 500)
    times = np.linspace(0, np.quantile(data.y["duration"], 0.95), n_times + 1)[1:]
    true = data.true.cumulative_incidence(test.X, times)

    def brier(curves: FloatArray) -> float:
        return float(integrated_brier_score(data.true.censoring, test.y, curves, times, X=test.X))

    def score(curves: FloatArray) -> Metrics:
        return {
            "ise_x1000": 1000 * integrated_squared_error(true, curves, times),
            "ibs_oracle": brier(curves),
            # On the same outcomes and weights, as their noise is common to all.
            "ibs_true_curves": brier(true),
        }

    shown = _polar if polar else np.asarray
    return Problem(
        shown(data.X.to_numpy(np.float64)),
        data.y["event"].to_numpy(np.int64),
        data.y["duration"].to_numpy(np.float64),
        shown(test.X.to_numpy(np.float64)),
        times,
        score,
    )


def truth_problem(
    seed: int, *, n_samples: int, n_test: int = 2000, n_times: int = N_TIMES, **options: Any
) -> Problem:
    """People of a known population, see `benchmarks._truths`; judged by its true curves."""
    truth, generator = draw_truth(seed=seed, **options)
    train, test = truth.draw(n_samples, generator), truth.draw(n_test, generator)
    times = np.linspace(0, np.quantile(train.duration, 0.95), n_times + 1)[1:]
    true = truth.incidence(test.X, times)
    average = np.broadcast_to(true.mean(axis=0), true.shape)

    def score(curves: FloatArray) -> Metrics:
        return {
            "ise_x1000": 1000 * integrated_squared_error(true, curves, times),
            # What the true mean curve of all people scores, the least without any feature.
            "ise_marginal": 1000 * integrated_squared_error(true, average, times),
            "censored": float(np.mean(train.event == 0)),
        }

    return Problem(train.X, train.event, train.duration, test.X, times, score)


def burk_problem(table: str, fold: int, folder: str | None) -> Problem:
    """A table of Burk et al. (2024) on one of their outer folds, judged by their score."""
    X, event, duration, is_test = fold_of(table, fold, folder)
    train = event[~is_test], duration[~is_test]
    test = event[is_test], duration[is_test]
    times = scoring_times(test[1])
    # Beside ours in the records, so that the report can rank without the data.
    reference = reference_of(table, fold, folder)
    quoted = {f"{REFERENCE_PREFIX}{learner}": value for learner, value in reference.items()}

    def score(curves: FloatArray) -> Metrics:
        isbs = integrated_survival_brier(train, test, curves[:, 0], times)
        return {"isbs": isbs, **quoted}

    return Problem(X[~is_test], *train, X[is_test], times, score)


def _polar(values: FloatArray) -> FloatArray:
    """Neighbouring columns as distance from 0 and angle; a last odd one stays."""
    turned = values.copy()
    first, second = values[:, :-1:2], values[:, 1::2]
    turned[:, 0 : 2 * second.shape[1] : 2] = np.hypot(first, second)
    turned[:, 1::2] = np.arctan2(second, first)
    return turned


def scored(problem: Problem, curves: FloatArray) -> Metrics:
    """Metrics of curves; metrics that follow-up or ties leave undefined are NaN, not noise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return problem.score(np.clip(curves, 0, 1))
