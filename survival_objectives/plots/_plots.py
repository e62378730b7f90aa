"""Pictures of predictions, scores, weights and training, from plain arrays.

Every function draws into an Axes (a new one unless ``ax`` is given) and returns it. They take
curves, times and names and therefore work with any package's predictions; nothing is fitted or
scored here. The one computation, `group_incidence`, is apart from its picture.

Colours are those of Okabe and Ito, which people with any colour vision can tell apart. Needs
matplotlib: ``pip install matplotlib``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import FloatArray
from survival_objectives._people import (
    check_choice,
    check_fraction,
    check_positive_int,
    check_times,
)
from survival_objectives.plots._data import (
    as_curve,
    as_curves,
    as_pair,
    check_names,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, the most visible on white first, and without yellow, which does
# not. Grey is kept for the background: the event-free state, baselines, diagonals.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_GREY = "#6E6E6E"
_LIGHT_GREY = "#E3E3E3"
_LINE_STYLES = ("-", "--", ":", "-.")


def plot_stacked_incidence(
    cif: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    state_names: Sequence[str] | None = None,
    time_label: str = "Time",
    ax: Axes | None = None,
) -> Axes:
    """Axes with one person's probabilities of all states stacked over time, adding up to 1.

    Parameters
    ----------
    cif : array of shape (K + 1, n_times)
        Probabilities of the states; index 0 is event-free and is drawn on top.
    times : array of shape (n_times,)
        Increasing times.
    state_names : sequence of str, optional
        Names of the K + 1 states. Default: "event-free", "cause 1" and so on.
    time_label : str, default="Time"
        Label of the horizontal axis, with the unit.
    ax : Axes, optional
        Where to draw.
    """
    times = check_times(times)
    curves = as_curves(cif, times, "cif")
    n_causes = len(curves) - 1
    if state_names is None:
        state_names = ["event-free", *(f"cause {cause}" for cause in range(1, n_causes + 1))]
    check_names(state_names, len(curves), "state_names")
    ax = drawing_axes(ax)
    ax.stackplot(
        times,
        *curves[1:],
        curves[0],
        labels=[*state_names[1:], state_names[0]],
        colors=[*(line_style(cause)["color"] for cause in range(n_causes)), _LIGHT_GREY],
        edgecolor="white",
        linewidth=0.8,
    )
    ax.set_xlim(times[0], times[-1])
    ax.set_ylim(0, 1)
    label_axes(ax, time_label, "Probability")
    # Outside, as the areas fill the Axes; reversed, so that it reads like the stack.
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(
        handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False
    )
    return ax


def plot_group_incidence(
    predicted: npt.ArrayLike,
    observed: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    group_names: Sequence[str],
    time_label: str = "Time",
    value_label: str = "Cumulative incidence",
    ax: Axes | None = None,
) -> Axes:
    """Axes with the predicted curve of each group (solid) beside the observed one (dashed steps).

    Parameters
    ----------
    predicted, observed : arrays of shape (n_groups, n_times)
        As made by `group_incidence`; NaN is not drawn.
    times : array of shape (n_times,)
        Increasing times.
    group_names : sequence of str
        Names of the groups.
    time_label, value_label : str
        Labels of the axes.
    ax : Axes, optional
        Where to draw.
    """
    times = check_times(times)
    predicted = as_curves(predicted, times, "predicted")
    observed = as_curves(observed, times, "observed")
    check_names(group_names, len(predicted), "group_names")
    check_names(group_names, len(observed), "group_names")
    ax = drawing_axes(ax)
    for group, name in enumerate(group_names):
        color = line_style(group)["color"]
        ax.plot(times, predicted[group], color=color, label=name)
        ax.plot(
            times,
            observed[group],
            color=color,
            linestyle=(0, (4, 2)),
            linewidth=1.2,
            drawstyle="steps-post",
        )
    # Empty lines in grey explain the styles once instead of once per group.
    ax.plot([], [], color=_GREY, label="predicted")
    ax.plot([], [], color=_GREY, linestyle=(0, (4, 2)), linewidth=1.2, label="Aalen-Johansen")
    ax.set_xlim(times[0], times[-1])
    ax.set_ylim(bottom=0)
    label_axes(ax, time_label, value_label)
    ax.legend(frameon=False)
    return ax


def plot_brier(
    scores: Mapping[str, npt.ArrayLike],
    times: npt.ArrayLike,
    *,
    baselines: Mapping[str, npt.ArrayLike] | None = None,
    time_label: str = "Time",
    value_label: str = "Brier score (lower is better)",
    ax: Axes | None = None,
) -> Axes:
    """Axes with Brier scores over time, models in colour and baselines in grey.

    Parameters
    ----------
    scores : mapping of str to array of shape (n_times,)
        Score at each time, by model.
    times : array of shape (n_times,)
        Increasing times.
    baselines : mapping of str to array of shape (n_times,), optional
        The same for what the models are measured against: Aalen-Johansen, Cox, the oracle.
    time_label, value_label : str
        Labels of the axes.
    ax : Axes, optional
        Where to draw.
    """
    ax = _plot_over_time(scores, times, baselines, ax)
    ax.set_ylim(bottom=0)
    label_axes(ax, time_label, value_label)
    return ax


def plot_accuracy(
    accuracy: Mapping[str, npt.ArrayLike],
    times: npt.ArrayLike,
    *,
    baselines: Mapping[str, npt.ArrayLike] | None = None,
    time_label: str = "Time",
    value_label: str = "Accuracy of the likeliest state",
    ax: Axes | None = None,
) -> Axes:
    """Axes with the accuracy in time, models in colour and baselines in grey.

    Parameters
    ----------
    accuracy : mapping of str to array of shape (n_times,)
        Share of people whose likeliest state is the true one, at each time, by model.
    times, baselines, time_label, value_label, ax
        As in `plot_brier`.
    """
    ax = _plot_over_time(accuracy, times, baselines, ax)
    ax.set_ylim(top=min(ax.get_ylim()[1], 1.0))
    label_axes(ax, time_label, value_label)
    return ax


def plot_calibration(
    curves: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]],
    *,
    intervals: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]] | None = None,
    horizon: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Axes with observed against predicted probabilities at a horizon; on the diagonal is perfect.

    Parameters
    ----------
    curves : mapping of str to (predicted, observed)
        Two arrays of shape (n_bins,) for each model or cause.
    intervals : mapping of str to (lower, upper), optional
        Confidence limits of ``observed``.
    horizon : float, optional
        Named in the labels.
    ax : Axes, optional
        Where to draw.
    """
    pairs = {name: as_pair(pair, name) for name, pair in curves.items()}
    limits = {name: as_pair(pair, name) for name, pair in (intervals or {}).items()}
    ax = drawing_axes(ax)
    largest = 0.0
    for position, (name, (predicted, observed)) in enumerate(pairs.items()):
        order = np.argsort(predicted)
        predicted, observed = predicted[order], observed[order]
        style = line_style(position)
        ax.plot(predicted, observed, marker="o", markersize=4.5, label=name, **style)
        largest = max(largest, float(predicted.max()), float(np.nanmax(observed)))
        if name in limits:
            lower, upper = (limit[order] for limit in limits[name])
            ax.vlines(predicted, lower, upper, color=style["color"], linewidth=1.0, alpha=0.7)
            largest = max(largest, float(np.nanmax(upper)))
    # Probabilities of rare events are near 0: limit the axes to the values.
    end = min(1.0, 1.05 * largest)
    ax.plot([0, end], [0, end], color=_GREY, linewidth=1.0, zorder=0)
    ax.set_xlim(0, end)
    ax.set_ylim(0, end)
    ax.set_aspect("equal")
    at = "" if horizon is None else f" by {horizon:g}"
    label_axes(ax, f"Predicted probability{at}", f"Observed probability{at}")
    ax.legend(loc="upper left", frameon=False)
    return ax


