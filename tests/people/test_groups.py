"""Several rows per person, and copies of rows, are held out together."""

import numpy as np
import pytest

from survival_objectives import HazardBoost
from survival_objectives._hazards.people import folds_of_groups, stratified_folds
from survival_objectives._people import copies, row_keys
from survival_objectives.assessment import assess
from survival_objectives.datasets import make_competing_risks


def _copies(X, event, duration):
    return copies(row_keys(np.asarray(X, np.float32)), np.asarray(event), np.asarray(duration))


def _drawn(event, group):
    generator = np.random.default_rng(0)
    return folds_of_groups(lambda units: stratified_folds(units, 2, generator), event, group)


def test_rows_of_a_group_share_a_fold():
    generator = np.random.default_rng(0)
    event = generator.integers(0, 3, 400).astype(np.int32)
    group = generator.integers(0, 90, 400)
    fold = _drawn(event, group)
    assert all(len(np.unique(fold[group == one])) == 1 for one in np.unique(group))
    for cause in range(3):
        assert set(fold[event == cause]) == {0, 1}


def test_groups_of_one_row_change_no_fold():
    event = np.random.default_rng(0).integers(0, 3, 101).astype(np.int32)
    np.testing.assert_array_equal(_drawn(event, None), _drawn(event, np.arange(101)[::-1]))


def test_a_table_twice_and_a_bootstrap_sample_are_copies():
    generator = np.random.default_rng(0)
    X, event = generator.normal(size=(200, 3)), generator.integers(0, 2, 200)
    duration = generator.exponential(size=200)
    assert _copies(X, event, duration) is None
    for rows in (np.tile(np.arange(200), 2), generator.integers(200, size=200)):
        group = _copies(X[rows], event[rows], duration[rows])
        assert len(np.unique(group)) == len(np.unique(rows))
        assert len(np.unique(np.c_[group, rows], axis=0)) == len(np.unique(rows))


def test_equal_features_of_a_coarse_table_are_not_copies():
    generator = np.random.default_rng(0)
    X = generator.integers(0, 2, (500, 3))
    event = (generator.random(500) < 0.02).astype(int)
    # Nearly all people are censored at the end of the study, so that outcomes agree by chance.
    duration = np.where(event == 1, generator.integers(1, 365, 500), 365.0)
    assert _copies(X, event, duration) is None
    assert _copies(X, generator.integers(0, 2, 500), generator.integers(1, 13, 500)) is None


def test_copies_are_found_in_a_coarse_table_of_exact_times():
    generator = np.random.default_rng(0)
    X, event = generator.integers(30, 80, (300, 1)), generator.integers(0, 2, 300)
    duration = generator.exponential(5, 300).round(3)
    assert _copies(X, event, duration) is None
    rows = np.tile(np.arange(300), 2)
    group = _copies(X[rows], event[rows], duration[rows])
    assert (group[:300] == group[300:]).all()
    assert len(np.unique(group)) > 290


def test_missing_values_and_signed_zeros_are_equal():
    key = row_keys(np.array([[np.nan, 0.0], [np.nan, -0.0], [0.0, np.nan]], np.float32))
    assert key[0] == key[1] != key[2]


@pytest.mark.parametrize("engine", ["xgboost", "lightgbm", "catboost"])
def test_copies_train_as_if_named_by_groups(engine):
    data = make_competing_risks(150, n_causes=2, random_state=0)
    rows = np.tile(np.arange(150), 2)
    X, y = data.X.iloc[rows].reset_index(drop=True), data.y.iloc[rows].reset_index(drop=True)

    def fitted(**options):
        model = HazardBoost(engine, n_estimators=20, n_jobs=1, random_state=0)
        return model.fit(X, y, **options).predict_cumulative_incidence(data.X, [0.5, 1.0])

    np.testing.assert_array_equal(fitted(), fitted(groups=rows))
    assert not np.array_equal(fitted(), fitted(groups=np.arange(300)))


def test_wrong_groups_are_refused():
    data = make_competing_risks(60, n_causes=1, random_state=0)
    for groups, message in (
        (np.zeros(59), "shape"),
        ([None, *range(59)], "missing at row 0"),
        (np.zeros(60), "1 different values, too few for `n_folds=2`"),
    ):
        with pytest.raises(ValueError, match=message):
            HazardBoost().fit(data.X, data.y, groups=groups)
    with pytest.raises(ValueError, match="4 different values, too few for `n_splits=5`"):
        assess(HazardBoost(), data.X, data.y, groups=np.arange(60) % 4)


@pytest.mark.filterwarnings("ignore:No split on a feature")
def test_noise_gives_no_gain_where_folds_are_by_person():
    generator = np.random.default_rng(0)
    person = np.repeat(np.arange(300), 4)
    X = generator.normal(size=(300, 5))[person] + 0.01 * generator.normal(size=(1200, 5))
    y = generator.integers(0, 2, 300)[person], generator.exponential(size=300)[person]
    model = HazardBoost(n_jobs=1, random_state=0)

    def gain(groups):
        result = assess(model, X, y, groups=groups, n_splits=3, random_state=0)
        found = result.comparisons.query(
            "model == 'HazardBoost' and reference == 'Kaplan-Meier' "
            "and metric == 'integrated_brier_score'"
        )
        return found.iloc[0]

    assert gain(np.arange(1200))["upper"] < -0.02
    assert gain(person)["upper"] > 0


@pytest.mark.parametrize("rows", [slice(0, 1), "censored"])
def test_held_out_people_who_can_choose_nothing_are_refused(rows):
    data = make_competing_risks(60, n_causes=1, random_state=0)
    chosen = (data.y["event"] == 0).to_numpy() if rows == "censored" else rows
    with pytest.raises(ValueError, match="too few to choose the number of rounds"):
        HazardBoost().fit(data.X, data.y, eval_set=(data.X[chosen], data.y[chosen]))
