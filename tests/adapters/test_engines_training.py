"""What training and prediction promise on every engine, whatever the weights."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.losses import log_loss, probabilities


# --------------------------------------------------------------------------------- reproducibility
def test_same_seed_gives_the_same_model_bit_by_bit(engine, people):
    models = []
    for _ in range(2):
        objective = engine.problem(people.X, people.y, refresh_every=4, random_state=7)
        models.append(engine.train(objective, 12, refresh=True))
    assert engine.bits(models[0]) == engine.bits(models[1])


def test_another_seed_gives_other_horizons(engine, people):
    # Doubly robust targets have rows of everyone.
    first, second = (
        engine.problem(people.X, people.y, doubly_robust=True, random_state=seed).horizon
        for seed in (0, 1)
    )
    assert np.mean(first == second) < 0.05  # Both may meet at the time of an event.


def test_a_held_out_set_leaves_training_as_it_is(engine, people, simulate):
    other = simulate(100, n_features=4, seed=5)
    plain = engine.problem(people.X, people.y, random_state=0)
    watched = engine.problem(people.X, people.y, random_state=0)
    options = engine.early_stopping(watched, watched.held_out(other.X, other.y), patience=50)
    models = engine.train(plain, 8), engine.train(watched, 8, options=options)
    if engine.name == "catboost":  # It keeps the best round only.
        models = [engine.first_rounds(model, engine.best_round(models[1]) + 1) for model in models]
    curves = [plain.predict_cumulative_incidence(model, people.X, [1.0]) for model in models]
    assert_allclose(*curves, atol=1e-12)


# ---------------------------------------------------------------------------------- early stopping
def test_early_stopping_keeps_the_best_round(engine, people, simulate):
    other = simulate(150, n_features=4, seed=5)
    objective = engine.problem(people.X, people.y, refresh_every=10, random_state=0)
    held_out = objective.held_out(other.X, other.y)
    options = engine.early_stopping(objective, held_out, patience=5)
    model = engine.train(objective, 200, refresh=True, learning_rate=0.5, depth=4, options=options)
    scores = engine.scores(model)
    best = engine.best_round(model)
    assert best == int(np.argmin(scores))
    assert len(scores) == best + 1 + 5 < 200
    times = [0.5, 1.0]
    curves = objective.predict_cumulative_incidence(model, people.X, times)
    if engine.name != "catboost":  # It has already dropped the later rounds.
        expected = engine.first_rounds(model, best + 1)
        assert_array_equal(
            curves, objective.predict_cumulative_incidence(expected, people.X, times)
        )
    else:
        assert model.tree_count_ == best + 1


@pytest.mark.parametrize("n_causes", [1, 2])
def test_metric_is_the_log_loss_of_held_out_people(engine, simulate, n_causes):
    """By hand, with weights from the censoring of the training people alone."""
    people = simulate(300, n_causes=n_causes, n_features=3)
    other = simulate(200, n_causes=n_causes, n_features=3, seed=5)
    horizons = np.random.default_rng(3).uniform(0.1, 3, (300, 2))
    objective = engine.problem(
        people.X,
        people.y,
        n_horizons=2,
        horizon_sampler=lambda _, n_samples, *__: horizons[:n_samples],
        random_state=0,
    )
    held_out = objective.held_out(other.X, other.y)
    options = engine.early_stopping(objective, held_out, patience=50)
    model = engine.train(objective, 6, options=options)

    person = np.tile(np.arange(200), 2)
    z = horizons[:200].T.ravel().astype(np.float32)
    d, t = other.y[0][person], other.y[1].astype(np.float32)[person]
    km = KaplanMeierCensoring().fit((people.y[0], people.y[1].astype(np.float32)))
    weight = 1 / np.maximum(np.where(t > z, km.survival(z), km.survival(t, left=True)), 0.05)
    seen = (t > z) | (d > 0)
    n_rounds = engine.best_round(model) + 1
    # Curves at the horizon of each row, one person and one time after the other.
    proba = np.array(
        [
            objective.predict_cumulative_incidence(model, other.X[[i]], [time], calibrated=False)[
                0, :, 0
            ]
            for i, time in zip(person[seen], z[seen], strict=True)
        ]
    )
    target = np.where(t > z, 0, d)[seen]
    expected = log_loss(np.log(proba), target, weight[seen])
    assert_allclose(engine.scores(model)[n_rounds - 1], expected, rtol=1e-5)


def test_held_out_people_never_touch_the_censoring(engine, people, simulate):
    other = simulate(150, n_features=4, seed=5)
    bits = []
    for y in (other.y, (np.ones_like(other.y[0]), other.y[1] / 7)):
        objective = engine.problem(people.X, people.y, refresh_every=3, random_state=0)
        options = engine.early_stopping(objective, objective.held_out(other.X, y), patience=50)
        if engine.name == "catboost":
            options["params"]["use_best_model"] = False
        model = engine.train(objective, 8, refresh=True, options=options)
        G = objective.censoring_.survival(np.full(len(people.X), 0.8), people.X)
        bits.append((engine.bits(model), G.tobytes(), objective.refreshes_))
    assert bits[0] == bits[1]


def test_held_out_people_may_lack_a_cause_but_bring_no_new_one(engine, people, simulate):
    other = simulate(150, n_features=4, seed=5)
    objective = engine.problem(people.X, people.y, random_state=0)
    first_only = np.minimum(other.y[0], 1), other.y[1]
    options = engine.early_stopping(objective, objective.held_out(other.X, first_only), patience=50)
    assert np.isfinite(engine.scores(engine.train(objective, 3, options=options))).all()
    with pytest.raises(ValueError, match="label 3, which was not seen in training"):
        objective.held_out(other.X, (np.where(other.y[0] == 2, 3, other.y[0]), other.y[1]))
    with pytest.raises(ValueError, match="150 rows but `y` has 149"):
        objective.held_out(other.X, (other.y[0][1:], other.y[1][1:]))
    with pytest.raises(ValueError, match=r"3 features, but .* expecting 4 features"):
        objective.held_out(other.X[:, :3], other.y)


# ---------------------------------------------------------------------------------------- monotone
@pytest.mark.parametrize("start", ["constant", "marginal", "zero"])
@pytest.mark.parametrize("n_causes", [1, 2, 3])
def test_survival_never_rises(engine, simulate, n_causes, start):
    people = simulate(300, n_causes=n_causes, n_features=3)
    if engine.name == "catboost" and n_causes > 1:
        with pytest.raises(ValueError, match="CatBoost ignores monotone constraints"):
            engine.problem(people.X, people.y, monotone=True, start=start)
        return
    objective = engine.problem(
        people.X, people.y, monotone=True, start=start, refresh_every=5, random_state=0
    )
    model = engine.train(objective, 30, refresh=True, learning_rate=0.3, depth=4)
    times = np.linspace(0, people.y[1].max() * 1.1, 800)
    survival = objective.predict_survival_function(model, people.X[:60], times)
    assert np.diff(survival, axis=1).max() <= 1e-12
    assert np.ptp(survival) > 0.5
    # So is the censoring that was learnt.
    G = objective.censoring_.survival(np.tile(times[::20], (60, 1)), people.X[:60])
    assert np.diff(G, axis=1).max() <= 1e-12


def test_free_margins_cannot_be_monotone(engine, people):
    with pytest.raises(ValueError, match="needs `margins='reference'`"):
        engine.problem(people.X, people.y, margins="free", monotone=True)
    objective = engine.problem(people.X, people.y, margins="free", random_state=0)
    model = engine.train(objective, 3)
    curves = objective.predict_cumulative_incidence(model, people.X, [0.5, 1.0])
    assert curves.shape == (300, 3, 2)


@pytest.mark.parametrize("margins", ["reference", "free"])
@pytest.mark.parametrize("start", ["constant", "marginal"])
def test_before_the_first_tree_stands_the_start(engine, people, margins, start):
    """At a learning rate of almost 0 everyone gets the constant or the Aalen-Johansen curve."""
    objective = engine.problem(people.X, people.y, margins=margins, start=start, random_state=0)
    model = engine.train(objective, 1, learning_rate=1e-6)
    times = [0.2, 1.0, 2.0]
    curves = objective.predict_cumulative_incidence(model, people.X[:4], times, calibrated=False)
    expected = probabilities(
        objective._start_margin(np.float32(times)), reference=margins == "reference"
    )
    assert_allclose(curves, np.broadcast_to(expected.T, curves.shape), atol=1e-5)
    if start == "constant":
        share = np.bincount(objective.target, objective.initial_weight)
        assert_allclose(expected, np.tile(share / share.sum(), (3, 1)), rtol=1e-6)


# ---------------------------------------------------------------------------------------- features
def mixed_frame(people):
    """A frame with a category, a boolean and missing values everywhere."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(people.X[:, 1:3], columns=["x1", "x2"])
    frame.loc[::9, "x1"] = np.nan
    levels = np.array(["low", "middle", "high"])
    group = levels[np.digitize(people.X[:, 0], [-0.5, 0.5])].astype(object)
    group[::11] = None
    frame["group"] = pd.Categorical(group, categories=levels)
    frame["smoker"] = rng.random(len(frame)) < 0.3
    return frame


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_categories_and_missing_values_are_learnt(engine, simulate, kind):
    people = simulate(600, n_features=3)
    frame = mixed_frame(people)
    if kind == "polars":
        frame = pl.DataFrame(
            {
                "x1": people.X[:, 1],
                "x2": people.X[:, 2],
                "group": pl.Series(
                    frame["group"].astype(object).where(frame["group"].notna(), None).tolist(),
                    dtype=pl.Enum(["low", "middle", "high"]),
                ),
                "smoker": frame["smoker"].to_numpy(),
            }
        )
    objective = engine.problem(frame, people.y, refresh_every=5, random_state=0)
    model = engine.train(objective, 25, refresh=True, learning_rate=0.3)
    curves = objective.predict_cumulative_incidence(model, frame, [1.0])[:, :, 0]
    # The first cause rises with the first feature, of which only the category is left.
    group = np.asarray(frame["group"].to_list(), dtype=object)
    low, high = curves[group == "low", 1].mean(), curves[group == "high", 1].mean()
    assert high > low + 0.1
    assert np.isfinite(curves).all()


