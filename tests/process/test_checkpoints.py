"""States of trainings: written whole, read back equal, refused when damaged or of other people."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from survival_objectives._hazards.settings import HazardState
from survival_objectives._horizons.settings import LoopState
from survival_objectives._models.fitted import RoundRecord
from survival_objectives._process.checkpoints import Checkpoint, read_checkpoint, write_checkpoint

CHECKPOINT = Checkpoint({"max_depth": 4}, 7, [[0], [1]], [10, 20], ["a", "b", "c"])
LOOP = LoopState(3, b"trees", b"other trees", (RoundRecord(10, 0.5), RoundRecord(20, 0.4)), (10,))
HAZARDS = (
    HazardState()
    .updated("linear", rounds=(0,), log_likelihood=(-3.5,))
    .updated(
        "trees",
        rounds=(0, 10, 20),
        log_likelihood=(-4.0, -3.0, -2.5),
        trees=b"x",
        best=b"y",
    )
)


@pytest.mark.parametrize("state", [LOOP, HAZARDS, HazardState()])
def test_a_state_is_read_back_equal(state, tmp_path):
    write_checkpoint(str(tmp_path), CHECKPOINT, state)
    assert read_checkpoint(str(tmp_path), type(state)) == (CHECKPOINT, state)
    described, trees = state.to_plain()
    plain = json.loads(json.dumps(described))
    assert type(state).from_plain(plain, trees) == state


def test_the_latest_state_replaces_earlier_ones(tmp_path):
    for n_chunks in (1, 2, 10):
        write_checkpoint(str(tmp_path), CHECKPOINT, replace(LOOP, n_chunks=n_chunks))
    assert [path.name for path in tmp_path.iterdir()] == ["chunk-000010"]
    _, state = read_checkpoint(str(tmp_path), LoopState)
    assert state.n_chunks == 10


def test_a_draft_is_no_checkpoint(tmp_path):
    """An interrupted write leaves the checkpoint before it."""
    write_checkpoint(str(tmp_path), CHECKPOINT, LOOP)
    draft = tmp_path / ".draft-1"
    draft.mkdir()
    (draft / "events.ubj").write_bytes(b"half")
    (tmp_path / "chunk-000009").mkdir()
    assert read_checkpoint(str(tmp_path), LoopState) == (CHECKPOINT, LOOP)


def test_an_empty_folder_has_none(tmp_path):
    assert read_checkpoint(str(tmp_path), LoopState) is None
    assert read_checkpoint(str(tmp_path / "nowhere"), LoopState) is None


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda folder: (folder / "events.ubj").write_bytes(b"other"),
            "is not the one that was saved",
        ),
        (lambda folder: (folder / "events.ubj").unlink(), "cannot be used"),
        (lambda folder: metadata(folder).write_text("{"), "cannot be used"),
        (lambda folder: change(folder, seed=None), "not as it was saved"),
        (lambda folder: change(folder, files={"../events": ""}), "not as it was saved"),
    ],
)
def test_damage_is_named(damage, message, tmp_path):
    write_checkpoint(str(tmp_path), CHECKPOINT, LOOP)
    damage(next(tmp_path.iterdir()))
    with pytest.raises(ValueError, match=message):
        read_checkpoint(str(tmp_path), LoopState)


def metadata(folder):
    (path,) = folder.glob("*.json")
    return path


def change(folder, **changes):
    content = {**json.loads(metadata(folder).read_text()), **changes}
    kept = {name: value for name, value in content.items() if value is not None}
    metadata(folder).write_text(json.dumps(kept))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": {"max_depth": 3}}, "max_depth=4, not 3"),
        ({"n_samples": [10, 21]}, "30 people in 2 partitions; here are 31"),
        ({"digests": ["a", "x", "c"]}, "partition 1 differs"),
        ({"digests": ["a", "b", "x"]}, "`eval_set` differs"),
    ],
)
def test_another_training_is_not_resumed(changes, message):
    CHECKPOINT.check_resumes(CHECKPOINT)
    with pytest.raises(ValueError, match=message):
        CHECKPOINT.check_resumes(replace(CHECKPOINT, **changes))


def test_a_state_of_another_estimator_is_refused(tmp_path):
    write_checkpoint(str(tmp_path), CHECKPOINT, LOOP)
    with pytest.raises(ValueError, match="has a LoopState, which is of another estimator"):
        read_checkpoint(str(tmp_path), HazardState)


def test_steps_of_a_state_never_decrease():
    steps, state = [], HazardState()
    for kind in ("linear", "trees"):
        for n_evaluations in (1, 2, 3):
            rounds = tuple(range(0, 10 * n_evaluations, 10))
            state = state.updated(kind, rounds=rounds)
            steps.append(state.n_steps)
    assert steps == list(range(1, 7))
    assert state.n_rounds == 40
