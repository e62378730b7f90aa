"""The command line: ``survival-objectives demo``."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from survival_objectives._version import __version__
from survival_objectives.baselines import AalenJohansen, CauseSpecificCox
from survival_objectives.datasets import load_covid_hospital
from survival_objectives.estimator import ENGINES, SurvivalBoost
from survival_objectives.metrics import concordance_index, integrated_brier_score

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="survival-objectives",
        description="Survival and competing-risks models on XGBoost, LightGBM and CatBoost.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo", help="train on bundled data with the installed engines and compare with baselines"
    )
    demo.add_argument("--seed", type=int, default=0, help="seed of the split and of the models")
    demo.add_argument("--rounds", type=int, default=200, help="boosting rounds of every model")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        print(f"survival-objectives: --rounds is {options.rounds}; use 1 or more", file=sys.stderr)
        return 2
    return run_demo(seed=options.seed, rounds=options.rounds)


def run_demo(*, seed: int, rounds: int) -> int:
    """Train every installed engine on the bundled data and print how they compare."""
    engines = [name for name in ENGINES if importlib.util.find_spec(name) is not None]
    if not engines:
        print(
            "survival-objectives: no engine is installed; "
            'use: pip install "survival-objectives[all]"',
            file=sys.stderr,
        )
        return 1
    data = load_covid_hospital()
    X, X_test, y, y_test = train_test_split(
        data.X, data.y, test_size=0.3, random_state=seed, stratify=data.y["event"]
    )
    counts = data.y["event"].value_counts().sort_index()
    print(data.description)
    print(f"{len(X)} people to train on, {len(X_test)} held out; in all:")
    for label, name in enumerate(data.event_names):
        print(f"  {counts.get(label, 0):>5}  {name}")

    models: dict[str, Any] = {"Aalen-Johansen (marginal)": AalenJohansen()}
    if importlib.util.find_spec("lifelines") is not None:
        models["cause-specific Cox"] = CauseSpecificCox()
    for engine in engines:
        models[f"SurvivalBoost ({engine})"] = SurvivalBoost(
            engine, n_estimators=rounds, random_state=seed
        )
    times = np.linspace(0, 28, 29)[1:]
    rows = []
    for name, model in models.items():
        begin = time.perf_counter()
        curves = model.fit(X, y).predict_cumulative_incidence(X_test, times)
        seconds = time.perf_counter() - begin
        c_index = concordance_index(y, y_test, curves[:, :, [13]], times[[13]], cause=1)
        rows.append(
            {
                "model": name,
                "Brier score": integrated_brier_score(y, y_test, curves, times),
                "C-index of death": float(np.asarray(c_index)[0]),
                "seconds": seconds,
            }
        )
    print("\nHeld-out people, days 1 to 28 (Brier: lower is better; C-index at day 14: higher):\n")
    print(pd.DataFrame(rows).round(4).to_string(index=False))

    model = models[f"SurvivalBoost ({engines[0]})"]
    ranked = np.argsort(model.predict_cumulative_incidence(X_test, [14.0])[:, 1, 0])
    people = X_test.iloc[ranked[[0, len(ranked) // 2, -1]]]
    curves = model.predict_cumulative_incidence(people, [7.0, 14.0, 28.0])
    print(f"\nWhat {engines[0]} says of three held-out people:\n")
    state_names = ("event-free", *data.event_names[1:])
    for (_, person), curve in zip(people.iterrows(), curves, strict=True):
        print("  " + ", ".join(f"{name} {value:g}" for name, value in person.items()))
        for day, states in zip((7, 14, 28), curve.T, strict=True):
            shown = ", ".join(
                f"{name} {probability:.0%}"
                for name, probability in zip(state_names, states, strict=True)
            )
            print(f"    by day {day:>2}: {shown}")
    return 0
