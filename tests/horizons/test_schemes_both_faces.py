"""The same schemes in the estimator's loop and in the plugin: equal targets and weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fixed_trainer import FixedTrainer
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives._horizons.completion import completing_incidence
from survival_objectives._horizons.rows import Probes, StackedPeople
from survival_objectives._horizons.schemes import (
    AlternatingScheme,
    Chunk,
    CompletedScheme,
    DoublyRobustScheme,
    EventMargins,
    OwnCensoringScheme,
    WeightSettings,
)
from survival_objectives._people.cohort import Cohort, MemoryBatches
from survival_objectives._people.population import LocalReduction, TimeAxis, event_unit
from survival_objectives._plugin.alternation import Alternation, CensoringTrainer, RefreshSchedule
from survival_objectives._plugin.problem_rows import (
    CensoringSettings,
    HorizonSettings,
    ProblemRows,
)
from survival_objectives.censoring import KaplanMeierCensoring, censoring_log_odds
from survival_objectives.marginal import aalen_johansen
from survival_objectives.stacking import TimeStacker

N_HORIZONS, FLOOR, EVENT_FLOOR, EVERY = 3, 0.3, 0.2, 10


def people(whole_days):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    event, duration = rng.integers(0, 3, 150), rng.exponential(size=150)
    if whole_days:
        duration = np.ceil(10 * duration)
    return X, (event, duration), rng.integers(1, 4, 150).astype(float)


def risk(values):
    """Margins of an event model that has learnt something."""
    return np.column_stack([0.3 * values[:, 0] + 0.2 * values[:, -1], 0.1 * values[:, -1] - 0.5])


class Trainer(CensoringTrainer):
    """The plugin's face of `FixedTrainer`."""

    def __init__(self):
        super().__init__()
        self.fixed = FixedTrainer()

    def add(self, values, start):
        return self.fixed.add_batches(lambda: iter([(values, start)]))

    def advance(self, weight, n_rounds):
        self.fixed.boost(0, self._target, weight, n_rounds)

    def margin(self, key):
        return self.fixed.margin(key)

    def model(self):
        return None


class Known:
    """A censoring model of the user's own."""

    def survival(self, times, X=None, *, left=False):
        return np.exp(-0.05 * np.asarray(times))


class Exponential:
    """A completion model of the user's own."""

    def predict_cumulative_incidence(self, X, times):
        survival = np.exp(-0.1 * np.asarray(times))
        curves = np.stack([survival, 0.6 * (1 - survival), 0.4 * (1 - survival)])
        return np.broadcast_to(curves, (len(X), *curves.shape))


class Plugin:
    """Rounds of a training that an engine runs."""

    def __init__(self, X, y, weight, censoring="kaplan-meier", completion=None, robust=False):
        self.data = ProblemRows(
            X,
            y,
            weight,
            HorizonSettings(N_HORIZONS, "mixture", None, 0.0),
            CensoringSettings(censoring, completion, robust, FLOOR, EVENT_FLOOR, 6),
            streams=(np.random.default_rng(1), np.random.default_rng(2)),
            completion_engine=("", 0),
        )
        self.trainer = Trainer()

    def row_margin(self):
        return risk(self.data.rows.events.matrix(self.data.features))

    def probe_margin(self):
        return risk(self.data.event_probes.matrix(self.data.features))

    def new_trainer(self):
        return self.trainer

    def refreshed(self, n_refreshes):
        """Targets and weights before any refresh, and after each."""
        self.records = []

        def note(model, n_floored, records):
            self.records.append(n_floored)

        alternation = Alternation(self.data, True, RefreshSchedule(EVERY), note)
        found = [(alternation.targets.target, alternation.targets.weight)]
        for number in range(1, n_refreshes + 1):
            alternation.refresh(self, number * EVERY)
            found.append((alternation.targets.target, alternation.targets.weight))
        return found


class Estimator:
    """Chunks of a training that the estimator's loop runs, on the same draw of horizons."""

    def __init__(self, X, y, weight):
        cohort = Cohort.checked(X, y, weight, keep_as_passed=True)
        self.axis = TimeAxis(event_unit(cohort.target))
        self.as_passed = cohort.as_passed
        self.cohort = cohort.aligned(self.axis).with_relative_weights(LocalReduction())
        self.booster = FixedTrainer()
        target, weight = self.cohort.target, self.cohort.weight
        self.kaplan_meier = KaplanMeierCensoring().fit(target, sample_weight=weight)
        self.marginal = aalen_johansen(target, weight)
        self.start = censoring_log_odds(self.kaplan_meier.curve_, target.n_samples)
        self.settings = WeightSettings(
            self.kaplan_meier,
            self.axis,
            floor=FLOOR,
            event_floor=EVENT_FLOOR,
            weight_divisor=N_HORIZONS,
            reduction=LocalReduction(),
        )

    def stacked(self, kind, plugin):
        stacker = TimeStacker(
            N_HORIZONS,
            "mixture",
            horizon_max=plugin.data.stacker.horizon_max,
            random_state=np.random.default_rng(1),
            time_unit=self.axis.unit,
        )
        self.people = StackedPeople(MemoryBatches([self.cohort]), stacker, kind.event_rows)
        self.draw = self.people.draw(LocalReduction())
        (self.rows,) = self.people.rows(self.draw.number)

    def chunks(self, scheme, n_chunks):
        scheme.add_draw(self.people, self.draw)
        scheme.add_probes(self.people, self.draw)
        features = self.cohort.features
        events = EventMargins(
            0,
            True,
            lambda: risk(self.rows.events.matrix(features)),
            lambda: risk(scheme.event_probes(self.rows).matrix(features)),
        )
        for number in range(n_chunks):
            now = replace(events, n_rounds=number * EVERY)
            yield scheme.targets_and_weights(Chunk(number, EVERY, self.people, self.draw, now))


