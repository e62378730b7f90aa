"""CatBoost: the IPCW log-loss as a custom loss class, with refreshed weights."""

from survival_objectives.adapters.catboost._hazard_objective import HazardLoss
from survival_objectives.adapters.catboost._objective import IPCWLoss

__all__ = ["HazardLoss", "IPCWLoss"]
