r"""Simulated populations of several families whose incidences are known.

Each seed draws another member of its family: other coefficients, other features that matter. The
incidences F_k(t|x) are known on a fine grid of times and linear in between, and event times are
drawn by inverting their sum, so that the known curves are exact. Everybody's follow-up ends at the
last time of the grid; censoring before it is independent of the features, or depends on those that
the events depend on, and its scale is chosen such that the wanted share is censored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = [
    "CHOOSE",
    "CONFIRM",
    "FAMILIES",
    "HARD",
    "HARD_CASES",
    "N_CAUSES",
    "Sample",
    "Truth",
    "draw_truth",
]

FloatArray = npt.NDArray[np.float64]
Effect = Callable[[FloatArray], FloatArray]

_N_STEPS = 400
# Each family's curves run on [0, 1], an arbitrary unit of time.
_GRID = np.linspace(0.0, 1.0, _N_STEPS + 1)


@dataclass(frozen=True)
class Sample:
    """People drawn from a truth; ``event`` is 0 for the censored."""

    X: FloatArray
    event: npt.NDArray[np.int64]
    duration: FloatArray


@dataclass(frozen=True)
class Truth:
    """A population whose incidences are known.

    Attributes
    ----------
    n_features, n_causes : int
    on_grid : callable
        Incidences (n_samples, K, number of grid times) of features.
    censoring_effect : callable or None
        Log of the scale of censoring times by features; None where it is independent.
    censoring_scale : float
        ``inf`` where nobody is censored before the end of the study.
    time_unit : float
        Durations are rounded up to multiples of it; 0 for continuous times.
    """

    n_features: int
    n_causes: int
    on_grid: Callable[[FloatArray], FloatArray]
    censoring_effect: Effect | None
    censoring_scale: float
    time_unit: float = 0.0

    def incidence(self, X: FloatArray, times: FloatArray) -> FloatArray:
        """Probabilities of all states at the times, (n_samples, K + 1, n_times)."""
        curves = _all_states(self.on_grid(X))
        if self.time_unit:
            times = np.floor(times / self.time_unit + 1e-9) * self.time_unit
        position = np.clip(times, 0, 1) * _N_STEPS
        left = np.minimum(position.astype(np.int64), _N_STEPS - 1)
        share = position - left
        return curves[:, :, left] * (1 - share) + curves[:, :, left + 1] * share

    def draw(self, n_samples: int, generator: np.random.Generator) -> Sample:
        """New people of this population."""
        X = _features(generator, n_samples, self.n_features)
        cause, time = _outcomes(self.on_grid(X), generator)
        event, duration = _observed(
            cause, time, self.unscaled_censoring(X, generator) * self.censoring_scale
        )
        if self.time_unit:
            duration = np.ceil(duration / self.time_unit - 1e-9) * self.time_unit
        return Sample(X, event, duration)

    def unscaled_censoring(self, X: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Censoring times of people before they are multiplied by the scale."""
        time = generator.weibull(1.3, len(X))
        if self.censoring_effect is not None:
            time *= np.exp(self.censoring_effect(X))
        return time


def draw_truth(
    family: str, seed: int, *, censored: float, by_features: bool, n_features: int = 8
) -> tuple[Truth, np.random.Generator]:
    """One member of a family, and the stream that its people are to be drawn from.

    Parameters
    ----------
    family : str
        One of `FAMILIES` or `HARD`.
    seed : int
    censored : float
        Share of people who are censored, those event-free at the end of the study among them.
    by_features : bool
        Whether censoring depends on features that events depend on.
    n_features : int, default=8
        All but the first eight are noise.
    """
    known = {**FAMILIES, **HARD}
    if family not in known:
        msg = f"No family of truths is called {family!r}. Choose from: {', '.join(known)}."
        raise ValueError(msg)
    shape, pilot, people = (
        np.random.default_rng([seed, number, sum(family.encode())]) for number in range(3)
    )
    n_causes, on_grid = known[family](shape)
    # Those at high risk leave early or stay long, whichever the seed says.
    effect = _mixed(shape, 0.7, linear_share=0.5) if by_features else None
    unit = 1 / 24 if family == "months" else 0.0
    truth = Truth(n_features, n_causes, on_grid, effect, np.inf, unit)
    X = _features(pilot, 4000, n_features)
    cause, time = _outcomes(on_grid(X), pilot)
    leaving = truth.unscaled_censoring(X, pilot)

    def share(scale: float) -> float:
        return float(np.mean(_observed(cause, time, leaving * scale)[0] == 0))

    low, high = -6.0, 6.0
    if share(np.exp(high)) >= censored:
        return truth, people
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if share(np.exp(middle)) > censored else (low, middle)
    return Truth(n_features, n_causes, on_grid, effect, float(np.exp(high)), unit), people


