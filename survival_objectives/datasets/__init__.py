"""Data sets: simulated with known truth, bundled, downloaded or read from publishers' files."""

from survival_objectives.datasets._deepsurv import load_gbsg, load_metabric, load_support
from survival_objectives.datasets._files import Dataset, load_covid_hospital
from survival_objectives.datasets._synthetic import (
    SyntheticData,
    integrated_squared_error,
    make_competing_risks,
)
from survival_objectives.datasets._weibull import WeibullCensoring, WeibullTruth

__all__ = [
    "Dataset",
    "SyntheticData",
    "WeibullCensoring",
    "WeibullTruth",
    "integrated_squared_error",
    "load_covid_hospital",
    "load_gbsg",
    "load_metabric",
    "load_support",
    "make_competing_risks",
]
