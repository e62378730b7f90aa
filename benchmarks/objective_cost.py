"""What the plugin costs: CPU time of training with it, as ratios within one run.

Run as ``python -m benchmarks.objective_cost``; ``--help`` lists the options. Two questions, for
each engine:

objective   How long is a training with our objective, compared with the engine's own softmax on
            the same rows, weights, classes and starting margins? With ``margins="free"`` both grow
            the same number of trees (and on XGBoost and LightGBM the same trees). The default
            reference link is reported too: one tree less a round, monotone in time where the
            engine can.
refresh     How long is a training whose weights are refreshed every 10 rounds, compared with one
            that keeps the first weights? Three answers: with the censoring model and its boosting
            (``refreshed``); without the time that its boosting took inside the same training
            (``minus boosting``); and from a second training whose censoring model adds no tree at
            all (``no boosting``).

All times are CPU times of training calls on matrices that were built before, with one thread. What
a refresh builds for itself counts as its own cost. The arms of a question take turns, each repeat
starts with another arm, and a ratio is the median over repeats of the ratio within a repeat. The
ratio of the smallest times is given as well: other work on the machine only ever adds time.
A refreshed training runs one round more than a multiple of the interval, as does the one it is
compared with, so that the censoring model has as many rounds as the event model, less that one.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import catboost
import lightgbm as lgb
import xgboost as xgb

from survival_objectives.adapters.catboost import _objective as catboost_adapter
from survival_objectives.adapters.lightgbm import _objective as lightgbm_adapter
from survival_objectives.adapters.xgboost import _objective as xgboost_adapter
from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.datasets import SyntheticData, make_competing_risks

RESULTS = Path(__file__).parent / "results"
N_CAUSES = 3
N_HORIZONS = 4
REFRESH_EVERY = 10
LEARNING_RATE = 0.1

#: Largest ratio that we accept, by engine, question and arm.
TARGETS: dict[tuple[str, str, str], float] = {
    ("xgboost", "objective", "free"): 1.03,
    ("lightgbm", "objective", "free"): 1.03,
    ("catboost", "objective", "free"): 10.0,
    ("xgboost", "refresh", "minus boosting"): 1.35,
    ("lightgbm", "refresh", "minus boosting"): 1.35,
    ("xgboost", "refresh", "refreshed"): 2.2,
    ("lightgbm", "refresh", "refreshed"): 2.2,
}

#: Trains once and returns the seconds it took, by the name of the arm. The first arm of a question
#: is the one that the others are compared with.
Arm = Callable[[], dict[str, float]]


# ------------------------------------------------------------------------------------------ engines
class XGBoost:
    """Trainings on XGBoost."""

    name = "xgboost"
    adapter = xgboost_adapter
    params: ClassVar[dict[str, Any]] = {
        "max_depth": 6,
        "learning_rate": LEARNING_RATE,
        "nthread": 1,
    }

    def problem(self, data: SyntheticData, **options: Any) -> Any:
        """Our objective, with its training matrix already built."""
        objective = xgboost_adapter.IPCWObjective(data.X, data.y, **options)
        _ = objective.dtrain
        return objective

    def train(self, objective: Any, n_rounds: int, *, refresh: bool = False) -> Any:
        """Train with our objective, as the README does."""
        callbacks = [objective.refresh()] if refresh else None
        params = {**objective.params, **self.params}
        return xgb.train(params, objective.dtrain, n_rounds, obj=objective, callbacks=callbacks)

    def train_softmax(self, objective: Any, n_rounds: int) -> Any:
        """Train with the engine's own softmax on the same rows."""
        params = {
            **objective.params,
            **self.params,
            "objective": "multi:softprob",
        }
        return xgb.train(params, objective.dtrain, n_rounds)


