"""Training on batches that are never in memory together."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from estimator_data import fitted_attributes
from seed_noise import largest_mean
from sklearn.base import clone

from survival_objectives import HazardBoost, SurvivalBoost, load
from survival_objectives._hazards import people as hazard_people
from survival_objectives._horizons.loop import BoostingLoop
from survival_objectives._horizons.schemes import AlternatingScheme
from survival_objectives.adapters.external_memory import ParquetBatches, fit_external
from survival_objectives.adapters.external_memory import _training as external_memory
from survival_objectives.datasets import integrated_squared_error, make_competing_risks

TIMES = np.linspace(0.1, 3.0, 20)


def boost(**settings):
    defaults = {
        "n_estimators": 30,
        "learning_rate": 0.2,
        "max_depth": 3,
        "n_jobs": 1,
        "random_state": 0,
    }
    return SurvivalBoost("xgboost", **{**defaults, **settings})


@pytest.fixture(scope="module")
def data():
    return make_competing_risks(2000, n_causes=2, n_features=4, random_state=0)


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """Two files, the second with another set of categories."""
    folder = tmp_path_factory.mktemp("people")
    people = pd.concat([data.X, data.y], axis=1)
    people["weight"] = np.where(np.arange(2000) % 10 == 0, 0.0, 1.0)
    for number, levels in enumerate((["a", "b"], ["c", "a"])):
        part = people.iloc[1000 * number : 1000 * (number + 1)].copy()
        part["kind"] = pd.Categorical(np.where(part["x0"] > 0, levels[0], levels[1]))
        part.to_parquet(folder / f"part-{number}.parquet", index=False)
    return folder


def error_to_truth(model, data):
    test = data.draw(500, random_state=1)
    truth = test.true.cumulative_incidence(test.X, TIMES)
    return integrated_squared_error(truth, model.predict_cumulative_incidence(test.X, TIMES), TIMES)


@pytest.mark.parametrize("censoring", ["boosted", "kaplan-meier"])
def test_it_is_as_near_to_the_truth_as_in_memory(data, folder, censoring):
    batches = ParquetBatches(folder, features=list(data.X.columns), batch_size=300)
    in_memory = [
        error_to_truth(boost(censoring=censoring, random_state=seed).fit(data.X, data.y), data)
        for seed in range(8)
    ]
    models = [
        fit_external(boost(censoring=censoring, random_state=seed), batches) for seed in range(4)
    ]
    errors = [error_to_truth(model, data) for model in models]
    assert np.mean(errors) < largest_mean(in_memory, len(errors))
    for model in models:
        assert (model.refreshed_rounds_ == [10, 20]) == (censoring == "boosted")


def test_what_is_known_of_everyone_does_not_depend_on_the_batches(data):
    halves = [(data.X.iloc[:900], data.y.iloc[:900]), (data.X.iloc[900:], data.y.iloc[900:])]
    one, two = fit_external(boost(), [(data.X, data.y)]), fit_external(boost(), halves)
    local = boost().fit(data.X, data.y)
    for model in (one, two):
        frame, expected = model.fitted_model.frame, local.fitted_model.frame
        assert frame.t_max == expected.t_max
        np.testing.assert_array_equal(frame.censoring_curve.values, expected.censoring_curve.values)
        start, expected = model.fitted_model.start, local.fitted_model.start
        np.testing.assert_allclose(start.initial, expected.initial, atol=0.1)


def test_the_same_seed_gives_the_same_model_that_can_be_saved(data, folder, tmp_path):
    batches = ParquetBatches(folder, sample_weight="weight", batch_size=700)
    first, second = (fit_external(boost(), batches, cache_folder=tmp_path) for _ in range(2))
    assert not list(tmp_path.iterdir())
    assert bytes(first.booster_.save_raw()) == bytes(second.booster_.save_raw())

    people = pd.read_parquet(folder / "part-1.parquet").drop(columns=["event", "duration"])
    people = people.drop(columns="weight")
    first.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(
        loaded.predict_survival_function(people, TIMES),
        second.predict_survival_function(people, TIMES),
    )
    assert loaded._schema.categories[4].tolist() == ["a", "b", "c"]


def test_early_stopping_on_held_out_people(data):
    other = data.draw(500, random_state=1)
    model = boost(early_stopping_rounds=5, n_estimators=200)
    fit_external(model, [(data.X, data.y)], eval_set=(other.X, other.y))
    losses = [record.loss for record in model.history_]
    assert model.n_estimators_ == np.argmin(losses) + 1 < 200


def test_people_who_are_drawn_are_those_drawn_in_memory(data, monkeypatch):
    monkeypatch.setattr(hazard_people, "_FEW_PEOPLE", 100)
    monkeypatch.setattr(hazard_people, "_ROWS_OF_50_000", 10_000)
    drawn = []
    take = hazard_people.HazardPeople.take
    watched = lambda people, chosen: drawn.append(len(chosen)) or take(people, chosen)  # noqa: E731
    monkeypatch.setattr(hazard_people.HazardPeople, "take", watched)
    settings = {"n_folds": 2, "n_repeats": 1, "n_jobs": 1, "random_state": 0}
    model = HazardBoost("xgboost", **settings).fit(data.X, data.y)
    other = fit_external(HazardBoost("xgboost", **settings), in_batches(data, 300))
    assert len(drawn) == 2
    assert drawn[0] == drawn[1] < 1_000
    curves = (one.predict_cumulative_incidence(data.X, TIMES) for one in (model, other))
    np.testing.assert_array_equal(*curves)


@pytest.fixture
def watch(monkeypatch, tmp_path):
    """Sizes of the batches that XGBoost is given; by refresh, the files of rows it keeps."""
    sizes, files = [], []
    read = external_memory._Reader.next
    advance_censoring = AlternatingScheme._advance

    def watched(self, input_data):
        def recorded(**batch):
            sizes.append(len(batch["data"]))
            return input_data(**batch)

        return read(self, recorded)

    def advance(self, chunk, *arguments):
        # One matrix may have several files; their names begin with its own.
        names = {path.name.split(".")[0] for path in tmp_path.rglob("rows-*")}
        files.append(names)
        return advance_censoring(self, chunk, *arguments)

    monkeypatch.setattr(external_memory._Reader, "next", watched)
    monkeypatch.setattr(AlternatingScheme, "_advance", advance)
    return sizes, files


def in_batches(data, size):
    return [(data.X.iloc[a : a + size], data.y.iloc[a : a + size]) for a in range(0, 2000, size)]


def test_no_more_than_a_batch_is_in_memory_and_the_rest_on_disk(data, tmp_path, watch, monkeypatch):
    """Only a few numbers per row grow with people; benchmarks/distributed.py measures them."""

    def in_memory(*arguments, **options):
        msg = "A matrix of all rows was made."
        raise AssertionError(msg)

    def small(values, **options):
        return matrix(values, **options) if len(values) <= 64 else in_memory()

    matrix = xgb.DMatrix
    monkeypatch.setattr(xgb, "QuantileDMatrix", in_memory)
    # Predictions of the trained model are compared for one person.
    monkeypatch.setattr(xgb, "DMatrix", small)
    fit_external(boost(n_horizons=3), in_batches(data, 200), cache_folder=tmp_path)

    sizes, files = watch
    assert max(sizes) <= 3 * 200
    # Three draws of horizons and the exits, for both models.
    assert {len(names) for names in files} == {8}
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------- turns
def test_people_who_take_turns_are_all_learnt_from():
    """Nearly as near to the truth as all people in every round, nearer than one turn alone."""
    data = make_competing_risks(6000, n_causes=2, n_features=4, random_state=0)
    batches = [(data.X.iloc[a : a + 400], data.y.iloc[a : a + 400]) for a in range(0, 6000, 400)]
    settings = {"n_estimators": 60, "learning_rate": 0.1, "refresh_every": 3}
    every, turns = (
        fit_external(boost(**settings), batches, people_per_turn=limit) for limit in (None, 2000)
    )
    alone = boost(**settings).fit(data.X.iloc[:2000], data.y.iloc[:2000])
    errors = [error_to_truth(model, data) for model in (every, turns, alone)]
    assert errors[1] < 1.3 * errors[0]
    assert errors[1] < 0.8 * errors[2]
    assert turns.refreshed_rounds_ == list(range(3, 60, 3))


def test_only_the_people_of_one_turn_are_kept(data, tmp_path, watch):
    """Each refresh has other rows, two matrices a model, whatever the number of people."""
    model = boost(n_horizons=3, n_estimators=50)
    fit_external(model, in_batches(data, 200), people_per_turn=400, cache_folder=tmp_path)
    _, files = watch
    assert [len(names) for names in files] == [4] * 4
    assert not files[0] & files[1]
    assert not list(tmp_path.iterdir())


def test_a_single_turn_is_everyone_and_turns_are_reproducible(data):
    batches = in_batches(data, 1000)
    everyone, single = (
        fit_external(boost(), batches, people_per_turn=limit) for limit in (None, 2000)
    )
    assert bytes(everyone.booster_.save_raw()) == bytes(single.booster_.save_raw())
    first, second = (fit_external(boost(), batches, people_per_turn=1000) for _ in range(2))
    assert bytes(first.booster_.save_raw()) == bytes(second.booster_.save_raw())
    assert bytes(first.booster_.save_raw()) != bytes(single.booster_.save_raw())


def test_the_order_of_the_people_does_not_matter():
    """Files sorted by what matters, with a category and numbers that only the last one has."""
    generator = np.random.default_rng(0)
    is_new = np.arange(4000) >= 2000
    X = pd.DataFrame(
        {
            "kind": pd.Categorical(np.where(is_new, "new", "old"), categories=["old", "new"]),
            "number": np.where(is_new, 10.0, 0.0) + generator.random(4000),
        }
    )
    y = pd.DataFrame({"event": 1, "duration": generator.exponential(np.where(is_new, 0.25, 4.0))})
    y.loc[y["duration"] > 2, ["event", "duration"]] = 0, 2.0
    for column in X:
        batches = [
            (X[[column]].iloc[a : a + 500], y.iloc[a : a + 500]) for a in range(0, 4000, 500)
        ]
        model = boost(n_estimators=40, refresh_every=5, learning_rate=0.3)
        fit_external(model, batches, people_per_turn=600)
        survival = model.predict_survival_function(X[[column]].iloc[[0, -1]], [0.5])[:, 0]
        np.testing.assert_allclose(survival, np.exp([-0.125, -2.0]), atol=0.08)


def test_a_category_that_the_first_turn_lacks_has_its_own_bin(data):
    """Three people of a kind in 2000: the first turn has none of them, the bins have all kinds."""
    X = data.X.copy()
    kind = np.zeros(2000, np.int64)
    kind[[1, 700, 1500]] = 1
    X["kind"] = pd.Categorical.from_codes(kind, ["usual", "rare"])
    seen = []
    binned = external_memory._Trainer._binned

    def watched(self, rows):
        seen.append(max(np.nanmax(values[:, -2]) for values, _ in rows() if len(values)))
        return binned(self, rows)

    batches = [(X.iloc[a : a + 200], data.y.iloc[a : a + 200]) for a in range(0, 2000, 200)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(external_memory._Trainer, "_binned", watched)
        fit_external(boost(refresh_every=1), batches, people_per_turn=100)
    # The bins of both models come first; most turns have no one of the kind.
    assert seen[:2] == [1.0, 1.0]
    assert 0 < np.mean(seen[2:]) < 0.5


@pytest.mark.parametrize("censoring", ["boosted", "imputed", "kaplan-meier"])
def test_turns_without_anyone_who_was_censored(data, censoring):
    y = data.y.copy()
    censored = np.flatnonzero(y["event"] == 0)
    y.loc[censored[2:], "event"] = 1
    batches = [(data.X.iloc[a : a + 200], y.iloc[a : a + 200]) for a in range(0, 2000, 200)]
    model = boost(censoring=censoring, refresh_every=3)
    fit_external(model, batches, people_per_turn=200)
    survival = model.predict_survival_function(data.X, TIMES)
    whole = boost(censoring=censoring).fit(data.X, y).predict_survival_function(data.X, TIMES)
    assert np.abs(survival.mean(axis=0) - whole.mean(axis=0)).mean() < 0.05


def test_turns_that_would_never_come_are_told_of(data):
    with pytest.warns(UserWarning, match=r"take 10 turns.* 3 refreshes.* 70% are not used"):
        fit_external(boost(), in_batches(data, 200), people_per_turn=200)


@pytest.mark.parametrize(("n_people", "size", "limit"), [(2000, 200, 450), (150, 2, 30)])
def test_everyone_has_one_turn_in_as_many_refreshes(data, monkeypatch, n_people, size, limit):
    """Turns are of one size, also where batches are smaller than the number of turns."""
    turns = []
    begin_turn = BoostingLoop._begin_turn

    def watched(self, turn):
        begin_turn(self, turn)
        turns.append(np.concatenate([f.values[:, 0] for _, f in self.people.batches]))

    monkeypatch.setattr(BoostingLoop, "_begin_turn", watched)
    X, y = data.X.iloc[:n_people], data.y.iloc[:n_people]
    batches = [(X.iloc[a : a + size], y.iloc[a : a + size]) for a in range(0, n_people, size)]
    model = boost(n_estimators=20, refresh_every=2, min_split_gain=0.0, min_leaf_people=0.5)
    fit_external(model, batches, people_per_turn=limit)
    assert len(turns) == 10
    everyone = np.sort(X["x0"].to_numpy(np.float32))
    np.testing.assert_array_equal(np.sort(np.concatenate(turns[:5])), everyone)
    np.testing.assert_array_equal(turns[0], turns[5])
    assert max(map(len, turns)) <= limit


# ------------------------------------------------------------------------------- the one front door
def test_labels_counts_and_names_are_those_of_people_in_memory(data):
    """Text labels, "alive" among them, of which a batch may lack some, and people of weight 0."""
    order = np.argsort(data.y["event"].to_numpy(), kind="stable")
    X, y = data.X.iloc[order], data.y.iloc[order]
    y = y.assign(event=y["event"].map({0: "alive", 1: "died", 2: "moved"}))
    weight = (np.arange(2000) % 10 > 0).astype(float)
    parts = [slice(0, 900), slice(900, 1500), slice(1500, 2000)]
    batches = [(X[part], y[part], weight[part]) for part in parts]
    for model in (boost(n_estimators=3), HazardBoost(n_estimators=10, n_jobs=1, random_state=0)):
        local = clone(model).fit(X, y, weight, eval_set=(X[::7], y[::7]))
        fit_external(model, batches, eval_set=(X[::7], y[::7]))
        assert model.event_names_ == local.event_names_ == ("event-free", "died", "moved")
        assert model.n_events_.tolist() == local.n_events_.tolist()
        assert fitted_attributes(model) == fitted_attributes(local)
    with pytest.raises(ValueError, match="Name the labels of people without an observed event"):
        fit_external(boost(), [(X, y.replace({"event": {"alive": "gone home"}}))])
    named = [(X, y.replace({"event": {"alive": "gone home"}}))]
    assert fit_external(boost(n_estimators=3), named, censored="gone home").n_events_[0] > 0
    with pytest.raises(ValueError, match="events are numbers"):
        fit_external(boost(), [(data.X, data.y)], censored="gone home")


def test_the_same_curve_for_all_is_warned_about(data):
    """Unless the features say nothing, which takes all batches to see."""
    model = boost(min_split_gain=1e9, n_estimators=3)
    X, y = data.X.iloc[:, :1] * 0.0, data.y
    halves = [slice(0, 1000), slice(1000, 2000)]
    with pytest.warns(UserWarning, match="all people get the same curve"):
        fit_external(model, [(X[part] + number, y[part]) for number, part in enumerate(halves)])
    fit_external(model, [(X[part], y[part]) for part in halves])


def test_what_needs_people_in_memory_is_refused(data):
    batches = [(data.X, data.y)]
    with pytest.raises(ValueError, match="hazards draw their own subset of people"):
        fit_external(HazardBoost(), batches, people_per_turn=500)
    with pytest.raises(ValueError, match="`warm_start` needs people in memory"):
        fit_external(HazardBoost(warm_start=True, random_state=0), batches)


def test_mistakes_are_named(data, folder, tmp_path):
    batches = [(data.X, data.y)]
    with pytest.raises(ValueError, match="external memory is XGBoost's"):
        fit_external(HazardBoost("lightgbm"), batches)
    with pytest.raises(ValueError, match="needs `eval_set` here"):
        fit_external(boost(early_stopping_rounds=5), batches)
    with pytest.raises(TypeError, match="can be read only once"):
        fit_external(boost(), iter(batches))
    with pytest.raises(ValueError, match="`people_per_turn`"):
        fit_external(boost(), batches, people_per_turn=0)
    with pytest.raises(ValueError, match="`batches` has no people"):
        fit_external(boost(), [])
    with pytest.raises(ValueError, match="Batch 1: columns or their kinds differ"):
        fit_external(boost(), [*batches, (data.X.rename(columns={"x0": "age"}), data.y)])
    with pytest.raises(ValueError, match="Batch 1: `duration` is -1"):
        fit_external(boost(), [*batches, (data.X, data.y.assign(duration=-1.0))])
    with pytest.raises(ValueError, match="has no column 'died'"):
        ParquetBatches(folder, event="died")
    with pytest.raises(FileNotFoundError, match="no Parquet file"):
        ParquetBatches(tmp_path)

    class Forgetful:
        times = 0

        def __iter__(self):
            self.times += 1
            rows = slice(None, 1000 if self.times > 2 else None)
            yield data.X.iloc[rows], data.y.iloc[rows]

    # The first time is the check whether it can be read again at all.
    with pytest.raises(ValueError, match="gave other people when it was read again"):
        fit_external(boost(), Forgetful())


# ------------------------------------------------------------------------------- the same people
class Changing:
    """Batches that differ from the ``first_other``-th pass on; the first reads all outcomes."""

    def __init__(self, data, change, first_other):
        self.batches, self.change = in_batches(data, 500), change
        self.n_passes, self.first_other = 0, first_other

    def __iter__(self):
        self.n_passes += 1
        batches = self.batches
        yield from batches if self.n_passes < self.first_other else self.change(batches)


def swapped(batches):
    return [batches[0], batches[2], batches[1], batches[3]]


def shuffled(batches):
    order = np.random.default_rng(0).permutation(500)
    X, y = batches[2]
    return [*batches[:2], (X.iloc[order], y.iloc[order]), batches[3]]


def other_features(batches):
    X, y = batches[2]
    return [*batches[:2], (X.sample(frac=1, random_state=0).set_axis(X.index), y), batches[3]]


def other_unit(batches):
    return [(X, y.assign(duration=12 * y["duration"])) for X, y in batches]


def weighted(batches):
    return [(X, y, np.arange(1.0, 501)) for X, y in batches]


@pytest.mark.parametrize("limit", [None, 1000])
@pytest.mark.parametrize(
    ("change", "number"),
    [(swapped, 1), (shuffled, 2), (other_features, 2), (other_unit, 0), (weighted, 0)],
)
@pytest.mark.parametrize("first_other", [3, 4])
def test_other_people_on_a_later_pass_are_refused(data, change, number, limit, first_other):
    batches = Changing(data, change, first_other)
    with pytest.raises(ValueError, match=rf"in another order \(batch {number}\)") as error:
        fit_external(boost(n_estimators=4, refresh_every=2), batches, people_per_turn=limit)
    assert ("It was batch 2 before" in str(error.value)) == (change is swapped)


def test_categories_are_known_by_name(data):
    """Codes in a batch alone differ from those among all levels."""
    X = data.X.assign(kind=pd.Categorical(np.where(np.arange(2000) < 1000, "b", "a")))
    parts = [slice(0, 1000), slice(1000, 2000)]
    batches = [(X.iloc[a].assign(kind=list(X["kind"].iloc[a])), data.y.iloc[a]) for a in parts]
    batches = [(part.astype({"kind": "category"}), y) for part, y in batches]
    model = fit_external(boost(n_estimators=5), batches)
    assert sorted(model._schema.categories[4]) == ["a", "b"]


# --------------------------------------------------------------------------------- interruptions
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("n_batches", [5, 9, 14, 40])
def test_an_interruption_in_a_batch_is_raised_as_it_is(data, tmp_path, error, n_batches):
    """In any pass: of the check of all outcomes, of the bins, of what is written."""
    seen = []

    class Interrupted:
        def __iter__(self):
            for batch in in_batches(data, 500):
                seen.append(1)
                if len(seen) == n_batches:
                    raise error
                yield batch

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(error):
        fit_external(boost(), Interrupted(), cache_folder=tmp_path)
    assert signal.getsignal(signal.SIGINT) is handler
    assert not list(tmp_path.iterdir())


_CHILD = """
import os, signal, sys, threading
import numpy as np
from survival_objectives import SurvivalBoost
from survival_objectives.adapters.external_memory import fit_external

