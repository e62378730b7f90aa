r"""Models of censoring, G(t | x) = P(C > t | x), behind one protocol.

`KaplanMeierCensoring` assumes that censoring does not depend on the features. `BoostedCensoring`
does not: it wraps a model of the same engine that trains the event model, fitted in alternation
with it (Algorithm 3 of Alberge et al., AISTATS 2025). Anything with the method of
`CensoringModel` can take their place, for instance the known censoring of a designed study:

>>> import numpy as np
>>> class Administrative:
...     '''All people are followed for exactly five years.'''
...     def survival(self, times, X=None, *, left=False):
...         times = np.asarray(times)
...         return np.where(times <= 5 if left else times < 5, 1.0, 0.0)
>>> isinstance(Administrative(), CensoringModel)
True
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._people import (
    Features,
    check_features,
    check_sample_weight,
    check_survival_target,
)
from survival_objectives._people.population import TimeAxis, time_feature
from survival_objectives.marginal import StepFunction, kaplan_meier_censoring

__all__ = ["BoostedCensoring", "CensoringModel", "KaplanMeierCensoring"]

_CONTINUOUS = TimeAxis(0.0)


@runtime_checkable
class CensoringModel(Protocol):
    """The model of censoring that weights need."""

    def survival(self, times: npt.ArrayLike, X: Any = None, *, left: bool = False) -> FloatArray:
        """Probability of being uncensored at ``times``, given ``X``.

        Parameters
        ----------
        times : array of shape (n_samples,) or (n_samples, n_times)
            Times >= 0; row i belongs to person i.
        X : features of the n_samples people
            A marginal model ignores them.
        left : bool, default=False
            False: P(C > t | x). True: the limit from the left, P(C >= t | x), which is the
            probability that an event at t is seen, as it comes before a censoring at t.

        Returns
        -------
        array of the shape of ``times``
        """


class KaplanMeierCensoring:
    """Censoring that does not depend on the features, estimated by Kaplan-Meier.

    At a tie the event comes first, so a person with an event at t is no longer at risk of being
    censored at t (equation (8) of `survival_objectives.marginal`).

    Attributes
    ----------
    curve_ : StepFunction
        The estimated P(C > t).

    Examples
    --------
    >>> model = KaplanMeierCensoring().fit(([1, 0, 1, 0], [1.0, 2.0, 2.0, 3.0]))
    >>> model.survival([0.5, 2.0, 2.5, 3.0])
    array([1. , 0.5, 0.5, 0. ])
    >>> model.survival([2.0, 3.0], left=True)
    array([1. , 0.5])
    """

    curve_: StepFunction

    def fit(self, y: Any, X: Any = None, *, sample_weight: Any = None) -> KaplanMeierCensoring:  # noqa: ARG002
        """Estimate the curve from outcomes ``y``; ``X`` is not used."""
        target = check_survival_target(y, require_event=False, late_entry=True)
        weight = check_sample_weight(sample_weight, target.n_samples)
        if weight is not None:
            weight = weight[target.first_rows]
        self.curve_ = kaplan_meier_censoring(target.people, weight)
        return self

    @classmethod
    def of_curve(cls, curve: StepFunction) -> KaplanMeierCensoring:
        """The model whose curve was estimated before."""
        model = cls()
        model.curve_ = curve
        return model

    def survival(
        self,
        times: npt.ArrayLike,
        X: Any = None,  # noqa: ARG002
        *,
        left: bool = False,
    ) -> FloatArray:
        """P(C > t), or P(C >= t) with ``left``; see `CensoringModel`."""
        if not hasattr(self, "curve_"):
            msg = "This KaplanMeierCensoring is not fitted yet. Call `fit(y)` first."
            raise ValueError(msg)
        return self.curve_(times, left=left)


class MarginModel(Protocol):
    """A trained binary booster, as an adapter hands it to `BoostedCensoring`."""

    def margin(self, matrix: Float32Array, start: FloatArray) -> FloatArray:
        """Log-odds of being censored, for float32 rows (features, time) and their offsets."""


class BoostedCensoring:
    """Censoring that depends on the features, by boosted trees on (x, t).

    The log-odds of being censored by t start from the Kaplan-Meier curve, so that the model is
    right on average before its first tree:

        logit P(C <= t | x) = logit(1 - G_KM(t)) + trees(x, t).                                  (9)

    Made by the adapters' ``refresh()`` callbacks; ``objective.censoring_`` holds it after training.

    Parameters
    ----------
    model : MarginModel
        The engine's booster behind the adapter's prediction code.
    start : StepFunction
        The marginal log-odds, by time.
    schema : Features
        The columns of training.
    axis : TimeAxis, optional
        Units of time of the training. Default: time is continuous.
    """

    def __init__(
        self,
        model: MarginModel,
        start: StepFunction,
        schema: Features,
        axis: TimeAxis = _CONTINUOUS,
    ) -> None:
        self.model = model
        self.start = start
        self.schema = schema
        self.axis = axis

    def survival(self, times: npt.ArrayLike, X: Any = None, *, left: bool = False) -> FloatArray:
        """P(C > t | x), or P(C >= t | x) with ``left``; see `CensoringModel`."""
        if X is None:
            msg = "This censoring model depends on the features: pass `X`, one row per person."
            raise ValueError(msg)
        values = check_features(X, like=self.schema).values
        times = np.asarray(times, dtype=np.float64)
        if len(times) != len(values):
            msg = f"`times` has {len(times)} rows for {len(values)} people."
            raise ValueError(msg)
        columns = times.reshape(len(times), -1)
        uncensored = np.empty(columns.shape)
        matrix = np.empty((values.shape[0], values.shape[1] + 1), np.float32)
        matrix[:, :-1] = values
        for column in range(columns.shape[1]):
            feature = self._feature(columns[:, column], left=left)
            matrix[:, -1] = feature
            uncensored[:, column] = expit(-self.model.margin(matrix, self.start(feature)))
        if left:
            uncensored[columns <= 0] = 1.0  # No one is censored before the start.
        return uncensored.reshape(times.shape)

    def _feature(self, times: FloatArray, *, left: bool) -> Float32Array:
        """Where the model is evaluated: censorings of a unit count from the next unit on (16)."""
        if not self.axis.unit:
            return time_feature(times, left=left)
        return time_feature(self.axis.prediction_time(times if left else times + self.axis.unit))


def log_odds(probability: FloatArray, other: FloatArray, floor: float) -> FloatArray:
    """log(probability / other), both kept above ``floor`` so that it is finite."""
    odds: FloatArray = np.log(np.maximum(probability, floor)) - np.log(np.maximum(other, floor))
    return odds


def censoring_log_odds(curve: StepFunction, n_samples: int) -> StepFunction:
    """Margins of the censoring model at its start, from a marginal curve."""
    floor = 0.5 / n_samples
    return StepFunction(
        curve.times,
        log_odds(1 - curve.values, curve.values, floor),
        log_odds(1 - curve.initial, curve.initial, floor),
    )