class LightGBM:
    """Trainings on LightGBM."""

    name = "lightgbm"
    adapter = lightgbm_adapter
    params: ClassVar[dict[str, Any]] = {
        "num_leaves": 31,
        "learning_rate": LEARNING_RATE,
        "num_threads": 1,
    }

    def problem(self, data: SyntheticData, **options: Any) -> Any:
        """Our objective, with its training matrix already built."""
        objective = lightgbm_adapter.IPCWObjective(data.X, data.y, **options)
        objective.train_set.construct()
        return objective

    def train(self, objective: Any, n_rounds: int, *, refresh: bool = False) -> Any:
        """Train with our objective, as the README does."""
        callbacks = [objective.refresh()] if refresh else None
        params = {**objective.params, **self.params, "objective": objective}
        return lgb.train(params, objective.train_set, n_rounds, callbacks=callbacks)

    def train_softmax(self, objective: Any, n_rounds: int) -> Any:
        """Train with the engine's own softmax on the same rows."""
        params = {**objective.params, **self.params, "objective": "multiclass"}
        return lgb.train(params, objective.train_set, n_rounds)


class CatBoost:
    """Trainings on CatBoost."""

    name = "catboost"
    adapter = catboost_adapter
    params: ClassVar[dict[str, Any]] = {
        "depth": 6,
        "learning_rate": LEARNING_RATE,
        "thread_count": 1,
        # CatBoost chooses these by the loss, and for a custom loss otherwise than for its own.
        "bootstrap_type": "No",
        "boosting_type": "Plain",
        "score_function": "L2",
        "verbose": False,
    }

    def problem(self, data: SyntheticData, **options: Any) -> Any:
        """Our objective, with its training matrix already built."""
        loss = catboost_adapter.IPCWLoss(data.X, data.y, **options)
        _ = loss.train_pool
        return loss

    def train(self, loss: Any, n_rounds: int, *, refresh: bool = False) -> Any:
        """Train with our objective, as the README does."""
        # CatBoost does not show a callback the event model's settings, so they are given again.
        own = {"depth", "learning_rate", "thread_count", "bootstrap_type", "boosting_type"}
        trees = {name: value for name, value in self.params.items() if name in own}
        callbacks = [loss.refresh(trees)] if refresh else None
        params = {**loss.params, **self.params, "loss_function": loss, "iterations": n_rounds}
        return catboost.CatBoost(params).fit(loss.train_pool, callbacks=callbacks)

    def train_softmax(self, loss: Any, n_rounds: int) -> Any:
        """Train with the engine's own softmax on the same rows."""
        if not hasattr(loss, "_benchmark_pool"):
            loss._benchmark_pool = catboost.Pool(
                loss.stacked_features, loss.target, weight=loss.initial_weight
            )
        params = {
            **loss.params,
            **self.params,
            "loss_function": "MultiClass",
            "eval_metric": "MultiClass",
            "iterations": n_rounds,
        }
        return catboost.CatBoost(params).fit(loss._benchmark_pool)


ENGINES = {engine.name: engine for engine in (XGBoost(), LightGBM(), CatBoost())}


# ---------------------------------------------------------------------------------------- questions
def objective_arms(engine: Any, data: SyntheticData, n_rounds: int) -> dict[str, Arm]:
    """Built-in softmax, our objective with the same margins, and with the default ones."""
    # A given censoring model: CatBoost's pool then holds no rows for a refresh.
    options = {
        "n_horizons": N_HORIZONS,
        "censoring": KaplanMeierCensoring().fit(data.y),
        "random_state": 0,
    }
    free = engine.problem(data, margins="free", **options)
    reference = engine.problem(data, margins="reference", **options)
    return {
        "built-in": lambda: _seconds("built-in", engine.train_softmax, free, n_rounds),
        "free": lambda: _seconds("free", engine.train, free, n_rounds),
        "reference": lambda: _seconds("reference", engine.train, reference, n_rounds),
    }


def refresh_arms(engine: Any, data: SyntheticData, n_rounds: int) -> dict[str, Arm]:
    """Weights kept, refreshed, and refreshed with a censoring model that adds no tree."""
    problem = engine.problem(
        data, n_horizons=N_HORIZONS, refresh_every=REFRESH_EVERY, random_state=0
    )
    n_rounds += 1

    def refreshed() -> dict[str, float]:
        with _timed_boosting(engine.adapter) as boosting:
            seconds = _seconds("refreshed", engine.train, problem, n_rounds, refresh=True)
        n_refreshes = (n_rounds - 1) // REFRESH_EVERY
        assert len(problem.refreshes_) == len(boosting) == n_refreshes
        seconds["minus boosting"] = seconds["refreshed"] - sum(boosting)
        return seconds

    def no_boosting() -> dict[str, float]:
        with _without_boosting(engine.adapter):
            return _seconds("no boosting", engine.train, problem, n_rounds, refresh=True)

    return {
        "never": lambda: _seconds("never", engine.train, problem, n_rounds),
        "refreshed": refreshed,
        # CatBoost's censoring model is a list of chunks, and cannot be empty.
        **({} if engine.name == "catboost" else {"no boosting": no_boosting}),
    }


