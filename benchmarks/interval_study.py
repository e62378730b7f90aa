"""Events known to lie between two visits, where the truth is known.

    python -m benchmarks.interval_study > benchmarks/results/interval_study.txt

People are seen at visits, a fifth of the follow-up apart, at the same times for all (shared) or
each from a first visit of their own (own); an event is known to lie in (lower, upper], its cause
too. Errors are integrated squared errors to the true curves, times 1000, of `HazardBoost` fitted to

exact      times of events as they are; people without one are censored at their last visit
midpoint   events in the middle of their interval
intervals  `lower` and `upper`
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from benchmarks.observation_study import (
    FAMILIES,
    FOLLOW_UP,
    TIMES,
    FloatArray,
    drawn,
    error,
    show,
    truth,
)
from survival_objectives import HazardBoost

KINDS = ("shared", "own")


def visited(people: pd.DataFrame, rng: np.random.Generator, *, shared: bool) -> pd.DataFrame:
    """The people as visits show them, with `lower`, `upper`; exact durations stay beside them."""
    gap = FOLLOW_UP / 5
    first = np.full(len(people), gap) if shared else rng.uniform(0.1 * gap, gap, len(people))
    time = people["duration"].to_numpy()
    n_before = np.maximum(np.ceil((time - first) / gap), 0)
    lower = np.where(n_before > 0, first + (n_before - 1) * gap, 0.0)
    upper = first + n_before * gap
    happened = people["event"].to_numpy() > 0
    seen = people.assign(lower=lower, upper=np.where(happened, upper, np.inf))
    seen["duration"] = np.where(happened, time, lower)
    return seen[seen["duration"] > 0].reset_index(drop=True)


def errors(people: pd.DataFrame, engine: str, test: pd.DataFrame, true: FloatArray) -> list[float]:
    """Errors of exact times, of midpoints, and of intervals."""
    middle = (people["lower"] + people["upper"]) / 2
    midpoint = people.assign(duration=middle.where(people["event"] > 0, people["duration"]))
    pair = ["event", "duration"]
    found = []
    for y in (people[pair], midpoint[pair], people[["event", "lower", "upper"]]):
        model = HazardBoost(engine, random_state=0, n_jobs=1).fit(people[list(test)], y)
        found.append(error(model.predict_cumulative_incidence(test, TIMES), true))
    return found


def study(n: int, engines: list[str], n_seeds: int, kinds: tuple[str, ...] = KINDS) -> None:
    features = [f"x{i}" for i in range(4)]
    names = ("exact", "midpoint", "intervals", "/ exact", "/ midpoint")
    show("visits", "family", "engine", "marginal", *names)
    for kind in kinds:
        ratios = []
        for name, family in FAMILIES.items():
            found: dict[str, list[list[float]]] = {engine: [] for engine in engines}
            for seed in range(n_seeds):
                rng = np.random.default_rng(seed)
                people = visited(drawn(family, n, rng, late=False), rng, shared=kind == "shared")
                test = pd.DataFrame(rng.normal(size=(1000, 4)), columns=features)
                true = truth(family, test.to_numpy())
                marginal = error(np.broadcast_to(true.mean(axis=0), true.shape), true)
                for engine in engines:
                    found[engine].append([marginal, *errors(people, engine, test, true)])
            for engine, values in found.items():
                *_, exact, midpoint, intervals = means = np.mean(values, axis=0)
                ratios.append([intervals / exact, intervals / midpoint])
                show(kind, name, engine, *means, *ratios[-1])
        mean = np.exp(np.log(ratios).mean(axis=0))
        show(kind, "geometric mean", "", "", "", "", "", *mean)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--people", type=int, default=2000)
    parser.add_argument("--engines", default="xgboost,lightgbm,catboost")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kinds", default="shared,own")
    options = parser.parse_args()
    study(
        options.people,
        options.engines.split(","),
        options.seeds,
        tuple(options.kinds.split(",")),
    )


if __name__ == "__main__":
    main()
