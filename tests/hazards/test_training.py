"""Training of hazard mixtures: batches, several processes, many people, resuming, warm starts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives._engines.protocol import (
    BatchJoiner,
    Evaluator,
    engine,
    models_gradient_hessian,
)
from survival_objectives._engines.settings import TreeSettings
from survival_objectives._hazards import people as hazard_people
from survival_objectives._hazards import problem as hazard_problem
from survival_objectives._hazards.formulas import (
    interval_start,
    mixture_weights,
    risk_rows,
    selected_weights,
    time_corrections,
)
from survival_objectives._hazards.linear import LinearDesign, ridge_hazards
from survival_objectives._hazards.members import HazardTraining
from survival_objectives._hazards.mixture import LINEAR, ON_LINEAR, TREES, Mixture
from survival_objectives._hazards.people import (
    HazardPeople,
    InMemory,
    RowBudget,
    drawn_by_outcome,
    stratified_folds,
)
from survival_objectives._hazards.settings import HazardSettings, HazardState
from survival_objectives._people import Features, check_features
from survival_objectives._people.population import Population

FloatArray = npt.NDArray[np.float64]
SCHEMA = Features(np.empty((0, 3), np.float32), None, {})
KNOTS = np.array([0.0, 0.2, 0.5, 1.0, 2.0, 4.0])
SETTINGS = HazardSettings(n_rounds=40, n_folds=2, n_repeats=1, rows_per_person="all", linear=True)


def simulated(n: int, seed: int = 0, *, weighted: bool = False) -> HazardPeople:
    """Two causes; one effect is linear and one is not, and features have few values."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, size=(n, 3)) / 2
    X[rng.random(n) < 0.1, 2] = np.nan
    time = rng.exponential(np.exp(-X[:, 0] - 2 * (np.abs(X[:, 1]) > 0.9)))
    leave = rng.uniform(0.1, 4, n)
    event = np.where(time <= leave, rng.integers(1, 3, n), 0).astype(np.int32)
    weight = rng.uniform(0.5, 1.5, n) if weighted else None
    position = np.minimum(time, leave)
    return HazardPeople(InMemory(check_features(X)), event, position, weight, KNOTS, 2)


class InBatches:
    """The same features in several batches."""

    def __init__(self, features: Features, size: int) -> None:
        self._features, self._size = features, size

    def __iter__(self) -> Iterator[tuple[slice, Features]]:
        for first in range(0, self._features.n_samples, self._size):
            people = slice(first, min(first + self._size, self._features.n_samples))
            yield people, replace(self._features, values=self._features.values[people])


class TableEvaluator(Evaluator):
    """The numbers of `TableTrainer`, which only itself can evaluate."""

    @property
    def n_margins(self) -> int:
        return int(self.model[0].shape[1])

    @property
    def n_rounds(self) -> int:
        return len(self.model)

    def _rounds(self, values: Any, first: int, last: int) -> FloatArray:
        return np.asarray(np.sum(self.model[first:last], axis=0)[_cell(values)])

    def _read_forest(self) -> Any:
        return SimpleNamespace(is_readable=False)

    def _contributions(self, values: Any) -> Any:
        return np.zeros((len(values), self.n_margins, values.shape[1] + 1))

    def importances(self) -> FloatArray:
        return np.zeros(self.schema.n_features + 1)


def _cell(values: Any) -> Any:
    return (values[:, -1] + (len(KNOTS) - 1) * (np.abs(values[:, 1]) > 0.9)).astype(np.int64)


