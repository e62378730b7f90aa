"""Loads a saved model and predicts with it, in a process that may crash: `load(isolated=True)`."""

from __future__ import annotations

import sys

import numpy as np

from survival_objectives.estimator import _ENGINE_ROWS, SurvivalBoost
from survival_objectives.validation import Features

__all__: list[str] = []


def main(path: str) -> None:
    """Read all files of a model in every way in which predictions read them."""
    model = SurvivalBoost.load(path)
    schema, n_steps = model._schema, model._forest().n_steps
    # Few people go through the engine, many through trees that were read out of it.
    for n_people in (2, _ENGINE_ROWS // n_steps + 2):
        values = np.zeros((n_people, schema.n_features), np.float32)
        values[::2] = np.nan
        people = Features(values, schema.names, schema.categories)
        curves = model.predict_cumulative_incidence(people, model.times_[:3])
        if not np.isfinite(curves).all():
            msg = "the model predicts numbers that are not finite"
            raise ValueError(msg)
        model.censoring_.survival(np.full(n_people, model.times_[1]), people)
    assert len(model.feature_importances_) == schema.n_features


if __name__ == "__main__":
    main(sys.argv[1])