def test_order_of_categories_does_not_matter_in_prediction(engine, simulate):
    people = simulate(300, n_features=3)
    frame = mixed_frame(people)
    objective = engine.problem(frame, people.y, random_state=0)
    model = engine.train(objective, 10)
    shuffled = frame.assign(group=frame["group"].cat.reorder_categories(["high", "low", "middle"]))
    assert_array_equal(
        objective.predict_cumulative_incidence(model, frame, [1.0]),
        objective.predict_cumulative_incidence(model, shuffled, [1.0]),
    )


def test_unseen_category_warns_and_counts_as_missing(engine, simulate):
    people = simulate(300, n_features=3)
    frame = mixed_frame(people)
    objective = engine.problem(frame, people.y, random_state=0)
    model = engine.train(objective, 10)
    new = frame.head(5).assign(group=pd.Categorical(["unheard"] * 5))
    missing = frame.head(5).assign(
        group=pd.Categorical([None] * 5, categories=frame["group"].cat.categories)
    )
    with pytest.warns(UserWarning, match="'unheard'"):
        curves = objective.predict_cumulative_incidence(model, new, [1.0])
    assert_array_equal(curves, objective.predict_cumulative_incidence(model, missing, [1.0]))


@pytest.mark.filterwarnings("ignore:No one is censored")
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda X, e, t: (X, e, np.where(t == t.max(), np.nan, t)),
            ValueError,
            "`duration` is nan",
        ),
        (lambda X, e, t: (X, e, -t), ValueError, "durations are counted from 0"),
        (lambda X, e, t: (X, e - 1, t), ValueError, "`event` is -1"),
        (lambda X, e, t: (X, 0 * e, t), ValueError, "All 300 people are censored"),
        (lambda X, e, t: (X, np.ones_like(e), 0 * t), ValueError, "All durations are 0"),
        (lambda X, e, t: (X[1:], e, t), ValueError, "299 rows but `y` has 300"),
        (lambda X, e, t: (X, e[1:], t), ValueError, "299 values but `duration` has 300"),
        (lambda X, e, t: (np.where(X > 1, np.inf, X), e, t), ValueError, "`X` is inf at row"),
        (lambda X, e, t: (X[:0], e[:0], t[:0]), ValueError, "empty"),
        (lambda X, e, t: (X.astype(str), e, t), TypeError, "features must be numbers"),
        (
            lambda X, e, t: (pd.DataFrame(X, columns=["a", "b", "a", "c"]), e, t),
            ValueError,
            "'a' more than once",
        ),
    ],
)
def test_bad_input_is_named_before_training(engine, people, change, error, message):
    X, event, duration = change(people.X, *people.y)
    with pytest.raises(error, match=message):
        engine.problem(X, (event, duration))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_horizons": 0}, ValueError, "n_horizons"),
        ({"refresh_every": 2.5}, TypeError, "refresh_every"),
        ({"margins": "both"}, ValueError, "margins"),
        ({"start": "anywhere"}, ValueError, "start"),
        ({"censoring": "cox"}, ValueError, "censoring"),
        ({"horizon_sampler": "now"}, ValueError, "horizon_sampler"),
        ({"min_censoring_survival": 0}, ValueError, "min_censoring_survival"),
        ({"min_event_survival": 2}, ValueError, "min_event_survival"),
        ({"sample_weight": [1.0]}, ValueError, "sample_weight"),
        ({"random_state": -1}, ValueError, "random_state"),
        ({"horizon_max": -1.0}, ValueError, "horizon_max"),
    ],
)
def test_bad_options_are_named_before_training(engine, people, options, error, message):
    with pytest.raises(error, match=message):
        engine.problem(people.X, people.y, **options)