class TableTrainer(BatchJoiner):
    """Adds a number to each sign of the second feature in each interval, on all processes alike."""

    reference = True

    def __init__(self, model: Any = None, n_models: int = 1, reduction: Any = None) -> None:
        self._rounds: list[FloatArray] = list(model or ())
        self._n_margins = 2 * n_models
        self._reduction = reduction
        self._cells: list[Any] = []
        self._starts: list[FloatArray] = []

    @property
    def n_rounds(self) -> int:
        return len(self._rounds)

    def add(self, values: Any, start: FloatArray) -> int:
        self._cells.append(_cell(values))
        self._starts.append(start)
        return len(self._cells) - 1

    def boost(self, key: int, target: Any, weight: FloatArray, n_rounds: int) -> None:
        size = 2 * (len(KNOTS) - 1)
        for _ in range(n_rounds):
            margin = self.margin(key)
            out = np.empty_like(margin), np.empty_like(margin)
            derivatives = models_gradient_hessian(margin, target, weight, out)
            own = [
                [np.bincount(self._cells[key], column, minlength=size) for column in part.T]
                for part in derivatives
            ]
            gradient, hessian = np.array(own) if self._reduction is None else self._reduction(own)
            self._rounds.append((-0.3 * gradient / (hessian + 1)).T)

    def margin(self, key: int) -> FloatArray:
        return self._starts[key] + self._sum(self._cells[key], 0, self.n_rounds)

    def _sum(self, cell: Any, first: int, last: int) -> FloatArray:
        total = np.zeros((2 * (len(KNOTS) - 1), self._n_margins))
        return np.asarray(np.sum([total, *self._rounds[first:last]], axis=0)[cell])

    def sum_of_trees(self, values: Any, first: int, last: int) -> FloatArray:
        return self._sum(_cell(values), first, last)

    def finished(self, n_rounds: int) -> TableEvaluator:
        return TableEvaluator(tuple(self._rounds[:n_rounds]), SCHEMA)


class ReadingTrainer(TableTrainer):
    """Reads its rows batch by batch, twice, as from disk."""

    n_read = 0

    def add_batches(self, rows: Callable[[], Iterator[Any]]) -> int:
        ReadingTrainer.n_read += len(list(rows()))
        values, start = (np.concatenate(part) for part in zip(*rows(), strict=True))
        return super().add(values, start)


