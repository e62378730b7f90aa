"""Hazards of intervals: formulas (70) to (79), written out again."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives._hazards.formulas import (
    RiskRows,
    interval_start,
    knot_incidence,
    mixture_weights,
    risk_rows,
    selected_weights,
    time_corrections,
)
from survival_objectives._hazards.linear import (
    LinearDesign,
    averaged_hazards,
    cross_fitted_linear,
    ridge_hazards,
)
from survival_objectives._people import check_features

FloatArray = npt.NDArray[np.float64]


def test_rows_are_all_intervals_at_risk() -> None:
    knots = np.array([0.0, 1.0, 2.0, 4.0])
    event, position = np.array([1, 0, 0], np.int32), np.array([3.0, 3.0, 1.0])
    rows = risk_rows(event, position, knots)
    found = sorted(zip(*(v.tolist() for v in vars(rows).values()), strict=True))
    assert found == [
        (0, 0, 0, 1.0),
        (0, 1, 0, 1.0),
        (0, 2, 1, 1.0),
        (1, 0, 0, 1.0),
        (1, 1, 0, 1.0),
        (1, 2, 0, 0.5),
        (2, 0, 0, 1.0),
    ]


def test_drawn_rows_are_those_of_the_formula_and_weigh_as_all() -> None:
    knots = np.arange(22.0)
    event, position = np.zeros(500, np.int32), np.full(500, 21.0)
    rows = risk_rows(
        event,
        position,
        knots,
        n_rows=8,
        generator=np.random.default_rng(3),
        weight=np.full(500, 2.0),
    )
    generator = np.random.default_rng(3)
    rank = np.argsort(np.argsort(generator.random(500)))
    u = (rank[:, None] * (np.sqrt(5) - 1) / 2 + generator.random(8)) % 1
    drawn = [[int((j + u[i, j]) * 20 / 8) for j in range(8)] for i in range(500)]  # (70)
    assert_array_equal(rows.interval[:-500].reshape(500, 8), drawn)
    assert_allclose(rows.weight[:-500], 2 * 20 / 8)
    per_interval = np.bincount(rows.interval, rows.weight)
    # Risk sets are nearly as large as with all rows; by independent draws they vary by a tenth.
    assert_allclose(per_interval, 1000, rtol=0.02)


def random_rows(seed: int, n: int = 60) -> tuple[RiskRows, Any, FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    event = rng.integers(0, 3, n).astype(np.int32)
    position, knots = rng.uniform(0, 4, n), np.array([0.0, 1.0, 2.5, 4.0])
    rows = risk_rows(event, position, knots, weight=rng.uniform(0.5, 2, n))
    return rows, event, position, knots


def test_start_is_the_formula() -> None:
    rows, *_ = random_rows(0)
    offset = np.random.default_rng(1).normal(size=(2, 60))
    start = interval_start(rows, 2, 3, offset)
    for k in range(2):
        D, R = [0.0] * 3, [0.0] * 3
        for i, m, y, w in zip(rows.person, rows.interval, rows.target, rows.weight, strict=True):
            D[m] += w * (y == k + 1)
            R[m] += w * np.exp(offset[k, i])
        for m in range(3):  # (71)
            assert start[k, m] == pytest.approx(
                np.log((D[m] + 0.5) / (R[m] + sum(R) / (2 * sum(D))))
            )


def test_curves_and_corrections_are_the_formulas() -> None:
    rows, *_ = random_rows(2)
    margin = np.random.default_rng(3).normal(-1, 1, size=(2, 3, 60))
    incidence = knot_incidence(margin)
    for i in range(60):
        F = np.zeros((2, 4))
        for m in range(3):
            odds = np.exp(margin[:, m, i])
            q = odds / (1 + odds.sum())  # (72)
            F[:, m + 1] = F[:, m] + (1 - F[:, m].sum()) * q  # (73)
        assert_allclose(incidence[:, :, i], F, atol=1e-12)
    at_rows = margin[:, rows.interval, rows.person]
    found = time_corrections(at_rows, rows, 3)
    d = np.zeros((2, 3))
    for _ in range(8):  # (74)
        D, E = np.zeros((2, 3)), np.zeros((2, 3))
        for number, (m, y, w) in enumerate(
            zip(rows.interval, rows.target, rows.weight, strict=True)
        ):
            odds = np.exp(at_rows[:, number] + d[:, m])
            E[:, m] += w * odds / (1 + odds.sum())
            if y:
                D[y - 1, m] += w
        c = np.log((D + 1) / (E + 1))
        total = (E * np.exp(c)).sum(axis=1)
        d += c + np.log((D.sum(axis=1) + 0.5) / (total + 0.5))[:, None]
        for m in range(3):  # (91)
            D_m, E_m, R_m = D[:, m].sum(), E[:, m].sum(), rows.weight[rows.interval == m].sum()
            if E_m > R_m / 2 and D_m >= 10:
                d[:, m] += (1 / (1 - E_m / R_m) - 1) * np.log((D_m + 1) / (E_m + 1))
    assert_allclose(found, d, atol=1e-10)


def test_expected_events_are_the_observed_ones_where_nearly_all_have_one() -> None:
    n_people = 400
    target = np.array([0] * 4 + [1] * 300 + [2] * 96, np.int32)
    first, once = np.zeros(n_people, np.int16), np.ones(n_people)
    rows = RiskRows(np.arange(n_people, dtype=np.int32), first, target, once)
    margin = np.random.default_rng(0).normal(0, 0.5, (2, n_people))
    odds = np.exp(margin + time_corrections(margin, rows, 1))
    expected = (odds / (1 + odds.sum(axis=0))).sum(axis=1)
    assert_allclose(expected, [300, 96], atol=0.1)


def test_mixture_weights_are_the_formula_and_the_best() -> None:
    rng = np.random.default_rng(0)
    likelihood, weight = rng.uniform(0.1, 1, size=(3, 50)), rng.uniform(0.5, 2, 50)
    pi = [1 / 3] * 3
    for _ in range(200):  # (76)
        new = [0.0] * 3
        for i in range(50):
            total = sum(pi[j] * likelihood[j, i] for j in range(3))
            for j in range(3):
                new[j] += weight[i] * pi[j] * likelihood[j, i] / total / weight.sum()
        pi = new
    found = mixture_weights(likelihood, weight)
    assert_allclose(found, pi, atol=1e-12)

    def log_likelihood(share: FloatArray) -> float:
        return float(weight @ np.log(share @ likelihood))

    for other in rng.dirichlet(np.ones(3), 200):
        assert log_likelihood(found) >= log_likelihood(other) - 1e-3


def test_selected_weights_are_the_formula() -> None:
    rng = np.random.default_rng(1)
    for n_samples in (8, 60, 400):
        likelihood = rng.uniform(0.1, 1, size=(3, n_samples))
        likelihood[2] = likelihood[0] * rng.uniform(0.8, 1.3, n_samples)
        weight = rng.uniform(0.5, 1.5, n_samples)
        cost = np.array([0.0, 1.0, 0.5])
        found = selected_weights(likelihood, cost, weight)
        criteria = {}
        for subset in ([0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]):
            pi = np.zeros(3)
            pi[subset] = mixture_weights(likelihood[subset], weight)
            total = 0.0
            for i in range(n_samples):  # (82)
                total += weight[i] * np.log(sum(pi[j] * likelihood[j, i] for j in subset))
            criteria[tuple(pi)] = total - sum(cost[j] for j in subset)
        assert_allclose(found, max(criteria, key=criteria.__getitem__), atol=1e-12)


def test_a_model_that_adds_nothing_gets_no_weight() -> None:
    """The truth and a noisy copy of it: only by chance does the copy raise the likelihood by 1."""
    rng = np.random.default_rng(2)
    n_kept, n_positive, n_runs = 0, 0, 200
    for _ in range(n_runs):
        true = rng.uniform(0.1, 0.9, 300)
        noisy = np.clip(true + 0.1 * rng.normal(size=300), 0.01, 0.99)
        happened = rng.random(300) < true
        likelihood = np.where(happened, [true, noisy], [1 - true, 1 - noisy])
        n_kept += selected_weights(likelihood, np.array([0.0, 1.0]))[1] > 0
        n_positive += mixture_weights(likelihood)[1] > 0.01
    assert n_kept < 0.1 * n_runs < n_positive


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_linear_hazards_maximise_their_likelihood(gamma: float) -> None:
    rows, *_ = random_rows(4, n=200)
    design = np.random.default_rng(5).normal(size=(200, 3))
    start = np.full((2, 3), 0.1)
    found = ridge_hazards(design, rows, 2, 3, penalty=2.0, start=start, sparse=gamma)

    def likelihood(b: FloatArray, cause: int) -> float:
        events = rows.weight[rows.target == cause].sum()
        total = -2.0 / 2 * float(b @ b)
        total -= 3 * gamma * np.log(1 + np.abs(b) * np.sqrt(events) / 3).sum()
        for m in range(3):
            here = rows.interval == m
            w, eta = rows.weight[here], design[rows.person[here]] @ b
            happened = rows.target[here] == cause
            level = np.log(w[happened].sum() / (w @ np.exp(eta)))  # (78)
            total += float(w[happened] @ (level + eta[happened]) - w @ np.exp(level + eta))  # (77)
        return total

    for cause in (1, 2):
        best, b = likelihood(found[cause - 1], cause), found[cause - 1]
        for column in range(3):
            # A sparse penalty is solved up to a hundredth.
            for step in np.array([-1e-3, 1e-3]) * (20 if gamma else 1):
                assert likelihood(b + step * np.eye(3)[column], cause) <= best + 1e-8  # (79)


def test_penalties_are_averaged_by_held_out_likelihood() -> None:
    rng = np.random.default_rng(0)
    design = rng.normal(size=(300, 40))
    time = rng.exponential(np.exp(-design[:, 7]))
    event = (time < 3.9).astype(np.int32)
    rows = risk_rows(event, np.minimum(time, 3.9), np.array([0.0, 0.3, 1.0, 4.0]))
    fold = rng.integers(2, size=300)[rows.person]
    kept, held = ([rows.take((fold == one) == is_held) for one in (0, 1)] for is_held in (0, 1))
    found, shares = cross_fitted_linear(design, kept, held, 1, 3)
    log_likelihood = np.zeros(len(shares))
    penalties = [(1e3, 0.0), (1e2, 0.0), (1e1, 0.0), (1.0, 0.0), (1.0, 4.0), (1.0, 2.0), (1.0, 1.0)]
    for kept_rows, held_rows in zip(kept, held, strict=True):
        b = np.zeros((1, 40))
        for number in range(len(shares)):
            if number:
                ridge, gamma = penalties[number - 1]
                b = ridge_hazards(design, kept_rows, 1, 3, ridge, b, sparse=gamma)
            level = interval_start(kept_rows, 1, 3, b @ design.T)
            odds = np.exp(level[0, held_rows.interval] + (design @ b[0])[held_rows.person])
            chance = np.where(held_rows.target == 1, odds, 1.0) / (1 + odds)
            log_likelihood[number] += held_rows.weight @ np.log(chance)
    expected = np.exp(log_likelihood - log_likelihood.max())
    expected /= expected.sum()  # (98)
    expected[expected < 0.05] = 0.0
    np.testing.assert_allclose(shares, expected / expected.sum(), atol=1e-6)
    # One column of 40 matters: a sparse penalty has most of the shares, and finds it.
    assert shares[5:].sum() > 0.6
    assert np.argmax(found[0][0]) == 7
    assert np.abs(np.delete(found[0][0], 7)).max() < 0.1 < 0.5 < found[0][0, 7]
    everyone = averaged_hazards(design, rows, 1, 3, shares, np.mean(found, axis=0))
    assert everyone[0, 7] == pytest.approx(found[0][0, 7], abs=0.2)


def test_linear_hazards_without_effects_shrink_to_none() -> None:
    fold = np.arange(300) % 5
    sizes: list[list[float]] = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        design = rng.normal(size=(300, 20))
        time = np.minimum(rng.exponential(size=300), 3.9)
        event = (time < 3.9).astype(np.int32)
        rows = risk_rows(event, time, np.array([0.0, 0.3, 1.0, 4.0]))
        parts = [
            (rows.take(fold[rows.person] != one), rows.take(fold[rows.person] == one))
            for one in range(5)
        ]
        found, _ = cross_fitted_linear(design, *zip(*parts, strict=True), 1, 3)
        unshrunk = ridge_hazards(design, rows, 1, 3, penalty=1.0)
        sizes.append([float(np.std(design @ b[0])) for b in (np.mean(found, axis=0), unshrunk)])
    shrunk, unshrunk_size = np.mean(sizes, axis=0)
    assert shrunk < 0.5 * unshrunk_size


def test_ridge_of_many_columns_keeps_those_that_matter() -> None:
    rng = np.random.default_rng(0)
    design = rng.normal(size=(400, 260))
    time = rng.exponential(np.exp(-design[:, 7]))
    event = np.ones(400, np.int32)
    rows = risk_rows(event, np.minimum(time, 3.9), np.array([0.0, 0.3, 1.0, 4.0]))
    found = ridge_hazards(design, rows, 1, 3, penalty=10.0)[0]
    assert np.count_nonzero(found) == 200
    assert np.argmax(found) == 7


def test_linear_columns_are_standardised_with_levels_and_missing_values() -> None:
    X = pd.DataFrame(
        {
            "a": [1.0, 2.0, 3.0, np.nan],
            "b": pd.Categorical(["x", "y", "x", "y"]),
            "c": pd.Categorical(["u", "v", "w", None]),
            "d": [5.0, 5.0, 5.0, 5.0],
        }
    )
    features = check_features(X)
    design = LinearDesign.of(features)
    assert design.feature == (0, 0, 1, 2, 2, 2, 2)
    assert design.kind == (-1, -2, 1, 0, 1, 2, -2)
    matrix = design.matrix(features.values)
    assert_allclose(matrix[:, 0], [-(1.5**0.5), 0, 1.5**0.5, 0])
    assert_allclose(matrix[:, 2], [-1, 1, -1, 1])
    assert_allclose(matrix[3, 3:6], 0)
    assert_allclose(matrix.mean(axis=0), 0, atol=1e-12)
