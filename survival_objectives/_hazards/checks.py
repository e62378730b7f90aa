"""Checks after training: hazards from the engine and from the trees that are read off agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from survival_objectives._arrays import Float32Array
from survival_objectives._hazards.mixture import Mixture
from survival_objectives._models.checks import TOLERANCE, few_people, way_out

# More rows than there are: the engine evaluates all.
_EVERY_ROW = 2**62


def check_hazard_paths(
    mixture: Mixture, values: Float32Array, engine_params: Mapping[str, Any]
) -> None:
    """Raise a RuntimeError if the engine and the trees read off its models differ by over 1e-5.

    Parameters
    ----------
    mixture : Mixture
    values : array of shape (n_samples, n_features)
        Features of people; a few of them are used.
    engine_params : mapping
        The user's settings, named in the error.
    """
    people = few_people(values)
    for _, model in mixture.members.values():
        trees = model.trees
        if trees is None or not trees.forest.is_readable:
            continue
        n_intervals = mixture.n_intervals
        by_engine = trees.margin(people, n_intervals, engine_rows=_EVERY_ROW)
        by_forest = trees.margin(people, n_intervals, engine_rows=0)
        difference = float(np.abs(by_engine - by_forest).max())
        if not difference <= TOLERANCE * max(1.0, float(np.abs(by_engine).max())):
            msg = (
                f"The trained model and the trees that are read off it differ by up to "
                f"{difference:.2g} in their margins, so that predictions cannot be relied on. "
                f"{way_out(engine_params)}"
            )
            raise RuntimeError(msg)
