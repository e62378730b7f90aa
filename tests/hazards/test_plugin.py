"""Rows, starts and parts of a cross-validation of the hazard plugin, without any engine."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives._hazards.formulas import interval_start
from survival_objectives._hazards.people import HazardPeople, InMemory
from survival_objectives._hazards.plugin import PluginHazards
from survival_objectives._people import Features

KNOTS = np.linspace(0.0, 1.0, 11)


def people_of(n_samples=400, seed=0, group=None, weight=None):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_samples, 3)).astype(np.float32)
    rate = np.exp(np.column_stack([values[:, 0], -values[:, 0] + values[:, 1]]))
    latent = rng.exponential(size=rate.shape) / rate
    time, cause = latent.min(axis=1), latent.argmin(axis=1) + 1
    censoring = rng.uniform(0.1, 1.0, n_samples)
    event = np.where(time <= censoring, cause, 0).astype(np.int32)
    position = np.minimum(time, censoring)
    features = Features(values, None, {})
    return HazardPeople(InMemory(features), event, position, weight, KNOTS, 2, group)


def hazards_of(people, *, linear=True, rows_per_person="all", seed=0):
    return PluginHazards.of(
        people,
        rows_per_person=rows_per_person,
        linear=linear,
        generator=np.random.default_rng(seed),
    )


def test_rows_have_the_interval_last_and_every_person_counts_once():
    people = people_of()
    rows = hazards_of(people).training
    assert_array_equal(rows.values[:, :-1], people.batches.features.values[rows.person])
    assert_array_equal(np.unique(rows.values[:, -1]), np.arange(10))
    assert rows.n_people == 400
    assert rows.values.dtype == rows.weight.dtype == np.float32
    last = rows.target > 0
    assert_array_equal(np.sort(rows.person[last]), np.flatnonzero(people.event))
    expected = np.floor(people.position * 10) + np.where(
        people.event > 0, 1, people.position * 10 % 1
    )
    weight = np.bincount(rows.person, rows.weight)
    assert_allclose(weight, expected, atol=1e-5)


def test_drawn_rows_stand_for_all():
    people = people_of(3000)
    every, drawn = (hazards_of(people, rows_per_person=n).training for n in ("all", 3))
    assert len(drawn.person) < 0.9 * len(every.person)
    assert np.bincount(drawn.person).max() == 4
    assert_allclose(drawn.weight.sum(), every.weight.sum(), rtol=1e-6)


def test_without_a_linear_part_the_start_is_marginal():
    hazards = hazards_of(people_of(), linear=False)
    assert_array_equal(hazards.start.level, interval_start(hazards.rows, 2, 10))
    assert_array_equal(hazards.training.start, hazards.start.level[:, hazards.rows.interval].T)


def test_the_linear_part_finds_the_effects():  # Shrunk, and of wide intervals.
    start = hazards_of(people_of(4000)).start
    raw = start.coefficients / start.design.scale
    assert_allclose(raw, [[1, 0, 0], [-1, 1, 0]], atol=0.3)


def test_constant_features_leave_no_linear_part():
    people = people_of()
    features = replace(people.batches.features, values=np.zeros((400, 2), np.float32))
    start = hazards_of(replace(people, batches=InMemory(features))).start
    assert start.design is None
    assert start.coefficients is None


def test_parts_hold_out_everybody_once_and_share_rows_and_intervals():
    hazards = hazards_of(people_of(), rows_per_person=3)
    parts = hazards.cross_fit(4)
    held = [np.unique(part.held_out_rows.person) for part in parts]
    assert_array_equal(np.sort(np.concatenate(held)), np.unique(hazards.rows.person))
    for part, out in zip(parts, held, strict=True):
        assert not np.isin(part.rows.person, out).any()
        assert part.rows.n_rows + part.held_out_rows.n_rows == hazards.rows.n_rows
        assert part.part_held_out().n_people == len(out)
        assert part.people is hazards.people
        assert part.start.design is hazards.start.design
        assert np.abs(part.start.coefficients - hazards.start.coefficients).max() > 0
    again = hazards.cross_fit(4)
    for part, same in zip(parts, again, strict=True):
        assert_array_equal(part.start.level, same.start.level)


@pytest.mark.parametrize("linear", [True, False])
def test_outcomes_of_held_out_people_do_not_change_the_start(linear):
    people = people_of()
    part = hazards_of(people, linear=linear).cross_fit(4)[1]
    out = np.unique(part.held_out_rows.person)
    event, position = people.event.copy(), people.position.copy()
    # The folds are drawn by event, which thus stays; times of held-out people change.
    position[out] = np.random.default_rng(1).uniform(0.05, 1.0, len(out))
    other = hazards_of(replace(people, event=event, position=position), linear=linear).cross_fit(4)[
        1
    ]
    assert_array_equal(np.unique(other.held_out_rows.person), out)
    assert_array_equal(other.start.level, part.start.level)
    if linear:
        assert_array_equal(other.start.coefficients, part.start.coefficients)
    assert np.abs(other.held_out_rows.weight.sum() - part.held_out_rows.weight.sum()) > 1


def test_rows_of_a_group_are_held_out_together():
    people = people_of(group=np.repeat(np.arange(100), 4))
    for part in hazards_of(people).cross_fit(3):
        held, kept = people.group[part.held_out_rows.person], people.group[part.rows.person]
        assert not np.isin(held, kept).any()


def test_more_folds_than_events_are_refused():
    people = people_of(40)
    event = np.zeros(40, np.int32)
    event[:3] = 1
    hazards = hazards_of(replace(people, event=event, n_causes=1), linear=False)
    assert len(hazards.cross_fit(3)) == 3
    with pytest.raises(ValueError, match="Use fewer folds"):
        hazards.cross_fit(60)


def test_other_people_start_from_the_hazards_of_the_training_people():
    hazards = hazards_of(people_of())
    others = people_of(50, seed=1, weight=np.full(50, 2.0))
    rows = hazards.held_out(others)
    assert rows.n_people == 100
    interval = rows.values[:, -1].astype(int)
    offset = hazards.start.offset(others.batches.features.values)
    assert_allclose(rows.start, (hazards.start.level[:, interval] + offset[:, rows.person]).T)


class KnownTrees:
    """Trees with known margins."""

    def row_margin(self, values, interval):
        return np.stack([0.5 * values[:, 2] + 0.3, -0.2 * interval])


def test_levels_are_corrected_on_the_training_people_alone():
    people = people_of(500)
    part = hazards_of(people).cross_fit(4)[0]
    part = replace(part, held_out_rows=part.held_out_rows.take(slice(0)))
    fitted = part.fitted(KnownTrees())
    rows = part.training
    margin = fitted.level[:, part.rows.interval] + rows.start.T
    margin += KnownTrees().row_margin(rows.values, rows.values[:, -1])
    margin -= part.start.level[:, part.rows.interval]
    odds = np.exp(margin)
    proba = odds / (1 + odds.sum(axis=0))
    expected = (rows.weight * proba).sum(axis=1)
    observed = np.bincount(rows.target, rows.weight, minlength=3)[1:]
    assert_allclose(expected, observed, rtol=0.01)


@pytest.mark.parametrize("scale", [1.0, 0.0])
def test_a_part_leaves_out_trees_that_help_no_held_out_people(scale):
    class Trees:
        def row_margin(self, values, interval):
            # What the linear part lacks, or noise.
            effect = scale * 1.5 * (values[:, 2] > 0) + (1 - scale) * np.sin(97 * values[:, 1])
            return np.stack([effect, 0 * effect])

    people = people_of()
    rng = np.random.default_rng(3)
    values = people.batches.features.values
    rate = np.exp(1.5 * (values[:, 2] > 0))
    position = np.minimum(rng.exponential(size=400) / rate, 1.0)
    event = (position < 1).astype(np.int32)
    hazards = hazards_of(replace(people, event=event, position=position), linear=False)
    fitted = hazards.cross_fit(4)[0].fitted(Trees())
    assert (fitted.trees is not None) == (scale == 1)
    # Without a held-out fold the trees stay.
    assert hazards.fitted(Trees()).trees is not None