def plot_weights(
    weight: npt.ArrayLike, *, floor: float | None = None, n_bins: int = 40, ax: Axes | None = None
) -> Axes:
    """Axes with the distribution of IPCW weights, and the largest weight that the floor allows.

    Parameters
    ----------
    weight : array of shape (n_rows,)
        Weights >= 0. Those of 0 (censored before the horizon) are counted but not drawn.
    floor : float in (0, 1], optional
        ``min_censoring_survival``: no weight exceeds 1 / floor.
    n_bins : int, default=40
        Bars, equally wide on the logarithmic axis.
    ax : Axes, optional
        Where to draw.
    """
    n_bins = check_positive_int(n_bins, "n_bins")
    values = np.asarray(weight, dtype=np.float64).ravel()
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(bad):
        msg = f"`weight` is {values[bad[0]]} at row {bad[0]}; weights are finite and >= 0."
        raise ValueError(msg)
    drawn = values[values > 0]
    if len(drawn) == 0:
        msg = f"All {len(values)} values of `weight` are 0: there is nothing to draw."
        raise ValueError(msg)
    ceiling = None if floor is None else 1 / check_fraction(floor, "floor", zero=False)
    ax = drawing_axes(ax)
    highest = max(drawn.max(), 1.05 * drawn.min(), ceiling or 0.0)
    bins = np.geomspace(drawn.min(), highest * (1 + 1e-9), n_bins + 1)
    ax.hist(drawn, bins=list(bins), color=PALETTE[0], edgecolor="white", linewidth=0.4)
    ax.set_xscale("log")
    # Counts fall by orders of magnitude towards the largest weights, which matter most.
    ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(_plain_numbers())
        axis.set_minor_formatter(_plain_numbers())
    if ceiling is not None:
        at_floor = float((drawn >= ceiling * (1 - 1e-9)).mean())
        label = f"1 / floor = {ceiling:g}, reached by {at_floor:.1%} of rows"
        ax.axvline(ceiling, color=PALETTE[1], linestyle="--", label=label)
    zeros = len(values) - len(drawn)
    # The effective number of rows sums up how uneven the weights are.
    effective = drawn.sum() ** 2 / (drawn**2).sum()
    ax.plot([], [], " ", label=f"{len(drawn):,} rows count like {effective:,.0f} equal ones")
    if zeros:
        ax.plot([], [], " ", label=f"{zeros:,} rows of weight 0 not drawn")
    label_axes(ax, "Weight", "Rows")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), frameon=False)
    return ax


