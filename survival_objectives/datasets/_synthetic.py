"""The paper's synthetic data: competing Weibull risks, with or without dependent censoring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import brentq

from survival_objectives._arrays import FloatArray
from survival_objectives._people import (
    Features,
    check_choice,
    check_fraction,
    check_positive_int,
    check_random_state,
    check_times,
)
from survival_objectives.datasets._files import Dataset
from survival_objectives.datasets._weibull import (
    WeibullCensoring,
    WeibullHazards,
    WeibullTruth,
    time_average,
)

Censoring = Literal["dependent", "independent"] | None


@dataclass(frozen=True)
class _Behaviour:
    """Median shape and scale of a cause, and the spread of their logarithms over people."""

    shape: float
    shape_spread: float
    scale: float
    scale_spread: float


# Three behaviours as in the paper: failures mostly at the start, at a constant rate, and by wear.
# The centres follow the ranges of its reference implementation.
_BEHAVIOURS = (
    _Behaviour(shape=0.6, shape_spread=0.2, scale=8.0, scale_spread=0.7),
    _Behaviour(shape=1.0, shape_spread=0.1, scale=5.0, scale_spread=0.6),
    _Behaviour(shape=2.0, shape_spread=0.2, scale=3.0, scale_spread=0.4),
)
# The scale of censoring is calibrated, so that its centre does not matter.
_CENSORING = _Behaviour(shape=1.2, shape_spread=0.2, scale=1.0, scale_spread=0.8)

_N_CALIBRATION = 4096
_N_CALIBRATION_NODES = 64


@dataclass(frozen=True)
class SyntheticData(Dataset):
    """Simulated people, and what only a simulation knows about them.

    Attributes
    ----------
    X, y, event_names, description
        As in `Dataset`.
    y_uncensored : DataFrame of shape (n_samples, 2)
        ``event`` (1..K) and ``duration`` without censoring.
    true : WeibullTruth
        True incidences, censoring and Brier score.
    """

    y_uncensored: pd.DataFrame
    true: WeibullTruth

    def draw(self, n_samples: int, *, random_state: Any = None) -> SyntheticData:
        """People newly drawn from the same population, for instance a test set; same truth."""
        n_samples = check_positive_int(n_samples, "n_samples")
        return _draw(self.true, n_samples, check_random_state(random_state))


def make_competing_risks(
    n_samples: int,
    *,
    n_causes: int = 3,
    n_features: int = 6,
    n_noise_features: int = 0,
    censoring: Censoring = "dependent",
    censoring_rate: float = 0.5,
    random_state: Any = None,
) -> SyntheticData:
    r"""Competing risks simulated with known truth, after the paper's synthetic data.

    Every person has standard Gaussian features. The shape and the scale of each cause's Weibull
    depend on them log-linearly (equation (50) of `survival_objectives.datasets._weibull`), with
    coefficients that are drawn once for the population. What is observed is the earliest of the
    latent times and its cause. The causes take turns in behaving like early failures (median shape
    0.6), failures at a constant rate (1.0) and wear (2.0).

    Coefficients, features, noise features, latent times and censoring times each have a random
    stream of their own. People do not change when ``n_samples`` grows or when ``censoring``,
    ``censoring_rate`` or ``n_noise_features`` is changed.

    Parameters
    ----------
    n_samples : int
        Number of people.
    n_causes : int, default=3
        K; 1 gives ordinary survival data.
    n_features : int, default=6
        Features that matter, ``x0``, ``x1`` and so on.
    n_noise_features : int, default=0
        Further Gaussian features without any effect, ``noise0`` and so on.
    censoring : {"dependent", "independent", None}, default="dependent"
        Whether the Weibull of the censoring time depends on the features, is the same for
        all people, or there is no censoring.
    censoring_rate : float in (0, 1), default=0.5
        Share of the population that is censored. The scale of the censoring times is solved for
        numerically, to within 0.005; a sample scatters around it. Not used without censoring.
    random_state : int, Generator, RandomState or None
        Seed. The same integer gives the same population and people.

    Returns
    -------
    SyntheticData
        ``data.true`` knows the incidences, the censoring and the best possible Brier score;
        ``data.draw(n)`` makes a test set from the same population.

    Examples
    --------
    >>> data = make_competing_risks(100, random_state=0)
    >>> data.X.shape, list(data.y.columns)
    ((100, 6), ['event', 'duration'])
    >>> cif = data.true.cumulative_incidence(data.X, [0.5, 1.0, 2.0])
    >>> cif.shape
    (100, 4, 3)
    """
    n_samples = check_positive_int(n_samples, "n_samples")
    n_causes = check_positive_int(n_causes, "n_causes")
    n_features = check_positive_int(n_features, "n_features")
    if n_noise_features != 0:
        n_noise_features = check_positive_int(n_noise_features, "n_noise_features")
    if censoring is not None:
        check_choice(censoring, "censoring", ("dependent", "independent"))
        censoring_rate = check_fraction(censoring_rate, "censoring_rate", zero=False, one=False)
    for_causes, for_censoring, for_calibration, for_people = check_random_state(random_state).spawn(
        4
    )

    n_columns = n_features + n_noise_features
    names = [f"x{i}" for i in range(n_features)] + [f"noise{i}" for i in range(n_noise_features)]
    schema = Features(np.empty((0, n_columns), np.float32), tuple(names), {})
    behaviours = [_BEHAVIOURS[cause % len(_BEHAVIOURS)] for cause in range(n_causes)]
    causes = _hazards(behaviours, n_features, n_noise_features, for_causes)
    hazards = None
    if censoring is not None:
        hazards = _hazards([_CENSORING], n_features, n_noise_features, for_censoring)
        if censoring == "independent":
            nothing = np.zeros((n_columns, 1))
            hazards = WeibullHazards(hazards.log_shape, hazards.log_scale, nothing, nothing)
        hazards = _calibrated(hazards, causes, n_features, censoring_rate, for_calibration)
    truth = WeibullTruth(
        causes, WeibullCensoring(hazards, schema, dependent=censoring == "dependent"), schema
    )
    return _draw(truth, n_samples, for_people)


def _hazards(
    behaviours: list[_Behaviour],
    n_features: int,
    n_noise_features: int,
    generator: np.random.Generator,
) -> WeibullHazards:
    directions = generator.standard_normal((2, n_features, len(behaviours)))
    # Unit length makes every linear predictor standard normal, whatever the number of features.
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    directions = np.pad(directions, ((0, 0), (0, n_noise_features), (0, 0)))
    return WeibullHazards(
        log_shape=np.log([behaviour.shape for behaviour in behaviours]),
        log_scale=np.log([behaviour.scale for behaviour in behaviours]),
        shape_coefficients=directions[0] * [behaviour.shape_spread for behaviour in behaviours],
        scale_coefficients=directions[1] * [behaviour.scale_spread for behaviour in behaviours],
    )


def _calibrated(
    hazards: WeibullHazards,
    causes: WeibullHazards,
    n_features: int,
    censoring_rate: float,
    generator: np.random.Generator,
) -> WeibullHazards:
    """Censoring with its scale shifted such that the rate is as wanted.

    As G(C|x) is uniform, Gauss-Legendre can integrate

        P(C < T | x) = int_0^1 S(G^{-1}(u|x)|x) du.                                             (58)
    """
    # Noise features have no effect and may stay 0. Each person comes with their mirror image, so
    # that whatever is linear in the features averages out.
    values = np.zeros((_N_CALIBRATION, len(causes.scale_coefficients)))
    half = generator.standard_normal((_N_CALIBRATION // 2, n_features))
    values[:, :n_features] = np.concatenate([half, -half])
    shape, scale = causes.parameters(values)
    censoring_shape, censoring_scale = hazards.parameters(values)
    nodes, node_weights = np.polynomial.legendre.leggauss(_N_CALIBRATION_NODES)
    quantiles = censoring_scale * (-np.log((1 + nodes) / 2)) ** (1 / censoring_shape)
    at_quantiles = (quantiles[:, None] / scale[:, :, None]) ** shape[:, :, None]

    def excess(log_factor: float) -> float:
        hazard = np.einsum("ikq,ik->iq", at_quantiles, np.exp(shape * log_factor))
        return float(np.exp(-hazard).mean(axis=0) @ node_weights / 2 - censoring_rate)

    # Censoring e^30 times earlier or later than the events leaves no rate below 1 out of reach.
    log_factor = float(brentq(excess, -30.0, 30.0, xtol=1e-6))
    return WeibullHazards(
        hazards.log_shape,
        hazards.log_scale + log_factor,
        hazards.shape_coefficients,
        hazards.scale_coefficients,
    )


def _draw(truth: WeibullTruth, n_samples: int, generator: np.random.Generator) -> SyntheticData:
    for_features, for_noise, for_events, for_censoring = generator.spawn(4)
    names = truth.schema.names or ()
    n_noise = sum(name.startswith("noise") for name in names)
    values = np.column_stack(
        [
            for_features.standard_normal((n_samples, len(names) - n_noise)),
            for_noise.standard_normal((n_samples, n_noise)),
        ]
    )
    # The engines see float32, so the truth belongs to exactly these numbers.
    values = values.astype(np.float32).astype(np.float64)
    latent = truth.causes.draw(values, for_events)
    cause = latent.argmin(axis=1)
    event = cause + 1
    duration = latent[np.arange(n_samples), cause]
    y_uncensored = pd.DataFrame({"event": event, "duration": duration})
    if truth.censoring.hazards is None:
        y = y_uncensored.copy()
    else:
        censored = truth.censoring.hazards.draw(values, for_censoring)[:, 0]
        y = pd.DataFrame(
            {
                "event": np.where(duration <= censored, event, 0),
                "duration": np.minimum(duration, censored),
            }
        )
    return SyntheticData(
        X=pd.DataFrame(values, columns=list(names)),
        y=y,
        event_names=("censored", *(f"cause {k}" for k in range(1, truth.n_causes + 1))),
        description=_description(truth),
        y_uncensored=y_uncensored,
        true=truth,
    )


def _description(truth: WeibullTruth) -> str:
    if truth.censoring.hazards is None:
        censoring = "no one is censored"
    elif truth.censoring.dependent:
        censoring = "censoring depends on the features"
    else:
        censoring = "censoring does not depend on the features"
    return (
        f"Simulated: {truth.n_causes} competing Weibull risks whose shapes and scales are "
        f"log-linear in Gaussian features; {censoring}. The unit of time is arbitrary."
    )


def integrated_squared_error(
    true_cif: npt.ArrayLike, cif: npt.ArrayLike, times: npt.ArrayLike
) -> float:
    r"""Mean squared distance between predicted and true curves, over people, states and time.

        ISE = 1/(t_T - t_1) int_{t_1}^{t_T} 1/(n (K+1)) sum_i sum_k (F^_k(t|x_i) - F_k(t|x_i))^2 dt
                                                                                                (56)

    with the trapezoidal rule for the integral. Strictly proper without any assumption about
    censoring, which is why simulations should be judged by it.

    Parameters
    ----------
    true_cif, cif : arrays of shape (n_samples, K + 1, n_times)
        True and predicted probabilities of all states; index 0 is event-free.
    times : array of shape (n_times,)
        Increasing times of the last axis.

    Returns
    -------
    float
        0 for the truth. Tables usually print it times 1000.

    Examples
    --------
    >>> true_cif = [[[1.0, 0.5], [0.0, 0.5]]]
    >>> cif = [[[1.0, 0.75], [0.0, 0.25]]]
    >>> integrated_squared_error(true_cif, cif, times=[0, 1])
    0.03125
    """
    times = check_times(times)
    expected, predicted = np.asarray(true_cif, np.float64), np.asarray(cif, np.float64)
    if expected.shape != predicted.shape:
        msg = f"`true_cif` has shape {expected.shape} but `cif` has {predicted.shape}."
        raise ValueError(msg)
    if expected.ndim != 3 or expected.shape[2] != len(times):
        msg = (
            f"`cif` of shape {expected.shape} does not fit {len(times)} times; "
            "it must be (n_samples, K + 1, n_times)."
        )
        raise ValueError(msg)
    by_time: FloatArray = ((predicted - expected) ** 2).mean(axis=(0, 1))
    return float(time_average(by_time, times))