QUESTIONS = {"objective": objective_arms, "refresh": refresh_arms}


@contextlib.contextmanager
def _timed_boosting(adapter: Any) -> Iterator[list[float]]:
    """Note the seconds of each call that advances the censoring model."""
    seconds: list[float] = []
    original = adapter.CensoringTrainer.advance

    def advance(self: Any, weight: Any, n_rounds: int) -> None:
        start = time.process_time()
        original(self, weight, n_rounds)
        seconds.append(time.process_time() - start)

    adapter.CensoringTrainer.advance = advance
    try:
        yield seconds
    finally:
        adapter.CensoringTrainer.advance = original


@contextlib.contextmanager
def _without_boosting(adapter: Any) -> Iterator[None]:
    """Let the censoring model stay at the Kaplan-Meier curve it starts from."""
    original = adapter.CensoringTrainer.advance

    def advance(self: Any, weight: Any, n_rounds: int) -> None:  # noqa: ARG001
        original(self, weight, 0)

    adapter.CensoringTrainer.advance = advance
    try:
        yield
    finally:
        adapter.CensoringTrainer.advance = original


def _seconds(arm: str, train: Callable[..., Any], *args: Any, **options: Any) -> dict[str, float]:
    gc.collect()
    start = time.process_time()
    train(*args, **options)
    return {arm: time.process_time() - start}


# ---------------------------------------------------------------------------------------- measuring
def measure(arms: Mapping[str, Arm], n_repeats: int) -> dict[str, list[float]]:
    """Seconds of each arm in each repeat; the arms take turns in being first."""
    seconds: dict[str, list[float]] = {}
    names = list(arms)
    for repeat in range(n_repeats):
        shift = repeat % len(names)
        for name in names[shift:] + names[:shift]:
            for arm, value in arms[name]().items():
                seconds.setdefault(arm, []).append(value)
    return seconds


def summary(
    engine: str, question: str, baseline: str, seconds: Mapping[str, list[float]]
) -> list[dict[str, Any]]:
    """Ratio of each arm to the baseline, with its spread over repeats and its target."""
    rows = []
    for arm, values in seconds.items():
        if arm == baseline:
            continue
        ratios = [value / base for value, base in zip(values, seconds[baseline], strict=True)]
        ratio, target = statistics.median(ratios), TARGETS.get((engine, question, arm))
        rows.append(
            {
                "engine": engine,
                "question": question,
                "arm": arm,
                "baseline": baseline,
                "ratio": ratio,
                "ratio_min": min(ratios),
                "ratio_max": max(ratios),
                "ratio_of_minima": min(values) / min(seconds[baseline]),
                "target": target,
                "met": None if target is None else ratio <= target,
            }
        )
    return rows


def simulated(n_rows: int) -> SyntheticData:
    """Enough people that their event rows are about ``n_rows``: 9 features, and the time."""
    pilot = make_competing_risks(
        2000, n_causes=N_CAUSES, n_features=6, n_noise_features=3, random_state=0
    )
    problem = xgboost_adapter.IPCWObjective(pilot.X, pilot.y, n_horizons=N_HORIZONS, random_state=0)
    return pilot.draw(round(n_rows * 2000 / len(problem.target)), random_state=1)


