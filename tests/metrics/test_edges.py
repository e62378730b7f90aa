"""No input that passes the checks makes a metric fail: follow-up may end anywhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from survival_objectives import metrics
from survival_objectives.metrics import FollowUpWarning

N_SAMPLES, N_TIMES = 6, 3
LOSSES = (
    "brier_score",
    "log_loss",
    "cause_log_loss",
    "integrated_brier_score",
    "integrated_log_loss",
    "integrated_cause_log_loss",
)
SHARES = ("accuracy_in_time", "concordance_index", "time_dependent_auc")
DISTANCES = ("km_calibration", "aj_calibration", "x_calibration")


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
@settings(max_examples=150, deadline=None)
@pytest.mark.filterwarnings("ignore::survival_objectives.metrics.FollowUpWarning")
@pytest.mark.filterwarnings("ignore::survival_objectives.metrics.FewEventsWarning")
def test_metrics_are_numbers_or_nan_for_any_input(y_train, y_test, odds, times):
    odds[:, 0] += 1
    incidence = odds / odds.sum(axis=1, keepdims=True)
    arguments = (y_train, y_test, incidence, times)
    for name in LOSSES + DISTANCES:
        value = np.asarray(getattr(metrics, name)(*arguments))
        assert ((value >= 0) | np.isnan(value)).all(), name
    for name in SHARES:
        value = getattr(metrics, name)(*arguments)
        assert (((value >= 0) & (value <= 1 + 1e-12)) | np.isnan(value)).all(), name
    for test in (
        metrics.d_calibration(*arguments),
        metrics.one_calibration(*arguments, horizon=times[0]),
        metrics.one_calibration(*arguments, horizon=times[0], variance="greenwood"),
    ):
        assert 0 <= test.p_value <= 1 or np.isnan(test.p_value)
    for method in ("pseudo", "aalen-johansen"):
        curve = metrics.calibration_curve(*arguments, horizon=times[0], method=method)
        assert len(curve.observed) <= N_SAMPLES
    predicted = metrics.event_time(incidence, times)
    assert (predicted <= times.max()).all()


@pytest.mark.parametrize("name", [*LOSSES, *SHARES, "km_calibration", "aj_calibration"])
def test_warnings_point_at_the_caller(name):
    y = ([1, 2, 0], [1.0, 2.0, 3.0])
    options = {"weighted": True} if name == "accuracy_in_time" else {}
    times = [0.5] if name == "concordance_index" else [4.0]
    with pytest.warns(FollowUpWarning) as caught:
        getattr(metrics, name)(y, y, np.full((3, 3, 1), 1 / 3), times, **options)
    assert {warning.filename for warning in caught} == {__file__}
