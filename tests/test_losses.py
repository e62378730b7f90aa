"""The loss and its derivatives: formulas (1)-(5) and (19), limits, layouts, propriety."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax, softmax
from simulation import simulate
from sklearn.metrics import log_loss as sklearn_log_loss
from strategies import weighted_rows

from survival_objectives import losses
from survival_objectives.losses import (
    full_hessian,
    gradient_hessian,
    log_loss,
    pointwise_log_loss,
    probabilities,
)

STEP = 2.0**-13
BLOCK = losses._BLOCK  # Rows that the code works on at a time.


def random_rows(n_rows, n_causes=3, *, reference=False, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    margin = rng.normal(scale=2, size=(n_rows, n_causes + 1 - reference)).astype(dtype)
    target = rng.integers(0, n_causes + 1, n_rows).astype(np.int32)
    weight = rng.exponential(size=n_rows).astype(dtype)
    weight[::5] = 0
    return margin, target, weight


# ------------------------------------------------------------------------------ printed formulas
@given(weighted_rows(largest=30.0))
def test_formulas_1_to_5_as_printed(rows):
    n_causes = rows.n_classes - 1
    for i, (f, y, w) in enumerate(zip(*rows.arguments, strict=True)):
        if rows.reference:
            p = {  # (3), with f_1..f_K
                k: np.exp(f[k - 1]) / (1 + sum(np.exp(f[j - 1]) for j in range(1, n_causes + 1)))
                for k in range(1, n_causes + 1)
            }
            p[0] = 1 / (1 + sum(np.exp(f[k - 1]) for k in range(1, n_causes + 1)))
        else:
            p = {  # (2)
                k: np.exp(f[k]) / sum(np.exp(f[j]) for j in range(n_causes + 1))
                for k in range(n_causes + 1)
            }
        classes = range(int(rows.reference), n_causes + 1)
        row = (rows.margin[[i]], rows.target[[i]], rows.weight[[i]])
        proba = probabilities(row[0], reference=rows.reference)[0]
        assert_allclose(proba, [p[k] for k in range(n_causes + 1)], rtol=1e-12)
        loss = pointwise_log_loss(*row, reference=rows.reference)[0]
        assert_allclose(loss, -w * np.log(p[y]), rtol=1e-12, atol=1e-11)  # (1)
        s = 1.7
        gradient, hessian = gradient_hessian(*row, reference=rows.reference, hessian_scale=s)
        assert_allclose(  # (4)
            gradient[0], [w * (p[k] - (y == k)) for k in classes], rtol=1e-12, atol=1e-13
        )
        assert_allclose(
            hessian[0], [s * w * p[k] * (1 - p[k]) for k in classes], rtol=1e-10, atol=1e-13
        )
        full = full_hessian(*row, reference=rows.reference)[0]
        expected = [[w * (p[k] * (k == m) - p[k] * p[m]) for m in classes] for k in classes]
        assert_allclose(full, expected, rtol=1e-10, atol=1e-13)  # (5)


# ------------------------------------------------------------------------------------ derivatives
@given(weighted_rows())
@settings(max_examples=150)
def test_finite_differences_agree_with_gradient_and_hessians(rows):
    gradient, hessian = gradient_hessian(*rows.arguments, reference=rows.reference)
    full = full_hessian(*rows.arguments, reference=rows.reference)

    def at(margin):
        arguments = (margin, rows.target, rows.weight)
        loss = pointwise_log_loss(*arguments, reference=rows.reference)
        return loss, gradient_hessian(*arguments, reference=rows.reference)[0]

    for k in range(rows.margin.shape[1]):
        step = np.zeros(rows.margin.shape[1])
        step[k] = STEP
        (loss_up, gradient_up), (loss_down, gradient_down) = (
            at(rows.margin + step),
            at(rows.margin - step),
        )
        assert_allclose(gradient[:, k], (loss_up - loss_down) / (2 * STEP), atol=1e-6)
        slope = (gradient_up - gradient_down) / (2 * STEP)
        assert_allclose(hessian[:, k], slope[:, k], atol=1e-6)
        assert_allclose(full[:, :, k], slope, atol=1e-6)


@given(weighted_rows())
def test_gradient_sums_to_zero_over_all_classes(rows):
    gradient, _ = gradient_hessian(*rows.arguments, reference=rows.reference)
    total = gradient.sum(axis=1)
    if rows.reference:  # The class left out has the gradient w (p_0 - [y = 0]).
        event_free = probabilities(rows.margin, reference=True)[:, 0]
        total = total + rows.weight * (event_free - (rows.target == 0))
    assert_allclose(total, 0, atol=1e-13)


@given(weighted_rows())
def test_full_hessian_is_positive_semidefinite_with_the_diagonal_of_4(rows):
    _, hessian = gradient_hessian(*rows.arguments, reference=rows.reference)
    full = full_hessian(*rows.arguments, reference=rows.reference)
    assert_allclose(np.diagonal(full, axis1=1, axis2=2), hessian, rtol=1e-14)
    assert_array_equal(full, full.transpose(0, 2, 1))
    assert (np.linalg.eigvalsh(full) > -1e-14).all()
    assert (hessian >= 0).all()


@given(weighted_rows(), st.floats(0, 100))
def test_loss_and_derivatives_are_proportional_to_the_weight(rows, factor):
    margin, target, weight = rows.arguments
    for function in (pointwise_log_loss, gradient_hessian, full_hessian):
        scaled = function(margin, target, factor * weight, reference=rows.reference)
        plain = function(margin, target, weight, reference=rows.reference)
        assert_allclose(scaled, factor * np.asarray(plain), rtol=1e-14, atol=1e-300)


def test_no_weight_is_a_weight_of_one():
    margin, target, _ = random_rows(50)
    ones = np.ones(50)
    assert log_loss(margin, target) == log_loss(margin, target, ones)
    for function in (pointwise_log_loss, gradient_hessian, full_hessian):
        assert_array_equal(function(margin, target), function(margin, target, ones))


def test_hessian_scale_scales_the_hessian_alone():
    rows = random_rows(50)
    gradient, hessian = gradient_hessian(*rows)
    same, scaled = gradient_hessian(*rows, hessian_scale=2.0)
    assert_array_equal(same, gradient)
    assert_array_equal(scaled, 2 * hessian)


# ---------------------------------------------------------------------------------- distributions
@st.composite
def distributed_rows(draw, largest=1e4):
    """Weighted rows with a psi that sums to 1 and may leave [0, 1]."""
    rows = draw(weighted_rows(largest=largest))
    values = st.integers(-80, 80).map(lambda eighths: eighths / 8)
    psi = draw(hnp.arrays(np.float64, (len(rows.margin), rows.n_classes), elements=values))
    psi[:, 0] = 1 - psi[:, 1:].sum(axis=1)
    order = draw(st.sampled_from(["C", "F"]))
    return rows, np.asarray(psi, order=order)


@given(distributed_rows(largest=30.0))
def test_formulas_19_and_4_of_distributions_as_printed(drawn):
    rows, psi = drawn
    p = probabilities(rows.margin, reference=rows.reference)
    losses = pointwise_log_loss(rows.margin, psi, rows.weight, reference=rows.reference)
    gradient, hessian = gradient_hessian(
        rows.margin, psi, rows.weight, reference=rows.reference, hessian_scale=1.7
    )
    first = int(rows.reference)
    for i, w in enumerate(rows.weight):
        states = range(rows.n_classes)
        expected = -w * sum(psi[i, k] * np.log(p[i, k]) for k in states)  # (19)
        assert_allclose(losses[i], expected, rtol=1e-11, atol=1e-9)
        expected = [w * (p[i, k] - psi[i, k]) for k in states[first:]]  # (4)
        assert_allclose(gradient[i], expected, rtol=1e-12, atol=1e-12)
        expected = [1.7 * w * p[i, k] * (1 - p[i, k]) for k in states[first:]]
        assert_allclose(hessian[i], expected, rtol=1e-10, atol=1e-13)


@given(distributed_rows())
@settings(max_examples=150)
def test_finite_differences_agree_with_the_derivatives_of_distributions(drawn):
    rows, psi = drawn
    gradient, hessian = gradient_hessian(rows.margin, psi, rows.weight, reference=rows.reference)
    full = full_hessian(rows.margin, psi, rows.weight, reference=rows.reference)

    def at(margin):
        arguments = (margin, psi, rows.weight)
        loss = pointwise_log_loss(*arguments, reference=rows.reference)
        return loss, gradient_hessian(*arguments, reference=rows.reference)[0]

    for k in range(rows.margin.shape[1]):
        step = np.zeros(rows.margin.shape[1])
        step[k] = STEP
        (loss_up, gradient_up), (loss_down, gradient_down) = (
            at(rows.margin + step),
            at(rows.margin - step),
        )
        # A large psi multiplies margins of up to 1e4 in the loss, and their rounding.
        slope = (loss_up - loss_down) / (2 * STEP)
        assert_allclose(gradient[:, k], slope, atol=1e-6 + 1e-9 * np.abs(rows.margin).max())
        slope = (gradient_up - gradient_down) / (2 * STEP)
        assert_allclose(hessian[:, k], slope[:, k], atol=1e-6)
        assert_allclose(full[:, :, k], slope, atol=1e-6)


@given(weighted_rows(), st.sampled_from([np.float32, np.float64]))
def test_distributions_of_one_state_are_labels_bit_for_bit(rows, dtype):
    psi = np.eye(rows.n_classes, dtype=dtype)[rows.target]
    margin, weight = rows.margin.astype(dtype), rows.weight.astype(dtype)
    by_label, by_psi = (
        gradient_hessian(margin, target, weight, reference=rows.reference)
        for target in (rows.target, psi)
    )
    assert_array_equal(by_psi, by_label)
    for function in (pointwise_log_loss, full_hessian):
        by_label, by_psi = (
            function(margin, target, weight, reference=rows.reference)
            for target in (rows.target, psi)
        )
        assert_allclose(by_psi, by_label, rtol=1e-14, atol=1e-300)


@given(distributed_rows())
def test_loss_of_a_distribution_is_that_of_its_labels_weighted_by_it(drawn):
    rows, psi = drawn
    total = 0.0
    for k in range(rows.n_classes):
        label = np.full(len(psi), k)
        total = total + psi[:, k] * pointwise_log_loss(
            rows.margin, label, rows.weight, reference=rows.reference
        )
    losses = pointwise_log_loss(rows.margin, psi, rows.weight, reference=rows.reference)
    assert_allclose(losses, total, rtol=1e-9, atol=1e-6 * max(1.0, np.abs(rows.margin).max()))


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_blocks_and_layouts_of_distributions_do_not_show(order, reference):
    margin, target, weight = random_rows(2 * BLOCK + 3, reference=reference, dtype=np.float32)
    psi = np.asarray(np.eye(4, dtype=np.float32)[target], order=order)
    assert_array_equal(
        gradient_hessian(margin, psi, weight, reference=reference),
        gradient_hessian(margin, target, weight, reference=reference),
    )


@pytest.mark.parametrize(
    ("psi", "error", "words"),
    [
        (np.full((2, 2), 0.5), ValueError, r"shape \(2, 2\); distributions .* have \(2, 3\)"),
        (np.full((2, 3), 0.5), ValueError, r"sums to 1\.5 in row 0"),
        (np.array([[1.0, 0, 0], [np.nan, 0, 0]]), ValueError, "sums to nan in row 1"),
        (np.eye(3, dtype=np.int32)[:2], TypeError, "must be floats; got dtype int32"),
    ],
)
@pytest.mark.parametrize("function", [log_loss, pointwise_log_loss, gradient_hessian, full_hessian])
def test_distributions_that_are_none_are_refused(function, psi, error, words):
    with pytest.raises(error, match=words):
        function(np.zeros((2, 3)), psi)


# -------------------------------------------------------------------------------------- the links
@given(weighted_rows())
def test_reference_link_is_the_free_link_with_a_column_of_zeros(rows):
    margin, target, weight = rows.arguments
    target = np.minimum(target, margin.shape[1])
    free = np.column_stack([np.zeros(len(margin)), margin])
    for function in (probabilities, pointwise_log_loss, gradient_hessian, full_hessian):
        data = () if function is probabilities else (target, weight)
        with_reference = np.asarray(function(margin, *data, reference=True))
        without = np.asarray(function(free, *data))
        if function is gradient_hessian:
            without = without[..., 1:]
        elif function is full_hessian:
            without = without[:, 1:, 1:]
        assert_allclose(with_reference, without, rtol=1e-13, atol=1e-14)


@given(weighted_rows())
def test_probabilities_sum_to_one_and_agree_with_scipy(rows):
    proba = probabilities(rows.margin, reference=rows.reference)
    margin = rows.margin
    if rows.reference:
        margin = np.column_stack([np.zeros(len(margin)), margin])
    assert_allclose(proba.sum(axis=1), 1, rtol=1e-14)
    assert_allclose(proba, softmax(margin, axis=1), rtol=1e-11, atol=1e-300)


@given(weighted_rows())
def test_pointwise_loss_agrees_with_scipy_log_softmax(rows):
    margin = rows.margin
    if rows.reference:
        margin = np.column_stack([np.zeros(len(margin)), margin])
    chosen = log_softmax(margin, axis=1)[np.arange(len(margin)), rows.target]
    losses = pointwise_log_loss(*rows.arguments, reference=rows.reference)
    assert_allclose(losses, -rows.weight * chosen, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("reference", [False, True])
def test_mean_loss_agrees_with_scikit_learn(reference):
    margin, target, weight = random_rows(500, reference=reference)
    expected = sklearn_log_loss(
        target, probabilities(margin, reference=reference), sample_weight=weight, labels=range(4)
    )
    assert_allclose(log_loss(margin, target, weight, reference=reference), expected, rtol=1e-13)


# ------------------------------------------------------------------------------------- the limits
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reference", [False, True])
def test_extreme_margins_reach_the_right_limits(dtype, reference):
    big = dtype(1e4)
    margin = np.array([[big, -big], [-big, big], [big, big], [-big, -big]], dtype)
    if reference:  # p_0, p_1, p_2
        limits = [[0, 1, 0], [0, 0, 1], [0, 0.5, 0.5], [1, 0, 0]]
    else:
        limits = [[1, 0], [0, 1], [0.5, 0.5], [0.5, 0.5]]
    limits = np.array(limits)
    assert_array_equal(probabilities(margin, reference=reference), limits)
    top = margin.max(axis=1) if not reference else np.maximum(margin.max(axis=1), 0)
    for label in range(limits.shape[1]):
        target = np.full(4, label)
        score = margin[:, label - reference] if label >= reference else np.zeros(4)
        expected = top - score + np.log((limits > 0).sum(axis=1))
        losses = pointwise_log_loss(margin, target, reference=reference)
        assert_allclose(losses, expected, rtol=1e-12)
        gradient, hessian = gradient_hessian(margin, target, reference=reference)
        assert gradient.dtype == hessian.dtype == dtype
        kept = slice(int(reference), None)
        onehot = np.eye(limits.shape[1])[target]
        assert_array_equal(gradient, (limits - onehot)[:, kept])
        assert_array_equal(hessian, (limits * (1 - limits))[:, kept])
        full = full_hessian(margin, target, reference=reference)
        assert np.isfinite(full).all()


@given(weighted_rows(largest=1e4))
def test_float32_agrees_with_float64_to_float32_precision(rows):
    margin = rows.margin.astype(np.float32)
    weight = rows.weight.astype(np.float32)
    single = gradient_hessian(margin, rows.target, weight, reference=rows.reference)
    double = gradient_hessian(
        margin.astype(np.float64), rows.target, weight, reference=rows.reference
    )
    bound = 8 * np.finfo(np.float32).eps * max(weight.max(), 1e-30)
    for low, high in zip(single, double, strict=True):
        assert low.dtype == np.float32
        assert_allclose(low, high, rtol=0, atol=bound)


# ------------------------------------------------------------------------------------ the layouts
@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("n_rows", [1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
def test_blocks_do_not_show(n_rows, reference):
    margin, target, weight = random_rows(n_rows, reference=reference)
    gradient, hessian = gradient_hessian(margin, target, weight, reference=reference)
    proba = softmax(np.column_stack([np.zeros(n_rows), margin]) if reference else margin, axis=1)
    assert_allclose(probabilities(margin, reference=reference), proba, rtol=1e-13)
    kept, labels = proba[:, int(reference) :], np.arange(int(reference), 4)
    expected = weight[:, None] * (kept - (target[:, None] == labels))
    assert_allclose(gradient, expected, rtol=1e-12, atol=1e-15)
    assert_allclose(hessian, weight[:, None] * kept * (1 - kept), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("out_order", ["C", "F"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_out_is_filled_in_any_layout_and_the_margin_is_left_alone(order, out_order, dtype):
    margin, target, weight = random_rows(BLOCK + 7, dtype=dtype)
    margin = np.asarray(margin, order=order)
    before = margin.copy()
    out = tuple(np.full(margin.shape, np.nan, dtype, order=out_order) for _ in range(2))
    result = gradient_hessian(margin, target, weight, out=out)
    assert result[0] is out[0]
    assert result[1] is out[1]
    assert_array_equal(margin, before)
    for filled, expected in zip(out, gradient_hessian(before, target, weight), strict=True):
        assert_array_equal(filled, expected)


@pytest.mark.parametrize("order", ["C", "F"])
def test_new_arrays_take_dtype_and_layout_of_the_margin(order):
    margin, target, weight = random_rows(9, dtype=np.float32)
    for array in gradient_hessian(np.asarray(margin, order=order), target, weight):
        assert array.dtype == np.float32
        assert array.flags[f"{order}_CONTIGUOUS"]


def test_out_decides_the_precision_of_the_computation():
    margin, target, weight = random_rows(BLOCK + 7)
    out = tuple(np.empty(margin.shape, np.float32) for _ in range(2))
    gradient_hessian(margin, target, weight, out=out)
    for single, double in zip(out, gradient_hessian(margin, target, weight), strict=True):
        assert_allclose(single, double, atol=1e-6 * weight.max())


def test_memory_does_not_grow_with_the_rows_when_out_is_given():
    margin, target, weight = random_rows(50 * BLOCK, dtype=np.float32)
    out = tuple(np.empty_like(margin) for _ in range(2))
    tracemalloc.start()
    gradient_hessian(margin, target, weight, out=out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < margin.nbytes / 4


def test_one_margin_may_come_flat():
    margin, target = np.array([0.3, -2.0]), np.array([0, 1])
    assert_array_equal(
        gradient_hessian(margin, target, reference=True),
        gradient_hessian(margin[:, None], target, reference=True),
    )


# ----------------------------------------------------------------------------------- the minimum
@given(weighted_rows(), st.integers(0, 2**16))
def test_best_constant_margin_gives_the_weighted_class_frequencies(rows, seed):
    rng = np.random.default_rng(seed)
    n_classes = rows.n_classes
    target = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, 30)])
    weight = rng.exponential(size=len(target)) + 0.1
    frequency = np.bincount(target, weights=weight) / weight.sum()
    margin = np.log(frequency)
    if rows.reference:
        margin = margin[1:] - margin[0]
    constant = np.tile(margin, (len(target), 1))
    gradient, _ = gradient_hessian(constant, target, weight, reference=rows.reference)
    # A convex function is smallest where its gradient vanishes.
    assert_allclose(gradient.sum(axis=0), 0, atol=1e-12)
    best = log_loss(constant, target, weight, reference=rows.reference)
    assert_allclose(best, -(frequency * np.log(frequency)).sum(), rtol=1e-12)
    moved = constant + rng.normal(scale=0.1, size=constant.shape[1])
    if not rows.reference:
        moved[:, 0] += 0.1  # A common shift of free margins would change nothing.
    assert log_loss(moved, target, weight, reference=rows.reference) > best


@given(st.lists(st.floats(0.05, 1), min_size=2, max_size=5), st.integers(0, 2**16))
def test_expected_loss_is_least_at_the_true_probabilities(odds, seed):
    truth = np.array(odds) / np.sum(odds)
    other = np.random.default_rng(seed).dirichlet(np.ones(len(truth)))
    target = np.arange(len(truth))

    def expected_loss(proba):  # All outcomes, each with its true probability as weight.
        return log_loss(np.tile(np.log(proba), (len(truth), 1)), target, truth)

    divergence = (truth * np.log(truth / other)).sum()
    assert_allclose(expected_loss(other) - expected_loss(truth), divergence, atol=1e-12)
    assert divergence > 0


# ---------------------------------------------------------------------- propriety under censoring
@pytest.fixture(scope="module")
def people():
    return simulate(40_000, seed=20250)


def ipcw_losses(people, proba, horizon, *, weighted=True):
    """Loss of each person at one horizon, weighted by the known censoring as in (10)."""
    target = np.where(people.duration <= horizon, people.event, 0)
    last_seen = np.minimum(people.duration, horizon)
    weight = 1 / people.censoring.survival(last_seen, people.X) if weighted else np.ones(len(proba))
    weight[(people.duration <= horizon) & (people.event == 0)] = 0
    return pointwise_log_loss(np.log(proba), target, weight)


@pytest.mark.parametrize("horizon", [0.3, 1.0])
@pytest.mark.parametrize("distortion", ["earlier", "later", "swapped", "no features"])
def test_true_curves_beat_distorted_ones_under_censoring(people, horizon, distortion):
    distorted = {
        "earlier": 1.3 * people.hazards,
        "later": people.hazards / 1.3,
        "swapped": people.hazards * [1.4, 1 / 1.4],
        "no features": np.broadcast_to(np.median(people.hazards, axis=0), people.hazards.shape),
    }[distortion]
    difference = ipcw_losses(people, people.incidence(horizon, distorted), horizon) - ipcw_losses(
        people, people.incidence(horizon), horizon
    )
    assert difference.mean() > 4 * difference.std() / np.sqrt(len(difference))


def test_without_weights_the_true_curves_lose(people):
    """The test above has power: leaving the censored out without weights favours wrong curves."""
    wrong, true = (
        ipcw_losses(people, people.incidence(1.0, hazards), 1.0, weighted=False)
        for hazards in (1.3 * people.hazards, people.hazards)
    )
    difference = wrong - true
    assert difference.mean() < -4 * difference.std() / np.sqrt(len(difference))


# ---------------------------------------------------------------------------------- wrong calls
@pytest.mark.parametrize(
    ("target", "weight", "error", "words"),
    [
        ([0, 3], None, ValueError, "class 3, but 3 margins allow 0..2"),
        ([-1, 0], None, ValueError, "class -1"),
        ([0, 1, 2], None, ValueError, r"`target` has shape \(3,\) for 2 rows"),
        ([0, 1], [1.0], ValueError, r"`weight` has shape \(1,\) for 2 rows"),
        ([0.0, 1.0], None, TypeError, "got dtype float64"),
    ],
)
@pytest.mark.parametrize("function", [log_loss, pointwise_log_loss, gradient_hessian, full_hessian])
def test_rows_that_do_not_fit_are_refused(function, target, weight, error, words):
    with pytest.raises(error, match=words):
        function(np.zeros((2, 3)), np.array(target), weight)


def test_reference_link_allows_one_class_more():
    margin = np.zeros((1, 2))
    assert_allclose(log_loss(margin, [2], reference=True), np.log(3))
    with pytest.raises(ValueError, match=r"class 3, but 2 margins allow 0\.\.2"):
        log_loss(margin, [3], reference=True)


def test_margins_and_out_of_a_wrong_shape_are_refused():
    with pytest.raises(ValueError, match=r"got shape \(1, 1, 1\)"):
        probabilities(np.zeros((1, 1, 1)))
    good, bad = np.empty((2, 3)), np.empty((3, 2))
    for out, name in (((bad, good), "gradient"), ((good, bad), "hessian")):
        with pytest.raises(ValueError, match=rf"{name} has shape \(3, 2\)"):
            gradient_hessian(np.zeros((2, 3)), [0, 1], out=out)


def test_mean_of_no_weight_is_refused():
    with pytest.raises(ValueError, match=r"all 2 rows sum to 0\.0"):
        log_loss(np.zeros((2, 2)), [0, 1], [0.0, 0.0])
