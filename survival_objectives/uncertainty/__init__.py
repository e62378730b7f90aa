"""How sure predictions are: bounds that hold for any model, and what rests on assumptions.

`conformalize` gives lower bounds and screening lists that hold on average over people, whether or
not the model is right. Bands of a person's curve are predictions with ``confidence``.
"""

# First: it sets how OpenMP threads wait, before scikit-learn is imported.
from survival_objectives._process import running as _running  # noqa: F401

# isort: split
from survival_objectives._horizons.completion import SurvivalCompletion
from survival_objectives.uncertainty._conformal import ConformalSurvival, conformalize

__all__ = ["ConformalSurvival", "SurvivalCompletion", "conformalize"]
