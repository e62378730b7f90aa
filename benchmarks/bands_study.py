"""How much of known curves the bands of predictions cover, and what other ways would cover.

    python -m benchmarks.bands_study bands [--engine xgboost] [--n 1000] [--seeds 3]
    python -m benchmarks.bands_study ways [--refits 6]
    python -m benchmarks.bands_study show

"bands" trains a HazardBoost with its defaults on n people of every family of `_truths.py` and asks
for bands (``confidence=``) of the curves, the median time and the restricted mean time of 400 new
people, and of their average curve (`standardized_incidence`). "ways" compares standard deviations
from which a band can be made, for n = 1 000 and one population per family, all on the scale of the
log-odds:

- folds: between the models without each fold, as a group jackknife;
- half-samples: between models of halves of the people;
- bootstrap: the root mean square error of models of outcomes that were drawn from the fitted model,
  so that shrinkage counts; and from the model without one fold, a rougher truth;
- second level: folds, times the factor that covers 90 % of the curves that outcomes were drawn
  from;
- folds + 20/E: with the term for effects that no model found, as shipped.

Each is multiplied by the constant that covers 90 % on the first half of the families; the other
half confirms. Results are kept in `benchmarks/results/bands_study.json`; "show" prints the tables
of the documentation.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from benchmarks._truths import Sample, Truth, draw_truth
from survival_objectives import HazardBoost
from survival_objectives._hazards.model import HazardMixture
from survival_objectives.uncertainty import standardized_incidence

FloatArray = npt.NDArray[np.float64]
#: Curves that outcomes were drawn from, those of a model of them, and errors over the jackknife's
#: standard deviation, for people who were not drawn.
Refit = tuple[FloatArray, FloatArray, FloatArray]
RECORD = Path(__file__).parent / "results" / "bands_study.json"
#: Share of the people who are censored, by family; the first six served to choose.
CASES = {
    "hazards, 1 cause": 0.47,
    "hazards, 3 causes": 0.30,
    "hazards, linear": 0.40,
    "additive hazards": 0.50,
    "crossing curves": 0.40,
    "months": 0.45,
    "hazards, 2 causes": 0.40,
    "six causes": 0.35,
    "incidences": 0.30,
    "cured": 0.60,
    "odds": 0.40,
}
CHOOSE = tuple(CASES)[:6]
ENGINES = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "catboost": "CatBoost"}
TIMES = np.array([0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
_GRID = np.linspace(0, 1, 201)[1:]
_HORIZON = 0.8
_N_NEW = 400
_Z = 1.645
_CONSTANTS = np.geomspace(0.5, 6, 36)


def outcomes(sample: Sample, truth: Truth) -> tuple[Any, FloatArray]:
    duration = np.maximum(sample.duration, 1e-6)
    if truth.time_unit:
        duration = np.ceil(duration / truth.time_unit - 1e-9) * truth.time_unit
    return sample.event, duration


def people(family: str, seed: int, n: int) -> tuple[Truth, Sample, Sample]:
    truth, generator = draw_truth(family, seed, censored=CASES[family], by_features=True)
    return truth, truth.draw(n, generator), truth.draw(_N_NEW, generator)


def fitted(X: FloatArray, y: Any, seed: int = 0, engine: str = "xgboost", **given: Any) -> Any:
    return HazardBoost(engine, random_state=seed, n_jobs=1, **given).fit(X, y)


# ---------------------------------------------------------------------------- the bands as they are
def covered(band: Any, truth: FloatArray) -> npt.NDArray[np.bool_]:
    near: npt.NDArray[np.bool_] = (band.lower <= truth + 1e-9) & (truth <= band.upper + 1e-9)
    return near


def bands(family: str, seed: int, n: int, engine: str) -> dict[str, Any]:
    """What the bands of one model cover, and how wide they are."""
    truth, train, new = people(family, seed, n)
    started = time.process_time()
    model = fitted(train.X, outcomes(train, truth), engine=engine)
    seconds = time.process_time() - started
    true = truth.incidence(new.X, TIMES)
    found: dict[str, Any] = {"family": family, "seed": seed, "n": n, "engine": engine}
    for confidence in (0.8, 0.9, 0.95):
        band = model.predict_cumulative_incidence(new.X, TIMES, confidence=confidence)
        found[f"{confidence:g}"] = float(covered(band, true).mean())
        if confidence == 0.9:
            inside = covered(band, true)
            found["width"] = float((band.upper - band.lower).mean())
            found["by_state"] = inside.mean(axis=(0, 2)).tolist()
            found["by_time"] = inside.mean(axis=(0, 1)).tolist()
    grid = np.append(0, _GRID)
    survival, early = truth.incidence(new.X, grid)[:, 0], grid <= _HORIZON
    mean = np.trapezoid(survival[:, early], grid[early], axis=1)
    band = model.predict_restricted_mean_time(new.X, _HORIZON, confidence=0.9)
    found["mean"], found["mean_width"] = (
        float(covered(band, mean).mean()),
        float((band.upper - band.lower).mean()),
    )
    reached = survival <= 0.5
    # A step of the grid and, in whole months, a unit more.
    slack = 1 / 200 + truth.time_unit
    median = np.where(reached.any(axis=1), grid[reached.argmax(axis=1)], np.inf)
    band = model.predict_quantile(new.X, confidence=0.9)
    found["median"] = float(
        (
            (band.lower <= median + slack) & ((median - slack <= band.upper) | (band.upper > 1))
        ).mean()
    )
    return {**found, **average(truth, model, new), "seconds": seconds}


def average(truth: Truth, model: Any, new: Sample) -> dict[str, float]:
    """What bands of the average curve cover, and of a difference of two settings of a feature."""
    group = truth.draw(4000, np.random.default_rng(0)).X
    one, other = group.copy(), group.copy()
    one[:, 3], other[:, 3] = 0, 1
    known = [1 - truth.incidence(X, TIMES)[:, 0].mean(axis=0) for X in (group, one, other)]
    whole = standardized_incidence(model, new.X, TIMES).curves[None]
    difference = standardized_incidence(model, new.X, TIMES, 3, (0, 1)).differences[1]
    return {
        "average": float(covered(whole, known[0]).mean()),
        "average_width": float(np.mean(whole.upper - whole.lower)),
        "difference": float(covered(difference, known[2] - known[1]).mean()),
        "difference_width": float(np.mean(difference.upper - difference.lower)),
    }


# --------------------------------------------------------------------------------------- other ways
def log_odds(curves: FloatArray, n: int) -> FloatArray:
    found: FloatArray = np.log((curves + 3 / n) / (1 - curves + 3 / n))
    return found


def by_model(model: Any, X: FloatArray, times: FloatArray) -> FloatArray:
    """Curves of the models without each fold, (L, n_samples, K + 1, n_times)."""
    fitted_model = model.fitted_model
    assert isinstance(fitted_model, HazardMixture)
    return fitted_model.curves_by_model(X.astype(np.float32), times)


def jackknife(curves: FloatArray, n: int) -> FloatArray:
    """Standard deviation of five folds, in one or several draws."""
    own = log_odds(curves, n).reshape(-1, 5, *curves.shape[1:])
    deviation: FloatArray = np.sqrt(4 * own.var(axis=1).mean(axis=0))
    return deviation


def censoring_curve(event: Any, duration: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Kaplan-Meier of being censored before the end of the study."""
    order = np.argsort(duration)
    time, at_risk = duration[order], len(order) - np.arange(len(order))
    left = (event[order] == 0) & (time < 1)
    # Strictly falling, so that it can be inverted.
    falling = np.linspace(1 - 1e-9, 1 - 1e-7, len(order))
    return np.append(0, time), np.append(1, np.cumprod(1 - left / at_risk)) * np.append(1, falling)


