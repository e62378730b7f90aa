"""The public names: changes of this list are decisions, and the reference shows all of it."""

import importlib
import re
from pathlib import Path

PUBLIC = {
    "": "HazardBoost SurvivalBoost __version__ load outcomes_frame recalibrate",
    "adapters.catboost": "HazardLoss IPCWLoss",
    "adapters.dask": "WorkerLostError fit_dask predict_dask score_dask",
    "adapters.external_memory": "ParquetBatches fit_external",
    "adapters.lightgbm": "HazardObjective IPCWObjective",
    "adapters.xgboost": "HazardObjective IPCWObjective",
    "assessment": "Assessment assess",
    "assessment.leaks": "Leak leaks",
    "baselines": "AalenJohansen CauseSpecificCox",
    "censoring": "BoostedCensoring CensoringModel KaplanMeierCensoring",
    "cli": "main",
    "datasets": "Dataset SyntheticData WeibullCensoring WeibullTruth integrated_squared_error "
    "load_covid_hospital load_gbsg load_metabric load_support make_competing_risks",
    "losses": "full_hessian gradient_hessian log_loss pointwise_log_loss probabilities",
    "marginal": "StepFunction aalen_johansen kaplan_meier kaplan_meier_censoring",
    "metrics": "Estimate Evaluation FollowUpWarning brier_score concordance_index "
    "integrated_brier_score likelihood_score make_survival_scorer time_dependent_auc",
    "mlflow": "load_model log_model save_model",
    "plots": "GroupIncidence PALETTE group_incidence plot_accuracy plot_bands plot_brier "
    "plot_calibration plot_group_incidence plot_history plot_importance plot_net_benefit "
    "plot_sensitivity plot_stacked_incidence plot_subgroups plot_weights",
    "report": "InShort in_short write_report write_validation",
    "serve": "application",
    "stacking": "HorizonSampler Stack TimeStacker",
    "uncertainty": "ConformalSurvival DependentCensoring StandardizedIncidence SurvivalCompletion "
    "conformalize dependent_censoring dependent_incidence standardized_incidence",
}
ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "survival_objectives"


def public_modules():
    for path in [*PACKAGE.rglob("*.py"), *(PACKAGE / "adapters").rglob("*.py")]:
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in parts):
            yield ".".join(parts)


def test_public_names_are_those_listed():
    found = {}
    for name in set(public_modules()):
        module = importlib.import_module(f"survival_objectives.{name}".rstrip("."))
        if getattr(module, "__all__", ()):
            found[name] = " ".join(sorted(module.__all__))
    assert found == PUBLIC
    assert sum(len(names.split()) for names in PUBLIC.values()) <= 90


def test_reference_lists_every_module():
    listed = re.findall(r"^generated/api/survival_objectives\.?(.*)$", api_page(), re.MULTILINE)
    assert sorted(listed) == sorted(PUBLIC)


def api_page():
    return (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
