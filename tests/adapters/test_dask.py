"""Training on a Dask cluster: four processes, and as many of them as a test wants."""

from __future__ import annotations

import _thread
import gc
import itertools
import os
import signal
import threading
import time
import warnings
from contextlib import nullcontext

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from seed_noise import largest_mean
from sklearn.base import clone

from survival_objectives import SurvivalBoost
from survival_objectives._process.checkpoints import read_checkpoint
from survival_objectives.adapters.dask import DaskSurvivalBoost, WorkerLostError, _worker
from survival_objectives.adapters.dask._pairing import check_same_rows
from survival_objectives.datasets import integrated_squared_error, make_competing_risks

N_WORKERS = 4
TIMES = np.linspace(0.1, 3.0, 20)
SETTINGS = {
    "n_estimators": 20,
    "learning_rate": 0.2,
    "n_jobs": 1,
    "random_state": 0,
    "censoring": "boosted",
}


@pytest.fixture(scope="module")
def client():
    patience = {"distributed.deploy.lost-worker-timeout": "300s"}  # On a busy machine.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            dask.config.set(patience),
            LocalCluster(
                n_workers=N_WORKERS,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client


@pytest.fixture(scope="module")
def data():
    return make_competing_risks(1200, n_causes=2, n_features=4, random_state=0)


def on_workers(client, data, n_workers, n_partitions=4):
    """People in memory of the first workers, which are then the ones that train."""
    workers = sorted(client.nthreads())[:n_workers]
    frames = [dd.from_pandas(part, npartitions=n_partitions) for part in (data.X, data.y)]
    blocks = np.array_split(np.arange(n_partitions), n_workers)
    placed = []
    for frame in frames:
        parts = [
            client.persist(frame.partitions[int(number)], workers=[worker])
            for worker, block in zip(workers, blocks, strict=True)
            for number in block
        ]
        placed.append(dd.concat(parts))
    return placed


def same_model(model, other, X):
    curves = [each.predict_cumulative_incidence(X, TIMES) for each in (model, other)]
    return np.array_equal(*curves)


def error_to_truth(model, data):
    test = data.draw(500, random_state=1)
    curves = model.predict_cumulative_incidence(test.X, TIMES)
    return integrated_squared_error(test.true.cumulative_incidence(test.X, TIMES), curves, TIMES)


@pytest.fixture(scope="module")
def usual_error(data):
    """What one model may err, given the errors of the seeds on one machine."""
    errors = []
    for seed in range(8):
        model = SurvivalBoost("xgboost", **{**SETTINGS, "random_state": seed})
        errors.append(error_to_truth(model.fit(data.X, data.y), data))
    return largest_mean(errors)


# ------------------------------------------------------------------------------------------ parity
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"early_stopping_rounds": 5},
        {"censoring": "kaplan-meier"},
        {"censoring": "imputed"},
        {"censoring": "hazards"},
    ],
)
def test_one_worker_trains_the_model_of_one_machine_bit_for_bit(client, data, settings):
    X, y = on_workers(client, data, 1)
    model = DaskSurvivalBoost(**{**SETTINGS, **settings}).fit(X, y)
    local = SurvivalBoost("xgboost", **{**SETTINGS, **settings}).fit(data.X, data.y)

    assert same_model(model.to_local(), local, data.X)
    assert model.n_floored_ == local.n_floored_
    assert model.history_ == local.history_


@pytest.mark.parametrize("censoring", ["boosted", "hazards"])
def test_a_warm_start_goes_on_as_on_one_machine(client, data, censoring):
    X, y = on_workers(client, data, 1)
    settings = {**SETTINGS, "warm_start": True, "censoring": censoring}
    model = DaskSurvivalBoost(**settings).fit(X, y)
    local = SurvivalBoost("xgboost", **settings).fit(data.X, data.y)
    for each, arguments in ((model, (X, y)), (local, (data.X, data.y))):
        each.set_params(n_estimators=30).fit(*arguments)
    assert model.n_estimators_ == local.n_estimators_
    assert same_model(model.to_local(), local, data.X)


@pytest.mark.parametrize("n_workers", [2, 4])
def test_more_workers_are_as_near_to_the_truth_as_one_machine(client, data, usual_error, n_workers):
    X, y = on_workers(client, data, n_workers)
    model = DaskSurvivalBoost(**SETTINGS).fit(X, y)
    assert error_to_truth(model, data) < usual_error


