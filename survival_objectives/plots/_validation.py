"""Pictures of a validation: scores of groups of people, and decision curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from survival_objectives.plots._plots import PALETTE, drawing_axes, label_axes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_GREY = "0.45"
_FEW_EVENTS = 20
# What a model without any fault has, or one that knows nothing.
_REFERENCE = {"observed_expected": 1.0, "calibration_slope": 1.0, "auc": 0.5, "concordance": 0.5}


def plot_subgroups(
    groups: pd.DataFrame,
    score: str,
    *,
    cause: int | None = None,
    time: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Axes with a score in groups of people, its 95 % limits, and how many people it rests on.

    Groups with fewer than 20 events are drawn hollow: their limits are too narrow.

    Parameters
    ----------
    groups : DataFrame
        What `survival_objectives.metrics.Evaluation.by` gave.
    score : str
        One of its scores, such as "auc" or "observed_expected".
    cause : int, optional
        Label of a cause. Default: the first of the table.
    time : float, optional
        One of its times. Default: the last of the table.
    ax : Axes, optional
        Where to draw.
    """
    cause = groups["cause"].iloc[0] if cause is None else cause
    time = groups["time"].max() if time is None else time
    shown = groups[(groups["score"] == score) & (groups["cause"] == cause)]
    shown = shown[shown["time"] == time]
    if shown.empty:
        msg = f"`groups` has no {score!r} of cause {cause} at {time:g}; take them from its columns."
        raise ValueError(msg)
    ax = drawing_axes(ax)
    places = np.arange(len(shown))[::-1]
    value = shown["value"].to_numpy()
    sides = np.abs(np.stack([value - shown["lower"], shown["upper"] - value]))
    is_small = (shown["n_events"] < _FEW_EVENTS).to_numpy()
    for rows, filled in ((~is_small, PALETTE[0]), (is_small, "white")):
        ax.errorbar(
            value[rows],
            places[rows],
            xerr=sides[:, rows],
            fmt="o",
            color=PALETTE[0],
            markerfacecolor=filled,
        )
    ax.axvline(_REFERENCE.get(score, 0.0), color=_GREY, linestyle=":", zorder=0)
    names = zip(shown["group"], shown["n_people"], shown["n_events"], strict=True)
    ax.set_yticks(
        places, [f"{group}\n{people} people, {events} events" for group, people, events in names]
    )
    label_axes(ax, f"{score.replace('_', ' ')} by {time:g}", "")
    return ax


def plot_net_benefit(benefit: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Axes with decision curves: net benefit by threshold, with 95 % limits, beside all and no one.

    Parameters
    ----------
    benefit : DataFrame
        What `survival_objectives.metrics.Evaluation.net_benefit` gave.
    ax : Axes, optional
        Where to draw.
    """
    ax = drawing_axes(ax)
    x: Any = benefit["threshold"]
    ax.fill_between(x, benefit["lower"], benefit["upper"], color=PALETTE[0], alpha=0.2, linewidth=0)
    ax.plot(x, benefit["net_benefit"], color=PALETTE[0], label="by the model")
    ax.plot(x, benefit["all"], color=_GREY, linestyle="--", label="all")
    ax.axhline(0, color=_GREY, linestyle=":", label="no one")
    # Treating all loses without end as the threshold rises.
    high = float(benefit[["upper", "all"]].max().max())
    ax.set_ylim(-0.25 * high, 1.05 * high)
    label_axes(ax, "Threshold of risk", "Net benefit per person")
    ax.legend(frameon=False, title="Treat")
    return ax
