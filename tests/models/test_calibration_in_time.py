"""Mean curves against Aalen-Johansen where features have no effect: clocks, ends of study, engines.

Kinds of censoring and of recording time, masses of events and gaps between them, on every engine,
with every treatment of censored people, and through the plugin. The last tenth of follow-up counts
as much as the rest.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from estimator_data import boost
from numpy.testing import assert_allclose

from survival_objectives import HazardBoost
from survival_objectives._people import check_survival_target
from survival_objectives.marginal import aalen_johansen

pytestmark = [
    pytest.mark.filterwarnings("ignore:No split on a feature was worth its gain"),
    pytest.mark.filterwarnings("ignore:No one is censored"),
    pytest.mark.filterwarnings("ignore:min_censoring_survival"),
]

N_PEOPLE = 3000
ENGINES = ("xgboost", "lightgbm", "catboost")
METHODS = ("hazards", "boosted", "kaplan-meier", "imputed")


def observed(times, censoring, causes=None, unit=None):
    """Events and durations, recorded in whole units."""
    event = np.where(times <= censoring, 1 if causes is None else causes, 0)
    duration = np.minimum(times, censoring)
    if unit is not None:
        duration = np.ceil(duration / unit) * unit
    return event, duration


def closing_date(rng, years, until):
    """Entry over some years, and one date at which follow-up ends."""
    return until - rng.uniform(0, years, N_PEOPLE)


def whole(times, censoring):
    """Events in whole units up to a common last one, such as T = ceil(t) and min(T, 5)."""
    recorded = np.ceil(times)
    return np.where(recorded <= censoring, 1, 0), np.minimum(recorded, censoring)


def masses(rng, *, days=False):
    """Events at the start, at two visits, in between, and of everyone who is left at 5."""
    life, lost = rng.exponential(6.0, N_PEOPLE), rng.uniform(0, 9, N_PEOPLE)
    life = np.where((life < 3) & (rng.random(N_PEOPLE) < 0.5), np.ceil(life / 1.5) * 1.5, life)
    life = np.minimum(np.where(rng.random(N_PEOPLE) < 0.1, 0.0, life), 5.0)
    scale = 200 if days else 1.0
    return observed(life * scale, lost * scale, unit=1.0 if days else None)


def with_late_entry(rng, outcome):
    """Those who are still event-free at an entry in the first half of follow-up."""
    event, duration = outcome
    entry = np.maximum(rng.uniform(-0.2, 0.5, N_PEOPLE) * duration.max(), 0)
    if duration.max() > 100:
        entry = np.floor(entry)
    seen = entry < duration
    return {"event": event[seen], "duration": duration[seen], "entry": entry[seen]}


def kinds():
    rng = np.random.default_rng(0)
    life = rng.exponential(4.0, N_PEOPLE)
    lost = rng.exponential(8.0, N_PEOPLE)
    two = 1 + (rng.random(N_PEOPLE) < 0.4)
    six = rng.integers(1, 7, N_PEOPLE)
    rare = np.where(rng.random(N_PEOPLE) < 0.01, 2, 1)
    cured = np.where(rng.random(N_PEOPLE) < 0.6, np.inf, life)
    staggered = rng.uniform(1, 4, N_PEOPLE)
    closing = closing_date(rng, 3, 5)
    after_a_year = 365 + 100 * life
    years_later = np.where(life < 2, 2.0, np.ceil(life))
    found = np.ceil(life)
    yield "years, common end", whole(life, 5.0)
    yield "months, common end", whole(life * 6, 24.0)
    yield "days, common end", whole(life * 182, 730.0)
    yield "continuous, common end", observed(life, 5.0)
    yield "continuous, staggered entry", observed(life, staggered)
    yield "months, staggered entry", observed(life, staggered, unit=1 / 12)
    yield "days, staggered entry", observed(life, staggered, unit=1 / 365)
    yield "continuous, closing date", observed(life, closing)
    yield "days, closing date", observed(life * 365, closing * 365, unit=1.0)
    yield "months, closing date, cured", observed(cured * 12, closing * 12, unit=1.0)
    yield "continuous, cured, common end", observed(cured, 6.0)
    yield "continuous, lost", observed(life, lost)
    yield "days, lost", observed(life * 100, lost * 100, unit=1.0)
    yield "lost or end, whichever first", observed(life, np.minimum(lost, 5.0))
    yield "years, lost or end", observed(life, np.minimum(np.ceil(lost), 5.0), unit=1.0)
    yield "first failure after a year", observed(after_a_year, 365 + 100 * lost)
    yield "first failure after a year, end", observed(after_a_year, 900.0)
    yield "age as clock", observed(60 + 5 * life, 60 + rng.uniform(2, 30, N_PEOPLE))
    yield "whole years, lost any day", observed(found, lost)
    yield "whole years, lost any day, end", observed(found, np.minimum(lost, 5.0))
    yield "many at the first visit", observed(years_later, np.minimum(lost, 8.0))
    yield "no one censored", observed(life, np.inf)
    yield "years, no one censored", observed(np.minimum(np.ceil(life), 12.0), np.inf)
    yield "heavy censoring", observed(life, rng.exponential(0.8, N_PEOPLE))
    yield "two causes, common end", observed(life, 5.0, two)
    yield "two causes, days, staggered", observed(life * 365, staggered * 365, two, unit=1.0)
    yield "six causes, months", observed(life * 12, np.minimum(lost * 12, 60.0), six, unit=1.0)
    yield "rare cause, end", observed(life, 5.0, rare)
    late = lost.copy()
    late[0], life_with_outlier = 80.0, life.copy()
    life_with_outlier[0] = 90.0
    yield "one person followed for long", observed(life_with_outlier, late)
    # Masses of events: contracts that end after a year, scheduled visits, events at the start.
    contract = np.where((life > 1) & (rng.random(N_PEOPLE) < 0.35), 1.0, life)
    yield "mass, continuous", observed(contract, lost)
    yield "mass, days", observed(contract * 365, lost * 365, unit=1.0)
    visits = np.where(rng.random(N_PEOPLE) < 0.5, np.ceil(life * 2) / 2, life)
    yield "several masses", observed(visits, np.minimum(lost, 5.0))
    leaves = np.where(rng.random(N_PEOPLE) < 0.6, 3.0, np.inf)
    yield "mass at the end", observed(np.where(life > 3, leaves, life), np.minimum(lost, 3.0))
    at_once = np.where(rng.random(N_PEOPLE) < 0.3, 0.0, life)
    yield "mass at the start", observed(at_once, lost)
    yield "mass at the start, days", observed(np.round(at_once * 365), np.round(lost * 365))
    yield "two causes, a mass of one", observed(contract, lost, np.where(contract == 1, 2, two))
    yield "masses, the last of all who are left", masses(rng)
    yield "masses, the last of all who are left, days", masses(rng, days=True)
    # Hardly anyone is at risk in a long time without events.
    gap = np.where(life < 3, life, np.inf)
    gap[0], late = 40.0, np.minimum(lost, 8.0)
    late[:3] = 50.0
    yield "gap before the last event", observed(gap, late)


KINDS = dict(kinds())
MASSES = [kind for kind in KINDS if "the last of all who are left" in kind]


def times_of_interest(event, duration):
    """Deciles of follow-up, its last tenth up to the last event, and masses of events."""
    last = duration[event > 0].max()
    early = np.quantile(duration, np.arange(0.1, 0.95, 0.1))
    late = np.linspace(0.9, 1.0, 4) * last
    at, count = np.unique(duration[event > 0], return_counts=True)
    masses = at[count > 0.02 * (event > 0).sum()]
    return np.unique(np.concatenate([early[early < last], late, masses, 0.99 * masses]))


def distance(curves, outcome, times):
    target = check_survival_target(outcome, late_entry=isinstance(outcome, dict))
    population = aalen_johansen(target)(times).T
    return np.abs(curves.mean(axis=0) - population)


def tolerance(event, duration, times):
    """0.01, with fewer than a tenth left 0.015, and with few the steps that two events make."""
    target = check_survival_target((event, duration))
    at_risk = (duration[:, None] >= times).sum(axis=0)
    survival = aalen_johansen(target)(times)[:, 0]
    allowed = np.where(at_risk <= 0.101 * len(duration), 0.015, 0.01)
    return np.maximum(allowed, 2 * survival / np.maximum(at_risk, 1))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
def test_estimator_agrees_with_aalen_johansen(kind, engine):
    outcome = KINDS[kind]
    X = np.random.default_rng(1).normal(size=(N_PEOPLE, 2))
    times = times_of_interest(*outcome)
    # CatBoost takes longest: one treatment of censored people per kind, in turn.
    turn = list(KINDS).index(kind) % len(METHODS)
    for method in METHODS if engine != "catboost" else METHODS[turn : turn + 1]:
        options = {"n_estimators": 40, "learning_rate": 0.1, "random_state": 0, "n_jobs": 1}
        model = boost(engine, censoring=method, **options).fit(X, outcome)
        away = distance(model.predict_cumulative_incidence(X, times), outcome, times)
        assert (away <= tolerance(*outcome, times)).all(), (method, times, away.max(axis=0))


@pytest.mark.parametrize("kind", KINDS)
def test_plugin_agrees_with_aalen_johansen(kind):
    xgboost = pytest.importorskip("xgboost")
    from survival_objectives.adapters.xgboost import IPCWObjective

    outcome = KINDS[kind]
    X = np.random.default_rng(1).normal(size=(N_PEOPLE, 2))
    times = times_of_interest(*outcome)
    objective = IPCWObjective(X, outcome, refresh_every=10, random_state=0)
    params = {**objective.params, "max_depth": 2, "learning_rate": 0.2, "nthread": 1}
    booster = xgboost.train(
        params, objective.dtrain, 30, obj=objective, callbacks=[objective.refresh()]
    )
    curves = objective.predict_cumulative_incidence(booster, X, times)
    away = distance(curves, outcome, times)
    assert (away <= tolerance(*outcome, times)).all(), (times, away.max(axis=0))


def plugin_curves(engine, name, X, outcome, times):
    adapter = import_module(f"survival_objectives.adapters.{engine}")
    objective = getattr(adapter, f"{name}{'Loss' if engine == 'catboost' else 'Objective'}")(
        X, outcome, random_state=0
    )
    params, rounds = {**objective.params, "learning_rate": 0.2}, 10
    module = import_module(engine)
    if engine == "xgboost":
        params |= {"max_depth": 3, "nthread": 1}
        model = module.train(params, objective.dtrain, rounds, obj=objective)
    elif engine == "lightgbm":
        params |= {"objective": objective, "num_leaves": 8, "num_threads": 1}
        model = module.train(params, objective.train_set, rounds)
    else:
        params |= {"loss_function": objective, "depth": 3, "thread_count": 1, "verbose": 0}
        model = module.CatBoost({**params, "iterations": rounds}).fit(objective.train_pool)
    return objective.predict_cumulative_incidence(model, X, times)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", MASSES)
def test_masses_are_as_in_aalen_johansen_with_all_methods_and_objectives(kind, engine):
    outcome, X = KINDS[kind], np.random.default_rng(1).normal(size=(N_PEOPLE, 2))
    times = times_of_interest(*outcome)
    found = {name: plugin_curves(engine, name, X, outcome, times) for name in ("Hazard", "IPCW")}
    # The other methods: as all kinds above. CatBoost takes longest.
    others = {
        "doubly-robust": {"censoring": "doubly-robust"},
        "completed": {"completion": "hazards"},
    }
    if engine == "catboost":
        others = {"boosted": {"censoring": "boosted"}}
    for name, options in others.items():
        model = boost(engine, n_estimators=10, learning_rate=0.1, **options).fit(X, outcome)
        found[name] = model.predict_cumulative_incidence(X, times)
    for name, curves in found.items():
        away = distance(curves, outcome, times)
        assert (away <= tolerance(*outcome, times)).all(), (name, times, away.max(axis=0))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", MASSES)
def test_late_entry_and_masses_are_as_in_aalen_johansen_with_the_same_risk_sets(kind, engine):
    outcome = with_late_entry(np.random.default_rng(2), KINDS[kind])
    event, duration, entry = (outcome[name] for name in ("event", "duration", "entry"))
    X = np.random.default_rng(1).normal(size=(len(event), 2))
    times = times_of_interest(event, duration)
    # Before, so few people are under observation that one event moves the curves by much.
    times = times[times >= np.quantile(entry, 0.5)]
    model = boost(engine, censoring="hazards", n_estimators=10).fit(X, outcome)
    for curves in (
        model.predict_cumulative_incidence(X, times),
        plugin_curves(engine, "Hazard", X, outcome, times),
    ):
        away = distance(curves, outcome, times)
        assert away.max() < 0.015, (times, away.max(axis=0))
    if engine == "xgboost":
        naive = boost(engine, censoring="hazards", n_estimators=10).fit(X, (event, duration))
        away = distance(naive.predict_cumulative_incidence(X, times), outcome, times)
        assert away.max() > 0.05


# ----------------------------------------------------------------------------- as they were found
def mean_survival(outcome, times, **options):
    X = np.random.default_rng(0).normal(size=(len(outcome[0]), 3))
    options = {"censoring": "hazards", "n_estimators": 200, **options}
    if options["censoring"] == "hazards":
        options["n_estimators"] = None
    model = boost("xgboost", **options).fit(X, outcome)
    return model.predict_survival_function(X, times).mean(axis=0)


def test_people_censored_at_the_common_last_time_stay_event_free():
    life = np.ceil(np.random.default_rng(0).exponential(4.0, 4000))
    outcome = (life <= 5).astype(int), np.minimum(life, 5.0)
    expected = [(life > 4).mean(), (life > 5).mean()]
    assert_allclose(mean_survival(outcome, [4, 5]), expected, atol=0.005)


def test_no_probability_moves_to_before_the_first_event():
    rng = np.random.default_rng(0)
    life, lost = 365 + rng.exponential(300, 2000), 365 + rng.exponential(400, 2000)
    survival = mean_survival(observed_two(life, lost), [100, 364, 366])
    assert_allclose(survival, [1, 1, np.exp(-1 / 300)], atol=0.01)


@pytest.mark.parametrize("method", METHODS)
def test_curves_are_flat_while_hardly_anyone_is_at_risk(method):
    rng = np.random.default_rng(0)
    life, lost = rng.exponential(100.0, 400), rng.uniform(50, 280, 400)
    life[0], lost[:4] = 3668.0, [4000, 3000, 3200, 3900]
    life[1:4] = 9000.0
    event, duration = observed_two(life, lost)
    last = np.sort(duration[event > 0])[-2]
    before, after, late = mean_survival((event, duration), [last + 1, 1500, 3600], censoring=method)
    assert_allclose([after, late], before, atol=0.02)


def test_events_at_time_zero_have_happened_at_time_zero():
    rng = np.random.default_rng(0)
    life = np.where(rng.random(3000) < 0.3, 0.0, rng.exponential(40.0, 3000))
    event, duration = observed_two(life, rng.uniform(1, 80, 3000))
    for method in METHODS:
        at_zero = mean_survival((event, duration), [0.0], censoring=method)
        assert_allclose(at_zero, (duration > 0).mean(), atol=0.005)


def observed_two(life, lost):
    return (life <= lost).astype(int), np.minimum(life, lost)


def test_events_in_whole_years_with_censoring_to_the_day_stay_in_their_years():
    rng = np.random.default_rng(0)
    life = np.ceil(rng.exponential(4.0, 4000))
    lost = np.ceil(rng.uniform(0, 8, 4000) * 365) / 365
    outcome = observed_two(life, lost)
    before, at_one, later = mean_survival(outcome, [0.99, 1.0, 1.9])
    assert before == 1
    assert_allclose(at_one, np.exp(-0.25), atol=0.02)
    assert at_one == later


def test_every_time_up_to_the_end_of_follow_up_has_a_density():
    rng = np.random.default_rng(0)
    outcome = observed_two(rng.weibull(0.7, 1000), rng.uniform(0.1, 4, 1000))
    times = np.linspace(0, outcome[1].max(), 33)
    X = rng.normal(size=(1000, 3))
    model = HazardBoost(random_state=0, n_jobs=1).fit(X, outcome)
    mass = -np.diff(model.predict_survival_function(X, times), axis=1)
    assert mass.min() > 1e-6


def test_ten_rounds_are_at_least_as_good_as_the_population_curve():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    life = rng.exponential(np.exp(-X[:, 0]))
    outcome = observed_two(life, rng.exponential(2.0, 2000))
    model = HazardBoost(n_estimators=10, random_state=0, n_jobs=1).fit(X, outcome)
    times = np.linspace(0.1, 3, 20)
    truth = np.exp(-times * np.exp(X[:, :1]))
    error = np.mean((model.predict_survival_function(X, times) - truth) ** 2)
    population = aalen_johansen(check_survival_target(outcome))(times)[:, 0]
    assert error < np.mean((population - truth) ** 2)
