"""What folds and their repeats gain in hazards: errors to known curves, and CPU time.

    python -m benchmarks.folds_study [--engine xgboost] [--seeds 2] [--only NAME ...]

Its output is kept in results/folds_study-ENGINE.txt.

Each setting is a HazardBoost with other parameters. Errors are squared differences to the true
curves of all states, on average over times, divided by those of the first setting. The truths are
families of `benchmarks._truths` at small sizes, and some that are hard: effects that change their
sign or begin late, nearly deterministic times, a pure interaction, and nothing to learn at all.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks._truths import draw_truth
from survival_objectives import HazardBoost

FloatArray = npt.NDArray[np.float64]
_N_TEST = 1000

SETTINGS: dict[str, dict[str, Any]] = {
    "2 folds": {"n_folds": 2, "n_repeats": 1, "learning_rate": 0.15},
    "5 folds": {"n_folds": 5, "n_repeats": 1, "learning_rate": 0.15},
    "default": {},
}


#: Name -> family, people, share censored, whether by features, number of features.
CASES: dict[str, tuple[str, int, float, bool, int]] = {
    "3 causes": ("hazards, 3 causes", 2000, 0.28, True, 8),
    "1 cause": ("hazards, 1 cause", 1000, 0.47, True, 8),
    "linear": ("hazards, linear", 1000, 0.40, False, 8),
    "2 causes, few": ("hazards, 2 causes", 400, 0.33, True, 8),
    "crossing": ("crossing curves", 2000, 0.32, False, 8),
    "incidences": ("incidences", 3000, 0.30, False, 8),
    "cured": ("cured", 1500, 0.20, False, 8),
    "52 noise columns": ("odds", 2000, 0.39, True, 60),
    "additive": ("additive hazards", 1500, 0.50, True, 8),
    "120 columns, few": ("hazards, linear", 400, 0.42, False, 120),
    "sign change": ("sign change", 3000, 0.30, False, 8),
    "late effect": ("late effect", 3000, 0.45, False, 8),
    "deterministic": ("deterministic", 2000, 0.35, False, 8),
    "interaction": ("interaction", 2000, 0.40, True, 8),
    "interaction, few": ("interaction", 600, 0.50, True, 8),
    "nothing": ("nothing", 1000, 0.40, True, 8),
    "nothing, 40 columns": ("nothing", 500, 0.40, True, 40),
    "weak": ("weak", 1000, 0.40, True, 8),
    "mix": ("mix", 2500, 0.45, True, 8),
    "frailty": ("frailty", 2500, 0.44, True, 8),
    "bathtub": ("bathtub", 2500, 0.39, True, 8),
    "six causes, few": ("six causes", 800, 0.45, True, 8),
    "rare, 90 % censored": ("hazards, 3 causes", 3000, 0.90, True, 8),
    "81 columns, 117 people": ("hazards, linear", 117, 0.40, False, 81),
    "dense, 81 columns, 117 people": ("dense", 117, 0.40, False, 81),
    "dense, 120 columns": ("dense", 400, 0.40, False, 120),
}


def measured(name: str, seed: int, engine: str, settings: dict[str, Any]) -> tuple[float, float]:
    """Error and CPU seconds of one setting on one case."""
    family, n, censored, by_features, n_features = CASES[name]
    truth, generator = draw_truth(
        family, seed, censored=censored, by_features=by_features, n_features=n_features
    )
    sample, test = truth.draw(n, generator), truth.draw(_N_TEST, generator)
    times = np.linspace(0, np.quantile(sample.duration, 0.95), 33)[1:]
    begin = time.process_time()
    model = HazardBoost(engine, n_jobs=1, random_state=seed, **settings)
    model.fit(sample.X, (sample.event, sample.duration))
    seconds = time.process_time() - begin
    found = model.predict_cumulative_incidence(test.X, times)
    difference = found - truth.incidence(test.X, times)
    return float((difference**2).sum(axis=1).mean()), seconds


def main() -> None:
    """Print a line per case, and the geometric means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="xgboost")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=list(CASES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    ratios: dict[str, list[FloatArray]] = {setting: [] for setting in SETTINGS}
    for name in options.only:
        line = f"{name:18s}"
        for setting, parameters in SETTINGS.items():
            found = np.log(
                [
                    measured(name, 1 + seed, options.engine, parameters)
                    for seed in range(options.seeds)
                ]
            )
            ratios[setting].append(found.mean(axis=0))
            error, seconds = np.exp(found.mean(axis=0) - ratios[next(iter(SETTINGS))][-1])
            line += f" | {setting}: {error:.3f}, CPU x {seconds:.1f}"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    for setting, found in ratios.items():
        relative = np.array(found) - np.array(ratios[next(iter(SETTINGS))])
        mean, worst = np.exp(relative.mean(axis=0)), np.exp(relative.max(axis=0))
        sys.stdout.write(
            f"{setting}: error {mean[0]:.3f} (worst {worst[0]:.3f}), CPU x {mean[1]:.1f}\n"
        )


if __name__ == "__main__":
    main()
