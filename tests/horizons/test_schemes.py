"""Targets and weights of each way in which censored people count."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fixed_trainer import FixedTrainer
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from survival_objectives._horizons.rows import StackedPeople
from survival_objectives._horizons.schemes import (
    AlternatingScheme,
    Chunk,
    DoublyRobustScheme,
    EventMargins,
    ImputedScheme,
    KaplanMeierScheme,
    OwnCensoringScheme,
    WeightSettings,
)
from survival_objectives._horizons.schemes.weighted import survival_before_events
from survival_objectives._people.cohort import Cohort, MemoryBatches, batch_slices
from survival_objectives._people.population import LocalReduction, TimeAxis
from survival_objectives.censoring import KaplanMeierCensoring, censoring_log_odds
from survival_objectives.losses import probabilities
from survival_objectives.marginal import aalen_johansen
from survival_objectives.stacking import TimeStacker

FLOOR, N_HORIZONS = 0.6, 3
CONTINUOUS = TimeAxis(0.0)


def people(n_samples=120):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 2))
    event = rng.integers(0, 3, n_samples)
    duration = rng.exponential(size=n_samples)
    duration[:3] = 0.0
    weight = rng.integers(1, 4, n_samples).astype(float)
    whole = Cohort.checked(X, (event, duration), weight, keep_as_passed=True)
    return whole.aligned(CONTINUOUS)


def horizons(generator, n_samples, n_horizons, target):
    """Horizons around each person's own duration, whatever the batch."""
    return target.duration[:, None] * np.linspace(0.5, 2.0, n_horizons) + 0.05


def asked(scheme, stacked, number, n_rounds, n_causes=2):
    """Margins of an event model by formula, for a draw of `StackedPeople`."""
    booster = FixedTrainer(n_causes)

    def start(feature):
        return np.zeros((len(feature), n_causes))

    def margin(matrices):
        values = np.concatenate([values for values, _ in matrices])
        return booster.sum_of_trees(values, 0, n_rounds)

    return EventMargins(
        n_rounds,
        True,
        lambda: margin(stacked.event_matrices(number, start)),
        lambda: margin(stacked.probe_matrices(number, scheme.event_probes, start)),
    )


def settings(whole):
    kaplan_meier = KaplanMeierCensoring().fit(whole.target, sample_weight=whole.weight)
    return WeightSettings(kaplan_meier, CONTINUOUS, FLOOR, FLOOR, N_HORIZONS, LocalReduction())


def alternating(whole):
    own = settings(whole)
    start = censoring_log_odds(own.kaplan_meier.curve_, whole.n_samples)
    return AlternatingScheme(own, FixedTrainer(), start)


def doubly_robust(whole):
    own = settings(whole)
    start = censoring_log_odds(own.kaplan_meier.curve_, whole.n_samples)
    exits = whole.target.duration
    return DoublyRobustScheme(own, FixedTrainer(), start, last=9.0, n_nodes=5, exits=exits)


def boosters(scheme):
    """The model of censoring, where the scheme trains one."""
    return [scheme._booster] if isinstance(scheme, AlternatingScheme) else []


def imputed(whole):
    marginal = aalen_johansen(whole.target, whole.weight)
    return ImputedScheme(settings(whole), marginal, n_marginal_rounds=5, seed=3)


SCHEMES = {
    "kaplan-meier": lambda whole: KaplanMeierScheme(settings(whole)),
    "alternating": alternating,
    "imputed": imputed,
}


def next_chunk(scheme, whole, sizes, n_rounds_done, number=0):
    """A chunk of 10 rounds on the people in batches of these sizes."""
    parts = [whole.take(np.arange(p.start, p.stop)) for p in batch_slices(sizes)]
    stacker = TimeStacker(N_HORIZONS, horizons, horizon_max=9.0, random_state=0)
    seed = None if len(sizes) == 1 else 7
    stacked = StackedPeople(MemoryBatches(parts), stacker, scheme.event_rows, seed)
    draw = stacked.draw(LocalReduction())
    scheme.add_draw(stacked, draw)
    scheme.add_probes(stacked, draw)
    return Chunk(number, 10, stacked, draw, asked(scheme, stacked, draw.number, n_rounds_done))


def by_person(chunk, values):
    """Values of the event rows in the order of people and horizons."""
    person, horizon, first = [], [], 0
    for rows in chunk.rows():
        person.append(rows.events.person + first)
        horizon.append(rows.events.horizon)
        first += rows.target.n_samples
    return values[np.lexsort([np.concatenate(horizon), np.concatenate(person)])]


