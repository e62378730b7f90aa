"""Digests of trained models, to show that a change of the training code changes no model.

Run before and after such a change, with the same versions on the same kind of machine:

    python -m tests.trunk_hashes --write    # before: records tests/trunk_hashes.json
    python -m tests.trunk_hashes            # after: names every model that differs

Bits of a model depend on versions and builds: `.ci/run` installs those of the record, which
`--requirements` prints, and compares. Elsewhere nothing is compared, and the exit code is 2.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.lib.introspect import opt_func_info
from threadpoolctl import threadpool_info

from survival_objectives import HazardBoost, SurvivalBoost
from survival_objectives.adapters.external_memory import fit_external
from survival_objectives.datasets import make_competing_risks

RECORD = Path(__file__).with_suffix(".json")
ENGINES = ("xgboost", "lightgbm", "catboost")
PACKAGES = (*ENGINES, "numpy", "scipy")
METHODS = ("boosted", "kaplan-meier", "imputed")
TIMES = np.linspace(0.05, 4.0, 23)
SETTINGS = {
    "n_estimators": 20,
    "learning_rate": 0.2,
    "n_jobs": 1,
    "random_state": 0,
}

Case = Callable[[], str]


def estimator(censoring: str = "boosted", **own: Any) -> Any:
    """The estimator of a method."""
    if censoring == "hazards":
        return HazardBoost(**{**SETTINGS, **own})
    return SurvivalBoost(**{**SETTINGS, "censoring": censoring, **own})


def people(n_samples: int = 300, *, whole_days: bool = False) -> tuple[Any, Any, Any]:
    """Features with a category and missing values, outcomes, and weights of which some are 0."""
    data = make_competing_risks(n_samples, n_causes=2, n_features=4, random_state=0)
    X, y = data.X.copy(), data.y.copy()
    generator = np.random.default_rng(1)
    X["kind"] = pd.Categorical(generator.choice(list("abc"), n_samples))
    X.loc[generator.random(n_samples) < 0.2, "x1"] = np.nan
    if whole_days:
        y["duration"] = np.ceil(y["duration"] * 10)
    weight = generator.integers(0, 3, n_samples).astype(float)
    return X, y, weight


def digest(model: Any, X: Any, times: Any = TIMES) -> str:
    """Of predictions, trees, the public censoring survival and what training reports."""
    found = hashlib.sha256()
    found.update(np.ascontiguousarray(model.predict_cumulative_incidence(X, times)).tobytes())
    found.update(model.predict_quantile(X, 0.4).tobytes())
    found.update(trees(model.engine_, model.booster_))
    censored = model.censoring_.survival(np.full(len(X), times[9]), X)
    found.update(np.ascontiguousarray(censored).tobytes())
    record = model.fitted_model.record
    if record.method == "hazards":
        found.update(repr(model.member_weights_).encode())
    facts = (
        model.n_estimators_,
        record.n_floored,
        record.method,
        [(one.round, one.loss) for one in model.history_],
        list(record.refreshed_rounds),
        model.times_.tolist(),
    )
    found.update(repr(facts).encode())
    return found.hexdigest()[:16]


def trees(engine: str, booster: Any) -> bytes:
    """What is stable of the engine's own model, None where trees have no weight."""
    if booster is None:
        return b""
    if engine == "xgboost":
        return bytes(booster.save_raw("ubj"))
    if engine == "lightgbm":
        return str(booster.model_to_string()).encode()
    # The saved file holds the time of training.
    return repr(booster.get_borders()).encode() + booster.get_leaf_values().tobytes()


# ------------------------------------------------------------------------------------------- cases
def in_memory(engine: str, *, whole_days: bool = False, weighted: bool = False, **own: Any) -> str:
    X, y, weight = people(whole_days=whole_days)
    model = estimator(engine=engine, **own)
    model.fit(X, y, sample_weight=weight if weighted else None)
    return digest(model, X, TIMES * 10 if whole_days else TIMES)


def with_eval_set(engine: str, censoring: str) -> str:
    X, y, _ = people()
    model = estimator(censoring, engine=engine, early_stopping_rounds=3)
    model.fit(X[:200], y[:200], eval_set=(X[200:], y[200:]))
    return digest(model, X)


