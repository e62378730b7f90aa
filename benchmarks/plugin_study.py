"""Hazards in the engine's own training call: their error over that of the default estimator.

    python -m benchmarks.plugin_study [--engine xgboost] [--people 2000] [--seeds 301]

People of every family of `benchmarks._truths` are judged by the integrated squared error to their
true curves. Beside the default estimator:

one        One booster on four fifths of the people, stopped by the others.
five       Five boosters of `cross_fit`, each stopped by its own fold, averaged.
ipcw       `IPCWObjective` with refresh and 100 rounds, as in the README.

Numbers are ratios of errors; their geometric mean and the largest are printed and written.

    python -m benchmarks.plugin_study --cost

CPU time of a training with the objective over that of the engine's own softmax on the same rows,
weights and starts, one thread, median of repeats; on CatBoost, whose own softmax it is,
over that of `IPCWLoss` on as many rows.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import catboost
import lightgbm as lgb
import numpy as np
import numpy.typing as npt
import xgboost as xgb

from benchmarks._results import RESULTS, write_result
from benchmarks._truths import FAMILIES, Sample, draw_truth
from survival_objectives import HazardBoost
from survival_objectives.adapters import catboost as catboost_adapter
from survival_objectives.adapters import lightgbm as lightgbm_adapter
from survival_objectives.adapters import xgboost as xgboost_adapter
from survival_objectives.datasets import integrated_squared_error, make_competing_risks

ARMS = ("one", "five", "ipcw")
N_PEOPLE = (2000,)
SEEDS = (301,)
N_TEST = 1000
N_ROUNDS, PATIENCE = 300, 20
IPCW_ROUNDS = 100

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """People of one truth, and other people with their true curves."""

    name: str
    train: Sample
    test: Sample
    times: FloatArray
    curves: FloatArray

    def error(self, curves: FloatArray) -> float:
        """Integrated squared error, x 1000."""
        return 1000 * integrated_squared_error(self.curves, curves, self.times)


def problems(sizes: Sequence[int], seeds: Sequence[int]) -> Iterator[Problem]:
    for number, family in enumerate(FAMILIES):
        for n_people in sizes:
            for seed in seeds:
                truth, people = draw_truth(
                    family,
                    seed + number,
                    censored=0.2 + 0.1 * (number % 5),
                    by_features=bool(number % 2),
                )
                train, test = truth.draw(n_people, people), truth.draw(N_TEST, people)
                times = np.linspace(0, 1, 41)[1:]
                true = truth.incidence(test.X, times)
                yield Problem(f"{family}, {n_people}", train, test, times, true)


# -------------------------------------------------------------------------- the engines' own calls
def train_xgboost(objective: Any, held_out: Any) -> Any:
    return xgb.train(
        {**objective.params, "max_depth": 4, "learning_rate": 0.1, "nthread": 1},
        objective.dtrain,
        N_ROUNDS,
        obj=objective,
        custom_metric=objective.metric,
        evals=[(held_out, "held_out")],
        early_stopping_rounds=PATIENCE,
        verbose_eval=False,
    )


def train_lightgbm(objective: Any, held_out: Any) -> Any:
    params = {"num_leaves": 15, "learning_rate": 0.1, "num_threads": 1}
    return lgb.train(
        {**objective.params, "objective": objective, **params},
        objective.train_set,
        N_ROUNDS,
        valid_sets=[held_out],
        feval=objective.metric,
        callbacks=[lgb.early_stopping(PATIENCE, verbose=False)],
    )


def train_catboost(loss: Any, held_out: Any) -> Any:
    params = {"depth": 4, "learning_rate": 0.1, "thread_count": 1, "verbose": False}
    stop = {"iterations": N_ROUNDS, "early_stopping_rounds": PATIENCE}
    model = catboost.CatBoost({**loss.params, **params, **stop, "loss_function": loss})
    return model.fit(loss.train_pool, eval_set=held_out)


def ipcw_xgboost(objective: Any) -> Any:
    return xgb.train(
        {**objective.params, "max_depth": 4, "learning_rate": 0.05, "nthread": 1},
        objective.dtrain,
        IPCW_ROUNDS,
        obj=objective,
        callbacks=[objective.refresh()],
    )


def ipcw_lightgbm(objective: Any) -> Any:
    params = {"num_leaves": 15, "learning_rate": 0.05, "num_threads": 1}
    return lgb.train(
        {**objective.params, "objective": objective, **params},
        objective.train_set,
        IPCW_ROUNDS,
        callbacks=[objective.refresh()],
    )


def ipcw_catboost(loss: Any) -> Any:
    trees = {"depth": 4, "learning_rate": 0.1, "thread_count": 1}
    fixed = {"loss_function": loss, "iterations": IPCW_ROUNDS, "verbose": False}
    return catboost.CatBoost({**loss.params, **trees, **fixed}).fit(
        loss.train_pool, callbacks=[loss.refresh(trees)]
    )


ENGINES: dict[str, tuple[Any, Any, Any, Any]] = {
    "xgboost": (
        xgboost_adapter.HazardObjective,
        xgboost_adapter.IPCWObjective,
        train_xgboost,
        ipcw_xgboost,
    ),
    "lightgbm": (
        lightgbm_adapter.HazardObjective,
        lightgbm_adapter.IPCWObjective,
        train_lightgbm,
        ipcw_lightgbm,
    ),
    "catboost": (
        catboost_adapter.HazardLoss,
        catboost_adapter.IPCWLoss,
        train_catboost,
        ipcw_catboost,
    ),
}


# -------------------------------------------------------------------------------------------- arms
def default_curves(engine: str, problem: Problem) -> FloatArray:
    model = HazardBoost(engine, random_state=0, n_jobs=1)
    model.fit(problem.train.X, (problem.train.event, problem.train.duration))
    curves: FloatArray = model.predict_cumulative_incidence(problem.test.X, problem.times)
    return curves


def arm_curves(engine: str, arm: str, problem: Problem) -> FloatArray:
    hazards, ipcw, train, train_ipcw = ENGINES[engine]
    X, event, duration = problem.train.X, problem.train.event, problem.train.duration
    if arm == "one":
        held = np.random.default_rng(0).permutation(len(X))[: len(X) // 5]
        kept = np.setdiff1d(np.arange(len(X)), held)
        objective = hazards(X[kept], (event[kept], duration[kept]), random_state=0)
        model = train(objective, objective.held_out(X[held], (event[held], duration[held])))
    elif arm == "five":
        objective = hazards(X, (event, duration), random_state=0)
        model = [train(part, part.held_out()) for part in objective.cross_fit(5)]
    else:
        objective = ipcw(X, (event, duration), random_state=0)
        model = train_ipcw(objective)
    curves: FloatArray = objective.predict_cumulative_incidence(
        model, problem.test.X, problem.times
    )
    return curves


def row(engine: str, problem: Problem) -> dict[str, Any]:
    """Error of the default, and the ratios of the arms to it, with their CPU seconds."""
    start = time.process_time()
    base = problem.error(default_curves(engine, problem))
    seconds = {"default": time.process_time() - start}
    ratios = {}
    for arm in ARMS:
        start = time.process_time()
        ratios[arm] = round(problem.error(arm_curves(engine, arm, problem)) / base, 3)
        seconds[arm] = time.process_time() - start
    cpu = {name: round(value, 1) for name, value in seconds.items()}
    return {"problem": problem.name, "default_x1000": round(base, 3), "ratio": ratios, "cpu": cpu}


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Geometric mean and largest of the ratios of each arm."""
    found = {}
    for arm in ARMS:
        ratios = np.array([one["ratio"][arm] for one in rows])
        mean = float(np.exp(np.log(ratios).mean()))
        found[arm] = {"mean": round(mean, 2), "largest": round(float(ratios.max()), 2)}
    return found


