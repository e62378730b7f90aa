"""The suites: which contender runs on which data, in which order.

Each suite comes in four sizes. "full" is the one that is reported; "extended" adds the
slowest jobs that add least information; "quick" takes minutes; "smoke" is for the tests. Jobs are
ordered so that an interrupted run has done the most informative part.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks._burk import BURK_TABLES
from benchmarks._contenders import (
    ENGINES,
    HAZARDS,
    HAZARDS_DEFAULT,
    IPCW_PLUGIN,
    OURS,
    PAPER,
    contender,
)
from benchmarks._truths import CHOOSE, CONFIRM, HARD_CASES, N_CAUSES
from survival_objectives import SurvivalBoost

__all__ = ["ABLATIONS", "SIZES", "SUITES", "Job", "Suite", "estimator_defaults", "jobs_of"]

#: Raise that of a kind when its problems or their scoring change, so that its jobs run again.
SCORING = {"simulated": 1, "survival": 2, "competing": 2, "truth": 1, "burk": 1}
SIZES = ("extended", "full", "quick", "smoke")


@dataclass(frozen=True)
class Job:
    """One contender on one problem.

    Attributes
    ----------
    suite, case, contender, seed
        Which one it is; ``variant`` tells settings of one contender apart.
    group : str
        Cases that belong together, for instance the levels of one factor.
    kind : {"simulated", "survival", "competing", "truth", "burk"}
        How the problem is made and scored.
    data : dict
        What it is made from.
    options : dict
        For the contender, on top of its own.
    threads : int
    search : dict or None
        CPU seconds and number of settings of a random search before the fit.
    level : float or None
        Place of the case on the axis of its group.
    """

    suite: str
    case: str
    contender: str
    seed: int
    group: str
    kind: str
    data: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    variant: str = ""
    threads: int = 1
    search: dict[str, Any] | None = None
    level: float | None = None

    @property
    def key(self) -> str:
        name = f"{self.contender} ({self.variant})" if self.variant else self.contender
        return f"{self.suite}/{self.case}/{name}/{self.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "scoring": SCORING[self.kind],
            "kind": self.kind,
            "data": self.data,
            "options": {**contender(self.contender).options, **self.options},
            "threads": self.threads,
            "search": self.search,
        }


@dataclass(frozen=True)
class Suite:
    """A list of jobs by size, and what it is about.

    ``cpu_seconds`` and ``memory_mib`` are the limits of each job.
    """

    name: str
    title: str
    jobs: Callable[[str], Iterable[Job]]
    cpu_seconds: float = 600
    memory_mib: float = 8192


def jobs_of(suite: str, size: str = "full") -> list[Job]:
    """Jobs of a suite, each once."""
    found: dict[str, Job] = {}
    for job in SUITES[suite].jobs(size):
        found.setdefault(job.key, job)
    return list(found.values())


# What makes each contender cheap enough for a rehearsal.
_SMOKE_OPTIONS: dict[str, dict[str, Any]] = {
    **{name: {"n_estimators": 4} for name in (*OURS, "rsf", "gbs", "discrete-time")},
    **{f"floor-{engine}": {"n_estimators": 4} for engine in ENGINES},
    "hazardous": {"n_iter": 2},
}


def _smoke(name: str) -> dict[str, Any]:
    return _SMOKE_OPTIONS.get(name.removesuffix(" tuned"), {})


# --------------------------------------------------------------------------------------- survival
ONE_CAUSE = (
    *OURS,
    "marginal",
    "cox",
    "discrete-time",
    "xgboost-cox",
    "xgboost-aft",
    "xgbse-debiased",
    "xgbse-weibull",
    "rsf",
    "rsf-leaf15",
    "gbs",
    "hazardous",
    "deephit",
    "pchazard",
    "dsm",
    "sumo-net",
)
#: Reported; no default was chosen on them.
SURVIVAL_TABLES = ("METABRIC", "SUPPORT", "GBSG")
TUNED = (
    HAZARDS_DEFAULT,
    "hazardous",
    "rsf-leaf15",
    "gbs",
    "discrete-time",
    "xgboost-cox",
    "xgboost-aft",
)
SEARCH = {"cpu_seconds": 30, "max_settings": 30}


def survival(size: str) -> Iterator[Job]:
    if size == "smoke":
        names = (
            HAZARDS_DEFAULT,
            "marginal",
            "cox",
            "discrete-time",
            "rsf",
            "gbs",
            "hazardous",
            "deephit",
        )
        for name in names:
            yield _survival_job("simulated", name, 0, _smoke(name))
        search = {"cpu_seconds": 60, "max_settings": 2}
        yield _survival_job(
            "simulated", f"{HAZARDS_DEFAULT} tuned", 0, _smoke(HAZARDS_DEFAULT), search
        )
        return
    is_quick = size == "quick"
    tables = SURVIVAL_TABLES[:1] if is_quick else SURVIVAL_TABLES
    for seed in range(2 if is_quick else 5):
        for table in tables:
            for name in ONE_CAUSE:
                yield _survival_job(table, name, seed)
    for seed in range(1 if is_quick else 3):
        for name in TUNED:
            yield _survival_job("METABRIC", f"{name} tuned", seed, search=SEARCH)
    if size == "extended":
        # Some need a minute a fit here.
        search = {"cpu_seconds": 180, "max_settings": 30}
        for seed in range(2):
            for name in TUNED:
                yield _survival_job("SUPPORT", f"{name} tuned", seed, search=search)


def _survival_job(
    table: str,
    name: str,
    seed: int,
    options: dict[str, Any] | None = None,
    search: dict[str, Any] | None = None,
) -> Job:
    return Job(
        suite="survival",
        case=table,
        contender=name,
        seed=seed,
        group=table,
        kind="survival",
        data={"table": table},
        options=options or {},
        search=search,
    )


# -------------------------------------------------------------------------------------- competing
SEVERAL_CAUSES = (*OURS, "marginal", "cox", "discrete-time")
BASE = {"n_samples": 20_000, "n_causes": 3, "n_features": 6, "censoring_rate": 0.5}
FACTORS: dict[str, dict[float, dict[str, Any]]] = {
    "n": {
        1000: {"n_samples": 1000},
        5000: {"n_samples": 5000},
        20_000: {},
        100_000: {"n_samples": 100_000},
        1_000_000: {"n_samples": 1_000_000},
    },
    "censoring": {
        0.1: {"censoring_rate": 0.1},
        0.3: {"censoring_rate": 0.3},
        0.5: {},
        0.7: {"censoring_rate": 0.7},
        0.9: {"censoring_rate": 0.9},
    },
    "causes": {1: {"n_causes": 1}, 2: {"n_causes": 2}, 3: {}, 6: {"n_causes": 6}},
    "features": {
        6: {},
        20: {"n_noise_features": 14},
        200: {"n_noise_features": 194},
    },
}


def competing(size: str) -> Iterator[Job]:
    if size == "smoke":
        small = {"n_samples": 200, "n_test": 50, "n_times": 10}
        for name in (HAZARDS_DEFAULT, "marginal", "cox", "hazardous", "fine-gray"):
            yield _competing_job("base", "base", {**BASE, **small}, name, 0, _smoke(name))
        data = {**BASE, **small, "polar": True}
        yield _competing_job("polar", "polar", data, HAZARDS_DEFAULT, 0, _smoke(HAZARDS_DEFAULT))
        data = {**BASE, **small, "censoring_rate": 0.9}
        yield _competing_job("censoring", 0.9, data, HAZARDS_DEFAULT, 0, _smoke(HAZARDS_DEFAULT))
        return
    is_quick = size == "quick"
    base = {**BASE, "n_samples": 4000} if is_quick else {**BASE}
    seeds = range(2 if is_quick else 3)
    polar = {**base, "polar": True}
    late: list[Job] = []
    for seed in seeds:
        for name in SEVERAL_CAUSES:
            yield _competing_job("base", "base", base, name, seed)
            yield _competing_job("polar", "polar", polar, name, seed)
    for seed in seeds:
        for name in ("fine-gray", "comprisk-forest", "deephit", "hazardous"):
            jobs = [
                _competing_job("base", "base", base, name, seed),
                _competing_job("polar", "polar", polar, name, seed),
            ]
            if name == "deephit" and seed > 0:
                late += jobs
            elif name == "hazardous":
                yield jobs[0]
                late.append(jobs[1])
            else:
                yield from jobs
    for factor, levels in FACTORS.items():
        for level, changes in levels.items():
            if not changes or (is_quick and factor in ("n", "features")):
                continue
            data = {**base, **changes}
            is_small = data["n_samples"] <= 5000
            for seed in range(3 if factor == "n" and is_small else 1):
                jobs = [
                    _competing_job(factor, level, data, name, seed)
                    for name in (*SEVERAL_CAUSES, "hazardous")
                ]
                if data["n_samples"] == 1_000_000:
                    late += jobs
                elif is_quick or is_small:
                    yield from jobs
                else:
                    yield from jobs[:-1]
                    # It takes minutes a level.
                    late += jobs[-1:]
    if size == "extended":
        yield from late


def _competing_job(
    group: str,
    level: float | str,
    data: dict[str, Any],
    name: str,
    seed: int,
    options: dict[str, Any] | None = None,
) -> Job:
    return Job(
        suite="competing",
        case=level if isinstance(level, str) else f"{group} {level:g}",
        contender=name,
        seed=seed,
        group=group,
        kind="simulated",
        data=data,
        options=options or {},
        level=None if isinstance(level, str) else float(level),
    )


# ------------------------------------------------------------------------------------------- real
REAL = (
    *OURS,
    "marginal",
    "cox",
    "discrete-time",
    "fine-gray",
    "comprisk-forest",
    "deephit",
    "dsm",
    "hazardous",
)
REAL_TABLES = (
    "covid",
    "mgus2",
    "transplant",
    "follic",
    "pbc",
    "hd",
    "wihs",
    "ebmt2",
    "colon",
    "ebmt1",
    "ebmt4",
    "flchain",
    "melanoma",
    "prostate_survival",
    "rotterdam",
    "unemployment",
)


def real(size: str) -> Iterator[Job]:
    is_small = size in ("quick", "smoke")
    tables = REAL_TABLES[:1] if is_small else REAL_TABLES
    names = REAL if size != "smoke" else (HAZARDS_DEFAULT, "marginal", "cox")
    for seed in range({"quick": 2, "smoke": 1}.get(size, 5)):
        for table in tables:
            for name in names:
                yield Job(
                    suite="real",
                    case=table,
                    contender=name,
                    seed=seed,
                    group=table,
                    kind="competing",
                    data={"table": table},
                    options=_smoke(name) if size == "smoke" else {},
                )


# ------------------------------------------------------------------------------------------ speed
SCALE = {"n_causes": 2, "n_features": 10, "n_test": 5000, "n_times": 100}
FLOORS = tuple(f"floor-{engine}" for engine in ENGINES)


def speed(size: str) -> Iterator[Job]:
    if size == "smoke":
        data = {**SCALE, "n_samples": 200, "n_test": 20, "n_times": 5}
        for name in (*HAZARDS, PAPER, *FLOORS):
            yield _speed_job("n", 200, data, name, options=_smoke(name))
        yield _speed_job(
            "threads", 2, data, HAZARDS_DEFAULT, threads=2, options=_smoke(HAZARDS_DEFAULT)
        )
        return
    is_quick = size == "quick"
    sizes = (2000, 10_000) if is_quick else (10_000, 100_000)
    middle = {**SCALE, "n_samples": 4000 if is_quick else 20_000}
    for n_samples in sizes:
        data = {**SCALE, "n_samples": n_samples}
        for name in (*HAZARDS, PAPER, *FLOORS, "cox", "discrete-time", "hazardous"):
            yield _speed_job("n", n_samples, data, name)
    for n_rounds in (50, 200, 800):
        for name in (*HAZARDS, PAPER):
            yield _speed_job("rounds", n_rounds, middle, name, options={"n_estimators": n_rounds})
    for n_causes in (1, 2, 5):
        for name in (*HAZARDS, PAPER):
            yield _speed_job("causes", n_causes, {**middle, "n_causes": n_causes}, name)
    for threads in (1, 2):
        for name in (*HAZARDS, PAPER):
            yield _speed_job("threads", threads, middle, name, threads=threads)
    if is_quick:
        return
    for n_samples in (1_000_000, 5_000_000):
        data = {**SCALE, "n_samples": n_samples}
        # A million takes minutes; the other engines are like this one at the smaller sizes.
        for name in (
            (*HAZARDS, PAPER, *FLOORS)
            if size == "extended"
            else (HAZARDS_DEFAULT, PAPER, FLOORS[0])
        ):
            yield _speed_job("n", n_samples, data, name)


def _speed_job(
    group: str,
    level: float,
    data: dict[str, Any],
    name: str,
    *,
    threads: int = 1,
    options: dict[str, Any] | None = None,
) -> Job:
    return Job(
        suite="speed",
        case=f"{group} {level:g}",
        contender=name,
        seed=0,
        group=group,
        kind="simulated",
        data=data,
        options=options or {},
        threads=threads,
        level=float(level),
    )


# -------------------------------------------------------------------------------------- ablations
#: Question -> variants; each differs from the defaults in the parameters named.
ABLATIONS: dict[str, dict[str, dict[str, Any]]] = {
    "refresh": {
        "every 2 rounds": {"refresh_every": 2},
        "every 5 rounds": {"refresh_every": 5},
        "every 10 rounds": {"refresh_every": 10},
        "every 20 rounds": {"refresh_every": 20},
        "every 50 rounds": {"refresh_every": 50},
        "never": {"refresh_every": 100_000},
    },
    "censoring": {
        "boosted": {"censoring": "boosted"},
        "Kaplan-Meier": {"censoring": "kaplan-meier"},
        "imputed": {"censoring": "imputed"},
    },
    "horizons a person": {
        f"{n} horizon{'s' if n > 1 else ''}": {"n_horizons": n} for n in (1, 2, 3, 5, 8, 16)
    },
    "sampler": {
        name: {"horizon_sampler": name} for name in ("uniform", "stratified", "events", "mixture")
    },
    "monotone": {"monotone": {"monotone": True}, "not monotone": {"monotone": False}},
    "smoothing in time": {
        f"window {width:g}": {"time_smoothing": width} for width in (0.0, 0.1, 0.2, 0.4)
    },
    "weight floor": {
        f"floor {floor:g}": {"min_censoring_survival": floor} for floor in (0.001, 0.01, 0.05, 0.2)
    },
}
#: The same for the plugin, whose margins can be free.
PLUGIN_ABLATIONS: dict[str, dict[str, Any]] = {
    "plugin, reference, monotone": {"margins": "reference"},
    "plugin, reference, not monotone": {"margins": "reference", "monotone": False},
    "plugin, free": {"margins": "free"},
    "plugin, reference, no refresh": {"margins": "reference", "refresh": False},
}
SCENARIOS = {
    "half censored": {**BASE, "n_samples": 8000},
    "80 % censored": {**BASE, "n_samples": 8000, "censoring_rate": 0.8},
}


#: What is asked under heavy censoring too.
CENSORING_QUESTIONS = ("refresh", "censoring", "weight floor")


def estimator_defaults() -> dict[str, Any]:
    """Defaults of `SurvivalBoost`, read off its signature."""
    parameters = inspect.signature(SurvivalBoost).parameters
    return {name: parameter.default for name, parameter in parameters.items()}


def ablations(size: str) -> Iterator[Job]:
    """One setting at a time; a variant that is the default is not run twice."""
    n_seeds = {"quick": 1, "smoke": 1}.get(size, 3)
    defaults = estimator_defaults()
    for case, scenario in SCENARIOS.items():
        data = dict(scenario)
        if size == "quick":
            data["n_samples"] = 3000
        elif size == "smoke":
            data |= {"n_samples": 150, "n_test": 30, "n_times": 5}
        for seed in range(n_seeds):
            yield _ablation_job(case, data, seed, PAPER, "defaults", {}, "defaults", size)
            for question, variants in ABLATIONS.items():
                if case != "half censored" and question not in CENSORING_QUESTIONS:
                    continue
                chosen = list(variants.items())[-1:] if size == "smoke" else variants.items()
                for variant, options in chosen:
                    if size != "smoke" and all(
                        defaults.get(name, options) == value for name, value in options.items()
                    ):
                        continue
                    yield _ablation_job(case, data, seed, PAPER, variant, options, question, size)
            for variant, options in PLUGIN_ABLATIONS.items():
                yield _ablation_job(
                    case, data, seed, IPCW_PLUGIN, variant, options, "margins", size
                )
        if size == "smoke":
            return


def _ablation_job(
    case: str,
    data: dict[str, Any],
    seed: int,
    name: str,
    variant: str,
    options: dict[str, Any],
    group: str,
    size: str,
) -> Job:
    return Job(
        suite="ablations",
        case=case,
        contender=name,
        seed=seed,
        group=group,
        kind="simulated",
        data=data,
        options={**options, **(_smoke(name) if size == "smoke" else {})},
        variant=variant,
    )


# ----------------------------------------------------------------------------------------- truths
TRUTH_CONTENDERS = (*OURS, "marginal", "cox", "discrete-time")
#: These take longer; the forest is scikit-survival's with one cause, comprisk's with several.
TRUTH_FORESTS = ("rsf-leaf15", "comprisk-forest")
#: On one case of each half.
TRUTH_NETWORKS = ("dsm", "sumo-net")
NETWORK_CASES = ("1 cause, 47 % by features", "1 cause, 62 % by features")
#: Each seed is another member of its family; those of one half are not those of the other.
TRUTH_SEEDS = {"choose": (0, 1, 2), "confirm": (100, 101, 102), "hard": (200, 201, 202)}


def truths(size: str) -> Iterator[Job]:
    """Families of known truth: defaults were chosen on some, others confirm, others are hard."""
    if size == "smoke":
        small = {"n_samples": 150, "n_test": 30, "n_times": 5}
        for half, cases in (("choose", CHOOSE), ("confirm", CONFIRM), ("hard", HARD_CASES)):
            case, data = next(iter(cases.items()))
            yield _truth_job(half, case, {**data, **small}, "marginal", TRUTH_SEEDS[half][0])
        case, data = next(iter(CHOOSE.items()))
        name = HAZARDS_DEFAULT
        yield _truth_job("choose", case, {**data, **small}, name, 0, _smoke(name))
        return
    is_quick = size == "quick"
    halves = (("choose", CHOOSE), ("confirm", CONFIRM), ("hard", HARD_CASES))
    for number in range(1 if is_quick else 3):
        for half, cases in halves:
            seed = TRUTH_SEEDS[half][number]
            for case, data in cases.items():
                if is_quick:
                    names: tuple[str, ...] = (HAZARDS_DEFAULT, "marginal", "cox", "discrete-time")
                else:
                    names = (*TRUTH_CONTENDERS, TRUTH_FORESTS[N_CAUSES[str(data["family"])] > 1])
                for name in names:
                    yield _truth_job(half, case, data, name, seed)
    if is_quick:
        return
    for number in range(3 if size == "extended" else 1):
        for half, cases in halves:
            for case, data in cases.items():
                yield _truth_job(half, case, data, "hazardous", TRUTH_SEEDS[half][number])
                for name in TRUTH_NETWORKS if case in NETWORK_CASES else ():
                    yield _truth_job(half, case, data, name, TRUTH_SEEDS[half][number])


def _truth_job(
    half: str,
    case: str,
    data: dict[str, Any],
    name: str,
    seed: int,
    options: dict[str, Any] | None = None,
) -> Job:
    return Job(
        suite="truths",
        case=case,
        contender=name,
        seed=seed,
        group=half,
        kind="truth",
        data=dict(data),
        options=options or {},
    )


# ------------------------------------------------------------------------------------------- burk
BURK_CONTENDERS = (*OURS, "marginal", "cox", "discrete-time")


def burk(size: str) -> Iterator[Job]:
    """Tables of Burk et al. (2024) on the authors' outer folds."""
    if size == "smoke":
        for name in ("marginal", HAZARDS_DEFAULT):
            yield _burk_job("simulated", name, 1, _smoke(name))
        return
    n_folds = {"quick": 1, "extended": 5}.get(size, 3)
    for fold in range(1, n_folds + 1):
        for table in BURK_TABLES:
            for name in (HAZARDS_DEFAULT, "marginal") if size == "quick" else BURK_CONTENDERS:
                yield _burk_job(table, name, fold)