@pytest.mark.parametrize("n_rounds_done", [0, 10])
@pytest.mark.parametrize("name", SCHEMES)
def test_batches_do_not_matter(name, n_rounds_done):
    whole = people()
    found = []
    for sizes in ((120,), (1, 40, 79)):
        scheme = SCHEMES[name](whole)
        chunk = next_chunk(scheme, whole, sizes, n_rounds_done)
        target, weight = scheme.targets_and_weights(chunk)
        if name == "imputed":  # States that are drawn differ.
            lost = [
                ~rows.events.at_risk & (rows.target.event[rows.events.person] == 0)
                for rows in chunk.rows()
            ]
            target = np.where(np.concatenate(lost), -1, target)
        found.append((by_person(chunk, target), by_person(chunk, weight), scheme))
    assert_array_equal(found[0][0], found[1][0])
    assert_allclose(found[0][1], found[1][1], rtol=1e-6)
    one, many = found[0][2], found[1][2]
    assert one.n_floored == many.n_floored
    assert one.refreshed_rounds == many.refreshed_rounds
    for first, other in zip(boosters(one), boosters(many), strict=True):
        assert len(first.boosted) == len(other.boosted) == (n_rounds_done > 0)
        for (_, target, weight, n), (_, again, weight_again, m) in zip(
            first.boosted, other.boosted, strict=True
        ):
            assert n == m == 10
            assert np.bincount(target).tolist() == np.bincount(again).tolist()
            assert_allclose(np.sort(weight), np.sort(weight_again), rtol=1e-6)


def test_batches_do_not_matter_to_doubly_robust_targets():
    whole = people()
    found = []
    for sizes in ((120,), (1, 40, 79)):
        scheme = doubly_robust(whole)
        chunk = next_chunk(scheme, whole, sizes, 0)
        own = []
        for number in range(4):
            events = asked(scheme, chunk.people, chunk.draw.number, 10 * number)
            now = replace(chunk, number=number, events=events)
            target, weight = scheme.targets_and_weights(now)
            own.append((by_person(chunk, target), by_person(chunk, weight)))
        found.append(own)
        assert scheme.refreshed_rounds == [10, 20, 30]
        # The first refresh gives the censoring model a head start.
        assert [n_rounds for _, _, _, n_rounds in scheme._booster.boosted] == [50, 10, 10]
    for (target, weight), (again, weight_again) in zip(*found, strict=True):
        assert_allclose(target, again, rtol=1e-5, atol=1e-6)
        assert_allclose(weight, weight_again, rtol=1e-6)
        assert_allclose(target.sum(axis=1), 1, atol=1e-5)
    # Weights of labels at first, then those of the people.
    assert (found[0][1][1] == 0).any()
    assert_allclose(np.unique(found[0][2][1]), np.unique(whole.weight) / N_HORIZONS, rtol=1e-6)


def test_kaplan_meier_weights_are_one_over_g():
    whole = people()
    scheme = SCHEMES["kaplan-meier"](whole)
    chunk = next_chunk(scheme, whole, (120,), 0)
    target, weight = scheme.targets_and_weights(chunk)
    (rows,) = chunk.rows()
    curve = settings(whole).kaplan_meier
    for row in range(0, rows.events.n_rows, 7):
        person, horizon = rows.events.person[row], rows.events.horizon[row]
        duration = whole.target.duration[person]
        if duration > horizon:
            g, state = curve.survival(horizon), 0
        else:
            g, state = curve.survival(duration, left=True), whole.target.event[person]
        assert target[row] == state
        assert_allclose(weight[row], whole.weight[person] / max(g, FLOOR) / N_HORIZONS)
    assert scheme.refreshed_rounds == []
    assert 0 < scheme.n_floored < scheme.n_weighted_rows == rows.events.n_rows