def test_bad_people_and_times_are_named_in_prediction(engine, people):
    frame = pd.DataFrame(people.X, columns=list("abcd"))
    objective = engine.problem(frame, people.y, random_state=0)
    model = engine.train(objective, 2)
    predict = objective.predict_cumulative_incidence
    with pytest.raises(ValueError, match="in another order"):
        predict(model, frame[list("dcba")], [1.0])
    with pytest.raises(ValueError, match=r"3 features, but .* expecting 4 features"):
        predict(model, people.X[:, :3], [1.0])
    with pytest.raises(ValueError, match=r"`times` is -1\.0"):
        predict(model, frame, [-1.0])
    with pytest.raises(ValueError, match="`times` is empty"):
        predict(model, frame, [])
    assert predict(model, frame.head(1), 1.0).shape == (1, 3, 1)


# ---------------------------------------------------------------------------------- sample weights
def grid_horizons(_, n_samples, n_horizons, target):
    """Horizons that depend on nothing but the outcome, so that a repeated person repeats them."""
    return np.round(np.minimum(target.duration[:, None] * [0.4, 1.3], 3.9), 1) + 0.05


def test_weight_two_is_a_repeated_person(engine, simulate):
    people = simulate(200, n_features=3)
    X, (event, duration) = people.X.round(1), people.y
    twice = np.arange(len(X)) % 3 == 0
    weighted = engine.problem(
        X, people.y, sample_weight=1.0 + twice, n_horizons=2, horizon_sampler=grid_horizons,
        refresh_every=4, random_state=0,
    )  # fmt: skip
    again = np.concatenate([np.arange(len(X)), np.flatnonzero(twice)])
    repeated = engine.problem(
        X[again], (event[again], duration[again]), n_horizons=2, horizon_sampler=grid_horizons,
        refresh_every=4, random_state=0,
    )  # fmt: skip
    total = np.bincount(weighted.person, weighted.initial_weight, minlength=len(X))
    totals = np.bincount(again[repeated.person], repeated.initial_weight, minlength=len(X))
    # Weights are relative: their mean is 1.
    assert_allclose(total * (1.0 + twice).mean(), totals, rtol=1e-5)
    if engine.name == "xgboost":  # The others also count rows, or draw by row.
        curves = [
            problem.predict_cumulative_incidence(
                engine.train(problem, 10, refresh=True, min_weight=0.0, **{"lambda": 0.0}),
                X,
                [0.5, 1.0],
                calibrated=False,  # Knots are quantiles of people, whatever they weigh.
            )
            for problem in (weighted, repeated)
        ]
        assert_allclose(*curves, atol=1e-4)


