"""How sure predictions are: bounds that hold for any model, and what rests on assumptions.

`conformalize` gives lower bounds and screening lists that hold on average over people, whether or
not the model is right. `dependent_censoring` says what answers become if hazards change when people
are censored. `standardized_incidence` averages predictions over a group, with a feature as it is or
set to a value. Bands of a person's curve are predictions with ``confidence``.
"""

# First: it sets how OpenMP threads wait, before scikit-learn is imported.
from survival_objectives._process import running as _running  # noqa: F401

# isort: split
from survival_objectives._horizons.completion import SurvivalCompletion
from survival_objectives.uncertainty._conformal import ConformalSurvival, conformalize
from survival_objectives.uncertainty._dependent import (
    DependentCensoring,
    dependent_censoring,
    dependent_incidence,
)
from survival_objectives.uncertainty._population import (
    StandardizedIncidence,
    standardized_incidence,
)

__all__ = [
    "ConformalSurvival",
    "DependentCensoring",
    "StandardizedIncidence",
    "SurvivalCompletion",
    "conformalize",
    "dependent_censoring",
    "dependent_incidence",
    "standardized_incidence",
]