def test_two_models_weigh_each_other():
    whole = people()
    scheme = alternating(whole)
    chunk = next_chunk(scheme, whole, (120,), 10)
    _, weight = scheme.targets_and_weights(chunk)
    (rows,) = chunk.rows()
    (booster,) = boosters(scheme)
    key, target, censoring_weight, n_rounds = booster.boosted[0]
    assert n_rounds == 10
    assert_array_equal(target, rows.censorings.target)

    def event_free(time):
        margin = (time - 1) * 0.3 * np.array([[1.0, 2.0]])
        return probabilities(margin, reference=True)[0, 0]

    for row in range(0, rows.censorings.n_rows, 7):
        person, horizon = rows.censorings.person[row], rows.censorings.horizon[row]
        until = min(float(whole.target.duration[person]), float(horizon))
        expected = whole.weight[person] / max(event_free(until), FLOOR) / N_HORIZONS
        assert_allclose(censoring_weight[row], expected, rtol=1e-5)
    margin = booster.margin(key)[:, 0]
    stayed = rows.events.at_risk
    expected = expit(-margin[rows.censorings.at_risk])
    assert_allclose(
        weight[stayed],
        whole.weight[rows.events.person[stayed]] / np.maximum(expected, FLOOR) / N_HORIZONS,
    )
    # No one is censored before an event at time 0.
    at_0 = ~stayed & (whole.target.duration[rows.events.person] == 0)
    assert_allclose(weight[at_0], whole.weight[rows.events.person[at_0]] / N_HORIZONS)
    assert scheme.refreshed_rounds == [10]
    assert booster.n_rounds == 10


def test_before_the_first_round_the_marginal_curve_weights():
    whole = people()
    scheme = alternating(whole)
    weight = scheme.targets_and_weights(next_chunk(scheme, whole, (120,), 0))[1]
    marginal = SCHEMES["kaplan-meier"](whole)
    expected = marginal.targets_and_weights(next_chunk(marginal, whole, (120,), 0))[1]
    assert_array_equal(weight, expected)
    assert boosters(scheme)[0].n_rounds == 0
    assert (boosters(scheme)[0].boosted, scheme.refreshed_rounds) == ([], [])


def test_imputed_states_follow_the_marginal_curves_then_the_model():
    whole = people(120)
    scheme = imputed(whole)
    shares = {}
    for n_rounds_done in (0, 10):
        drawn = []
        chunk = next_chunk(scheme, whole, (120,), n_rounds_done)
        for number in range(200):
            target, weight = scheme.targets_and_weights(replace(chunk, number=number))
            (rows,) = chunk.rows()
            role = rows.events
            lost = ~role.at_risk & (whole.target.event[role.person] == 0)
            assert_array_equal(target[~lost], role.target[~lost])
            drawn.append(target[lost])
        assert_allclose(weight, whole.weight[role.person] / N_HORIZONS)
        shares[n_rounds_done] = np.mean(np.array(drawn)[:, :, None] == [0, 1, 2], axis=0)
    assert scheme.refreshed_rounds == [10] * 200
    assert scheme.n_floored == 0
    horizon, exits = role.horizon[lost], whole.target.duration[role.person[lost]]

    def model(times):
        return probabilities((times[:, None] - 1) * 0.3 * np.array([1.0, 2.0]), reference=True)

    marginal = aalen_johansen(whole.target, whole.weight)
    for n_rounds_done, states in ((0, marginal), (10, model)):
        after, before = states(horizon), states(exits)
        still = after[:, 0] / before[:, 0]
        assert_allclose(shares[n_rounds_done][:, 0], still, atol=0.15)
        assert_allclose(shares[n_rounds_done][:, 0].mean(), still.mean(), atol=0.02)


def test_imputed_draws_depend_on_the_chunk_alone():
    whole = people()
    targets = [
        scheme.targets_and_weights(next_chunk(scheme, whole, (120,), 0, number))[0]
        for scheme, number in ((imputed(whole), 4), (imputed(whole), 4), (imputed(whole), 5))
    ]
    assert_array_equal(targets[0], targets[1])
    assert (targets[0] != targets[2]).any()


def test_held_out_people_are_judged_where_someone_is_seen():
    whole = people()
    curve = settings(whole).kaplan_meier.curve_
    assert SCHEMES["kaplan-meier"](whole).held_out_until(50.0) == 50.0
    last = imputed(whole).held_out_until(50.0)
    assert last == curve.times[curve.values < FLOOR][0]
    assert imputed(whole).held_out_until(0.01) == 0.01


def test_a_given_model_is_asked_once_per_draw():
    whole = people()
    asked = []

    class Known:
        def survival(self, times, X=None, *, left=False):
            asked.append((len(times), left))
            return np.exp(-0.2 * np.asarray(times))

    scheme = OwnCensoringScheme(settings(whole), Known(), whole.as_passed)
    chunk = next_chunk(scheme, whole, (120,), 0)
    first, second = (scheme.targets_and_weights(chunk)[1] for _ in range(2))
    assert_array_equal(first, second)
    assert [left for _, left in asked] == [False, True]


def test_no_one_is_censored_before_the_start():
    assert_array_equal(survival_before_events([5.0, 0.0], np.array([0.0, 2.0])), [1.0, 0.5])