def redrawn(
    world: FloatArray,
    event: Any,
    duration: FloatArray,
    curve: tuple[FloatArray, FloatArray],
    generator: np.random.Generator,
) -> tuple[Any, FloatArray]:
    """Outcomes from incidences (n, K, n_grid); people with events are censored as others are."""
    person, last = np.arange(len(world)), world.shape[2] - 1
    total = np.maximum.accumulate(world.sum(axis=1), axis=1)
    drawn = generator.random(len(world))
    step = (total < drawn[:, None]).sum(axis=1)
    at, happens = np.minimum(step, last), step <= last
    before = np.where(at > 0, total[person, at - 1], 0)
    start = np.where(at > 0, _GRID[at - 1], 0.0)
    inside = (drawn - before) / np.maximum(total[person, at] - before, 1e-12)
    time = np.where(happens, start + (_GRID[at] - start) * np.clip(inside, 0, 1), np.inf)
    earlier = np.where(at[:, None] > 0, world[person, :, np.maximum(at - 1, 0)], 0)
    shares = np.cumsum(np.maximum(world[person, :, at] - earlier, 0), axis=1)
    pick = generator.random(len(world))[:, None] * shares[:, -1:]
    cause = 1 + np.minimum((pick > shares).sum(axis=1), world.shape[1] - 1)
    times, uncensored = curve
    reached = generator.random(len(world)) * np.where(
        event > 0, np.interp(duration, times, uncensored), 1
    )
    later = np.interp(-reached, -uncensored, times, right=1.0)
    later = np.where(reached < uncensored[-1], 1.0, later)
    end = np.where(event > 0, later, duration)
    return np.where(time <= end, cause, 0), np.minimum(np.minimum(time, end), 1.0)