def warm_start(engine: str, censoring: str) -> str:
    X, y, _ = people()
    model = estimator(censoring, engine=engine, warm_start=True).fit(X, y)
    model.set_params(n_estimators=33)
    return digest(model.fit(X, y), X)


def without_censoring(engine: str) -> str:
    X, y, _ = people()
    y["event"] = y["event"].where(y["event"] > 0, 1)
    return digest(estimator(engine=engine).fit(X, y), X)


class Marginal:
    """A completion model that knows no features."""

    def predict_cumulative_incidence(self, X: Any, times: Any) -> Any:
        shares = np.array([0.6, 0.4])[:, None] * -np.expm1(-0.3 * np.asarray(times, float))
        curves = np.concatenate([1 - shares.sum(axis=0, keepdims=True), shares])
        return np.broadcast_to(curves, (len(X), *curves.shape))


def plugin(engine: str, *, refresh: bool, whole_days: bool = False, **own: Any) -> str:
    from tests.adapters.engine_drivers import ENGINES as PLUGINS

    X, y, weight = people(whole_days=whole_days)
    X = X.drop(columns="kind")
    driver = PLUGINS[engine]()
    objective = driver.problem(X, y, random_state=0, refresh_every=5, sample_weight=weight, **own)
    model = driver.train(objective, 12, refresh=refresh)
    curves = objective.predict_cumulative_incidence(model, X, TIMES)
    found = hashlib.sha256(np.ascontiguousarray(curves).tobytes())
    found.update(driver.bits(model))
    found.update(repr(objective.refreshes_).encode())
    return found.hexdigest()[:16]


def from_disk(*, weighted: bool = False, whole_days: bool = False, **own: Any) -> str:
    turn, early = own.pop("people_per_turn", None), own.pop("held_out", False)
    X, y, weight = people(whole_days=whole_days)
    halves = [slice(0, 130), slice(130, 300)]
    batches = [(X[rows], y[rows], *([weight[rows]] if weighted else [])) for rows in halves]
    model = estimator(**own)
    fit_external(model, batches, people_per_turn=turn, eval_set=(X[:60], y[:60]) if early else None)
    return digest(model, X, TIMES * 10 if whole_days else TIMES)


