"""The plugin in the hands of an engineer who does what the engine usually allows."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from numpy.testing import assert_array_equal

from survival_objectives.adapters.catboost import IPCWLoss
from survival_objectives.adapters.lightgbm import IPCWObjective as LightGBMObjective
from survival_objectives.adapters.xgboost import IPCWObjective as XGBoostObjective

OBJECTIVES = {"xgboost": XGBoostObjective, "lightgbm": LightGBMObjective, "catboost": IPCWLoss}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["age", "dose", "mark"])
    return X, (rng.integers(0, 3, 300), rng.exponential(np.exp(-X["age"])))


@pytest.fixture(params=OBJECTIVES)
def objective_type(request):
    return OBJECTIVES[request.param]


def test_unknown_parameters_are_named_with_the_nearest(objective_type, people):
    match = rf"{objective_type.__name__} has no parameter 'n_horizon'. Did you mean 'n_horizons'"
    with pytest.raises(TypeError, match=match):
        objective_type(*people, n_horizon=3)


@pytest.mark.parametrize("name", ["doubly_robust", "monotone"])
def test_words_are_no_flags(objective_type, people, name):
    with pytest.raises(TypeError, match=f"`{name}` must be True or False; got 'yes'"):
        objective_type(*people, **{name: "yes"})


def test_causes_may_be_text(objective_type, people):
    X, (event, duration) = people
    words = np.array(["censored", "death", "relapse"])[event]
    objective = objective_type(X, (words, duration), random_state=0)
    assert objective.event_names_ == ("event-free", "death", "relapse")
    other = objective_type(X, (event, duration), random_state=0)
    assert other.event_names_ is None
    assert_array_equal(objective.target, other.target)
    assert_array_equal(objective.event_ids_, [0, 1, 2])
    # Held-out people may lack a cause, and know no others.
    some = words != "death"
    held_out = objective.held_out(X[some], (words[some], duration[some]))
    assert held_out is not None
    with pytest.raises(ValueError, match="'cured', which was not seen in training"):
        objective.held_out(X, (np.where(words == "death", "cured", words), duration))
    # Only people of weight 0 had the first cause.
    weighted = objective_type(X, (words, duration), sample_weight=some.astype(float))
    assert weighted.event_names_ == ("event-free", "relapse")


@pytest.mark.parametrize("method", ["set_label", "set_weight", "set_base_margin"])
def test_the_matrix_of_xgboost_keeps_labels_weights_and_start(people, method):
    objective = XGBoostObjective(*people, random_state=0)
    for matrix in (objective.dtrain, objective.cv_matrix()):
        with pytest.raises(ValueError, match=rf"which `{method}` would change.*`sample_weight`"):
            getattr(matrix, method)(np.zeros(matrix.num_row()))


def test_an_objective_in_a_scikit_learn_wrapper_says_what_to_pass(people):
    for wrapper, objective in (
        (xgb.XGBClassifier, XGBoostObjective(*people, random_state=0)),
        (lgb.LGBMClassifier, LightGBMObjective(*people, random_state=0)),
    ):
        with pytest.raises(TypeError, match=r"wrappers start at 0.*sklearn_objective"):
            wrapper(objective=objective, n_estimators=2).fit(
                objective.stacked_features, objective.target
            )