def plot_history(
    history: Mapping[str, Any],
    *,
    refreshes: npt.ArrayLike | None = None,
    best_round: int | None = None,
    value_label: str = "IPCW log-loss",
    ax: Axes | None = None,
) -> Axes:
    """Axes with the loss by boosting round, and marks where the weights were refreshed.

    Parameters
    ----------
    history : mapping of str to array of shape (n_rounds,) or to a list of RoundRecord
        Loss after each round, for instance of "training" and "validation", or ``history_`` of a
        `survival_objectives.HazardBoost`, which may have losses of some rounds only.
    refreshes : array of int, optional
        Rounds before which the censoring model was refreshed; the first round is 1.
    best_round : int, optional
        The round that early stopping kept.
    value_label : str
        Label of the vertical axis.
    ax : Axes, optional
        Where to draw.
    """
    lines = {name: _rounds_and_losses(name, values) for name, values in history.items()}
    ax = drawing_axes(ax)
    for position, (name, (rounds, losses)) in enumerate(lines.items()):
        ax.plot(rounds, losses, label=name, **line_style(position))
    marks = np.atleast_1d(np.asarray([] if refreshes is None else refreshes))
    if len(marks):
        # Ticks on the lower edge: lines across would hide the curves when refreshes are frequent.
        ax.plot(
            marks,
            np.zeros(len(marks)),
            "|",
            color=_GREY,
            markersize=14,
            label="weights refreshed",
            transform=ax.get_xaxis_transform(),
        )
    if best_round is not None:
        ax.axvline(
            best_round, color=_GREY, linestyle=":", label=f"best round, {best_round}", zorder=0
        )
    label_axes(ax, "Boosting round", value_label)
    ax.legend(frameon=False)
    return ax


def _rounds_and_losses(name: str, values: Any) -> tuple[FloatArray, FloatArray]:
    """Rounds and losses of records, or losses after every round."""
    if len(values) and hasattr(values[0], "loss"):
        pairs = np.array([(record.round, record.loss) for record in values], np.float64)
        return pairs[:, 0], pairs[:, 1]
    losses = np.asarray(values, dtype=np.float64)
    if losses.ndim != 1 or len(losses) == 0:
        msg = f"`history[{name!r}]` has shape {losses.shape}; expected (n_rounds,)."
        raise ValueError(msg)
    return np.arange(1.0, len(losses) + 1), losses


