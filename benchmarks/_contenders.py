"""Who takes part: where each contender runs, with which options, and what it can do."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = [
    "CONTENDERS",
    "ENGINES",
    "HAZARDS",
    "HAZARDS_DEFAULT",
    "IPCW_PLUGIN",
    "OURS",
    "PAPER",
    "Contender",
    "contender",
]

FOLDER = Path(__file__).parent
#: The environment that this project itself is installed in.
PARENT = "ours"
ENGINES = ("xgboost", "lightgbm", "catboost")
#: `HazardBoost` on each engine.
HAZARDS = tuple(f"ours-hazards-{engine}" for engine in ENGINES)
#: On the default engine.
HAZARDS_DEFAULT = HAZARDS[0]
#: `SurvivalBoost`, the paper's algorithm, on the default engine.
PAPER = "ours-survivalboost"
#: Both objectives in XGBoost's own training call.
HAZARD_PLUGIN, IPCW_PLUGIN = "ours-hazard-objective", "ours-ipcw-objective"
OURS = (*HAZARDS, PAPER, HAZARD_PLUGIN, IPCW_PLUGIN)


@dataclass(frozen=True)
class Contender:
    """One way to predict curves.

    Attributes
    ----------
    name : str
        As on the command line and in the results.
    label : str
        As in tables.
    environment : str
        ``benchmarks/environments/<environment>.txt`` lists what it needs; "ours" is the interpreter
        that runs the benchmark.
    worker : str
        Module of ``benchmarks/workers``.
    options : dict
        Passed to its ``fit``.
    packages : tuple of str
        Whose versions are recorded.
    competing : bool
        Whether it knows several causes.
    sources : tuple of str
        Files of this project that its results depend on, besides its worker; all of the package for
        "package".
    """

    name: str
    label: str
    environment: str
    worker: str
    options: dict[str, Any] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    competing: bool = True
    sources: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        return self.name.startswith("ours")


_BASELINE_SOURCES = ("baselines.py", "marginal.py")


def _ours(name: str, estimator: str, engine: str) -> Contender:
    return Contender(
        name=name,
        label=f"{estimator}, {_ENGINE_LABELS[engine]}",
        environment=PARENT,
        worker="fit_ours",
        options={"estimator": estimator, "engine": engine},
        packages=("survival-objectives", engine, "numpy", "scikit-learn"),
        sources=("package",),
    )


def _plugin(name: str, objective: str) -> Contender:
    return Contender(
        name=name,
        label=f"{objective}, XGBoost",
        environment=PARENT,
        worker="fit_plugin",
        options={"objective": objective},
        packages=("survival-objectives", "xgboost", "numpy"),
        sources=("package",),
    )


def _floor(engine: str) -> Contender:
    return Contender(
        name=f"floor-{engine}",
        label=f"{_ENGINE_LABELS[engine]}'s own softmax",
        environment=PARENT,
        worker="fit_floor",
        options={"engine": engine},
        packages=(engine, "numpy"),
    )


_ENGINE_LABELS = {"lightgbm": "LightGBM", "xgboost": "XGBoost", "catboost": "CatBoost"}

_ALL = [
    *(_ours(name, "HazardBoost", engine) for name, engine in zip(HAZARDS, ENGINES, strict=True)),
    _ours(PAPER, "SurvivalBoost", ENGINES[0]),
    _plugin(HAZARD_PLUGIN, "HazardObjective"),
    _plugin(IPCW_PLUGIN, "IPCWObjective"),
    Contender(
        "hazardous",
        "hazardous",
        "hazardous",
        "fit_hazardous",
        packages=("hazardous", "scikit-learn", "numpy"),
    ),
    Contender(
        "marginal",
        "Kaplan-Meier / Aalen-Johansen",
        PARENT,
        "fit_baselines",
        {"model": "marginal"},
        ("survival-objectives",),
        sources=_BASELINE_SOURCES,
    ),
    Contender(
        "cox",
        "Cox, cause-specific",
        PARENT,
        "fit_baselines",
        {"model": "cox"},
        ("lifelines",),
        sources=_BASELINE_SOURCES,
    ),
    Contender(
        "fine-gray",
        "Fine-Gray",
        "comprisk",
        "fit_comprisk",
        {"model": "fine-gray"},
        ("comprisk", "numba"),
    ),
    Contender(
        "comprisk-forest",
        "survival forest, comprisk",
        "comprisk",
        "fit_comprisk",
        {"model": "forest"},
        ("comprisk", "numba"),
    ),
    Contender(
        "rsf",
        "survival forest, scikit-survival",
        "scikit-survival",
        "fit_sksurv",
        {"model": "forest"},
        ("scikit-survival", "scikit-learn"),
        competing=False,
    ),
    Contender(
        "rsf-leaf15",
        "survival forest, 15 people a leaf",
        "scikit-survival",
        "fit_sksurv",
        {"model": "forest", "min_samples_leaf": 15},
        ("scikit-survival", "scikit-learn"),
        competing=False,
    ),
    Contender(
        "gbs",
        "gradient boosting, scikit-survival",
        "scikit-survival",
        "fit_sksurv",
        {"model": "boosting"},
        ("scikit-survival", "scikit-learn"),
        competing=False,
    ),
    Contender(
        "xgboost-cox",
        "XGBoost survival:cox",
        "boosters",
        "fit_xgboost",
        {"objective": "cox"},
        ("xgboost",),
        competing=False,
    ),
    Contender(
        "xgboost-aft",
        "XGBoost survival:aft",
        "boosters",
        "fit_xgboost",
        {"objective": "aft"},
        ("xgboost",),
        competing=False,
    ),
    Contender(
        "discrete-time",
        "discrete-time hazards, LightGBM",
        "boosters",
        "fit_discrete",
        packages=("lightgbm",),
    ),
    Contender(
        "xgbse-debiased",
        "XGBSE, debiased BCE",
        "xgbse",
        "fit_xgbse",
        {"model": "XGBSEDebiasedBCE"},
        ("xgbse", "xgboost"),
        competing=False,
    ),
    Contender(
        "xgbse-weibull",
        "XGBSE, stacked Weibull",
        "xgbse",
        "fit_xgbse",
        {"model": "XGBSEStackedWeibull"},
        ("xgbse", "xgboost", "lifelines"),
        competing=False,
    ),
    Contender(
        "deephit", "DeepHit, pycox", "pycox", "fit_pycox", {"model": "deephit"}, ("pycox", "torch")
    ),
    Contender(
        "pchazard",
        "PC-Hazard, pycox",
        "pycox",
        "fit_pycox",
        {"model": "pchazard"},
        ("pycox", "torch"),
        competing=False,
    ),
    Contender(
        "dsm",
        "Deep Survival Machines, auton-survival",
        "auton-survival",
        "fit_dsm",
        packages=("auton-survival", "torch"),
    ),
    Contender(
        "sumo-net",
        "SuMo-net, own implementation",
        "torch",
        "fit_sumo",
        packages=("torch",),
        competing=False,
    ),
    *(_floor(engine) for engine in ENGINES),
]
CONTENDERS = {one.name: one for one in _ALL}


def contender(name: str) -> Contender:
    """The contender of this name; " tuned" at its end means the same with a search."""
    base = name.removesuffix(" tuned")
    if base not in CONTENDERS:
        msg = f"No contender is called {name!r}. Choose from: {', '.join(CONTENDERS)}."
        raise ValueError(msg)
    return CONTENDERS[base]
