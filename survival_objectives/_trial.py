"""Loads a saved model and predicts with it, in a process that may crash: `load(isolated=True)`."""

from __future__ import annotations

import sys

import numpy as np

from survival_objectives._people import Features
from survival_objectives.estimators import SurvivalBoost

__all__: list[str] = []


def main(path: str) -> None:
    """Read all files of a model in every way in which predictions read them."""
    model = SurvivalBoost.load(path).fitted_model
    schema, times = model.schema, model.frame.times
    # Few people go through the engine, many through trees that were read out of it.
    for n_people in (2, model.n_walked + 1):
        values = np.zeros((n_people, schema.n_features), np.float32)
        values[::2] = np.nan
        people = Features(values, schema.names, schema.categories)
        if not np.isfinite(model.incidence(people, times[:3])).all():
            msg = "the model predicts numbers that are not finite"
            raise ValueError(msg)
        model.censoring.survival(np.full(n_people, times[1]), people)
    assert len(model.importances()) == schema.n_features


if __name__ == "__main__":
    main(sys.argv[1])
