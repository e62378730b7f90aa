"""The boosting loop, on a booster that records what it is asked."""

from __future__ import annotations

import numpy as np
import pytest
from fixed_trainer import FixedTrainer
from numpy.testing import assert_array_equal
from test_schemes import alternating, boosters, imputed, people

from survival_objectives._horizons.loop import BoostingLoop, HeldOut, LoopSettings, Turns
from survival_objectives._people.cohort import Cohort, MemoryBatches, batch_slices
from survival_objectives._process.checkpoints import Checkpoints
from survival_objectives.stacking import TimeStacker


def new_loop(scheme, whole, n_rounds=35, patience=None, **options):
    return BoostingLoop(
        **{
            "batches": MemoryBatches([whole]),
            "stacker": TimeStacker(3, "mixture", horizon_max=3.0, random_state=0),
            "events": FixedTrainer(2),
            "start": np.zeros(2),
            "scheme": scheme,
            "settings": LoopSettings(n_rounds, 10, 2, patience),
            "censoring": next(iter(boosters(scheme)), None),
            **options,
        }
    )


def test_draws_are_boosted_on_in_turn_by_chunks():
    whole = people()
    scheme = alternating(whole)
    loop = new_loop(scheme, whole)
    loop.run()
    boosted = [(key, n_rounds) for key, _, _, n_rounds in loop.events.boosted]
    assert boosted == [(0, 10), (1, 10), (0, 10), (1, 5)]
    # Two draws of horizons and the exits.
    assert len(loop.events.rows) == len(boosters(scheme)[0].rows) == 3
    assert [n_rounds for _, _, _, n_rounds in boosters(scheme)[0].boosted] == [10, 10, 5]
    assert scheme.refreshed_rounds == [10, 20, 30]
    assert loop.best_round is None


def test_a_short_training_has_no_draw_too_many():
    whole = people()
    loop = new_loop(alternating(whole), whole, n_rounds=4)
    loop.run()
    assert len(loop.events.rows) == 2
    assert [n_rounds for _, _, _, n_rounds in loop.events.boosted] == [4]


def held_out(late):
    """Rows at one time each, all event-free: margins fall before 1 and rise after it."""
    values = np.zeros((4, 3), np.float32)
    values[:, -1] = late
    return HeldOut(values, np.zeros(4, np.int32), np.ones(4))


def test_training_stops_when_the_loss_rises():
    whole = people()
    loop = new_loop(alternating(whole), whole, n_rounds=100, patience=15)
    loop.run(held_out(2.0))
    losses = [record.loss for record in loop.history]
    assert losses == sorted(losses)
    assert len(losses) == 20
    assert loop.best_round == 1
    falling = new_loop(alternating(whole), whole, n_rounds=30, patience=15)
    falling.run(held_out(0.5))
    assert falling.best_round == len(falling.history) == 30
    recorded = new_loop(alternating(whole), whole, n_rounds=30)
    recorded.run(held_out(2.0))
    assert (len(recorded.history), recorded.best_round) == (30, None)


def test_warm_up_rounds_do_not_count():
    whole = people()
    loop = new_loop(imputed(whole), whole, n_rounds=100, patience=15)
    loop.run(held_out(2.0))
    assert loop.best_round == 6  # The first after five rounds of marginal draws.


def test_checkpoints_fall_on_the_next_refresh_and_resume():
    whole, states = people(), []
    loop = new_loop(alternating(whole), whole, checkpoints=Checkpoints(None, 15, states.append))
    loop.run(held_out(2.0))
    assert [(state.n_chunks, state.events) for state in states] == [(2, b"20"), (3, b"30")]
    resumed = new_loop(alternating(whole), whole, checkpoints=Checkpoints(states[0]))
    resumed.run(held_out(2.0))
    assert resumed.history == loop.history
    assert resumed.scheme.refreshed_rounds == loop.scheme.refreshed_rounds
    assert len(resumed.events.boosted) == 2
    for first, again in zip(loop.events.boosted[2:], resumed.events.boosted, strict=True):
        for one, other in zip(first, again, strict=True):
            assert_array_equal(one, other)


def test_each_turn_replaces_the_rows():
    whole = people()
    parts = [whole.take(np.arange(p.start, p.stop)) for p in batch_slices((50, 70))]
    scheme = alternating(whole)
    loop = new_loop(scheme, whole, batches=MemoryBatches(parts), turns=Turns(3, 2))
    loop.run()
    for booster in (loop.events, *boosters(scheme)):
        assert booster.n_released == 4
        assert len(booster.rows) == 2
        assert len(booster.bins) == 1
    # Rows of a turn are of its people, half of all.
    assert loop.people.batches.n_samples == 60
    # Horizons are new in each turn.
    targets = [len(target) for _, target, _, _ in loop.events.boosted]
    assert len(set(targets)) > 1


def test_turns_that_never_come_are_a_warning():
    whole = people()
    loop = new_loop(alternating(whole), whole, turns=Turns(3, 8))
    with pytest.warns(UserWarning, match=r"take 8 turns.* 4 refreshes.* 50% are not used"):
        loop.run()


def test_one_class_cannot_be_learnt():
    whole = Cohort.checked(np.ones((5, 1)), (np.ones(5), np.zeros(5)))
    with pytest.raises(ValueError, match="No one is event-free at any horizon"):
        new_loop(alternating(people()), whole).run()
