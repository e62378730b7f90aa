"""LightGBM: the IPCW log-loss as ``params["objective"]``, with refreshed weights."""

from survival_objectives.adapters.lightgbm._hazard_objective import HazardObjective
from survival_objectives.adapters.lightgbm._objective import IPCWObjective

__all__ = ["HazardObjective", "IPCWObjective"]