def ways(family: str, seed: int, n: int, n_refits: int) -> dict[str, Any]:
    """What bands by each way cover, and how wide they are, by the constant."""
    truth, train, new = people(family, seed, n)
    event, duration = outcomes(train, truth)
    model = fitted(train.X, (event, duration))
    estimate = model.predict_cumulative_incidence(new.X, TIMES)
    parts = by_model(model, new.X, TIMES)
    worlds = {
        "bootstrap": model.predict_cumulative_incidence(train.X, _GRID)[:, 1:],
        "bootstrap, rough": by_model(model, train.X, _GRID)[:, :, 1:],
    }
    curve, generator = censoring_curve(event, duration), np.random.default_rng(seed)
    halves = []
    for number in range(n_refits):
        half = generator.permutation(n)[: n // 2]
        own = fitted(train.X[half], (event[half], duration[half]), number, n_repeats=1)
        halves.append(own.predict_cumulative_incidence(new.X, TIMES))
    refits: dict[str, list[Refit]] = {name: [] for name in worlds}
    for name, world in worlds.items():
        for number in range(n_refits):
            rough, rows = generator.integers(len(parts)), generator.integers(0, n, n)
            known = estimate if name == "bootstrap" else parts[rough]
            own_world = world if name == "bootstrap" else world[rough]
            y = redrawn(own_world[rows], event[rows], duration[rows], curve, generator)
            y = outcomes(Sample(train.X, *y), truth)
            own = fitted(train.X[rows], y, number, n_repeats=1)
            again = own.predict_cumulative_incidence(new.X, TIMES)
            others = np.setdiff1d(np.arange(n), rows)[:200]
            drawn_from = own_world[others][:, :, np.searchsorted(_GRID, TIMES - 1e-9)]
            drawn_from = np.insert(drawn_from, 0, 1 - drawn_from.sum(axis=1), axis=1)
            error = log_odds(own.predict_cumulative_incidence(train.X[others], TIMES), n)
            error -= log_odds(drawn_from, n)
            ratio = np.abs(error) / jackknife(by_model(own, train.X[others], TIMES), n)
            refits[name].append((known, again, ratio))
    events = np.bincount(train.event, minlength=estimate.shape[1])
    known = truth.incidence(new.X, TIMES)
    return {"family": family, "ways": compared(estimate, known, parts, halves, refits, events)}


def compared(
    estimate: FloatArray,
    known: FloatArray,
    parts: FloatArray,
    halves: list[FloatArray],
    refits: dict[str, list[Refit]],
    events: npt.NDArray[np.int64],
) -> dict[str, Any]:
    n = int(events.sum())
    scale = {
        "folds": jackknife(parts, n),
        "half-samples": np.std([log_odds(one, n) for one in halves], axis=0, ddof=1),
    }
    for name, some in refits.items():
        errors = [log_odds(again, n) - log_odds(drawn_from, n) for drawn_from, again, _ in some]
        scale[name] = np.sqrt(np.mean(np.square(errors), axis=0))
        factor = np.quantile(np.concatenate([ratio.ravel() for *_, ratio in some]), 0.9)
        scale["second level" + name[9:]] = scale["folds"] * factor / _Z
    count = np.append(events[1:].sum(), events[1:])
    scale["folds + 20/E"] = np.sqrt(scale["folds"] ** 2 + (20 / count)[:, None])
    error = np.abs(log_odds(estimate, n) - log_odds(known, n))
    odds, found = log_odds(estimate, n), {}
    for name, one in scale.items():
        widths = [c * _Z * one for c in _CONSTANTS]
        inside = [np.mean(error <= width) for width in widths]
        wide = [np.mean(expit(odds + width) - expit(odds - width)) for width in widths]
        found[name] = {"covered": np.round(inside, 4).tolist(), "width": np.round(wide, 4).tolist()}
    return found


# ------------------------------------------------------------------------------------------ records
def coverage_table() -> str:
    """What 90 % bands cover, and their width: by truth, engine and number of people."""
    groups = _groups(_kept()["bands"])
    head = ["truth", *(_people(*group) for group in groups)]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for family in CASES:
        cells = [family + ("" if family in CHOOSE else " (confirms)")]
        for rows in groups.values():
            some = [one for one in rows if one["family"] == family]
            cells.append(f"{_mean(some, '0.9'):.0%} ({_mean(some, 'width'):.2f})" if some else "–")
        lines.append(_line(cells))
    lines.append(_line(["populations each", *(str(len(v) // len(CASES)) for v in groups.values())]))
    return "\n".join(lines)


def summary_table() -> str:
    """What bands cover on average over all truths, and what else is covered."""
    columns = {
        "0.8": "curves, 80 %", "0.9": "90 %", "0.95": "95 %", "mean": "restricted mean, 90 %",
        "median": "median time, 90 %", "average": "average curve, 90 %",
        "difference": "difference of averages, 90 %",
    }  # fmt: skip
    lines = [f"| engine, people | {' | '.join(columns.values())} |", "|" + "---|" * 8]
    for group, rows in _groups(_kept()["bands"]).items():
        cells = (f"{_mean(rows, name):.0%}" for name in columns)
        lines.append(_line([_people(*group), *cells]))
    return "\n".join(lines)


def outside() -> tuple[list[str], list[str]]:
    """Truths of which 90 % bands cover less than 85 % or more than 95 %, on average."""
    means = {
        family: _mean([one for one in _kept()["bands"] if one["family"] == family], "0.9")
        for family in CASES
    }
    low = [family for family, mean in means.items() if mean < 0.85]
    return low, [family for family, mean in means.items() if mean > 0.95]


def ways_table() -> str:
    """What bands made in other ways cover, as they are and times a constant."""
    found = _kept()["ways"]
    head = ("way", "as it is: mean, least", "constant", "chosen: least to most", "others: mean")
    head = (*head, "least to most", "width")
    lines = [_line(head), "|" + "---|" * len(head)]
    for name in found[0]["ways"]:
        chosen, others, widths, nominal = [], [], [], []
        for one in found:
            own = one["ways"][name]
            (chosen if one["family"] in CHOOSE else others).append(own["covered"])
            widths.append(own["width"])
            nominal.append(np.interp(1, _CONSTANTS, own["covered"]))
        mean = np.mean(chosen, axis=0)
        at = int(np.argmax(mean >= 0.9)) if (mean >= 0.9).any() else len(_CONSTANTS) - 1
        a, b = np.array(chosen)[:, at], np.array(others)[:, at]
        cells = (
            name,
            f"{np.mean(nominal):.0%}, {min(nominal):.0%}",
            f"{_CONSTANTS[at]:.2f}",
            f"{a.min():.0%} to {a.max():.0%}",
            f"{b.mean():.0%}",
            f"{b.min():.0%} to {b.max():.0%}",
            f"{np.array(widths)[:, at].mean():.2f}",
        )
        lines.append(_line(cells))
    return "\n".join(lines)


def _groups(rows: list[dict[str, Any]]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Populations by engine and number of people."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for one in sorted(rows, key=lambda row: (row["n"], tuple(ENGINES).index(row["engine"]))):
        found.setdefault((one["engine"], one["n"]), []).append(one)
    return found


def _people(engine: str, n: int) -> str:
    return f"{ENGINES[engine]}, {n // 1000} {n % 1000:03d}"


def _mean(rows: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([one[name] for one in rows]))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("%", " %").replace("  %", " %")


def _kept() -> dict[str, Any]:
    if RECORD.exists():
        found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
        return found
    return {"bands": [], "ways": []}


def _keep(part: str, one: dict[str, Any]) -> None:
    """Replace what is known of the same case."""
    record = _kept()
    facts = ("family", "seed", "n", "engine")
    key = [one.get(fact) for fact in facts]
    record[part] = [known for known in record[part] if [known.get(f) for f in facts] != key]
    short = json.loads(json.dumps(one), parse_float=lambda text: round(float(text), 4))
    record[part].append(short)
    parts = [",\n".join(map(json.dumps, record[name])) for name in ("bands", "ways")]
    text = f'{{"bands": [\n{parts[0]}\n],\n"ways": [\n{parts[1]}\n]}}\n'
    RECORD.write_text(text, encoding="utf-8")
    print(part, *key, {name: one.get(name) for name in ("0.9", "width", "seconds")}, flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("bands", "ways", "show"))
    parser.add_argument("--engine", default="xgboost")
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--families", type=int, default=len(CASES))
    parser.add_argument("--refits", type=int, default=6)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    for family in tuple(CASES)[:: max(1, len(CASES) // given.families)]:
        if given.part == "ways":
            _keep("ways", ways(family, 0, given.n, given.refits))
        for seed in range(given.seeds) if given.part == "bands" else ():
            _keep("bands", bands(family, seed, given.n, given.engine))
    if given.part == "show":
        print(coverage_table(), summary_table(), ways_table(), outside(), sep="\n\n")


if __name__ == "__main__":
    main()
