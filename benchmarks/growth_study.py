r"""How the error, the CPU time and the memory of a fit grow with the number of people.

    python -m benchmarks.growth_study run [growth] [steps] [rare] [evaluate] [threads]
    python -m benchmarks.growth_study show          # the picture, and the tables of the page, anew

People of two populations, whose curves are known: "mixed" has 20 correlated columns, of which 3 are
categories (4, 9 and 30 levels), with straight, bent and joint effects; "weak" has 200 columns that
all matter a little, and 40 products of two. Three causes have proportional Weibull hazards

    h_k(t | x) = a_k p_k t^(p_k - 1) exp(f_k(x)),   0 < t <= 1,

and censoring depends on the features that the causes depend on. "growth" fits 10^3 to 3 10^6
people, "steps" 50 000, 51 000 and 100 000 with several seeds, "rare" 10^6 people with a third cause
that happens to one in a thousand, "threads" with one thread and with two, and "evaluate" scores a
model of the command line on 10^6 people. Each is a process of its own, with the peak of its
memory, people included; the record `results/growth_study.jsonl` has a line of each, and those that
it has are not run again. The error is the integrated squared error (56) to the known curves of
2 000 others, times 1000.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr

from benchmarks._results import RESULTS, machine
from survival_objectives import HazardBoost
from survival_objectives.datasets import integrated_squared_error

FloatArray = npt.NDArray[np.float64]
RECORD = RESULTS / "growth_study.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "howto" / "how_large.md"
FIGURE = Path(__file__).parent / "figures" / "growth.svg"
ENGINES = ("xgboost", "lightgbm", "catboost")
#: Numbers of people by population and engine.
SIZES = {
    ("mixed", "xgboost"): (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000),
    ("mixed", "lightgbm"): (1_000, 10_000, 100_000, 1_000_000),
    ("mixed", "catboost"): (1_000, 10_000, 100_000),
    ("weak", "xgboost"): (1_000, 10_000, 100_000),
    ("weak", "lightgbm"): (1_000, 10_000, 100_000),
}
N_SEEDS = 4
STEPS = (50_000, 51_000, 100_000)
TIMES = np.linspace(0.02, 0.9, 45)
PARTS = ("growth", "steps", "rare", "evaluate", "threads")
_N_TEST, _N_PILOT, _CHUNK = 2_000, 20_000, 100_000
_CENSORED = 0.45
_RARE = 0.001
_SHOWN = {"mixed": "20 columns", "weak": "200 columns"}


# -------------------------------------------------------------------------------------- population
@dataclass(frozen=True)
class People:
    """Features, outcomes, and the logarithms of the hazard ratios of each person."""

    X: pd.DataFrame
    y: pd.DataFrame
    risk: FloatArray


class Population:
    """One of the two populations; people of a chunk do not depend on how many there are."""

    def __init__(self, family: str, *, rare: bool = False) -> None:
        shape = np.random.default_rng([7, len(family)])
        self.n_columns, n_products, self.levels = {
            "mixed": (20, 3, (4, 9, 30)),
            "weak": (200, 40, ()),
        }[family]
        columns = range(self.n_columns - len(self.levels))
        self._slopes = shape.normal(size=(3, len(columns)))
        self._pairs = shape.choice(len(columns), (3, n_products, 2))
        self._product = shape.normal(size=(3, n_products))
        self._level = [shape.normal(size=(3, n)) for n in self.levels]
        self._bent = family == "mixed"
        self._power = shape.uniform(0.8, 1.7, 3)
        level = 2.2 * 0.62 ** np.arange(3)
        self._rate, self._scale = level / (0.62 ** np.arange(3)).sum(), 1.0
        self._centre, self._spread = np.zeros((3, 1)), np.ones((3, 1))
        self._leaving = shape.normal(size=3)
        pilot = self._latent(np.random.default_rng(7), _N_PILOT)
        risk = self._risks(pilot)
        self._centre = risk.mean(axis=1, keepdims=True)
        self._spread = risk.std(axis=1, keepdims=True) / 0.9
        risk = self._risks(pilot)
        if rare:
            low, high = 1e-6, 1.0
            for _ in range(40):
                self._rate[2] = middle = np.sqrt(low * high)
                is_over = self.incidence(risk, np.array([1.0]))[:, 3].mean() > _RARE
                low, high = (low, middle) if is_over else (middle, high)
        low, high = 1e-3, 1e3
        for _ in range(40):
            self._scale = middle = float(np.sqrt(low * high))
            censored = (self._outcomes(np.random.default_rng(8), risk)[0] == 0).mean()
            low, high = (middle, high) if censored > _CENSORED else (low, middle)

    def draw(self, n_people: int, seed: int) -> People:
        """New people; those of another seed are others."""
        values = np.empty((n_people, self.n_columns - len(self.levels)), np.float32)
        codes = np.empty((n_people, len(self.levels)), np.int8)
        event, duration = np.empty(n_people, np.int8), np.empty(n_people)
        risk = np.empty((3, n_people if n_people <= _CHUNK else 0))
        for number, first in enumerate(range(0, n_people, _CHUNK)):
            part = slice(first, min(first + _CHUNK, n_people))
            generator = np.random.default_rng([seed, number, self.n_columns])
            latent = self._latent(generator, _CHUNK)
            own = self._risks(latent)
            happened, when = self._outcomes(generator, own)
            n_own = part.stop - first
            values[part] = latent[:n_own, : values.shape[1]]
            codes[part] = self._codes(latent)[:n_own]
            event[part], duration[part] = happened[:n_own], when[:n_own]
            risk[:, part] = own[:, :n_own] if risk.shape[1] else np.empty((3, 0))
        X = pd.DataFrame(values, columns=[f"x{j}" for j in range(values.shape[1])], copy=False)
        for j, n_levels in enumerate(self.levels):
            names = [f"level {level}" for level in range(n_levels)]
            X[f"c{j}"] = pd.Categorical.from_codes(codes[:, j], names)
        return People(X, pd.DataFrame({"event": event, "duration": duration}), risk)

    def incidence(self, risk: FloatArray, times: FloatArray) -> FloatArray:
        """Probabilities of all states, (n_people, 4, n_times)."""
        # Times that differ by rounding alone are one.
        grid = np.unique(np.concatenate([np.linspace(0, 1, 401), times]).round(9))
        base = self._rate[:, None] * grid ** self._power[:, None]
        cumulative = np.exp(risk).T[:, :, None] * base
        steps = np.diff(cumulative, axis=2)
        survival = np.exp(-cumulative.sum(axis=1, keepdims=True))
        shares = steps / steps.sum(axis=1, keepdims=True)
        happened = np.cumsum(-np.diff(survival, axis=2) * shares, axis=2)
        at = np.searchsorted(grid, times.round(9))
        states: FloatArray = np.concatenate([survival[:, :, at], happened[:, :, at - 1]], axis=1)
        return states

    def _latent(self, generator: np.random.Generator, n_people: int) -> FloatArray:
        common = generator.normal(size=(n_people, 1))
        own = generator.normal(size=(n_people, self.n_columns))
        return np.sqrt(0.7) * own + np.sqrt(0.3) * common

    def _codes(self, latent: FloatArray) -> npt.NDArray[np.int64]:
        first = self.n_columns - len(self.levels)
        share = ndtr(latent[:, first:])
        return np.minimum((share * self.levels).astype(np.int64), np.array(self.levels) - 1)

    def _risks(self, latent: FloatArray) -> FloatArray:
        n_numeric = self._slopes.shape[1]
        risk = self._slopes @ latent[:, :n_numeric].T / np.sqrt(n_numeric)
        for cause, pairs in enumerate(self._pairs):
            for weight, (a, b) in zip(self._product[cause], pairs, strict=True):
                risk[cause] += weight * latent[:, a] * latent[:, b] / np.sqrt(len(pairs))
            if self._bent:
                risk[cause] += np.sin(2 * latent[:, cause]) + (latent[:, cause + 3] > 0.5)
                risk[cause] += np.abs(latent[:, cause + 6])
        codes = self._codes(latent)
        for j, level in enumerate(self._level):
            risk += 0.5 * level[:, codes[:, j]]
        found: FloatArray = (risk - self._centre) / self._spread
        return found

    def _outcomes(
        self, generator: np.random.Generator, risk: FloatArray
    ) -> tuple[npt.NDArray[np.int64], FloatArray]:
        latent = generator.exponential(size=risk.shape) / (self._rate[:, None] * np.exp(risk))
        time = latent ** (1 / self._power[:, None])
        leaving = self._scale * generator.weibull(1.3, risk.shape[1])
        leaving = np.minimum(leaving * np.exp(0.5 * self._leaving @ risk), 1.0)
        first = time.min(axis=0)
        is_seen = first <= leaving
        return np.where(is_seen, 1 + time.argmin(axis=0), 0), np.minimum(first, leaving)


# ------------------------------------------------------------------------------------------- costs
class Cost:
    """CPU and wall seconds since it was made, and the peak of the memory of this process."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def spent(self) -> dict[str, float]:
        """What it took so far."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {
            "cpu": round(time.process_time() - self._cpu, 2),
            "wall": round(time.perf_counter() - self._wall, 2),
            "peak_mib": round(peak),
        }


def fit_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """One fit, and its error to the known curves."""
    population = Population(job["family"], rare=job["part"] == "rare")
    people, test = population.draw(job["n"], job["seed"]), population.draw(_N_TEST, 1_000)
    cost = Cost()
    model = HazardBoost(
        job["engine"], random_state=job["seed"], n_jobs=job["threads"], **job["settings"]
    ).fit(people.X, people.y)
    spent = cost.spent()
    truth = population.incidence(test.risk, TIMES)
    curves = model.predict_cumulative_incidence(test.X, TIMES)
    mean = np.broadcast_to(truth.mean(axis=0), truth.shape)
    left = ((curves[:, 3] - truth[:, 3]) ** 2).mean() / ((mean[:, 3] - truth[:, 3]) ** 2).mean()
    return {
        **spent,
        "error": round(1000 * integrated_squared_error(truth, curves, TIMES), 4),
        "best_constant": round(1000 * integrated_squared_error(truth, mean, TIMES), 3),
        "unexplained_cause_3": round(float(left), 4),
        "events": np.bincount(people.y["event"], minlength=4).tolist(),
    }


def evaluate_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """``evaluate`` of the command line: of a model of a tenth of the people, or fewer."""
    population = Population(job["family"])
    with tempfile.TemporaryDirectory() as folder:
        for name, n_people, seed in (("old", job["n"] // 10, 0), ("new", job["n"], 1)):
            people = population.draw(n_people, seed)
            pd.concat([people.X, people.y], axis=1).to_parquet(f"{folder}/{name}.parquet")
        del people
        outcomes = ["--duration", "duration", "--event", "event"]
        steps = {
            "fit": [
                "fit",
                f"{folder}/old.parquet",
                *outcomes,
                "--out",
                f"{folder}/model",
                "--no-report",
            ],
            "evaluate": ["evaluate", f"{folder}/model", f"{folder}/new.parquet"],
        }
        found = {
            name: _in_a_process("command", arguments, job["threads"])
            for name, arguments in steps.items()
        }
    return found["evaluate"]


def predict_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Curves at 100 times, in batches."""
    population = Population(job["family"])
    people = population.draw(job["n"] // 10, 0)
    model = HazardBoost(job["engine"], random_state=0, n_jobs=job["threads"])
    model.fit(people.X, people.y)
    people = population.draw(job["n"], 1)
    cost = Cost()
    for _ in model.predict_batches(people.X, np.linspace(0.01, 1.0, 100), batch_size=_CHUNK):
        pass
    return cost.spent()


def command_job(arguments: Sequence[str]) -> dict[str, Any]:
    """A command of the command line."""
    from survival_objectives.cli import main as run_command

    cost = Cost()
    if run_command([*arguments, "--quiet"]):
        raise SystemExit(1)
    return cost.spent()


JOBS = {"evaluate": evaluate_job, "predict": predict_job}


# ------------------------------------------------------------------------------------------ record
def jobs(parts: Sequence[str]) -> Iterator[dict[str, Any]]:
    """All measurements of some parts."""

    def job(part: str, n_people: int, **changes: Any) -> dict[str, Any]:
        base = {"part": part, "family": "mixed", "engine": "xgboost", "n": n_people, "seed": 0}
        return {**base, "threads": 1, "settings": {}, **changes}

    if "growth" in parts:
        for (family, engine), sizes in SIZES.items():
            for n_people in sizes:
                yield job("growth", n_people, family=family, engine=engine)
    if "steps" in parts:
        for seed in range(N_SEEDS):
            for n_people in STEPS:
                yield job("steps", n_people, seed=seed)
    if "rare" in parts:
        for settings in ({}, {"rows_per_person": 2}):
            yield job("rare", 1_000_000, settings=settings)
    if "evaluate" in parts:
        yield job("evaluate", 1_000_000)
        yield job("predict", 1_000_000)
    if "threads" in parts:
        for n_people in (100_000, 1_000_000):
            yield job("threads", n_people, threads=2)


#: What tells measurements apart.
NAMES = ("part", "family", "engine", "n", "seed", "threads", "settings")


def records(path: Path = RECORD) -> list[dict[str, Any]]:
    """All measurements so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(parts: Sequence[str], path: Path = RECORD) -> None:
    """Add the measurements that are missing, small ones first."""
    known = [[row[name] for name in NAMES] for row in records(path)]
    told = machine()
    for job in sorted(jobs(parts), key=lambda job: job["n"]):
        if [job[name] for name in NAMES] in known:
            continue
        found = _in_a_process("job", job, job["threads"])
        row = {**job, **found, "date": told["date"], "version": told["versions"][job["engine"]]}
        print(json.dumps(row), flush=True)
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def _in_a_process(kind: str, job: Any, threads: int) -> Any:
    """What a process of its own prints last."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth_study", kind, "--job", json.dumps(job)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )
    return json.loads(done.stdout.strip().splitlines()[-1])