# A process that was started in the background inherits that interrupts are ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
generator = np.random.default_rng(0)
X, y = generator.normal(size=(2000, 4)), (np.arange(2000) % 3, generator.exponential(size=2000))
batches = [(X[i::10], (y[0][i::10], y[1][i::10])) for i in range(10)]
model = SurvivalBoost("xgboost", n_estimators=4, refresh_every=2, n_jobs=1, random_state=0)
fit_external(model, batches)
threading.Timer(float(sys.argv[2]), os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        fit_external(model, batches, cache_folder=sys.argv[1])
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("delay", [0.1, 0.23, 0.37])
def test_ctrl_c_is_a_keyboard_interrupt(tmp_path, delay):
    """Wherever it falls: XGBoost reads batches for most of the time."""
    ended = subprocess.run(
        [sys.executable, "-c", _CHILD, str(tmp_path), str(delay)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert (ended.returncode, ended.stdout.strip()) == (0, "interrupted"), ended.stderr
    assert not list(tmp_path.iterdir())


def test_ctrl_c_while_a_matrix_is_deleted_is_not_lost(data, tmp_path, monkeypatch):
    """Python prints and drops an exception in `__del__`, and training would go on."""
    gc.collect()  # Matrices of other tests.
    delete, pressed = xgb.DMatrix.__del__, []

    def interrupted(matrix):
        if isinstance(matrix, xgb.ExtMemQuantileDMatrix) and not pressed:
            pressed.append(1)
            os.kill(os.getpid(), signal.SIGINT)
        delete(matrix)

    monkeypatch.setattr(xgb.DMatrix, "__del__", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            fit_external(boost(n_estimators=3), in_batches(data, 500), cache_folder=tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert pressed
    assert not list(tmp_path.iterdir())


def test_a_handler_of_the_users_own_is_called_and_training_goes_on(data):
    called = []
    before = signal.signal(signal.SIGINT, lambda *_: called.append(1))

    class Interrupting:
        def __iter__(self):
            for number, batch in enumerate(in_batches(data, 500)):
                if number == 2:
                    os.kill(os.getpid(), signal.SIGINT)
                yield batch

    try:
        model = fit_external(boost(n_estimators=3), Interrupting())
    finally:
        signal.signal(signal.SIGINT, before)
    assert called
    plain = fit_external(boost(n_estimators=3), in_batches(data, 500))
    assert bytes(model.booster_.save_raw()) == bytes(plain.booster_.save_raw())


# ------------------------------------------------------------------------------------- a full disk
@pytest.mark.parametrize("free", [0, 3000, 60_000])
def test_a_full_disk_is_an_error_before_anything_is_written(data, tmp_path, monkeypatch, free):
    disk = SimpleNamespace(disk_usage=lambda _: SimpleNamespace(free=free))
    monkeypatch.setattr(external_memory, "shutil", disk)
    with pytest.raises(OSError, match=r"MB are free.*another `cache_folder`") as error:
        fit_external(boost(), in_batches(data, 500), cache_folder=tmp_path)
    assert error.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("max_bin", [32, 256, 700])
@pytest.mark.parametrize("missing", [False, True])
def test_no_more_is_written_than_was_asked_for(data, tmp_path, monkeypatch, max_bin, missing):
    asked, written = [], []
    check = external_memory._Disk._check
    binned = external_memory._Trainer._binned

    def watched(self, needed):
        asked.append(needed)
        return check(self, needed)

    def measured(self, rows):
        asked.clear()
        before = sum(path.stat().st_size for path in tmp_path.rglob("rows-*"))
        matrix = binned(self, rows)
        after = sum(path.stat().st_size for path in tmp_path.rglob("rows-*"))
        written.append((after - before, max(asked)))
        return matrix

    monkeypatch.setattr(external_memory._Disk, "_check", watched)
    monkeypatch.setattr(external_memory._Trainer, "_binned", measured)
    X = data.X.mask(np.random.default_rng(0).random(data.X.shape) < 0.3) if missing else data.X
    batches = [(X.iloc[a : a + 500], data.y.iloc[a : a + 500]) for a in range(0, 2000, 500)]
    model = boost(n_estimators=3, engine_params={"max_bin": max_bin})
    fit_external(model, batches, cache_folder=tmp_path)
    assert written
    for size, needed in written:
        assert 0 < size <= needed
