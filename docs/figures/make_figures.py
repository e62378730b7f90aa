"""Draws the pictures of the documentation, beside this script or in the folder given.

python docs/figures/make_figures.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.model_selection import train_test_split

from survival_objectives import HazardBoost, metrics, plots
from survival_objectives._people import check_survival_target
from survival_objectives.adapters.lightgbm import IPCWObjective
from survival_objectives.datasets import load_covid_hospital
from survival_objectives.stacking import TimeStacker

STATES = ("in hospital", "died", "discharged")
TIME = "Day of the stay"


def one_person(model: HazardBoost, X: pd.DataFrame) -> Figure:
    """Stacked probabilities of a person with a risk of death of about a third."""
    days = np.linspace(0, 28, 561)  # Fine enough for the steps of whole days.
    risk = model.predict_proba(X, 28.0)[:, 1]
    person = X.iloc[[np.abs(risk - 1 / 3).argmin()]]
    fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
    curves = model.predict_cumulative_incidence(person, days)[0]
    plots.plot_stacked_incidence(curves, days, state_names=STATES, time_label=TIME, ax=ax)
    return fig


def calibration(model: HazardBoost, X: pd.DataFrame, y: pd.DataFrame) -> Figure:
    """Observed against predicted risk of death by day 14."""
    curves = model.predict_cumulative_incidence(X, [14.0])
    groups = metrics.Evaluation(None, y, curves, [14.0]).risk_groups(1, n_groups=5)
    half = 1.96 * groups.standard_error
    fig, ax = plt.subplots(figsize=(4.4, 4), layout="constrained")
    plots.plot_calibration(
        {"death": (groups.predicted, groups.observed)},
        intervals={"death": (groups.observed - half, groups.observed + half)},
        horizon=14,
        ax=ax,
    )
    return fig


def horizons(y: pd.DataFrame) -> Figure:
    """Where each sampler looks."""
    target = check_survival_target(y)
    names = ("uniform", "stratified", "events", "mixture")
    fig, axes = plt.subplots(1, 4, figsize=(10, 2.4), sharey=True, layout="constrained")
    bins = np.linspace(0, 60, 31)
    for ax, name in zip(axes, names, strict=True):
        stack = TimeStacker(4, name, horizon_max=60.0, random_state=0).draw(target)
        ax.hist(stack.horizon, bins=list(bins), color=plots.PALETTE[0], density=True)
        ax.set(title=f'"{name}"', xlabel=TIME)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("Share of horizons")
    return fig


def weights(X: pd.DataFrame, y: pd.DataFrame) -> Figure:
    """Weights of the stacked rows, with a floor."""
    objective = IPCWObjective(X, y, n_horizons=4, random_state=0)
    fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
    plots.plot_weights(objective.initial_weight, floor=0.05, ax=ax)
    return fig


def importance(model: HazardBoost, X: pd.DataFrame) -> Figure:
    """Mean size of SHAP values of death, by horizon."""
    days = [3.0, 7.0, 14.0, 28.0]
    values = model.importance(X, days)[1].to_numpy()
    fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
    plots.plot_importance(
        values,
        days,
        feature_names=list(X.columns),
        time_label=TIME,
        value_label="Mean |SHAP| of death",
        ax=ax,
    )
    return fig


def main(folder: Path) -> None:
    """Draw all pictures into a folder."""
    data = load_covid_hospital()
    X, X_test, y, y_test = train_test_split(
        data.X, data.y, test_size=0.3, random_state=0, stratify=data.y["event"]
    )
    model = HazardBoost(random_state=0, n_jobs=1).fit(X, y)
    figures = {
        "one_person": one_person(model, X_test),
        "calibration": calibration(model, X_test, y_test),
        "horizons": horizons(y),
        "weights": weights(X, y),
        "importance": importance(model, X_test.iloc[:300]),
    }
    for name, figure in figures.items():
        # Without the version of matplotlib in it, a picture changes only with what it shows.
        figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})
        plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
