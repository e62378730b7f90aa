"""XGBoost: the IPCW log-loss as ``xgb.train(params, dtrain, obj=ipcw_objective)``."""

from survival_objectives.adapters.xgboost._hazard_objective import HazardObjective
from survival_objectives.adapters.xgboost._objective import IPCWObjective

__all__ = ["HazardObjective", "IPCWObjective"]