def run(
    engine: str,
    *,
    n_rows: int = 50_000,
    n_rounds: int = 100,
    n_repeats: int = 5,
    questions: Sequence[str] = tuple(QUESTIONS),
) -> dict[str, Any]:
    """All measurements of an engine, as they go into its results file."""
    if n_rounds % REFRESH_EVERY:
        msg = f"`n_rounds` must be a multiple of {REFRESH_EVERY}; got {n_rounds}."
        raise ValueError(msg)
    data = simulated(n_rows)
    ratios: list[dict[str, Any]] = []
    seconds: dict[str, dict[str, list[float]]] = {}
    for question in questions:
        arms = QUESTIONS[question](ENGINES[engine], data, n_rounds)
        warm_up(ENGINES[engine], question, data)
        seconds[question] = measure(arms, n_repeats)
        ratios += summary(engine, question, next(iter(arms)), seconds[question])
    problem = ENGINES[engine].problem(data, n_horizons=N_HORIZONS, random_state=0)
    packages = [engine, "numpy", "scipy", *(["numba"] if engine == "catboost" else [])]
    return {
        "what": "CPU time of training calls, one thread; see benchmarks/objective_cost.py",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": {package: version(package) for package in packages},
        "settings": {
            "n_people": data.n_samples,
            "n_rows": len(problem.target),
            "n_columns": data.X.shape[1] + 1,
            "n_classes": N_CAUSES + 1,
            "n_horizons": N_HORIZONS,
            "censored": float((data.y["event"] == 0).mean()),
            "refresh_every": REFRESH_EVERY,
            "n_rounds": n_rounds,
            "n_repeats": n_repeats,
            "params": ENGINES[engine].params,
        },
        "ratios": ratios,
        "seconds": seconds,
    }


def warm_up(engine: Any, question: str, data: SyntheticData) -> None:
    """Pay for compiling and lazy imports before anything is timed."""
    few = data.draw(200, random_state=2)
    for arm in QUESTIONS[question](engine, few, REFRESH_EVERY).values():
        arm()


def machine() -> dict[str, Any]:
    """Processor, memory and Python; no name of the machine."""
    memory = None
    with contextlib.suppress(ValueError, OSError, AttributeError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": os.cpu_count(),
        "memory_gib": None if memory is None else round(memory, 1),
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def table_head() -> str:
    return (
        f"{'engine':9} {'question':10} {'arm':15} {'to':9} {'ratio':>6} {'range':>13} "
        f"{'minima':>7} {'target':>7}"
    )


def table_line(row: Mapping[str, Any]) -> str:
    span = f"{row['ratio_min']:.2f}-{row['ratio_max']:.2f}"
    target = "" if row["target"] is None else f"{row['target']:.2f}"
    verdict = {None: "", True: "met", False: "MISSED"}[row["met"]]
    return (
        f"{row['engine']:9} {row['question']:10} {row['arm']:15} {row['baseline']:9} "
        f"{row['ratio']:6.3f} {span:>13} {row['ratio_of_minima']:7.3f} {target:>7} {verdict}"
    ).rstrip()


def markdown_table(folder: Path = RESULTS) -> str:
    """The ratios of the results files as the table of the README."""
    files = {name: folder / f"objective_cost-{name}.json" for name in ENGINES}
    ratios = {
        (name, row["question"], row["arm"]): row["ratio"]
        for name, path in files.items()
        for row in json.loads(path.read_text())["ratios"]
    }
    rows = {
        "our objective / the engine's softmax, a margin for every class": ("objective", "free"),
        "our default link / the engine's softmax": ("objective", "reference"),
        "weights refreshed every 10 rounds / never": ("refresh", "refreshed"),
        "the same, less the boosting of the censoring model": ("refresh", "minus boosting"),
    }
    lines = ["| CPU time | XGBoost | LightGBM | CatBoost |", "|---|---|---|---|"]
    for title, key in rows.items():
        values = " | ".join(f"{ratios[name, *key]:.2f}" for name in files)
        lines.append(f"| {title} | {values} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.objective_cost")
    parser.add_argument("--rows", type=int, default=50_000, help="stacked rows, about")
    parser.add_argument("--rounds", type=int, default=100, help="a multiple of 10")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--questions", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the JSON files")
    parser.add_argument("--table", action="store_true", help="print the README's table, and stop")
    options = parser.parse_args(arguments)
    if options.table:
        print(markdown_table(options.output))
        return
    options.output.mkdir(parents=True, exist_ok=True)
    print(table_head())
    for engine in options.engines:
        results = run(
            engine,
            n_rows=options.rows,
            n_rounds=options.rounds,
            n_repeats=options.repeats,
            questions=options.questions,
        )
        for row in results["ratios"]:
            print(table_line(row), flush=True)
        path = options.output / f"objective_cost-{engine}.json"
        path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
