"""Progress of a training: on one line of standard error, and to callbacks."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from survival_objectives import HazardBoost, SurvivalBoost
from survival_objectives._process import running
from survival_objectives._process.running import Progress, progress_to
from survival_objectives.datasets import make_competing_risks
from survival_objectives.metrics import make_survival_scorer


def test_rounds_loss_and_time_left(capsys, monkeypatch):
    seconds = iter([0.0, 2.0, 6.0])
    monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    with Progress(40, "loss", shown=True) as shown:
        shown.advance(10, 0.5)
        shown.advance(20, 0.25)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("\n")
    lines = [re.sub(r"\s+", " ", line).strip() for line in err.split("\r")[1:]]
    assert lines == [
        "10/40 rounds loss 0.5000 2 s, 6 s left",
        "30/40 rounds loss 0.2500 6 s, 2 s left",
    ]


def test_nothing_is_written_before_the_first_round(capsys):
    with Progress(40, "loss", shown=True):
        pass
    assert capsys.readouterr().err == ""


# --------------------------------------------------------------------------------------- callbacks
DATA = make_competing_risks(300, n_causes=2, random_state=0)
MODELS = [
    HazardBoost(n_estimators=20, n_folds=2, n_repeats=1, random_state=0),
    SurvivalBoost(n_estimators=20, random_state=0),
    SurvivalBoost(n_estimators=20, censoring="imputed", random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=["hazards", "boosted", "imputed"])
def test_callbacks_see_rounds_and_losses(model):
    seen, outside = [], []
    with progress_to(lambda *step: outside.append(step)):
        told = clone(model).fit(DATA.X, DATA.y, callbacks=[lambda *step: seen.append(step)])
    assert seen == outside
    done, total, loss = zip(*seen, strict=True)
    assert list(done) == sorted(set(done))
    assert len(set(total)) == 1
    assert total[0] / 2 < done[-1] <= total[0]
    assert np.isfinite(loss).all()
    quiet = clone(model).fit(DATA.X, DATA.y)
    assert_array_equal(told.predict(DATA.X), quiet.predict(DATA.X))


@pytest.mark.parametrize("model", MODELS[:2], ids=["hazards", "boosted"])
def test_an_exception_of_a_callback_ends_the_training(model):
    def refuse(done, total, loss):
        raise StopIteration(f"at {done}")

    with pytest.raises(StopIteration, match="at "):
        clone(model).fit(DATA.X, DATA.y, callbacks=refuse)
    with pytest.raises(TypeError, match="`callbacks` has 'bar'; each is a function"):
        clone(model).fit(DATA.X, DATA.y, callbacks=["bar"])


@pytest.mark.parametrize("model", MODELS[:2], ids=["hazards", "boosted"])
def test_callbacks_of_scikit_learn(model):
    callback = pytest.importorskip("sklearn.callback")
    scorer = make_survival_scorer("brier")
    monitor = callback.ScoringMonitor(scoring={"brier": scorer})
    fitted = clone(model).set_callbacks(monitor).fit(DATA.X, DATA.y)
    scores = monitor.get_logs().data_as_pandas
    assert scores["brier"].iloc[-1] == scorer(fitted, DATA.X, DATA.y)
    # A callback of a search reaches the models that it trains.
    search = GridSearchCV(clone(model), {"max_depth": [2, 3]}, cv=2)
    # With fewer people, no effect is found in some folds, which is a warning.
    many = make_competing_risks(900, n_causes=2, random_state=0)
    search.set_callbacks(callback.ProgressBar()).fit(many.X, many.y)
    assert not hasattr(fitted, "_callback_fit_ctx")


def test_held_out_people_under_two_names():
    held = DATA.draw(100, random_state=1)
    model = HazardBoost(n_estimators=10, random_state=0)
    pair = clone(model).fit(DATA.X, DATA.y, eval_set=(held.X, held.y))
    apart = clone(model).fit(DATA.X, DATA.y, eval_X=held.X, eval_y=held.y)
    assert_array_equal(pair.predict(DATA.X), apart.predict(DATA.X))
    with pytest.raises(ValueError, match="not both"):
        model.fit(DATA.X, DATA.y, eval_set=(held.X, held.y), eval_X=held.X)