@pytest.mark.parametrize("n_causes", [1, 2])
def test_weight_zero_is_as_good_as_absent(engine, simulate, n_causes):
    """Whatever happened to them: a cause of their own, the longest duration."""
    people = simulate(200, n_causes=n_causes, n_features=3)
    weight = np.ones(200)
    weight[::5] = 0
    event, duration = people.y
    other = np.where(weight == 0, 7, event), np.where(weight == 0, 1e4, duration)
    objective = engine.problem(
        people.X, other, sample_weight=weight, refresh_every=3, random_state=0
    )
    kept = np.flatnonzero(weight)
    y = event[kept], duration[kept]
    alone = engine.problem(people.X[kept], y, refresh_every=3, random_state=0)
    models = [engine.train(problem, 8, refresh=True) for problem in (objective, alone)]
    assert_array_equal(objective.event_ids_, np.arange(n_causes + 1))
    assert_array_equal(objective.person, kept[alone.person])
    assert engine.bits(models[0]) == engine.bits(models[1])


def test_weights_that_sum_to_one_are_weights_of_one(engine, people):
    """Leaf limits count people, in whatever unit their weights are."""
    equal = np.full(len(people.X), 1 / len(people.X))
    curves = []
    for weight in (None, equal):
        problem = engine.problem(people.X, people.y, sample_weight=weight, random_state=0)
        model = engine.train(problem, 8, min_weight=5.0)
        curves.append(problem.predict_survival_function(model, people.X, [0.5, 1.0]))
    assert_allclose(curves[0], curves[1], atol=1e-5)
    assert curves[1].std(axis=0).min() > 0.01


# ------------------------------------------------------------------------------------------- folds
def test_folds_keep_people_together(engine, people):
    objective = engine.problem(people.X, people.y, random_state=0)
    folds = objective.folds(4, random_state=0)
    tested = np.concatenate([test for _, test in folds])
    assert_array_equal(np.sort(tested), np.arange(len(objective.person)))
    for train, test in folds:
        assert not np.isin(objective.person[train], objective.person[test]).any()