# -------------------------------------------------------------------------------------------- cost
def cost_arms(engine: str, n_people: int, n_rounds: int) -> tuple[Callable[[], Any], ...]:
    """Trainings with the objective, and what it is compared with."""
    data = make_competing_risks(n_people, n_causes=3, n_features=9, random_state=0)
    hazards, ipcw, _, _ = ENGINES[engine]
    objective = hazards(data.X, data.y, random_state=0)
    rows, target, weight = objective.stacked_features, objective.target, objective.weight
    start = np.column_stack([np.zeros(len(target)), objective.start_margin])
    if engine == "xgboost":
        trees = {"max_depth": 6, "learning_rate": 0.1, "nthread": 1}
        own = xgb.QuantileDMatrix(rows, label=target, weight=weight)
        own.set_base_margin(start.astype(np.float32))
        params = {**objective.params, **trees}
        softmax = {**params, "objective": "multi:softprob", "num_class": 4}
        train_set = objective.dtrain
        return (
            lambda: xgb.train(params, train_set, n_rounds, obj=objective),
            lambda: xgb.train(softmax, own, n_rounds),
        )
    if engine == "lightgbm":
        trees = {"num_leaves": 31, "learning_rate": 0.1, "num_threads": 1}
        params = {**objective.params, **trees, "objective": objective}
        softmax = {**params, "objective": "multiclass", "num_class": 4}
        own = lgb.Dataset(rows, target, weight=weight, init_score=start, free_raw_data=False)
        train_set = objective.train_set
        return (
            lambda: lgb.train(params, train_set, n_rounds),
            lambda: lgb.train(softmax, own, n_rounds),
        )
    other = ipcw(data.X, data.y, n_horizons=9, random_state=0)
    trees = {"depth": 6, "learning_rate": 0.1, "thread_count": 1, "iterations": n_rounds}
    trees |= {"bootstrap_type": "No", "boosting_type": "Plain", "verbose": False}

    def train(loss: Any) -> Any:
        params = {**loss.params, **trees, "loss_function": loss}
        return catboost.CatBoost(params).fit(loss.train_pool)

    return (lambda: train(objective), lambda: train(other))