def test_all_workers_count_everyone(client, data):
    """The population that workers agree on has the Kaplan-Meier curve and quantiles of all."""
    X, y = on_workers(client, data, 4)
    model = DaskSurvivalBoost(**SETTINGS).fit(X, y)
    local = SurvivalBoost("xgboost", **SETTINGS).fit(data.X, data.y)

    frame, expected = model.fitted_model.frame, local.fitted_model.frame
    assert frame.t_max == expected.t_max
    np.testing.assert_allclose(frame.censoring_curve.values, expected.censoring_curve.values)
    np.testing.assert_allclose(model.fitted_model.start, local.fitted_model.start, atol=0.1)


def test_the_same_seed_and_workers_give_the_same_model(client, data):
    X, y = dd.from_pandas(data.X, npartitions=2), dd.from_pandas(data.y, npartitions=2)
    first, second = (DaskSurvivalBoost(**SETTINGS).fit(X, y) for _ in range(2))
    assert same_model(first.to_local(), second.to_local(), data.X)


def test_several_workers_train_hazards(client, data, usual_error, tmp_path):
    """The default, on four workers: nearer to the truth than weights, and resumable."""
    X, y = on_workers(client, data, 4)
    settings = {"n_jobs": 1, "random_state": 0}
    folder = {"checkpoint_folder": str(tmp_path), "checkpoint_every": 10}
    model = DaskSurvivalBoost(**settings, **folder).fit(X, y)
    assert model.censoring_method_ == "hazards"
    assert error_to_truth(model, data) < usual_error
    resumed = DaskSurvivalBoost(**settings, **folder).fit(X, y, resume=True)
    assert same_model(model.to_local(), resumed.to_local(), data.X)


def test_hazards_of_workers_without_a_cause(client, data, usual_error):
    people = pd.concat([data.X, data.y], axis=1).sort_values(["event", "duration"])
    frame = dd.from_pandas(people, npartitions=4, sort=False)
    model = DaskSurvivalBoost(n_jobs=1, random_state=0).fit(frame, ("event", "duration"))
    assert model.event_ids_.tolist() == [0, 1, 2]
    assert error_to_truth(model, data) < usual_error


# ----------------------------------------------------------------------------------- awkward data
def test_workers_without_a_cause_and_empty_or_skewed_partitions(client, data, usual_error):
    """Sorted by event: workers have no cause 1, no cause 2 or no one censored; one is empty."""
    people = pd.concat([data.X, data.y], axis=1).sort_values(["event", "duration"])
    cuts = [0, 0, 700, 710, 1000, 1200]
    pieces = [people.iloc[a:b] for a, b in itertools.pairwise(cuts)]
    parts = [dask.delayed(lambda part: part)(piece) for piece in pieces]
    frame = dd.from_delayed(parts, meta=people.iloc[:0])
    model = DaskSurvivalBoost(**SETTINGS).fit(frame, ("event", "duration"))
    assert model.event_ids_.tolist() == [0, 1, 2]
    assert list(model.feature_names_in_) == list(data.X.columns)
    assert error_to_truth(model, data) < usual_error

    model.set_params(early_stopping_rounds=10).fit(frame, ("event", "duration"))
    assert len(model.history_) >= model.n_estimators_


def test_arrays_with_unknown_chunks_weights_and_split_columns(client, data):
    values, y = data.X.to_numpy(), data.y[["event", "duration"]].to_numpy()
    keep = da.from_array(np.ones(len(values), bool), chunks=600)
    X = da.from_array(values, chunks=(600, 2))[keep]
    y = da.from_array(y, chunks=(600, 2))[keep]
    weight = da.from_array(np.where(values[:, 0] > 0, 1.0, 0.0), chunks=600)[keep]
    assert np.isnan(X.shape[0])

    model = DaskSurvivalBoost(**SETTINGS).fit(X, y, sample_weight=weight)
    curves = model.predict_survival_function(X, TIMES)

    assert isinstance(curves, da.Array)
    assert curves.compute().shape == (1200, 20)