class Workers:
    """Threads in place of processes: each has a part of the people."""

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._barrier = threading.Barrier(n_workers, timeout=60)
        self._own: list[Any] = [None] * n_workers
        self.shapes: list[list[Any]] = [[] for _ in range(n_workers)]

    def reduction(self, rank: int) -> Any:
        return SimpleNamespace(
            is_shared=True,
            sum=partial(self._sum, rank),
            population=Population,
            stream=lambda generator: generator if rank == 0 else generator.spawn(rank)[-1],
        )

    def _sum(self, rank: int, values: npt.ArrayLike) -> FloatArray:
        self._own[rank] = np.asarray(values, np.float64)
        self.shapes[rank].append(self._own[rank].shape)
        self._barrier.wait()
        total = np.sum(self._own, axis=0)
        self._barrier.wait()
        return np.asarray(total)

    def run(self, work: Callable[[int, Any], Any]) -> list[Any]:
        results: list[Any] = [None] * self.n_workers

        def one(rank: int) -> None:
            try:
                results[rank] = work(rank, self.reduction(rank))
            except BaseException as error:
                results[rank] = error
                self._barrier.abort()

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(self.n_workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results


def trained(
    people: HazardPeople, settings: HazardSettings = SETTINGS, booster: Any = None, **options: Any
) -> tuple[Mixture, HazardTraining]:
    generator = np.random.default_rng(options.pop("seed", 0))
    training = HazardTraining(people, settings, generator, booster or TableTrainer, **options)
    return training.mixture(), training


def xgboost_booster(people: HazardPeople, **engine_params: Any) -> Any:
    pytest.importorskip("xgboost")
    schema = next(iter(people.batches))[1]
    params = {"max_bin": 64, **engine_params}
    return partial(
        engine("xgboost").trainer,
        TreeSettings(schema, 2, 0.15, 3, 5.0, 1.0, 1.0, 1, False, 0, 1, params),
    )


def half(people: HazardPeople, first: int, last: int) -> HazardPeople:
    return people.take(np.arange(first, last))


def numbers(mixture: Mixture) -> list[FloatArray]:
    """All numbers of a mixture, apart from those of trees."""
    found = []
    for member in mixture.members.values():
        found.append(np.array([member.weight]))
        found.append(member.model.levels)
        if member.model.coefficients is not None:
            found.append(member.model.coefficients)
    return found


# ---------------------------------------------------------------------------------------- batches
@pytest.mark.parametrize("booster", [TableTrainer, ReadingTrainer, "xgboost"])
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_do_not_change_the_mixture(booster: Any, weighted: bool) -> None:
    people = simulated(600, weighted=weighted)
    values = next(iter(people.batches))[1].values
    own = xgboost_booster(people) if booster == "xgboost" else booster
    whole, _ = trained(people, booster=TableTrainer if booster is ReadingTrainer else own)
    in_batches = replace(people, batches=InBatches(next(iter(people.batches))[1], 250))
    ReadingTrainer.n_read = 0
    parts, _ = trained(in_batches, booster=own)
    assert list(parts.members) == list(whole.members)
    # The order of rows changes the last digits of float32 sums.
    tolerance = 2e-3 if booster == "xgboost" else 1e-9
    for one, other in zip(numbers(whole), numbers(parts), strict=True):
        assert_allclose(one, other, atol=tolerance)
    assert_allclose(whole.incidence(values), parts.incidence(values), atol=tolerance)
    if booster is ReadingTrainer:
        # Each kind of trees reads its rows once, in three batches.
        assert ReadingTrainer.n_read == 6


def test_features_of_some_people_come_from_all_batches() -> None:
    people = simulated(50)
    features = next(iter(people.batches))[1]
    in_batches = replace(people, batches=InBatches(features, 7))
    chosen = np.array([0, 6, 7, 30, 49])
    assert_array_equal(in_batches.features(chosen).values, features.values[chosen])
    both = in_batches.followed_by(half(people, 10, 20))
    assert_array_equal(both.features(np.array([3, 50, 59])).values, features.values[[3, 10, 19]])
    assert both.n_samples == 60


# -------------------------------------------------------------------------------------- processes
def test_sums_over_parts_are_those_of_everyone() -> None:
    people = simulated(300, weighted=True)
    offset = np.random.default_rng(1).normal(size=(2, 300))
    likelihood = np.random.default_rng(2).uniform(0.1, 1, (3, 300))
    whole_features = next(iter(people.batches))[1]
    frame_weights = people.weight
    assert frame_weights is not None

    cost = np.linspace(0, 1, len(likelihood))

    def results(part: HazardPeople, rows_of: slice, **options: Any) -> list[FloatArray]:
        features = next(iter(part.batches))[1]
        assert part.weight is not None
        rows = risk_rows(part.event, part.position, KNOTS, weight=part.weight)
        design = LinearDesign.of(features, part.weight, **options)
        matrix = design.matrix(features.values)
        margin = offset[:, rows_of][:, rows.person] - 1
        own = likelihood[:, rows_of]
        return [
            design.mean,
            design.scale,
            interval_start(rows, 2, 5, offset[:, rows_of], **options),
            ridge_hazards(matrix, rows, 2, 5, 3.0, **options),
            time_corrections(margin, rows, 5, **options),
            mixture_weights(own, part.weight, **options),
            selected_weights(likelihood[:, rows_of], cost, part.weight, **options),
        ]

    assert whole_features.n_samples == 300
    expected = results(people, slice(0, 300))
    parts = [slice(0, 90), slice(90, 300)]

    def work(rank: int, reduction: Any) -> list[FloatArray]:
        part = parts[rank]
        return results(half(people, part.start, part.stop), part, reduction=reduction)

    for found in Workers(2).run(work):
        for one, other in zip(found, expected, strict=True):
            assert_allclose(one, other, atol=1e-10)


def test_two_processes_train_the_mixture_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def alternating(event: Any, *_: Any) -> Any:
        return np.arange(len(event)) % 2

    monkeypatch.setattr(hazard_problem, "stratified_folds", alternating)
    people = simulated(600, weighted=True)
    values = next(iter(people.batches))[1].values
    alone, _ = trained(people)
    parts = [half(people, 0, 200), half(people, 200, 600)]
    workers = Workers(2)

    def work(rank: int, reduction: Any) -> Mixture:
        booster = partial(TableTrainer, reduction=reduction.sum)
        return trained(parts[rank], booster=booster, reduction=reduction)[0]

    first, second = workers.run(work)
    assert workers.shapes[0] == workers.shapes[1]
    for one, other, expected in zip(*map(numbers, (first, second, alone)), strict=True):
        assert_array_equal(one, other)
        assert_allclose(one, expected, atol=1e-9)
    assert_allclose(first.incidence(values), alone.incidence(values), atol=1e-9)


@pytest.mark.parametrize("n_cross_fitted", [50, 50_000])
def test_processes_agree_though_one_has_no_events(
    n_cross_fitted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (hazard_people, hazard_problem):
        monkeypatch.setattr(module, "MANY_PEOPLE", n_cross_fitted)
    people = simulated(700)
    censored = np.flatnonzero(people.event == 0)[:20]
    others = np.setdiff1d(np.arange(700), censored)
    parts = [people.take(others), people.take(censored)]
    workers = Workers(2)
    settings = replace(SETTINGS, rows_per_person=None)

    def work(rank: int, reduction: Any) -> Mixture:
        booster = partial(TableTrainer, reduction=reduction.sum)
        return trained(parts[rank], settings, booster=booster, reduction=reduction)[0]

    first, second = workers.run(work)
    assert workers.shapes[0] == workers.shapes[1]
    for one, other in zip(numbers(first), numbers(second), strict=True):
        assert_array_equal(one, other)


def test_rare_causes_are_judged_by_the_counts_of_all_processes() -> None:
    def work(rank: int, reduction: Any) -> Any:
        # One person with cause 1 in each process, and one person with cause 2 in all.
        event = np.array([0, 0, 0, 0, 1] + [2] * (rank == 0), np.int32)
        generator = np.random.default_rng(rank)
        return stratified_folds(event, 2, generator, reduction, 2), event

    found = Workers(2).run(work)
    assert found[0][0][5] == -1
    held = [folds[4] for folds, _ in found]
    # Either in different folds, or never held out: no model is without the cause.
    assert sorted(held) in ([0, 1], [-1, -1])
    for folds, event in found:
        assert sorted(folds[event == 0]) == [0, 0, 1, 1]


# ------------------------------------------------------------------------------------ many people
def test_rows_follow_the_number_of_people() -> None:
    assert RowBudget.of(50_000, None) == RowBudget(8, 1.0)
    assert RowBudget.of(18_000, None, n_models=5) == RowBudget(8, 1.0)
    assert RowBudget.of(10**6, "all") == RowBudget(None, 1.0)
    assert RowBudget.of(10**6, 5) == RowBudget(5, 1.0)
    total = []
    for n_people in (50_001, 10**5, 10**6, 10**7):
        budget = RowBudget.of(n_people, None)
        assert budget.n_rows is not None
        total.append(n_people * budget.people_share * (budget.n_rows + 1))
        wanted = 450_000 * (n_people / 50_000) ** 0.5  # (80)
        assert 0.7 * wanted < total[-1] < 1.001 * wanted
        several = RowBudget.of(n_people, None, n_models=4)
        assert several.n_rows is not None
        n_several = n_people * several.people_share * (several.n_rows + 1)
        assert 0.6 * 0.7 * wanted < n_several < 0.6 * 1.001 * wanted
    assert np.all(np.diff(total) > 0)


def outcomes(count: list[int], person: Any = None) -> HazardPeople:
    event = np.random.default_rng(0).permutation(np.repeat(np.arange(len(count)), count))
    n = len(event)
    features = InMemory(check_features(np.arange(n)[:, None]))
    event, position = event.astype(np.int32), np.ones(n)
    return HazardPeople(features, event, position, None, KNOTS, len(count) - 1, person=person)


@pytest.mark.parametrize("count", [[7000, 2500, 480, 20], [0, 9000, 1000], [9500, 300, 200]])
def test_people_are_drawn_by_their_outcome(count: list[int]) -> None:
    people, n = outcomes(count), sum(count)
    everyone, most = np.arange(n), 2000
    drawn = drawn_by_outcome(people, everyone, most, np.random.default_rng(1))
    assert drawn is not None
    assert abs(len(drawn.people) - most) <= 1
    assert np.all(np.diff(drawn.people) > 0)
    assert_allclose(drawn.weight.mean(), 1)
    event = people.event[drawn.people]
    found = np.bincount(event, minlength=len(count))
    share = most / n
    # Weighted, each outcome is as frequent as it was.
    weighted = np.bincount(event, drawn.weight, len(count))
    assert_allclose(weighted / weighted.sum(), np.array(count) / n, atol=1 / most)
    for cause in range(1, len(count)):
        assert found[cause] >= 0.9 * share * count[cause] - 1
        if count[cause] < 480:
            assert found[cause] == count[cause]
    assert found[0] >= share / 2 * count[0] - 1
    assert drawn_by_outcome(people, everyone, n, np.random.default_rng(1)) is None


def test_rows_of_a_person_are_drawn_together_by_their_rarest_event() -> None:
    person = np.repeat(np.arange(2500), 4)
    people = outcomes([9900, 80, 20], person)
    drawn = drawn_by_outcome(people, np.arange(10_000), 3000, np.random.default_rng(0))
    assert drawn is not None
    assert abs(len(drawn.people) - 3000) < 200
    members = np.bincount(person[drawn.people], minlength=2500)
    assert set(members) == {0, 4}
    with_event = np.unique(person[people.event > 0])
    assert np.all(members[with_event] == 4)
    for one in np.unique(person[drawn.people])[:50]:
        assert len(np.unique(drawn.weight[person[drawn.people] == one])) == 1


def test_processes_draw_as_many_people_of_each_outcome_together() -> None:
    people = outcomes([7000, 2500, 480, 20])
    parts = [np.arange(3000), np.arange(3000, 10_000)]

    def work(rank: int, reduction: Any) -> Any:
        part = people.take(parts[rank])
        everyone, stream = np.arange(part.n_samples), np.random.default_rng(rank)
        return part, drawn_by_outcome(part, everyone, 2000, stream, reduction)

    found = Workers(2).run(work)
    event = np.concatenate([part.event[drawn.people] for part, drawn in found])
    assert abs(len(event) - 2000) <= 2
    assert np.sum(event == 3) == 20
    weight = np.concatenate([drawn.weight for _, drawn in found])
    assert_allclose(weight.mean(), 1)


def test_with_many_people_the_better_kind_of_trees_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    people, test = simulated(4000), simulated(2000, seed=1)
    values = next(iter(test.batches))[1].values
    booster = xgboost_booster(people)
    few, _ = trained(people, replace(SETTINGS, rows_per_person=None), booster)
    for module in (hazard_people, hazard_problem):
        monkeypatch.setattr(module, "MANY_PEOPLE", 500)
    monkeypatch.setattr(hazard_people, "_ROWS_OF_50_000", 84_000)
    monkeypatch.setattr(hazard_problem, "LINEAR_PEOPLE", 1500)
    monkeypatch.setattr(hazard_problem, "_MOST_HELD_OUT", 1500)
    many, training = trained(people, replace(SETTINGS, rows_per_person=None), booster)
    # 3.56 rows per person: two, besides the last one.
    assert len(training.problem.rows.person) <= 4000 * 3
    assert len(training.problem.held_out) == 1500
    assert many.n_models == 2
    assert len(many.members) <= 2
    assert not {TREES, ON_LINEAR} <= set(many.members)
    raced = {look.kind: look.round for look in training.history}
    assert sorted(raced) == [TREES, ON_LINEAR]
    assert min(raced.values()) == 15
    # The same curves, up to chance.
    difference = many.incidence(values) - few.incidence(values)
    assert np.sqrt(np.mean(difference**2)) < 0.04
    assert np.abs(difference.mean(axis=2)).max() < 0.02
    # Half of the people, where that is the share.
    monkeypatch.setattr(RowBudget, "of", classmethod(lambda cls, *_: cls(2, 0.5)))
    part, training = trained(people, replace(SETTINGS, rows_per_person=None), booster)
    assert training.problem.people.n_samples == 2000
    assert np.sqrt(np.mean((part.incidence(values) - few.incidence(values)) ** 2)) < 0.07


# ------------------------------------------------------------------------------ held-out people
def test_likelihood_of_people_is_the_product_over_their_rows() -> None:
    people = simulated(200, weighted=True)
    problem = trained(people)[1].problem
    rows = problem.held_out_rows
    margin = np.random.default_rng(1).normal(-2, 1, (2, rows.n_rows))
    expected = np.ones(len(problem.held_out))
    for row in range(rows.n_rows):  # (75)
        odds = np.exp(margin[:, row])
        q = np.append(1, odds) / (1 + odds.sum())
        person = rows.person[row]
        share = rows.weight[row] / problem.held_out_weight[person]
        expected[person] *= q[rows.target[row]] ** share
    assert_allclose(problem.likelihood(margin), expected)


def test_people_passed_as_held_out_choose_rounds_and_weights() -> None:
    people, others = simulated(800), simulated(400, seed=1)
    booster = xgboost_booster(people)
    mixture, training = trained(people, booster=booster, held_out=others)
    assert mixture.n_models == 1
    assert training.problem.people.n_samples == 1200
    assert set(training.problem.training_rows(0).person) <= set(range(800))
    assert set(training.problem.calibration.person) <= set(range(800))
    assert set(training.problem.held_out) == set(range(800, 1200))
    assert max(look.round for look in training.history) > 0
    # Judges with the outcomes of other people gain by no tree, but for the mean of the hazards.
    order = np.random.default_rng(0).permutation(400)
    mixed = replace(others, event=others.event[order], position=others.position[order])
    _, strict = trained(people, replace(SETTINGS, linear=False), booster, held_out=mixed, seed=1)
    losses = [look.loss for look in strict.history]
    assert np.argmin(losses) <= 1
    assert losses[-1] > losses[0]


def test_history_progress_and_patience() -> None:
    people = simulated(500)
    booster = xgboost_booster(people)
    calls: list[tuple[int, float]] = []
    settings = replace(SETTINGS, n_rounds=200, linear=False, patience=30)
    mixture, training = trained(
        people, settings, booster, progress=lambda rounds, loss: calls.append((rounds, loss))
    )
    rounds = [look.round for look in training.history]
    losses = [look.loss for look in training.history]
    assert rounds == list(range(0, rounds[-1] + 1, 5))
    best = rounds[int(np.argmin(losses))]
    assert rounds[-1] == best + 30
    trees = mixture.members[TREES].model.trees
    assert trees is not None
    assert trees.n_rounds == best
    assert calls == [(5, loss) for loss in losses[1:]]
    assert 0.5 < losses[0] < 5  # Per person.


# -------------------------------------------------------------------------- checkpoints, warm start
@pytest.mark.parametrize("n_cross_fitted", [100, 50_000])
def test_resumed_mixtures_are_the_same(
    n_cross_fitted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (hazard_people, hazard_problem):
        monkeypatch.setattr(module, "MANY_PEOPLE", n_cross_fitted)
    people = simulated(500)
    values = next(iter(people.batches))[1].values
    booster = xgboost_booster(people)
    expected, _ = trained(people, booster=booster)
    states: list[HazardState] = []
    mixture, whole = trained(people, booster=booster, on_checkpoint=states.append)
    assert_array_equal(mixture.incidence(values), expected.incidence(values))
    assert len(states) > 4
    for number in (0, len(states) // 2, len(states) - 1):
        later: list[HazardState] = []
        resumed, training = trained(
            people, booster=booster, state=states[number], on_checkpoint=later.append
        )
        assert_array_equal(resumed.incidence(values), expected.incidence(values))
        for one, other in zip(numbers(resumed), numbers(expected), strict=True):
            assert_array_equal(one, other)
        assert training.history == whole.history
        assert len(later) == len(states) - number - 1


def test_resumed_mixtures_are_the_same_though_trees_see_drawn_columns() -> None:
    people = simulated(400)
    values = next(iter(people.batches))[1].values
    booster = xgboost_booster(people, colsample_bytree=0.5, subsample=0.7)
    states: list[HazardState] = []
    options: dict[str, Any] = {"booster": booster, "checkpoint_every": 20}
    whole, _ = trained(people, on_checkpoint=states.append, **options)
    for state in (states[0], states[-2]):
        resumed, _ = trained(people, state=state, on_checkpoint=lambda _: None, **options)
        assert_array_equal(resumed.incidence(values), whole.incidence(values))


def test_warm_start_keeps_trees_and_adds_rounds() -> None:
    people = simulated(900)
    values = next(iter(people.batches))[1].values
    booster = xgboost_booster(people)
    short, before = trained(people, replace(SETTINGS, n_rounds=10), booster)
    longer, after = trained(people, SETTINGS, booster, previous=short)
    assert set(longer.members) <= set(short.members)
    assert longer.design is short.design
    for kind in set(longer.members) - {LINEAR}:
        old, new = short.members[kind].model, longer.members[kind].model
        assert old.trees is not None
        assert new.trees is not None
        assert old.trees.n_rounds < new.trees.n_rounds <= 40
        rows = np.column_stack([values, np.zeros(len(values), np.float32)])
        assert_array_equal(
            new.trees.evaluator.sum_of_trees(rows, 0, 10),
            old.trees.evaluator.sum_of_trees(rows, 0, 10),
        )
        assert_array_equal(new.coefficients, old.coefficients)
    # Evaluations go on where they ended, with levels that are corrected in time; trees that had no
    # weight begin again.
    last = {look.kind: look.loss for look in before.history}
    first = {look.kind: look for look in reversed(after.history)}
    assert set(first) == {TREES, ON_LINEAR}
    for kind, look in first.items():
        if kind not in short.members:
            assert look.round == 0
            continue
        assert look.round == 10
        assert last[kind] - 0.05 < look.loss < last[kind] + 0.001
    with pytest.raises(ValueError, match="has 2 models of each kind, but this training has 3"):
        trained(people, replace(SETTINGS, n_folds=3), booster, previous=short)