def cost(engine: str, n_people: int = 10_000, n_rounds: int = 20, n_repeats: int = 5) -> float:
    """Median ratio of CPU times."""
    ours, other = cost_arms(engine, n_people, n_rounds)
    ratios = []
    for repeat in range(n_repeats + 1):
        seconds = []
        for train in (ours, other):
            start = time.process_time()
            train()
            seconds.append(time.process_time() - start)
        if repeat:  # The first builds matrices.
            ratios.append(seconds[0] / seconds[1])
    return round(float(np.median(ratios)), 2)


def table(results: Path = RESULTS) -> str:
    """Means and largest ratios in Markdown, as docs/engines/hazards.md shows them."""
    names = {
        "one": "one booster, stopped by a fifth of the people",
        "five": "five folds of `cross_fit`, averaged",
        "ipcw": "`IPCWObjective` with refresh, 100 rounds",
    }
    files = {engine: results / f"plugin_study-{engine}.json" for engine in ENGINES}
    found = {
        engine: json.loads(path.read_text())["summary"]
        for engine, path in files.items()
        if path.exists()
    }
    lines = [
        f"| error / that of the default | {' | '.join(found)} |",
        "|---" * (len(found) + 1) + "|",
    ]
    for arm, name in names.items():
        cells = [
            f"{one[arm]['mean']:.2f} (up to {one[arm]['largest']:.1f})" for one in found.values()
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engine", default="xgboost", choices=sorted(ENGINES))
    parser.add_argument("--people", type=int, nargs="+", default=list(N_PEOPLE))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--cost", action="store_true", help="measure the cost of all engines")
    options = parser.parse_args(arguments)
    if options.cost:
        found = {engine: cost(engine) for engine in ENGINES}
        print(found)
        write_result("plugin_study-cost", {"ratio": found})
        return
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for problem in problems(options.people, options.seeds):
            rows.append(row(options.engine, problem))
            print(rows[-1], flush=True)
    content = {"engine": options.engine, "rows": rows, "summary": summary(rows)}
    print(content["summary"])
    write_result(f"plugin_study-{options.engine}", content)


if __name__ == "__main__":
    main()