def test_held_out_people_on_the_cluster(client, data):
    other = data.draw(400, random_state=1)
    X, y = on_workers(client, data, 2)
    eval_set = dd.from_pandas(other.X, npartitions=1), dd.from_pandas(other.y, npartitions=1)
    model = DaskSurvivalBoost(**SETTINGS, early_stopping_rounds=15).fit(X, y, eval_set=eval_set)
    losses = [record.loss for record in model.history_]
    assert losses[-1] < losses[0]
    assert model.n_estimators_ == np.argmin(losses) + 1


def test_categories_and_missing_values(client, data):
    X = data.X.copy()
    X["kind"] = pd.Categorical(np.where(X["x0"] > 0, "a", "b"), categories=["b", "a", "c"])
    X.loc[::7, "x1"] = np.nan
    frame, y = dd.from_pandas(X, npartitions=2), dd.from_pandas(data.y, npartitions=2)
    model = DaskSurvivalBoost(**SETTINGS).fit(frame, y)
    assert model._schema.categories[4].tolist() == ["b", "a", "c"]
    assert np.isfinite(model.predict(frame).compute()).all()

    with pytest.raises(ValueError, match=r"categorize\(columns=\['kind'\]\)"):
        model.fit(frame.assign(kind=frame["kind"].cat.as_unknown()), y)


def test_text_is_not_taken_for_a_made_up_level(client, data):
    text = data.X.assign(kind=np.where(data.X["x0"] > 0, "north", "south"))
    frame, y = dd.from_pandas(text, npartitions=2), dd.from_pandas(data.y, npartitions=2)
    with pytest.raises(ValueError, match=r"categorize\(columns=\['kind'\]\)"):
        DaskSurvivalBoost(**SETTINGS).fit(frame, y)
    model = DaskSurvivalBoost(**SETTINGS).fit(frame.categorize(columns=["kind"]), y)
    assert sorted(model._schema.categories[4]) == ["north", "south"]
    row = pd.DataFrame([{**text.iloc[0].to_dict(), "x1": None, "kind": None}])
    expected = model.predict_survival_function(row, [0.5])
    found = model.predict_survival_function(dd.from_pandas(row, npartitions=1), [0.5])
    np.testing.assert_allclose(found.compute(), expected)


# -------------------------------------------------------------------------------------- prediction
def test_predictions_are_lazy_and_those_of_the_local_model(client, data, tmp_path):
    X, y = on_workers(client, data, 2)
    model = DaskSurvivalBoost(**SETTINGS).fit(X, y)
    local = model.to_local()
    assert type(local) is SurvivalBoost
    for method, arguments in (
        ("predict_cumulative_incidence", (TIMES,)),
        ("predict_survival_function", (TIMES,)),
        ("predict_proba", (1.0,)),
        ("predict", ()),
        ("predict_quantile", (0.25,)),
        ("predict_restricted_mean_time", (2.0,)),
        ("shap_values", (1.0,)),
    ):
        lazy = getattr(model, method)(X, *arguments)
        assert isinstance(lazy, da.Array), method
        # Small partitions are predicted by XGBoost in float32, large ones off the trees.
        expected = getattr(local, method)(data.X, *arguments)
        assert lazy.ndim == expected.ndim
        np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-5, atol=1e-6)
    frame = model.predict_survival_function(X, TIMES, as_frame=True)
    assert isinstance(frame, dd.DataFrame)
    pd.testing.assert_index_equal(frame.compute().index, data.X.index)
    assert model.score(X, y) == pytest.approx(local.score(data.X, data.y))

    model.save(tmp_path / "model")
    loaded = DaskSurvivalBoost.load(tmp_path / "model")
    assert same_model(loaded.to_local(), SurvivalBoost.load(tmp_path / "model"), data.X)
    with pytest.raises(ValueError, match="lacks the columns"):
        model.predict(X.rename(columns={"x0": "age"}))


def test_it_is_an_estimator_with_the_parameters_of_survival_boost():
    model = DaskSurvivalBoost(n_horizons=3, checkpoint_folder="here")
    assert clone(model).get_params() == model.get_params()
    assert set(SurvivalBoost().get_params()) < set(model.get_params())
    assert "n_horizons=3" in repr(model)
    with pytest.raises(TypeError, match="n_horizon"):
        DaskSurvivalBoost(n_horizon=3)


# ------------------------------------------------------------------------------------------ faults
LONG = {**SETTINGS, "n_estimators": 200, "checkpoint_every": 20, "timeout": 60}