def plot_importance(
    importance: npt.ArrayLike,
    horizons: npt.ArrayLike,
    *,
    feature_names: Sequence[str],
    kind: str = "heatmap",
    max_features: int = 10,
    time_label: str = "Horizon",
    value_label: str = "Importance",
    ax: Axes | None = None,
) -> Axes:
    """Axes with the importance of features by horizon, the most important on top.

    Parameters
    ----------
    importance : array of shape (n_features, n_horizons)
        Any importance that is larger where a feature matters more.
    horizons : array of shape (n_horizons,)
        Increasing times.
    feature_names : sequence of str
        Names of the features.
    kind : {"heatmap", "lines"}, default="heatmap"
        One cell for each feature and horizon, or one line for each feature.
    max_features : int, default=10
        Features shown, by their mean importance.
    time_label, value_label : str
        Labels of the horizons and of the importance.
    ax : Axes, optional
        Where to draw.
    """
    horizons = check_times(horizons)
    values = as_curves(importance, horizons, "importance")
    check_names(feature_names, len(values), "feature_names")
    check_choice(kind, "kind", ("heatmap", "lines"))
    shown = np.argsort(-values.mean(axis=1), kind="stable")
    shown = shown[: check_positive_int(max_features, "max_features")]
    ax = drawing_axes(ax)
    if kind == "lines":
        for position, feature in enumerate(shown):
            style = line_style(position)
            ax.plot(horizons, values[feature], marker=".", label=feature_names[feature], **style)
        label_axes(ax, time_label, value_label)
        ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
        return ax
    # Equal cells, whatever the distance of the horizons: they are read off their labels.
    image = ax.imshow(values[shown], aspect="auto", cmap="cividis")
    ax.set_xticks(np.arange(len(horizons)), [f"{horizon:.3g}" for horizon in horizons])
    ax.set_yticks(np.arange(len(shown)), [str(feature_names[feature]) for feature in shown])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel(time_label)
    ax.figure.colorbar(image, ax=ax, label=value_label)
    return ax


# ----------------------------------------------------------------------------------------- shared
def _plot_over_time(
    scores: Mapping[str, npt.ArrayLike],
    times: npt.ArrayLike,
    baselines: Mapping[str, npt.ArrayLike] | None,
    ax: Axes | None,
) -> Axes:
    times = check_times(times)
    models = {name: as_curve(values, times, name) for name, values in scores.items()}
    others = {name: as_curve(values, times, name) for name, values in (baselines or {}).items()}
    ax = drawing_axes(ax)
    for position, (name, values) in enumerate(others.items()):
        # Dashed, dotted, ...: a solid grey line would look like a model.
        style = _LINE_STYLES[1 + position % (len(_LINE_STYLES) - 1)]
        ax.plot(times, values, color=_GREY, linestyle=style, linewidth=1.4, label=name)
    for position, (name, values) in enumerate(models.items()):
        ax.plot(times, values, label=name, **line_style(position))
    ax.set_xlim(times[0], times[-1])
    ax.legend(frameon=False)
    return ax


def drawing_axes(ax: Axes | None) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        msg = "Plots need matplotlib. Install it with `pip install matplotlib`."
        raise ImportError(msg) from error
    # Constrained: makes room for a legend beside the Axes.
    _, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    return ax


def _plain_numbers() -> Any:
    """Formatter that writes 20 instead of 2 x 10^1, and only at 1, 2 and 5 of each decade."""
    from matplotlib.ticker import FuncFormatter

    def text(value: float, _: int) -> str:
        leading = value / 10.0 ** np.floor(np.log10(value) + 1e-9)
        return f"{value:,g}" if round(leading, 6) in (1, 2, 5) else ""

    return FuncFormatter(text)


def line_style(position: int) -> dict[str, Any]:
    """Colour of the line at that position; after the last colour, the next line style."""
    turn, color = divmod(position, len(PALETTE))
    return {"color": PALETTE[color], "linestyle": _LINE_STYLES[turn % len(_LINE_STYLES)]}


def label_axes(ax: Any, x: str, y: str) -> None:
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.spines[["top", "right"]].set_visible(False)
