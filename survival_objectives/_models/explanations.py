"""What predictions rest on: SHAP values, importance of features, and partial dependence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._models.fitted import FittedModel, parts_of
from survival_objectives._people import Features, check_choice, check_features, check_times

# A column with more distinct values is summarised by this many quantiles.
_N_VALUES = 10
# People whose curves are in memory together.
_N_TOGETHER = 4096


class Explanations:
    """Explanations of an estimator whose only fitted state is a `FittedModel`."""

    if TYPE_CHECKING:
        times_: FloatArray
        _model: FittedModel

        def _checked(self, X: Any) -> Features: ...
        def _check_fitted(self) -> None: ...
        def _frame(self, curves: FloatArray, index: Any, times: FloatArray) -> pd.DataFrame: ...

    @property
    def feature_importances_(self) -> FloatArray:
        """Importance of each feature, without the time; sums to 1.

        Of a `SurvivalBoost`, the share of the gain of all splits; of a `HazardBoost`, of the mean
        absolute contributions (`shap_values`) for a sample of training people.
        """
        self._check_fitted()
        gains = self._model.importances()
        total = gains.sum()
        shares: FloatArray = gains / total if total > 0 else np.full(len(gains), 1 / len(gains))
        return shares

    def shap_values(self, X: Any, time_horizon: Any) -> FloatArray:
        r"""SHAP values: contributions of the features to log-odds at one or several horizons.

        They are computed by the engine's own TreeSHAP and sum to the log-odds of each cause against
        being event-free, before curves are calibrated in time. Those of a `HazardBoost` explain the
        log-odds of each cause in an interval against staying event-free, averaged over the
        intervals up to the horizon, with the marginal share of the cause's events in each interval
        as weights; contributions of the linear part, coefficient times standardised value, are
        added.

        Returns
        -------
        float64 array of shape (n_samples, K, n_features + 2)
            Contributions of the features, of the time and, last, the base value. Of several
            horizons, (n_samples, n_features + 2, n_times, K), in one pass over the trees.
        """
        features = self._checked(X)
        values = self._model.shap_values(features, check_times(time_horizon))
        return values[..., 0] if np.ndim(time_horizon) == 0 else values.transpose(0, 2, 3, 1)

    def importance(self, X: Any, times: Any = None) -> pd.DataFrame:
        """Mean absolute SHAP value of each feature, by cause and time.

        Parameters
        ----------
        X : array or DataFrame of shape (n_samples, n_features)
            People; a few hundred suffice.
        times : array of shape (n_times,), optional
            As ``time_horizon`` of `shap_values`. Default: quarters of ``times_[-1]``.

        Returns
        -------
        DataFrame
            A row per feature, and columns (event, time).
        """
        features = self._checked(X)
        times = self._few_times(times)
        values = np.abs(self._model.shap_values(features, times)[:, :, :-2]).mean(axis=0)
        names = features.names or range(features.n_features)
        return self._frame(values.swapaxes(0, 1), pd.Index(names, name="feature"), times)

    def partial_dependence(
        self, X: Any, feature: int | str, values: Any = None, times: Any = None
    ) -> pd.DataFrame:
        """Mean curves of people, had all of them the same value of a feature.

        Parameters
        ----------
        X : array or DataFrame of shape (n_samples, n_features)
            People; a few hundred suffice.
        feature : int or str
            Number or name of a column.
        values : array of shape (n_values,), optional
            Values, or levels of a category. Default: all that people have, of more than ten
            numbers ten quantiles from 5 to 95 %.
        times : array of shape (n_times,), optional
            Default: quarters of ``times_[-1]``.

        Returns
        -------
        DataFrame
            A row per value, and columns (event, time), "event-free" first.
        """
        features = self._checked(X)
        names: list[Any] = list(features.names or range(features.n_features))
        check_choice(feature, "feature", names)
        column = names.index(feature)
        given, codes = _values_of(features, column, values)
        times = self._few_times(times)
        n_people, n_states = features.n_samples, self._model.frame.n_causes + 1
        curves = np.zeros((len(codes), n_states, len(times)))
        for people in parts_of(n_people, _N_TOGETHER):
            changed = replace(features, values=features.values[people].copy())
            for found, code in zip(curves, codes, strict=True):
                changed.values[:, column] = code
                found += self._model.incidence(changed, times).sum(axis=0) / n_people
        return self._frame(curves, pd.Index(given, name=feature), times)

    def _few_times(self, times: Any) -> FloatArray:
        return self.times_[-1] * np.arange(1, 5) / 4 if times is None else check_times(times)


def _values_of(features: Features, column: int, values: Any) -> tuple[Any, Float32Array]:
    """Values of a column, chosen or those of people, and what models see in their place."""
    levels, offset = features.categories.get(column), features.offsets.get(column)
    if values is not None:
        categories = {} if levels is None else {0: levels}
        offsets = {} if offset is None else {0: offset}
        schema = Features(np.empty((0, 1), np.float32), ("values",), categories, offsets=offsets)
        coded = check_features(pd.DataFrame({"values": values}), like=schema)
        return values, coded.values[:, 0]
    known = features.values[:, column]
    codes = np.unique(known[~np.isnan(known)])
    if levels is not None:
        return levels[codes.astype(int)], codes
    if len(codes) > _N_VALUES:
        codes = np.unique(np.nanquantile(known, np.linspace(0.05, 0.95, _N_VALUES)))
    return codes.astype(np.float64) + (offset or 0.0), codes.astype(np.float32)