def _burk_job(table: str, name: str, fold: int, options: dict[str, Any] | None = None) -> Job:
    return Job(
        suite="burk",
        case=table,
        contender=name,
        seed=fold,
        group=table,
        kind="burk",
        data={"table": table},
        options=options or {},
    )


# ---------------------------------------------------------------------------------------- survset
#: One cause, 400 to 6000 people; none of those of Burk et al. or of the suite `survival`.
SURVSET_TABLES = (
    "Aids2",
    "Framingham",
    "LeukSurv",
    "TRACE",
    "UnempDur",
    "actg",
    "colon",
    "cost",
    "dataDIVAT2",
    "dataOvarian1",
    "divorce",
    "prostate",
    "scania",
    "smarto",
    "vlbw",
    "zinc",
)
SURVSET_CONTENDERS = (*OURS, "marginal", "cox", "discrete-time", "rsf-leaf15")


def survset(size: str) -> Iterator[Job]:
    """Tables of SurvSet, splits of 70 % to 30 %."""
    is_small = size in ("quick", "smoke")
    names = SURVSET_CONTENDERS if not is_small else (HAZARDS_DEFAULT, "marginal", "cox")
    tables = {"quick": SURVSET_TABLES[:4], "smoke": ("simulated",)}.get(size, SURVSET_TABLES)
    for seed in range({"quick": 1, "smoke": 1, "extended": 5}.get(size, 3)):
        for table in tables:
            for name in names:
                yield Job(
                    suite="survset",
                    case=table,
                    contender=name,
                    seed=seed,
                    group=table,
                    kind="survival",
                    data={"table": f"survset/{table}" if size != "smoke" else table},
                    options=_smoke(name) if size == "smoke" else {},
                )


SUITES = {
    suite.name: suite
    for suite in (
        Suite("survival", "Survival: METABRIC, SUPPORT and GBSG", survival),
        Suite("competing", "Competing risks with known truth", competing),
        Suite("real", "Competing risks, real data", real),
        Suite("speed", "Time and memory", speed, memory_mib=14_336),
        Suite("truths", "Truths of several families", truths),
        Suite("burk", "The neutral benchmark of Burk et al.", burk),
        Suite("survset", "Survival: tables of SurvSet", survset),
        Suite("ablations", "What each part is worth", ablations),
    )
}