# ------------------------------------------------------------------------------------------- shown
def _of(rows: Sequence[dict[str, Any]], **values: Any) -> list[dict[str, Any]]:
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def _lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    table = [header, ["---:"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in table).replace("---:", "---", 1)


def _people(n_people: int) -> str:
    return f"{n_people:,}".replace(",", " ")


def _cost(row: Mapping[str, Any] | None) -> str:
    return "" if row is None else f"{row['cpu']:.1f}, {row['peak_mib']}, {row['error']:.2f}"


def growth_table(rows: Sequence[dict[str, Any]]) -> str:
    """CPU seconds, memory and error by the number of people and engine."""
    shown = []
    for family, name in _SHOWN.items():
        own = _of(rows, part="growth", family=family)
        for n_people in sorted({row["n"] for row in own}):
            by_engine = {row["engine"]: row for row in _of(own, n=n_people)}
            costs = [_cost(by_engine.get(engine)) for engine in ENGINES]
            shown.append([f"{name}, {_people(n_people)}", *costs])
    return _lines(["people", "XGBoost", "LightGBM", "CatBoost"], shown)


def steps_table(rows: Sequence[dict[str, Any]]) -> str:
    """Mean errors around 50 000 people, and as shares of the first."""
    shown, first = [], 0.0
    for n_people in STEPS:
        own = _of(rows, part="steps", n=n_people)
        if not own:
            continue
        error = float(np.mean([row["error"] for row in own]))
        first = first or error
        each = ", ".join(f"{row['error']:.2f}" for row in own)
        cpu = np.mean([row["cpu"] for row in own])
        shown.append(
            [_people(n_people), each, f"{error:.3f}", f"{error / first:.2f}", f"{cpu:.1f}"]
        )
    return _lines(["people", "error by seed", "mean", "share of the first", "CPU s"], shown)


def rare_table(rows: Sequence[dict[str, Any]]) -> str:
    """A rare cause: with people drawn by their outcomes, and with all."""
    shown = [
        [
            "all people, `rows_per_person=2`" if row["settings"] else "default",
            f"{row['unexplained_cause_3']:.2f}",
            f"{row['error']:.2f}",
            f"{row['cpu']:.0f}",
            str(row["peak_mib"]),
        ]
        for row in _of(rows, part="rare")
    ]
    return _lines(["", "unexplained of the rare cause", "error", "CPU s", "MiB"], shown)


def threads_table(rows: Sequence[dict[str, Any]]) -> str:
    """Wall and CPU seconds with one thread and with two."""
    shown = []
    for row in _of(rows, part="threads"):
        (alone,) = _of(
            rows, part="growth", family=row["family"], engine=row["engine"], n=row["n"], seed=0
        )
        pairs = [f"{alone[name]:.1f}, {row[name]:.1f}" for name in ("wall", "cpu")]
        memory = f"{alone['peak_mib']}, {row['peak_mib']}"
        shown.append([f"{row['engine']}, {_people(row['n'])}", *pairs, memory])
    return _lines(["people", "seconds with 1, 2 threads", "CPU s", "MiB"], shown)


def other_table(rows: Sequence[dict[str, Any]]) -> str:
    """What 10^6 people cost without a training."""
    names = {"evaluate": "`survival-objectives evaluate`", "predict": "curves at 100 times"}
    shown = [
        [names[part], f"{row['cpu']:.0f}", str(row["peak_mib"])]
        for part in names
        for row in _of(rows, part=part)
    ]
    return _lines([_people(1_000_000) + " people", "CPU s", "MiB"], shown)


TABLES = {
    "growth": growth_table,
    "steps": steps_table,
    "rare": rare_table,
    "other": other_table,
    "threads": threads_table,
}


def page_text(rows: Sequence[dict[str, Any]]) -> str:
    """The page with the tables of the record between their marks."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        before, rest = text.split(f"<!-- table: {name} -->\n")
        after = rest.split("<!-- end of table -->\n", maxsplit=1)[1]
        text = f"{before}<!-- table: {name} -->\n{table(rows)}\n<!-- end of table -->\n{after}"
    return text


def picture(rows: Sequence[dict[str, Any]], path: Path = FIGURE) -> Path:
    """Error, CPU time and memory against the number of people."""
    from benchmarks._figures import draw_growth

    table = pd.DataFrame(_of(rows, part="growth")).replace({"family": _SHOWN})
    order = [ENGINES.index(engine) for engine in table["engine"]]
    return draw_growth(table.iloc[np.argsort(order, kind="stable")], path)


def main() -> None:
    """Measure, or show what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=("run", "show", "job", "command"))
    parser.add_argument("parts", nargs="*", default=PARTS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.what == "run":
        run(options.parts)
    elif options.what == "show":
        rows = records()
        PAGE.write_text(page_text(rows), encoding="utf-8")
        print(f"Written to {PAGE} and {picture(rows)}.")
    else:
        job = json.loads(options.job)
        kind = command_job if options.what == "command" else JOBS.get(job["part"], fit_job)
        print(json.dumps(kind(job)))


if __name__ == "__main__":
    main()
