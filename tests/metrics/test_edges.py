"""No input that passes the checks makes a metric fail: follow-up may end anywhere."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scores import NAMES, estimate_of, value_of

from survival_objectives.metrics import Evaluation, FollowUpWarning

N_SAMPLES, N_TIMES = 6, 3
LOSSES = ("brier_score", "log_loss", "integrated_brier_score", "integrated_log_loss")
SHARES = ("concordance_index", "time_dependent_auc")


def outcomes():
    return st.tuples(
        hnp.arrays(np.int64, N_SAMPLES, elements=st.integers(0, 2)),
        hnp.arrays(np.int64, N_SAMPLES, elements=st.integers(0, 4)),
    )


@given(
    y_train=outcomes(),
    y_test=outcomes(),
    odds=hnp.arrays(np.int64, (N_SAMPLES, 3, N_TIMES), elements=st.integers(0, 3)),
    times=hnp.arrays(np.int64, N_TIMES, elements=st.integers(0, 6)),
)
@settings(max_examples=80, deadline=None)
@pytest.mark.filterwarnings("ignore::survival_objectives.metrics.FollowUpWarning")
def test_metrics_are_numbers_or_nan_for_any_input(y_train, y_test, odds, times):
    odds[:, 0] += 1
    incidence = odds / odds.sum(axis=1, keepdims=True)
    arguments = (y_train, y_test, incidence, times)
    for name in (*LOSSES, "observed_expected"):
        value = value_of(name, *arguments)
        assert ((value >= 0) | np.isnan(value)).all(), name
    for name in SHARES:
        value = value_of(name, *arguments)
        assert (((value >= 0) & (value <= 1 + 1e-12)) | np.isnan(value)).all(), name
    evaluation = Evaluation(*arguments)
    value = evaluation.concordance(changing=True).value
    assert (((value >= 0) & (value <= 1)) | np.isnan(value)).all()
    value = evaluation.scaled_brier().value
    assert ((value <= 1) | np.isnan(value)).all()
    groups = evaluation.risk_groups(0, times[0])
    for test in (evaluation.d_calibration(), groups):
        assert 0 <= test.p_value <= 1 or np.isnan(test.p_value)
    assert len(groups.observed) <= N_SAMPLES
    found = evaluation.calibration(0, times[0])
    assert len(found.observed) == len(found.predicted) <= N_SAMPLES
    assert found.emax.value >= found.ici.value - 1e-12 >= -1e-12
    value = evaluation.net_benefit(0, times[0])["treated"]
    assert ((value <= 1) | np.isnan(value)).all()


@pytest.mark.parametrize("name", NAMES)
def test_warnings_point_at_the_caller(name):
    y = ([1, 2, 0], [1.0, 2.0, 3.0])
    times = [0.5] if name == "concordance_index" else [4.0]
    with pytest.warns(FollowUpWarning) as caught:
        estimate_of(name, y, y, np.full((3, 3, 1), 1 / 3), times)
    assert {Path(warning.filename).name for warning in caught} == {"scores.py"}
