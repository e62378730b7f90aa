"""Fixtures of the plugin's tests: one that takes `engine` runs once for each engine."""

from __future__ import annotations

import numpy as np
import pytest
from engine_drivers import ENGINES
from engine_drivers import simulate as simulated
from scipy.special import expit

from survival_objectives.censoring import KaplanMeierCensoring


@pytest.fixture(params=sorted(ENGINES))
def engine(request):
    return ENGINES[request.param]()


class ExponentialCensoring:
    """The true censoring of `People`, as a user would pass it."""

    def survival(self, times, X=None, *, left=False):
        rate = np.exp(-0.5 + np.asarray(X)[:, 0])
        times = np.asarray(times)
        return np.exp(-(rate if times.ndim == 1 else rate[:, None]) * times)


@pytest.fixture
def true_censoring():
    return ExponentialCensoring()


@pytest.fixture(name="simulate")
def simulate_fixture():
    return simulated


@pytest.fixture(scope="session")
def people():
    """A few hundred people for tests of mechanics."""
    return simulated(300, n_features=4)


@pytest.fixture
def integrated_error():
    """Mean squared distance to the true curves over people, times and causes."""

    def error(curves, people, times):
        return float(np.mean((curves - people.true_incidence(times)) ** 2))

    return error


def by_hand(make_event, make_censoring, people, horizons, *, n_rounds, every, floor, event_floor):
    """Incidences at the event rows after Algorithms 1 and 3, written without the package's loop.

    The boosters only take derivatives; everything else is plain numpy, straight from equations
    (10), (11) and (16), for durations in units of 1/4.
    """
    X, y = people.X, people.y
    n, n_horizons = horizons.shape
    person = np.tile(np.arange(n), n_horizons)
    z = horizons.T.ravel().astype(np.float32)
    unit = np.rint(4 * y[1])
    durations = ((unit + np.where(y[0] > 0, 0, 0.75)) / 4).astype(np.float32)
    answering = ((unit + 0.375) / 4).astype(np.float32)[person]
    d, t = y[0][person], durations[person]
    x = X.astype(np.float32)[person]
    n_causes = d.max()

    def rows(mask, time):
        return np.column_stack([x[mask], time[mask]])

    km = KaplanMeierCensoring().fit((y[0], durations))

    # Events: rows, targets, first weights, and the best constant to start from.
    events = (t > z) | (d > 0)
    stayed = (t > z)[events]
    target = np.where(t > z, 0, d)[events]
    G = np.where(t > z, km.survival(z), km.survival(t, left=True))[events]
    weight = 1 / np.maximum(G, floor)
    share = np.array([weight[target == k].sum() for k in range(n_causes + 1)]) / weight.sum()
    constant = np.log(share[1:] / share[0])
    event_model = make_event(rows(events, z), np.tile(constant, (len(target), 1)))

    # Censorings: rows, targets, and the Kaplan-Meier log-odds to start from.
    censorings = (t > z) | (d == 0)
    censored = (t <= z)[censorings]

    def km_log_odds(time):
        uncensored = km.survival(time)
        return np.log(np.maximum(1 - uncensored, 0.5 / n) / np.maximum(uncensored, 0.5 / n))

    censoring_model = make_censoring(rows(censorings, z), km_log_odds(z[censorings])[:, None])

    def softmax_derivatives(margin):
        odds = np.exp(margin.astype(np.float64))
        proba = odds / (1 + odds.sum(axis=1, keepdims=True))
        observed = target[:, None] == np.arange(1, n_causes + 1)
        w = weight[:, None]
        return w * (proba - observed), w * proba * (1 - proba)

    for n_trained in range(n_rounds):
        if n_trained and n_trained % every == 0:

            def event_free(time):
                margin = event_model.trees(rows(censorings, time)) + constant
                return 1 / (1 + np.exp(margin).sum(axis=1))

            S = np.where(censored, event_free(answering), event_free(z))
            w = (1 / np.maximum(S, event_floor))[:, None]

            def logistic_derivatives(margin, w=w):
                proba = expit(margin.astype(np.float64))
                return w * (proba - censored[:, None]), w * proba * (1 - proba)

            for _ in range(every):
                censoring_model.boost(logistic_derivatives)

            at_z = censoring_model.trees(rows(events, z))[:, 0] + km_log_odds(z[events])
            at_t = censoring_model.trees(rows(events, answering))[:, 0]
            at_t += km_log_odds(answering[events])
            G = expit(-np.where(stayed, at_z, at_t))
            G[t[events] == 0] = 1.0  # No one is censored before the start.
            weight = 1 / np.maximum(G, floor)
        event_model.boost(softmax_derivatives)
    margin = event_model.trees(rows(events, z)) + constant
    odds = np.exp(margin)
    return odds / (1 + odds.sum(axis=1, keepdims=True))


@pytest.fixture
def trained_by_hand():
    return by_hand