def _all_states(incidence: FloatArray) -> FloatArray:
    return np.concatenate([1 - incidence.sum(axis=1, keepdims=True), incidence], axis=1)


def _features(generator: np.random.Generator, n_samples: int, n_features: int) -> FloatArray:
    """Correlated normal features; every fourth is a yes or no, the one before it is uniform."""
    common = generator.normal(size=(n_samples, 1))
    X = np.sqrt(0.8) * generator.normal(size=(n_samples, n_features)) + np.sqrt(0.2) * common
    X[:, 3::4] = X[:, 3::4] > 0.3
    X[:, 2::4] = np.sqrt(12) * (generator.random((n_samples, len(X[0, 2::4]))) - 0.5)
    return X


def _outcomes(
    on_grid: FloatArray, generator: np.random.Generator
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Causes and times of people with these incidences; cause 0 at time 1 for the event-free."""
    n_samples, n_causes, _ = on_grid.shape
    total = on_grid.sum(axis=1)
    drawn = generator.random(n_samples)
    step = np.array([np.searchsorted(row, u) for row, u in zip(total, drawn, strict=True)])
    happens = step <= _N_STEPS
    step = np.clip(step, 1, _N_STEPS)
    person = np.arange(n_samples)
    before, after = total[person, step - 1], total[person, step]
    inside = (drawn - before) / np.maximum(after - before, 1e-12)
    time = (step - 1 + np.clip(inside, 0, 1)) / _N_STEPS
    increments = on_grid[person, :, step] - on_grid[person, :, step - 1]
    shares = np.cumsum(increments, axis=1)
    pick = generator.random(n_samples) * shares[:, -1]
    cause = 1 + np.minimum((pick[:, None] > shares).sum(axis=1), n_causes - 1)
    return np.where(happens, cause, 0), np.where(happens, time, 1.0)


def _observed(
    cause: npt.NDArray[np.int64], time: FloatArray, censoring: FloatArray
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    seen = (cause > 0) & (time <= censoring)
    return np.where(seen, cause, 0), np.minimum(time, censoring)


# ----------------------------------------------------------------------------------------- effects
def _scaled(effect: Effect, spread: float) -> Effect:
    """An effect with mean 0 and this standard deviation over people."""
    values = effect(_features(np.random.default_rng(0), 4000, 8))
    mean, factor = values.mean(), spread / values.std()
    return lambda X: factor * (effect(X) - mean)


def _linear(generator: np.random.Generator, spread: float) -> Effect:
    slopes = generator.normal(size=8) * (generator.random(8) < 0.75)
    slopes[generator.integers(8)] += 1.0
    return _scaled(lambda X: X[:, :8] @ slopes, spread)


def _curved(generator: np.random.Generator, spread: float) -> Effect:
    """Waves, thresholds, distances and products of two features."""
    a, b, c, d, e = generator.choice([0, 1, 2, 4, 5, 6], 5, replace=False)
    weight = generator.normal(size=5) + np.array([1, -1, 1, -1, 1])

    def effect(X: FloatArray) -> FloatArray:
        return (
            weight[0] * np.sin(2 * X[:, a])
            + weight[1] * (X[:, b] > 0.5)
            + weight[2] * np.abs(X[:, c])
            + weight[3] * X[:, d] * (2 * X[:, 3] - 1)
            + weight[4] * X[:, d] * X[:, e] / 2
        )

    return _scaled(effect, spread)


def _mixed(generator: np.random.Generator, spread: float, linear_share: float = 0.4) -> Effect:
    straight, bent = _linear(generator, 1.0), _curved(generator, 1.0)
    return _scaled(
        lambda X: np.sqrt(linear_share) * straight(X) + np.sqrt(1 - linear_share) * bent(X), spread
    )


# ---------------------------------------------------------------------------------------- families
Family = Callable[[np.random.Generator], tuple[int, Callable[[FloatArray], FloatArray]]]


def _from_hazards(cumulative: FloatArray) -> FloatArray:
    """Incidences from cumulative cause-specific hazards on the grid, (n_samples, K, n_grid)."""
    steps = np.diff(cumulative, axis=2)
    total = steps.sum(axis=1, keepdims=True)
    survival = np.exp(-cumulative.sum(axis=1, keepdims=True))[:, :, :-1]
    leaving = survival * -np.expm1(-total)
    incidence = np.zeros_like(cumulative)
    shares = np.divide(steps, total, out=np.zeros_like(steps), where=total > 0)
    np.cumsum(leaving * shares, axis=2, out=incidence[:, :, 1:])
    return incidence


def _hazards(n_causes: int, spread: float, make: Callable[..., Effect], level: float) -> Family:
    """Proportional cause-specific Weibull hazards; ``level`` is their mean sum at the end."""

    def draw(generator: np.random.Generator) -> tuple[int, Callable[[FloatArray], FloatArray]]:
        effects = [make(generator, spread) for _ in range(n_causes)]
        powers = generator.uniform(0.8, 1.7, n_causes)
        # Later causes are rarer.
        shares = 0.62 ** np.arange(n_causes)
        levels = level * shares / shares.sum()

        def on_grid(X: FloatArray) -> FloatArray:
            risk = np.exp(np.stack([effect(X) for effect in effects], axis=1))
            base = levels[:, None] * _GRID ** powers[:, None]
            return _from_hazards(risk[:, :, None] * base)

        return n_causes, on_grid

    return draw


def _additive(generator: np.random.Generator) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    """Additive hazards of two causes whose effects change in time differently."""
    slopes = generator.uniform(0, 0.9, (2, 6)) * (generator.random((2, 6)) < 0.6)
    slopes[0, 0] = slopes[1, 1] = 1.0
    powers = generator.uniform(0.6, 2.2, 6)

    def on_grid(X: FloatArray) -> FloatArray:
        positive = np.maximum(X[:, :6] + 0.5, 0)
        cumulative = np.einsum("ij,kj,jt->ikt", positive, slopes, _GRID ** powers[:, None])
        return _from_hazards(0.1 * _GRID + cumulative)

    return 2, on_grid


def _accelerated(generator: np.random.Generator) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    """Log-logistic times whose scale and shape depend on features: curves cross."""
    location, shape = _mixed(generator, 0.8, 0.6), _linear(generator, 0.7)

    def on_grid(X: FloatArray) -> FloatArray:
        median = 0.4 * np.exp(location(X))
        power = 1 + 4 / (1 + np.exp(-2 * shape(X)))
        ratio = (_GRID / median[:, None]) ** power[:, None]
        return (ratio / (1 + ratio))[:, None]

    return 1, on_grid


def _incidences(generator: np.random.Generator) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    """Two causes: who gets which in the end is multinomial logistic, when does not depend on x."""
    effects = [_linear(generator, 1.1) for _ in range(2)]
    powers = generator.uniform(0.9, 2.0, 2)

    def on_grid(X: FloatArray) -> FloatArray:
        odds = np.exp(np.stack([0.8 + effects[0](X), 0.2 + effects[1](X)], axis=1))
        shares = odds / (1 + odds.sum(axis=1, keepdims=True))
        when = -np.expm1(-2.5 * _GRID ** powers[:, None]) / -np.expm1(-2.5)
        return shares[:, :, None] * when

    return 2, on_grid


def _cured(generator: np.random.Generator) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    """A share that never has the event, early events for the others."""
    who, when = _mixed(generator, 1.3), _linear(generator, 0.4)

    def on_grid(X: FloatArray) -> FloatArray:
        share = 1 / (1 + np.exp(2.0 - who(X)))
        hazard = (3 * np.exp(when(X))[:, None] * _GRID) ** 1.4
        return (share[:, None] * -np.expm1(-hazard))[:, None]

    return 1, on_grid


def _odds(generator: np.random.Generator) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    """Proportional odds."""
    effect = _mixed(generator, 1.6, 0.6)

    def on_grid(X: FloatArray) -> FloatArray:
        odds = 3 * np.exp(effect(X))[:, None] * _GRID**1.4
        return (odds / (1 + odds))[:, None]

    return 1, on_grid


# ----------------------------------------------------------------------------------- hard families
def _once(cumulative: FloatArray) -> FloatArray:
    return -np.expm1(-cumulative)[:, None]


def _slopes(generator: np.random.Generator) -> Callable[[FloatArray], FloatArray]:
    slopes = generator.normal(size=8) / 2
    return lambda X: X[:, :8] @ slopes


def _sign_change(generator: np.random.Generator) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    risk, when = _slopes(generator), generator.uniform(0.3, 0.6)

    def on_grid(X: FloatArray) -> FloatArray:
        odds = np.exp(risk(X))[:, None]
        early, late = np.minimum(_GRID, when), np.maximum(_GRID - when, 0)
        return _once(1.2 * (odds * early + late / odds))

    return 1, on_grid


def _late(generator: np.random.Generator) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    risk = _slopes(generator)

    def on_grid(X: FloatArray) -> FloatArray:
        late = np.maximum(_GRID - 0.4, 0)
        return _once(np.minimum(_GRID, 0.4) + np.exp(risk(X))[:, None] * late)

    return 1, on_grid


def _deterministic(
    generator: np.random.Generator,
) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    risk = _slopes(generator)

    def on_grid(X: FloatArray) -> FloatArray:
        odds = (_GRID / (0.45 * np.exp(risk(X) / 2))[:, None]) ** 14
        return (odds / (1 + odds))[:, None]

    return 1, on_grid


def _interaction(generator: np.random.Generator) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    one, other = generator.choice([0, 1, 4, 5], 2, replace=False)
    return 1, lambda X: _once(np.exp(1.3 * np.sign(X[:, one] * X[:, other]))[:, None] * _GRID)


def _mix(generator: np.random.Generator) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    risk = _slopes(generator)

    def on_grid(X: FloatArray) -> FloatArray:
        share = 1 / (1 + np.exp(-1.5 * risk(X)))[:, None]
        any_cause = -np.expm1(-1.4 * _GRID)
        return np.stack([share * any_cause, (1 - share) * any_cause], axis=1)

    return 2, on_grid


def _frailty(generator: np.random.Generator) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    risk = _slopes(generator)

    def on_grid(X: FloatArray) -> FloatArray:
        return (1 - 1 / (1 + 2 * np.exp(risk(X))[:, None] * _GRID**1.3))[:, None]

    return 1, on_grid


def _bathtub(generator: np.random.Generator) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    early, late = _slopes(generator), _slopes(generator)

    def on_grid(X: FloatArray) -> FloatArray:
        first = np.exp(early(X) - 1)[:, None] * np.sqrt(_GRID)
        return _once(first + 1.5 * np.exp(np.abs(late(X)))[:, None] * _GRID**5)

    return 1, on_grid


def _weak(generator: np.random.Generator) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    risk = _slopes(generator)
    return 1, lambda X: _once(np.exp(0.2 * risk(X))[:, None] * _GRID)


def _dense(generator: np.random.Generator) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    slopes = generator.normal(size=200)

    def on_grid(X: FloatArray) -> FloatArray:
        n_columns = X.shape[1]
        return _once(1.4 * np.exp(X @ slopes[:n_columns] / np.sqrt(n_columns))[:, None] * _GRID)

    return 1, on_grid


def _nothing(_: np.random.Generator) -> tuple[int, Callable[[FloatArray], FloatArray]]:
    return 1, lambda X: _once(np.broadcast_to(1.2 * _GRID, (len(X), len(_GRID))))


#: Name -> a function that draws one member: the number of causes, and incidences on the grid.
FAMILIES: dict[str, Family] = {
    "hazards, 3 causes": _hazards(3, 0.9, _mixed, 2.2),
    "hazards, 1 cause": _hazards(1, 1.1, _mixed, 1.6),
    "hazards, linear": _hazards(1, 0.8, _linear, 1.5),
    "hazards, 2 causes": _hazards(2, 0.8, _mixed, 1.8),
    "six causes": _hazards(6, 0.9, _mixed, 2.2),
    "months": _hazards(1, 1.0, _mixed, 1.6),
    "additive hazards": _additive,
    "crossing curves": _accelerated,
    "incidences": _incidences,
    "cured": _cured,
    "odds": _odds,
}
#: The same, of shapes that one model or another finds hard.
HARD: dict[str, Family] = {
    "sign change": _sign_change,
    "late effect": _late,
    "deterministic": _deterministic,
    "interaction": _interaction,
    "nothing": _nothing,
    "mix": _mix,
    "frailty": _frailty,
    "bathtub": _bathtub,
    "weak": _weak,
    "dense": _dense,
}
#: Of every member of a family.
N_CAUSES = {name: draw(np.random.default_rng(0))[0] for name, draw in {**FAMILIES, **HARD}.items()}

#: Case -> how its people are drawn. The first half served to choose the defaults ...
CHOOSE: dict[str, dict[str, object]] = {
    "3 causes, 28 % by features": {
        "family": "hazards, 3 causes",
        "n_samples": 8000,
        "censored": 0.28,
        "by_features": True,
    },
    "3 causes, 20 % independent": {
        "family": "hazards, 3 causes",
        "n_samples": 4000,
        "censored": 0.20,
        "by_features": False,
    },
    "1 cause, 47 % by features": {
        "family": "hazards, 1 cause",
        "n_samples": 8000,
        "censored": 0.47,
        "by_features": True,
    },
    "1 cause, 90 % by features": {
        "family": "hazards, 1 cause",
        "n_samples": 8000,
        "censored": 0.90,
        "by_features": True,
    },
    "1 cause, linear, 40 %": {
        "family": "hazards, linear",
        "n_samples": 2000,
        "censored": 0.40,
        "by_features": False,
    },
    "2 causes, small, 33 %": {
        "family": "hazards, 2 causes",
        "n_samples": 1000,
        "censored": 0.33,
        "by_features": True,
    },
    "six causes, 35 %": {
        "family": "six causes",
        "n_samples": 8000,
        "censored": 0.35,
        "by_features": False,
    },
    "months, 45 % by features": {
        "family": "months",
        "n_samples": 4000,
        "censored": 0.45,
        "by_features": True,
    },
    "additive hazards, 50 % by features": {
        "family": "additive hazards",
        "n_samples": 6000,
        "censored": 0.50,
        "by_features": True,
    },
    "crossing curves, 32 %": {
        "family": "crossing curves",
        "n_samples": 6000,
        "censored": 0.32,
        "by_features": False,
    },
    "incidences, 30 %": {
        "family": "incidences",
        "n_samples": 6000,
        "censored": 0.30,
        "by_features": False,
    },
    "cured, one closing date": {
        "family": "cured",
        "n_samples": 10_000,
        "censored": 0.0,
        "by_features": False,
    },
    "odds, 52 noise columns, 39 %": {
        "family": "odds",
        "n_samples": 4000,
        "censored": 0.39,
        "by_features": True,
        "n_features": 60,
    },
}
#: ... and these, of other sizes and censoring, to confirm the choice once.
CONFIRM: dict[str, dict[str, object]] = {
    "3 causes, 50 % by features": {
        "family": "hazards, 3 causes",
        "n_samples": 10_000,
        "censored": 0.50,
        "by_features": True,
    },
    "1 cause, 62 % by features": {
        "family": "hazards, 1 cause",
        "n_samples": 10_000,
        "censored": 0.62,
        "by_features": True,
    },
    "1 cause, linear, 70 %": {
        "family": "hazards, linear",
        "n_samples": 1000,
        "censored": 0.70,
        "by_features": True,
    },
    "2 causes, 500 people, 40 %": {
        "family": "hazards, 2 causes",
        "n_samples": 500,
        "censored": 0.40,
        "by_features": False,
    },
    "six causes, 50 % by features": {
        "family": "six causes",
        "n_samples": 6000,
        "censored": 0.50,
        "by_features": True,
    },
    "months, 60 %": {
        "family": "months",
        "n_samples": 6000,
        "censored": 0.60,
        "by_features": False,
    },
    "additive hazards, 30 %": {
        "family": "additive hazards",
        "n_samples": 3000,
        "censored": 0.30,
        "by_features": False,
    },
    "crossing curves, 50 % by features": {
        "family": "crossing curves",
        "n_samples": 8000,
        "censored": 0.50,
        "by_features": True,
    },
    "incidences, 50 % by features": {
        "family": "incidences",
        "n_samples": 3000,
        "censored": 0.50,
        "by_features": True,
    },
    "cured, 90 %": {
        "family": "cured",
        "n_samples": 8000,
        "censored": 0.90,
        "by_features": True,
    },
    "odds, 92 noise columns, 30 %": {
        "family": "odds",
        "n_samples": 2500,
        "censored": 0.30,
        "by_features": False,
        "n_features": 100,
    },
}
#: ... and these are harder; other members of them served to choose folds and repeats.
HARD_CASES: dict[str, dict[str, object]] = {
    f"{family}, {censored:.0%}".replace("%", " %"): {
        "family": family,
        "n_samples": n_samples,
        "censored": censored,
        "by_features": by_features,
    }
    for family, n_samples, censored, by_features in (
        ("deterministic", 4000, 0.35, False),
        ("late effect", 3000, 0.45, False),
        ("sign change", 3000, 0.30, False),
        ("interaction", 3000, 0.40, True),
        ("mix", 5000, 0.45, True),
        ("frailty", 4000, 0.44, True),
        ("bathtub", 4000, 0.39, True),
    )
}
