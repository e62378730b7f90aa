"""Stacked rows of people in batches: kept, or drawn again from a seed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_schemes import people

from survival_objectives._horizons.rows import (
    BatchReader,
    Probes,
    StackedPeople,
    joined,
    people_of_turn,
)
from survival_objectives._people.cohort import MemoryBatches, batch_slices
from survival_objectives._people.population import LocalReduction
from survival_objectives.marginal import StepFunction
from survival_objectives.stacking import TimeStacker, event_rows

N_HORIZONS = 3
LOCAL = LocalReduction()


def batches(sizes):
    whole = people(sum(sizes))
    parts = [np.arange(part.start, part.stop) for part in batch_slices(sizes)]
    return MemoryBatches([whole.take(part) for part in parts])


def stacked(sizes, seed=None, **options):
    stacker = TimeStacker(N_HORIZONS, "uniform", horizon_max=3.0, random_state=0)
    return StackedPeople(batches(sizes), stacker, event_rows, seed, **options)


def horizons(rows):
    return np.concatenate([part.events.horizon for part in rows])


@pytest.mark.parametrize("seed", [None, 5])
def test_rows_of_a_draw_are_the_same_whenever_they_are_read(seed):
    rows = stacked([70, 50], seed)
    first, second = rows.draw(LOCAL), rows.draw(LOCAL)
    assert (first.number, second.number) == (0, 1)
    once, again, other = (horizons(rows.rows(number)) for number in (0, 0, 1))
    assert_array_equal(once, again)
    assert not np.isin(once, other).all()


def test_draws_are_found_by_their_numbers():
    """A resumed training begins with a later draw, and finds the rows that it would have had."""
    whole, resumed = stacked([70, 50], 5), stacked([70, 50], 5, first_draw=1)
    whole.draw(LOCAL)
    expected, found = whole.draw(LOCAL), resumed.draw(LOCAL)
    assert found.number == expected.number == 1
    assert_array_equal(found.target, expected.target)


@pytest.mark.parametrize("seed", [None, 5])
def test_a_draw_says_what_its_rows_show(seed):
    rows = stacked([70, 50], seed)
    draw = rows.draw(LOCAL)
    parts = list(rows.rows(draw.number))
    assert_array_equal(draw.target, np.concatenate([part.events.target for part in parts]))
    assert draw.has_at_risk == any(part.events.at_risk.any() for part in parts)
    assert draw.has_censored == any(part.censorings.target.any() for part in parts)
    assert set(draw.target) == {0, 1, 2}


def test_matrices_hold_the_features_and_the_time_of_their_rows():
    rows = stacked([70, 50])
    number, start = rows.draw(LOCAL).number, np.array([0.5, -1.0])
    matrices = rows.event_matrices(number, lambda times: np.tile(start, (len(times), 1)))
    for (values, margin), part, (_, features) in zip(
        matrices, rows.rows(number), rows.batches, strict=True
    ):
        assert_array_equal(values[:, :-1], features.values[part.events.person])
        assert_array_equal(values[:, -1], part.events.horizon)
        assert_array_equal(margin, np.tile(start, (part.events.n_rows, 1)))


def test_the_censoring_model_starts_from_its_curve():
    rows = stacked([70, 50])
    number = rows.draw(LOCAL).number
    curve = StepFunction(np.array([0.5, 1.0]), np.array([-1.0, 0.0]), np.array(-3.0))
    for (values, margin), part in zip(
        rows.censoring_matrices(number, curve), rows.rows(number), strict=True
    ):
        assert_array_equal(margin, curve(part.censorings.horizon))
        assert len(values) == part.censorings.n_rows


@pytest.mark.parametrize("left", [False, True])
def test_probes_are_people_at_their_exits(left):
    rows = stacked([70, 50])
    number = rows.draw(LOCAL).number
    axis = rows.stacker.axis

    def probes(part):
        """People with an event, at it or just before it."""
        person = np.flatnonzero(part.target.event > 0)
        return Probes.at_exits(person, part.target.duration[person], axis, left=left)

    found = list(rows.probe_matrices(number, probes, lambda feature: feature[:, None] + 1))
    values = np.concatenate([matrix for matrix, _ in found])
    start = np.concatenate([margin for _, margin in found])
    target = rows.batches.outcomes().target
    duration = target.duration[target.event > 0]
    assert len(values) == len(duration)
    assert_array_equal(start[:, 0], values[:, -1] + 1)
    assert_allclose(values[:, -1], duration, rtol=1e-6, atol=1e-30)
    if left:
        # In float32, the event itself must not be counted.
        assert (values[:, -1] <= duration).all()


@pytest.mark.parametrize(("sizes", "n_turns"), [([70, 50], 3), ([40, 3, 2, 75], 7)])
def test_turns_share_out_all_people(sizes, n_turns):
    """Everyone has one turn; turns differ by at most one person per batch."""
    whole = batches(sizes)
    turns = [people_of_turn(whole, turn, n_turns, seed=1) for turn in range(n_turns)]
    values = np.concatenate([features.values for turn in turns for _, features in turn])
    everyone = np.concatenate([features.values for _, features in whole])
    assert_array_equal(np.sort(values[:, 0]), np.sort(everyone[:, 0]))
    n_people = [turn.n_samples for turn in turns]
    assert max(n_people) - min(n_people) <= len(sizes)
    # Outcomes stay with their people.
    place = {row.tobytes(): number for number, row in enumerate(everyone)}
    target = whole.outcomes().target
    for turn in turns:
        rows = [place[row.tobytes()] for _, features in turn for row in features.values]
        assert_array_equal(turn.outcomes().target.event, target.event[rows])
        assert_array_equal(turn.outcomes().target.duration, target.duration[rows])


def test_parts_are_joined_in_a_smaller_type_unless_there_is_one():
    one = np.arange(3, dtype=np.int64)
    assert joined([one], np.int8) is one
    both = joined([one, one], np.int8)
    assert both.dtype == np.int8
    assert_array_equal(both, [0, 1, 2, 0, 1, 2])


def test_a_reader_gives_consecutive_rows():
    reader = BatchReader(np.arange(5, dtype=np.float32))
    assert_array_equal(reader.next(2), [0.0, 1.0])
    assert_array_equal(reader.next(3), [2.0, 3.0, 4.0])
    assert reader.next(0).dtype == np.float64
