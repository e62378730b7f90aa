"""Checks after training: all ways of predicting the same probability on horizons agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._engines.forest import crossed_rows
from survival_objectives._engines.protocol import Trainer
from survival_objectives._horizons.model import HorizonModel
from survival_objectives._models.checks import TOLERANCE, few_people, way_out
from survival_objectives.losses import probabilities

_MOST_STEPS = 64


def check_prediction_paths(
    trained: Trainer, fitted: HorizonModel, values: Float32Array, engine_params: Mapping[str, Any]
) -> None:
    """Raise a RuntimeError if ways of predicting the same probability differ by over 1e-5.

    Parameters
    ----------
    trained : Trainer
        The model as it was trained.
    fitted : HorizonModel
        The model used for prediction: the engine's single model, and its trees.
    values : array of shape (n_samples, n_features)
        Features; a few rows are checked.
    engine_params : mapping
        The user's settings, named in the error.
    """
    forest, n_rounds = fitted.trees.forest(), fitted.n_rounds
    people = few_people(values)
    steps = np.unique(
        np.linspace(0, forest.n_steps - 1, min(forest.n_steps, _MOST_STEPS)).astype(np.int64)
    )
    begin = forest.representatives()
    end = np.append(np.nextafter(begin[1:], np.float32(-np.inf)), 2 * begin[-1] + 1)
    end = np.maximum(begin, end)

    rows, later = crossed_rows(people, begin[steps]), crossed_rows(people, end[steps])
    start = fitted.start(rows[:, -1])

    def proba(margins: FloatArray) -> FloatArray:
        return probabilities(margins + start, reference=fitted.reference)

    expected = proba(fitted.trees.sum_of_trees(rows))
    found = {
        "its chunks of rounds, as they were trained": proba(
            trained.sum_of_trees(rows, 0, n_rounds)
        ),
        "itself at another time between the same two splits on time": proba(
            fitted.trees.sum_of_trees(later)
        ),
    }
    if forest.is_readable:
        margins = forest.step_margins(people)[:, steps]
        found["the trees that are read off it"] = proba(
            margins.transpose(2, 1, 0).reshape(len(rows), -1)
        )
    for other, values_of_other in found.items():
        difference = float(np.abs(values_of_other - expected).max())
        if not difference <= TOLERANCE:
            msg = (
                f"The trained model and {other} differ by up to {difference:.2g} in their "
                f"probabilities, so predictions are not reliable. {way_out(engine_params)}"
            )
            raise RuntimeError(msg)
