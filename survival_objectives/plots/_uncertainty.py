"""Pictures of bands and of answers that depend on an assumption, from plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from survival_objectives._people import check_times
from survival_objectives.plots._data import as_curve
from survival_objectives.plots._plots import drawing_axes, label_axes, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_bands(
    bands: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]],
    times: npt.ArrayLike,
    *,
    time_label: str = "Time",
    value_label: str = "Cumulative incidence",
    ax: Axes | None = None,
) -> Axes:
    """Axes with curves and their bands, of people, causes or groups.

    Parameters
    ----------
    bands : mapping of str to (estimate, lower, upper)
        Three arrays of shape (n_times,) for each curve.
    times : array of shape (n_times,)
        Increasing times.
    time_label, value_label : str
        Labels of the axes.
    ax : Axes, optional
        Where to draw.
    """
    times = check_times(times)
    ax = drawing_axes(ax)
    for position, (name, band) in enumerate(bands.items()):
        estimate, lower, upper = (as_curve(values, times, name) for values in band)
        style = line_style(position)
        ax.fill_between(times, lower, upper, color=style["color"], alpha=0.18, linewidth=0)
        ax.plot(times, estimate, label=name, **style)
    ax.set_xlim(times[0], times[-1])
    label_axes(ax, time_label, value_label)
    ax.legend(frameon=False)
    return ax


def plot_sensitivity(
    factors: npt.ArrayLike,
    values: Mapping[str, npt.ArrayLike],
    *,
    threshold: float | None = None,
    tipping_factor: float | None = None,
    value_label: str = "Incidence",
    ax: Axes | None = None,
) -> Axes:
    """Axes with answers by the factor of the hazard after censoring; 1 is no dependence.

    Parameters
    ----------
    factors : array of shape (n_factors,)
        Increasing, as in `survival_objectives.uncertainty.DependentCensoring`.
    values : mapping of str to array of shape (n_factors,)
        Incidences of people, scores or net benefits.
    threshold : float, optional
        Value at which the decision changes.
    tipping_factor : float, optional
        Factor at which it does; NaN is not drawn.
    value_label : str, default="Incidence"
        Label of the vertical axis.
    ax : Axes, optional
        Where to draw.
    """
    factors = check_times(factors)
    ax = drawing_axes(ax)
    for position, (name, value) in enumerate(values.items()):
        ax.plot(factors, as_curve(value, factors, name), label=name, **line_style(position))
    grey: dict[str, Any] = {"color": "#6E6E6E", "linewidth": 1.2, "zorder": 0}
    ax.axvline(1, linestyle=":", **grey)
    if threshold is not None:
        ax.axhline(threshold, linestyle="--", label=f"threshold, {threshold:g}", **grey)
    if tipping_factor is not None and not np.isnan(tipping_factor):
        ax.axvline(tipping_factor, linestyle="-", label=f"tips at {tipping_factor:.2g}", **grey)
    ax.set_xscale("log")
    shown = [tick for tick in (0.25, 0.5, 1, 2, 4) if factors[0] <= tick <= factors[-1]]
    ax.set_xticks(shown, [f"{tick:g}" for tick in shown])
    ax.minorticks_off()
    ax.set_xlim(factors[0], factors[-1])
    label_axes(ax, "Factor of the hazard after censoring", value_label)
    ax.legend(frameon=False)
    return ax