def assert_equal_up_to_scale(plugin, estimator):
    """Rows of the plugin count 1, those of the estimator 1 / N_HORIZONS."""
    for (target, weight), (again, weight_again) in zip(plugin, estimator, strict=True):
        assert_array_equal(target, again)
        assert_allclose(weight, N_HORIZONS * weight_again, rtol=1e-6)


@pytest.mark.parametrize("whole_days", [False, True])
@pytest.mark.parametrize("kind", [AlternatingScheme, DoublyRobustScheme])
def test_refreshes_are_those_of_the_estimator(kind, whole_days):
    given = people(whole_days)
    robust = kind is DoublyRobustScheme
    plugin, estimator = Plugin(*given, robust=robust), Estimator(*given)
    estimator.stacked(kind, plugin)
    options = {}
    if robust:
        options = {"last": float(estimator.rows.events.horizon.max()), "n_nodes": 6}
    scheme = kind(estimator.settings, estimator.booster, estimator.start, **options)
    found = plugin.refreshed(3)
    assert_equal_up_to_scale(found, estimator.chunks(scheme, 4))
    assert scheme.refreshed_rounds == [10, 20, 30]
    assert scheme.n_floored == plugin.records[-1] > 0
    # The censoring models were trained on the same rows, too.
    assert len(plugin.trainer.fixed.boosted) == len(estimator.booster.boosted) == 3
    for one, other in zip(plugin.trainer.fixed.boosted, estimator.booster.boosted, strict=True):
        assert_array_equal(one[1], other[1])
        assert_allclose(one[2], N_HORIZONS * other[2], rtol=1e-6)
        assert one[3] == other[3]
    assert not np.allclose(found[0][1], found[1][1])
    if robust:
        # Labels before the second refresh, then distributions that leave [0, 1].
        assert [bool((target < 0).any()) for target, _ in found] == [False, False, True, True]


@pytest.mark.parametrize("whole_days", [False, True])
def test_a_given_censoring_model_weighs_alike(whole_days):
    given = people(whole_days)
    plugin, estimator = Plugin(*given, censoring=Known()), Estimator(*given)
    estimator.stacked(OwnCensoringScheme, plugin)
    scheme = OwnCensoringScheme(estimator.settings, Known(), estimator.as_passed)
    first = plugin.data.initial
    assert_equal_up_to_scale([(first.target, first.weight)], estimator.chunks(scheme, 1))
    assert scheme.n_floored == plugin.data.n_floored
    with pytest.raises(ValueError, match="nothing to refresh"):
        plugin.refreshed(1)


@pytest.mark.filterwarnings("ignore:At time .* the completion model expects")
@pytest.mark.parametrize("whole_days", [False, True])
def test_completed_targets_are_those_of_the_estimator(whole_days):
    given = people(whole_days)
    plugin, estimator = Plugin(*given, completion=Exponential()), Estimator(*given)
    estimator.stacked(CompletedScheme, plugin)
    incidence = completing_incidence(Exponential(), given[0], in_training=True)
    scheme = CompletedScheme(estimator.settings, estimator.marginal, incidence)
    first = plugin.data.initial
    assert_equal_up_to_scale([(first.target, first.weight)], estimator.chunks(scheme, 1))
    with pytest.raises(ValueError, match="nothing is left to refresh"):
        plugin.refreshed(1)


def test_one_draw_asks_only_about_people_who_left_before_a_horizon():
    given = people(False)
    plugin, estimator = Plugin(*given), Estimator(*given)
    estimator.stacked(AlternatingScheme, plugin)
    rows = estimator.rows
    everyone = AlternatingScheme(estimator.settings, None, estimator.start)
    few = AlternatingScheme(replace(estimator.settings, one_draw=True), None, estimator.start)
    for ask, exited in (
        ("event_probes", rows.censorings.exited),
        ("censoring_probes", rows.events.exited),
    ):
        asked, all_asked = getattr(few, ask)(rows), getattr(everyone, ask)(rows)
        assert_array_equal(asked.person, exited)
        assert asked.n_probes < all_asked.n_probes
        assert_array_equal(asked.feature, all_asked.last(all_asked.feature, exited))


def test_the_last_probe_of_each_person():
    probes = Probes.at_exits(
        np.array([2, 2, 5, 7, 7, 7]), np.array([0.0, 1.0, 3.0, 0.5, 0.6, 0.7]), TimeAxis(0.0)
    )
    assert_array_equal(probes.last(probes.times, np.array([7, 2, 7])), [0.7, 1.0, 0.7])


def test_without_a_censoring_model_weights_stay_those_of_kaplan_meier():
    given = people(False)
    plugin, estimator = Plugin(*given), Estimator(*given)
    estimator.stacked(AlternatingScheme, plugin)
    scheme = AlternatingScheme(estimator.settings, None, estimator.start)
    (_, first), (_, later) = estimator.chunks(scheme, 2)
    assert_array_equal(first, later)
    assert scheme.refreshed_rounds == []
    with pytest.raises(RuntimeError, match="no rounds yet"):
        EventMargins(0, True).at_horizons()