def at_first_checkpoint(folder, action):
    def wait():
        latest = time.monotonic() + 120
        while not list(folder.glob("chunk-*/checkpoint.json")):
            if time.monotonic() > latest:
                return
            time.sleep(0.01)
        action()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def busy(client):
    states = client.run(lambda: (len(_worker._running), len(_worker._trackers)))
    return {worker: state for worker, state in states.items() if state != (0, 0)}


@pytest.fixture(scope="module")
def halves(data):
    """Two partitions, which are trained on by the first two workers."""
    return tuple(dd.from_pandas(frame, npartitions=2) for frame in (data.X, data.y))


@pytest.fixture(scope="module")
def whole(client, halves, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return DaskSurvivalBoost(**LONG, checkpoint_folder=str(folder)).fit(*halves)


def tasks(client):
    return set(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks)))


@pytest.mark.parametrize("settings", [{"n_estimators": 200}, {"horizon_sampler": lambda *_: 1 / 0}])
def test_no_task_is_left_whatever_still_refers_to_it(client, halves, settings):
    """What is left is bound to its workers, and would bind the next training to them."""
    before = tasks(client)
    gc.disable()  # Tracebacks keep futures: of a wait that timed out, of an error in a notebook.
    try:
        error = None
        try:
            DaskSurvivalBoost(**{**SETTINGS, **settings}).fit(*halves, eval_set=halves)
        except ZeroDivisionError as caught:
            error = caught
        latest = time.monotonic() + 10
        while (left := tasks(client) - before) and time.monotonic() < latest:
            time.sleep(0.1)
    finally:
        gc.enable()
    assert not left
    assert (error is not None) == ("horizon_sampler" in settings)


def test_an_interrupted_client(client, halves, tmp_path):
    """Ends the training soon and leaves nothing behind."""
    model = DaskSurvivalBoost(**LONG, checkpoint_folder=str(tmp_path))
    # Tests that run in the background may ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread = at_first_checkpoint(tmp_path, _thread.interrupt_main)
        with pytest.raises(KeyboardInterrupt):
            model.fit(*halves)
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert not hasattr(model, "booster_")
    assert not busy(client)
    assert not any(client.processing().values())


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_worker(client, data, halves, whole, tmp_path, rank):
    """Ends the training soon and leaves nothing behind; resumed, it is as if uninterrupted.

    The first worker holds the tracker.
    """
    client.wait_for_workers(N_WORKERS, timeout=300)
    victim, pid = sorted(client.run(os.getpid).items())[rank]
    model = DaskSurvivalBoost(**LONG, checkpoint_folder=str(tmp_path))
    thread = at_first_checkpoint(tmp_path, lambda: os.kill(pid, 9))
    with pytest.raises(WorkerLostError, match=victim):
        model.fit(*halves)
    thread.join()
    assert not busy(client)

    _, state = read_checkpoint(str(tmp_path))
    assert state.n_steps > 0
    client.wait_for_workers(N_WORKERS, timeout=300)
    model.fit(*halves, resume=True)
    assert same_model(model.to_local(), whole.to_local(), data.X)

    X, y = halves
    with pytest.raises(ValueError, match="written with max_depth=4, not 2"):
        clone(model).set_params(max_depth=2).fit(X, y, resume=True)
    with pytest.raises(ValueError, match="2 partitions; here are 1"):
        model.fit(X.repartition(npartitions=1), y.repartition(npartitions=1), resume=True)