def dask_cases() -> Iterator[tuple[str, Case]]:
    import dask
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    from survival_objectives.adapters.dask import fit_dask

    def one_worker(weighted: bool = False, checkpoints: bool = False, **own: Any) -> str:
        X, y, weight = people()
        # A category of a Dask frame is known by its dtype alone.
        frame = pd.concat([X, y], axis=1).assign(weight=weight)
        parts = dd.from_pandas(frame, npartitions=3, sort=False)
        with (
            tempfile.TemporaryDirectory() as folder,
            dask.config.set({"distributed.worker.daemon": False}),
            LocalCluster(
                n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            options = {"checkpoint_folder": folder, "checkpoint_every": 10} if checkpoints else {}
            model = fit_dask(
                estimator(**own),
                parts[list(X.columns)],
                parts[["event", "duration"]],
                parts["weight"] if weighted else None,
                client=client,
                **options,
            )
        return digest(model, X)

    yield "dask/hazards", lambda: one_worker(censoring="hazards")
    yield "dask/hazards, weighted", lambda: one_worker(weighted=True, censoring="hazards")
    yield "dask/boosted", lambda: one_worker(censoring="boosted")
    yield "dask/imputed, weighted", lambda: one_worker(weighted=True, censoring="imputed")
    yield "dask/early stopping", lambda: one_worker(early_stopping_rounds=4)
    yield "dask/checkpoints", lambda: one_worker(checkpoints=True)


def hazard_cases(engine: str) -> Iterator[tuple[str, Case]]:
    one: dict[str, Any] = {"engine": engine, "censoring": "hazards", "n_estimators": 30}
    yield f"{engine}/hazards", lambda: in_memory(**one)
    yield f"{engine}/hazards, weighted", lambda: in_memory(**one, weighted=True)
    yield f"{engine}/hazards, whole days", lambda: in_memory(**one, whole_days=True)
    yield f"{engine}/hazards, warm start", lambda: warm_start(engine, "hazards")
    yield f"{engine}/hazards, horizon_max", lambda: in_memory(**one, horizon_max=2.0)
    # Of so few people, a linear part would take all the weight.
    alone = {**one, "linear": False}
    yield f"{engine}/hazards, trees alone", lambda: in_memory(**alone)
    yield f"{engine}/hazards, trees alone, folds", lambda: in_memory(**alone, n_folds=3)


def cases() -> Iterator[tuple[str, Case]]:
    """Names and trainings of all models."""
    for engine in ENGINES:
        for method in METHODS:
            one: dict[str, Any] = {"engine": engine, "censoring": method}
            yield f"{engine}/{method}", lambda one=one: in_memory(**one)
            yield (
                f"{engine}/{method}, weighted",
                lambda one=one: in_memory(**one, weighted=True),
            )
            yield (
                f"{engine}/{method}, whole days",
                lambda one=one: in_memory(**one, whole_days=True),
            )
            yield (
                f"{engine}/{method}, early stopping",
                lambda one=one: in_memory(**one, early_stopping_rounds=4),
            )
            yield f"{engine}/{method}, warm start", lambda one=one: warm_start(**one)
            yield f"{engine}/{method}, eval set", lambda one=one: with_eval_set(**one)
        yield f"{engine}/no censoring", lambda engine=engine: without_censoring(engine)
        yield (
            f"{engine}/horizon_max, 3 horizons",
            lambda engine=engine: in_memory(engine, horizon_max=2.0, n_horizons=3),
        )
        yield (
            f"{engine}/not monotone",
            lambda engine=engine: in_memory(engine, monotone=False, refresh_every=7),
        )
        yield from hazard_cases(engine)
        yield (
            f"{engine}/completion",
            lambda engine=engine: in_memory(engine, completion=Marginal()),
        )
        yield (
            f"{engine}/plugin, completion",
            lambda engine=engine: plugin(engine, refresh=False, completion=Marginal()),
        )
        yield (
            f"{engine}/plugin, doubly robust",
            lambda engine=engine: plugin(engine, refresh=True, doubly_robust=True),
        )
        for refresh in (False, True):
            yield (
                f"{engine}/plugin, refresh={refresh}",
                lambda engine=engine, refresh=refresh: plugin(engine, refresh=refresh),
            )
        yield (
            f"{engine}/plugin, whole days",
            lambda engine=engine: plugin(engine, refresh=True, whole_days=True),
        )
    for method in METHODS:
        yield f"disk/{method}", lambda method=method: from_disk(censoring=method)
        yield (
            f"disk/{method}, turns",
            lambda method=method: from_disk(
                censoring=method, people_per_turn=120, weighted=True, refresh_every=4
            ),
        )
    yield "disk/hazards", lambda: from_disk(censoring="hazards")
    yield "disk/hazards, weighted", lambda: from_disk(censoring="hazards", weighted=True)
    yield "disk/weighted, whole days", lambda: from_disk(weighted=True, whole_days=True)
    yield "disk/early stopping", lambda: from_disk(early_stopping_rounds=3, held_out=True)
    yield from dask_cases()


def machine() -> str:
    """Kind of machine, and the instructions of numpy and BLAS, which decide last digits."""
    chosen = opt_func_info(func_name="^exp$", signature="float64")["exp"]["dd"]["current"]
    blas = {one.get("architecture") for one in threadpool_info() if one["user_api"] == "blas"}
    return " ".join([platform.machine(), chosen, *sorted(map(str, blas))])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="record the digests")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--requirements", action="store_true", help="print the versions recorded")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = json.loads(RECORD.read_text())
    if options.requirements:
        sys.stdout.write(" ".join(f"{name}=={of}" for name, of in known["versions"].items()) + "\n")
        return 0
    here = {"machine": machine(), "versions": {name: version(name) for name in PACKAGES}}
    recorded = {name: known[name] for name in here}
    if not options.write and recorded != here:
        sys.stdout.write(f"Nothing is compared: recorded with {recorded}, not {here}.\n")
        return 2
    found = {name: case() for name, case in cases() if options.only in name}
    if options.write:
        RECORD.write_text(json.dumps({**here, "digests": found}, indent=0) + "\n")
        return 0
    differ = [name for name, value in found.items() if known["digests"].get(name) != value]
    for name in differ:
        sys.stdout.write(f"differs: {name}\n")
    sys.stdout.write(f"{len(found) - len(differ)} of {len(found)} models are the same.\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