def test_a_training_is_resumed_with_the_same_people_only(client, data, tmp_path):
    """Known by outcomes, weights and features, of the held-out people too."""
    settings = {**SETTINGS, "n_estimators": 20, "checkpoint_every": 10, "max_depth": 2}
    model = DaskSurvivalBoost(**settings, checkpoint_folder=str(tmp_path))
    few, y = data.X.iloc[:400], data.y.iloc[:400]
    held_out = data.X.iloc[400:600], data.y.iloc[400:600]

    def parts(X, y):
        return tuple(dd.from_pandas(frame, npartitions=2) for frame in (X, y))

    model.fit(*parts(few, y), eval_set=parts(*held_out))
    checkpoint, _ = read_checkpoint(str(tmp_path))
    assert len(checkpoint.digests) == 4
    other = data.X.iloc[600:1000].set_axis(few.index), data.y.iloc[600:1000].set_axis(few.index)
    last = few.copy()
    last.iloc[300] += 1.0
    for people, held, where in (
        (other, held_out, "partition 0"),
        ((last, y), held_out, "partition 1"),
        ((few, y.assign(duration=12 * y["duration"])), held_out, "partition 0"),
        ((few, y), (held_out[0], held_out[1].assign(event=1)), "`eval_set`"),
        ((few, y), None, "`eval_set`"),
    ):
        with pytest.raises(ValueError, match=f"durations in another unit .{where} differs"):
            model.fit(*parts(*people), eval_set=held and parts(*held), resume=True)
    model.fit(*parts(few, y), eval_set=parts(*held_out), resume=True)


# ---------------------------------------------------------------------------------------- mistakes
def test_mistakes_are_named_before_any_training(client, data):
    X, y = dd.from_pandas(data.X, npartitions=2), dd.from_pandas(data.y, npartitions=2)
    model = DaskSurvivalBoost(**SETTINGS)
    with pytest.raises(TypeError, match="`X` is a DataFrame; pass a dask DataFrame"):
        model.fit(data.X, y)
    with pytest.raises(TypeError, match="`y` must be a Dask collection"):
        model.fit(X, data.y)
    with pytest.raises(ValueError, match="`y` has 3 partitions, but `X` has 2"):
        model.fit(X, dd.from_pandas(data.y, npartitions=3))
    with pytest.raises(ValueError, match="has no column 'died'"):
        model.fit(X, ("died", "duration"))
    with pytest.raises(ValueError, match="on Dask it is 'xgboost'"):
        DaskSurvivalBoost("lightgbm").fit(X, y)
    with pytest.raises(ValueError, match="needs the `checkpoint_folder`"):
        model.fit(X, y, resume=True)
    with pytest.raises(ValueError, match="All 1200 people are censored"):
        model.fit(X, y.assign(event=0))
    with pytest.raises(ValueError, match=r"Partition \d: `duration` is -1"):
        model.fit(X, y.assign(duration=-1.0))
    assert not busy(client)


# ----------------------------------------------------------------------------------------- pairing
@pytest.mark.parametrize("where", ["within", "between"])
def test_outcomes_in_another_order_are_refused(client, data, where):
    """Rows are paired by position: a shuffled `y` would be that of other people."""
    order = np.arange(len(data.y))
    order = order[::-1] if where == "within" else np.roll(order, len(order) // 2)
    X = dd.from_pandas(data.X, npartitions=2, sort=False)
    y = dd.from_pandas(data.y.iloc[order], npartitions=2, sort=False)
    with pytest.raises(ValueError, match=r"Partition 0: `y` has another index than `X`: row 0 is "):
        DaskSurvivalBoost(**SETTINGS).fit(X, y)
    columns = {name: y[name] for name in ("event", "duration")}
    with pytest.raises(ValueError, match=r"`y\['event'\]` has another index than `X`"):
        DaskSurvivalBoost(**SETTINGS).fit(X, columns)
    with pytest.raises(ValueError, match="`sample_weight` has another index"):
        DaskSurvivalBoost(**SETTINGS).fit(
            X, X.assign(event=1, duration=1.0)[["event", "duration"]], sample_weight=y["duration"]
        )


@pytest.mark.parametrize(
    ("index", "other", "is_first", "is_same"),
    [
        ([0, 1, 2], [0, 1, 2], True, True),
        ([3, 4, 5], [0, 1, 2], False, True),  # `reset_index` begins again in every partition.
        ([3, 4, 5], [0, 1, 2], True, False),
        ([3, 4, 5], [6, 7, 8], False, False),
        ([3, 4, 5], [5, 3, 4], False, False),
        ([0, 2, 5], [0, 1, 2], False, False),
        (["a", "b", "c"], ["a", "c", "b"], False, False),
    ],
)
def test_row_numbers_may_begin_again_in_every_partition(index, other, is_first, is_same):
    X = pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=index)
    y = pd.Series([1, 2, 3], index=other)
    expected = nullcontext() if is_same else pytest.raises(ValueError, match="has another index")
    with expected:
        check_same_rows(X, {"y": (y, y)}, is_first=is_first)
