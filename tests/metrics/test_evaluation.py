"""The validation object: against R, against formulas written out, with late entry, as tables."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import slow_formulas as slow
from numpy.testing import assert_allclose, assert_array_equal
from scores import NAMES, WITHOUT_CAUSE
from simulated import simulate

from benchmarks.stratos_guide import neighbour_means, subdistribution_risks
from survival_objectives._people import check_survival_target
from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.marginal import aalen_johansen, kaplan_meier_censoring
from survival_objectives.metrics import Evaluation, FollowUpWarning, likelihood_score

GOLDEN = json.loads((Path(__file__).parent / "golden" / "validation.json").read_text())
TIMES = np.array([0.3, 0.6, 0.9])


@pytest.fixture(params=GOLDEN["validation"])
def case(request):
    return GOLDEN["validation"][request.param]


def of_case(case):
    y = (np.array(case["event"]), np.array(case["duration"]))
    labels = np.arange(case["n_causes"] + 1)
    return Evaluation(None, y, np.array(case["risk"])[:, None], [case["time"]], event_ids=labels)


# ------------------------------------------------------------------------------------------ like R
def test_scores_are_those_of_r(case):
    evaluation = of_case(case)
    assert evaluation.brier(1).value[0] == pytest.approx(case["brier"], abs=1e-10)
    assert evaluation.scaled_brier(1).value[0] == pytest.approx(case["ipa"], abs=1e-10)
    assert evaluation.auc(1).value[0] == pytest.approx(case["auc"], abs=1e-10)
    ratio = evaluation.observed_expected(1)
    assert ratio.value[0] == pytest.approx(case["observed"] / np.mean(case["risk"]), abs=1e-10)
    table = evaluation.net_benefit(1, thresholds=[0.2, 0.4])
    assert_allclose(table["net_benefit"], case["net_benefit"], atol=1e-10)


def test_calibration_is_that_of_r(case):
    evaluation = of_case(case)
    pseudo = evaluation.pseudo_observations()[:, 1]
    assert_allclose(pseudo, case["pseudo"], atol=1e-9)
    found = evaluation.calibration(1)
    assert_allclose(
        np.interp(case["risk"], found.predicted, found.observed), case["smooth"], atol=1e-6
    )
    for name, value in case["summaries"].items():
        assert getattr(found, name).value == pytest.approx(value, abs=1e-6)
    few = np.sqrt((len(pseudo) - 1) / len(pseudo))  # geese sums squares without n / (n - 1).
    for name in ("intercept", "slope"):
        estimate, (value, error) = getattr(found, name), case[name]
        assert estimate.value == pytest.approx(value, abs=1e-5)
        # With the slope fixed the derivative is ours: see `cloglog_influence`.
        tolerance = 1e-4 if name == "slope" else 0.15
        assert estimate.standard_error * few == pytest.approx(error, rel=tolerance)
    assert found.p_value == pytest.approx(case["p_value"], rel=1e-3)


def test_neighbour_means_of_the_guide_are_those_of_r(case):
    """Of the record of the STRATOS guide, with ties."""
    found = neighbour_means(np.round(case["risk"], 2), np.array(case["pseudo"]), 0.05)
    assert_allclose(found, case["neighbours"], atol=1e-9)


def test_concordance_with_late_entry_is_that_of_r():
    case = GOLDEN["late_entry"]
    y = {name: np.array(case[name]) for name in ("event", "duration", "entry")}
    risk = np.array(case["risk"])[:, None]
    evaluation = Evaluation(None, y, risk, [y["duration"].max()])
    few = np.sqrt((len(risk) - 1) / len(risk))
    for changing in (False, True):  # The same, where risks do not change.
        found = evaluation.concordance(1, changing=changing)
        assert found.value[0] == pytest.approx(case["concordance"], abs=1e-12)
        assert found.standard_error[0] * few == pytest.approx(case["standard_error"], abs=1e-12)


# -------------------------------------------------------------------------- formulas, written out
@pytest.fixture(scope="module")
def tied():
    data = simulate(70, seed=1, digits=1)
    states = data.incidence(TIMES, np.round(data.hazard, 1) + 0.1)
    return data, states, np.random.default_rng(2).uniform(0.5, 2, 70)


def entered(data, seed=0):
    event, duration = data.y
    entry = np.round(duration * np.random.default_rng(seed).choice([0, 0.4, 0.8], len(event)), 1)
    entry = np.where(entry < duration, entry, 0.0)
    return {"event": event, "duration": duration, "entry": entry}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("cause", [0, 1, 2])
def test_concordance_of_changing_risks_follows_its_formula(tied, cause, late):
    """Equation (24), pair by pair, and its error by leaving weights."""
    data, states, s = tied
    y = entered(data) if late else dict(zip(("event", "duration"), data.y, strict=True))
    event, duration, entry = y["event"], y["duration"], y.get("entry", np.zeros(70))
    risks = 1 - states[:, 0] if cause == 0 else states[:, cause]

    def index(weight, z):
        concordant = total = 0.0
        for i in range(70):
            is_event = event[i] > 0 if cause == 0 else event[i] == cause
            if not is_event or duration[i] > z:
                continue
            column = np.searchsorted(TIMES, duration[i])
            for j in range(70):
                other = event[j] == 0 if cause == 0 else event[j] != cause
                later = duration[j] > duration[i] or (duration[j] == duration[i] and other)
                # Someone with an entry of 0 is at risk at 0 too.
                if not later or not (entry[j] < duration[i] or entry[j] == duration[i] == 0):
                    continue
                r_i, r_j = risks[i, column], risks[j, column]
                pair = weight[i] * weight[j]
                concordant += pair * ((r_i > r_j) + (r_i == r_j) / 2)
                total += pair
        return concordant / total

    evaluation = Evaluation(None, y, states[..., ::-1], TIMES[::-1], sample_weight=s)
    found = evaluation.concordance(cause, changing=True)
    expected = [index(s, z) for z in TIMES]
    assert_allclose(found.value[::-1], expected, rtol=1e-12)
    for person in (0, 11, 40):
        values = []
        for sign in (1, -1):
            moved = s.copy()
            moved[person] *= 1 + sign * 1e-5
            values.append(index(moved, TIMES[2]))
        slope = (values[0] - values[1]) / 2e-5
        assert_allclose(found.influence.people[person, 0], slope, atol=1e-9)


@pytest.mark.parametrize("name", ["observed_expected", "scaled_brier"])
def test_errors_of_ratios_are_derivatives_by_the_weights(tied, name):
    data, states, s = tied
    censoring = KaplanMeierCensoring().fit(data.y, sample_weight=s)

    def score(weight):
        evaluation = Evaluation(censoring, data.y, states, TIMES, sample_weight=weight)
        return getattr(evaluation, name)()

    found = score(s)
    assert found.influence.people.shape == (70, 3, 3)
    for person in (3, 30):
        values = []
        for sign in (1, -1):
            moved = s.copy()
            moved[person] *= 1 + sign * 1e-5
            values.append(score(moved).value)
        slope = (values[0] - values[1]) / 2e-5
        assert_allclose(found.influence.people[person], slope, atol=1e-8)


def test_net_benefit_follows_its_formula(tied):
    data, states, s = tied
    evaluation = Evaluation(None, data.y, states, TIMES, sample_weight=s)
    table = evaluation.net_benefit(1, 0.6, thresholds=[0.1, 0.3])
    for row in table.itertuples():
        q, treated = row.threshold, states[:, 1, 1] > row.threshold
        pi = s[treated].sum() / s.sum()
        y = tuple(part[treated] for part in data.y)
        observed = slow.aalen_johansen(y, 1, s[treated])(0.6)
        everyone = slow.aalen_johansen(data.y, 1, s)(0.6)
        expected = pi * (observed - (1 - observed) * q / (1 - q))
        assert row.net_benefit == pytest.approx(expected)
        assert (row.treated, row.caught) == pytest.approx((pi, pi * observed))
        assert row.caught + row.missed == pytest.approx(everyone)
        assert row.treated + row.missed + row.spared == pytest.approx(1)
        assert row.all == pytest.approx(everyone - (1 - everyone) * q / (1 - q))
        assert row.gain == pytest.approx(row.net_benefit - row.all)
        assert row.lower < row.net_benefit < row.upper
    with pytest.raises(ValueError, match=r"`thresholds` are risks between 0 and 1"):
        evaluation.net_benefit(1, 0.6, thresholds=[0.1, 1.0])


# -------------------------------------------------------------------------------------- late entry
LANDMARK = 0.3


@pytest.fixture(scope="module")
def late():
    data = simulate(400, seed=5, slope=0.0, digits=2)
    y = entered(data)
    states = data.incidence(TIMES)
    return data, y, states, Evaluation(None, y, states, TIMES, landmark=LANDMARK)


def test_scores_at_a_landmark_are_of_the_people_at_risk_with_conditional_curves(late):
    _, y, states, evaluation = late
    here = np.flatnonzero((y["entry"] <= LANDMARK) & (y["duration"] > LANDMARK))
    assert len(evaluation) == len(here)
    assert_array_equal(evaluation.times, [0.6, 0.9])
    start = states[here, :, :1]
    conditional = (states[here, :, 1:] - start) / start[:, :1]
    conditional[:, 0] = states[here, 0, 1:] / start[:, 0]
    assert_allclose(conditional.sum(axis=1), 1)
    # Weights G(t) / G(s), from risk sets that know the entry, of all people.
    G = kaplan_meier_censoring(check_survival_target(y, late_entry=True))
    event, duration = y["event"][here], y["duration"][here]
    for column, z in enumerate((0.6, 0.9)):
        stayed = duration > z
        factor = np.where(stayed, G(z), G(duration, left=True)) / G(LANDMARK)
        weight = np.where(stayed | (event > 0), 1 / factor, 0)
        for k in (0, 1, 2):
            happened = stayed if k == 0 else ~stayed & (event == k)
            expected = np.mean(weight * (conditional[:, k, column] - happened) ** 2)
            assert evaluation.brier(k).value[column] == pytest.approx(expected, rel=1e-12)
        risk, is_case = conditional[:, 1, column], ~stayed & (event == 1)
        a, b = weight * is_case, weight * ~is_case
        order = (risk[:, None] > risk) + (risk[:, None] == risk) / 2
        expected = a @ order @ b / (a.sum() * b.sum())
        assert evaluation.auc(1).value[column] == pytest.approx(expected, rel=1e-12)
    target = check_survival_target((event, duration))
    observed = aalen_johansen(target)([0.6, 0.9]).T / 1.0
    assert_allclose(
        evaluation.observed_expected().value[1:], observed[1:] / conditional.mean(axis=0)[1:]
    )
    # Curves that are conditional already are taken as they are.
    given = np.concatenate([np.zeros((400, 3, 1)), states[..., 1:]], axis=2)
    given[:, 0, 0] = 1
    given[here, :, 1:] = conditional
    again = Evaluation(None, y, given, TIMES, landmark=LANDMARK)
    assert_allclose(again.brier().value, evaluation.brier().value, rtol=1e-12)
    model = Evaluation(KaplanMeierCensoring().fit(y), y, states, TIMES, landmark=LANDMARK)
    assert_allclose(model.brier().value, evaluation.brier().value, rtol=1e-12)


def test_without_late_entry_a_landmark_is_a_later_start(late):
    _, y, states, _ = late
    whole = (y["event"], y["duration"])
    at = Evaluation(None, whole, states, TIMES, landmark=LANDMARK)
    here = y["duration"] > LANDMARK
    conditional = states[here] - states[here, :, :1]
    conditional[:, 0] = states[here, 0]
    conditional = conditional[..., 1:] / states[here, 0, :1, None]
    later = Evaluation(None, tuple(part[here] for part in whole), conditional, TIMES[1:])
    for name in NAMES:
        if name in WITHOUT_CAUSE or "integrated" in name or name in ("brier_score",):
            continue
        method = {"time_dependent_auc": "auc", "concordance_index": "concordance"}.get(name, name)
        one, other = getattr(at, method)(1), getattr(later, method)(1)
        assert_allclose(one.value, other.value, rtol=1e-12)
        assert_allclose(one.standard_error, other.standard_error, rtol=1e-10)
    with pytest.warns(FollowUpWarning, match="followed beyond the last node"):
        assert at.likelihood(nodes=[0.3, 0.6, 0.9]).value > 0


def test_errors_at_a_landmark_are_those_of_the_jackknife(late):
    """People who come later are in the weights: they contribute to the error too."""
    _, y, states, evaluation = late
    values = []
    for left_out in range(400):
        kept = np.arange(400) != left_out
        some = {name: part[kept] for name, part in y.items()}
        part = Evaluation(None, some, states[kept], TIMES, landmark=LANDMARK)
        values.append(
            [part.brier(1).value[1], part.auc(1).value[1], part.observed_expected(1).value[1]]
        )
    spread = np.sqrt(np.var(values, axis=0) * 399)
    found = [
        estimate.standard_error[1]
        for estimate in (evaluation.brier(1), evaluation.auc(1), evaluation.observed_expected(1))
    ]
    assert_allclose(found, spread, rtol=0.04)


@pytest.mark.filterwarnings("ignore:.*followed beyond the last node")
def test_the_likelihood_is_conditional_on_entry(late):
    data, y, _, _ = late
    nodes = np.linspace(0, 1.2, 7)
    curves = data.incidence(nodes[1:])
    found = likelihood_score(None, y, curves, nodes[1:], nodes=nodes)
    whole = np.concatenate([np.eye(3)[:1, :, None].repeat(400, axis=0), curves], axis=2)
    total, n_counted = 0.0, 0
    for i in range(400):
        e, t, d = (y[name][i] for name in ("entry", "duration", "event"))
        if e >= nodes[-1]:
            continue
        right = max(int(np.searchsorted(nodes, t)), 1)
        if t > nodes[-1]:
            d, right = 0, len(nodes) - 1

        def at(k, u, i=i):
            return np.interp(u, nodes, whole[i, k])

        top = (
            at(0, nodes[right]) if d == 0 else at(d, nodes[right]) - at(d, max(nodes[right - 1], e))
        )
        total -= np.log(top / at(0, e))
        n_counted += 1
    assert found == pytest.approx(total / n_counted, rel=1e-10)


def test_the_truth_has_the_best_likelihood_and_naive_curves_do_not():
    """Truncated people: a likelihood that ignored entry would prefer lower hazards."""
    data = simulate(6_000, seed=6, slope=0.0)
    event, duration = data.y
    entry = np.random.default_rng(0).uniform(0, 1.0, 6_000)
    kept = entry < duration
    y = {"event": event[kept], "duration": duration[kept], "entry": entry[kept]}
    times = np.linspace(0, duration.max(), 300)
    scores = {
        factor: likelihood_score(
            None, y, data.incidence(times, data.hazard * factor)[kept], times, n_nodes=299
        )
        for factor in (0.7, 0.85, 1.0, 1.2)
    }
    assert min(scores, key=scores.get) == 1.0


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("brier", ()),
        ("scaled_brier", ()),
        ("log_loss", ()),
        ("auc", ()),
        ("observed_expected", ()),
        ("calibration", (1, 0.6)),
        ("risk_groups", (1, 0.6)),
        ("net_benefit", (1, 0.6)),
        ("pseudo_observations", (0.6,)),
        ("d_calibration", ()),
        ("accuracy", ()),
    ],
)
def test_scores_without_a_definition_refuse_late_entry(late, method, arguments):
    _, y, states, _ = late
    with pytest.raises(ValueError, match=r"no definition.*`likelihood_score`.*landmark=s"):
        getattr(Evaluation(None, y, states, TIMES), method)(*arguments)


def test_landmarks_that_cannot_be_are_named(late):
    _, y, states, _ = late
    with pytest.raises(ValueError, match=r"`landmark` is 0.4; `times` must have it"):
        Evaluation(None, y, states, TIMES, landmark=0.4)
    with pytest.raises(ValueError, match=r"`landmark` is 0.9; `times` must have it and later"):
        Evaluation(None, y, states, TIMES, landmark=0.9)
    with pytest.raises(ValueError, match="Incidences of one cause alone"):
        Evaluation(None, y, states[:, 1], TIMES, landmark=0.3).brier(1)


# ------------------------------------------------------------------------------------------ tables
@pytest.fixture(scope="module")
def whole():
    data = simulate(600, seed=7, slope=0.0)
    return data, Evaluation(None, data.y, data.incidence(TIMES), TIMES)


def test_table_has_what_the_methods_give(whole):
    _, evaluation = whole
    table = evaluation.table()
    assert set(table["cause"]) == {1, 2}
    assert len(table) == 2 * 3 * 12
    rows = table.set_index(["score", "cause", "time"]).sort_index()
    for name in ("brier", "scaled_brier", "auc", "concordance", "observed_expected"):
        found = getattr(evaluation, name)(2)
        for field in ("value", "standard_error", "lower", "upper"):
            assert_allclose(rows.loc[(name, 2), field], getattr(found, field))
    found = evaluation.calibration(1, 0.6)
    for name in ("calibration_intercept", "calibration_slope", "ici", "emax"):
        estimate = getattr(found, name.removeprefix("calibration_"))
        row = rows.loc[(name, 1, 0.6)]
        assert_allclose(
            row, [estimate.value, estimate.standard_error, estimate.lower, estimate.upper]
        )
    assert ((table["lower"] <= table["value"]) & (table["value"] <= table["upper"]))[
        ~table["score"].isin(["ici", "e50", "e90", "emax", "root_squared_bias"])
    ].all()
    one = evaluation.table(cause=2)
    pd.testing.assert_frame_equal(one, table[table["cause"] == 2].reset_index(drop=True))


def test_groups_are_scored_as_people_of_their_own(whole):
    data, evaluation = whole
    sex = np.where(data.X[:, 0] > 0, "women", "men")
    table = evaluation.by(sex, cause=1)
    assert table["group"].unique().tolist() == ["men", "women"]
    rows = sex == "women"
    alone = Evaluation(
        None, tuple(part[rows] for part in data.y), data.incidence(TIMES)[rows], TIMES
    )
    women = table[table["group"] == "women"].reset_index(drop=True)
    pd.testing.assert_frame_equal(women.iloc[:, 3:], alone.table(cause=1))
    assert (women["n_people"] == rows.sum()).all()
    events = np.sum(rows & (data.y[0] == 1) & (data.y[1] <= 0.6))
    assert (women.loc[women["time"] == 0.6, "n_events"] == events).all()
    # Given training people, whose weights are those of all.
    other = simulate(300, seed=8, slope=0.0)
    given = Evaluation(other.y, data.y, data.incidence(TIMES), TIMES).by(sex, cause=1)
    assert (given["group"] == table["group"]).all()
    assert not np.allclose(given["value"], table["value"])


def test_net_benefit_is_a_score_of_tables_too(whole):
    data, evaluation = whole
    other = Evaluation(None, data.y, data.incidence(TIMES, data.hazard**0.3), TIMES)
    found = evaluation.compare(other, 1, thresholds=[0.2])
    found = found[found["score"] == "net_benefit_0.2"]
    for time, difference in zip(found["time"], found["difference"], strict=True):
        mine, theirs = (
            each.net_benefit(1, time, thresholds=[0.2]).iloc[0] for each in (evaluation, other)
        )
        assert difference == pytest.approx(mine["net_benefit"] - theirs["net_benefit"])
        row = evaluation.table(1, thresholds=[0.2]).query("score == 'net_benefit_0.2'")
        (error,) = row[row["time"] == time]["standard_error"]
        assert error == pytest.approx(mine["standard_error"])
    assert len(found) == len(TIMES)
    assert (found["standard_error"] > 0).all()


def test_subdistribution_model_of_the_guide_finds_true_risks(whole):
    data, _ = whole
    risk = data.incidence(TIMES)[:, 1, 1]
    y = {"event": np.asarray(data.y[0]), "duration": np.asarray(data.y[1])}
    found = subdistribution_risks(y, risk, TIMES[1], n_knots=1)
    assert np.abs(found - risk).mean() < 0.05
    halved = subdistribution_risks(y, risk / 2, TIMES[1], n_knots=1)
    assert np.abs(halved - found).mean() < 0.01 < np.abs(halved - risk / 2).mean()


def test_numbers_are_cut_at_quartiles_and_small_groups_are_named(whole):
    data, evaluation = whole
    with pytest.warns(UserWarning, match=r"Groups with fewer than 20 events.*join groups"):
        table = evaluation.by(data.X[:, 1], cause=1)
    assert table["group"].nunique() == 4
    assert set(table["n_people"]) == {150}
    with pytest.raises(ValueError, match="has 3 values for 600 people"):
        evaluation.by([1, 2, 3])
    assert table["group"].iloc[0].startswith("up to ")
    for column in ([None, *["a"] * 599], [np.nan, *data.X[1:, 1]]):
        with pytest.warns(UserWarning, match=r"missing \(0\)"):
            table = evaluation.by(column, cause=1)
        assert table["group"].iloc[-1] == "missing"
        assert table["n_people"].iloc[-1] == 1


def test_models_are_compared_person_by_person(whole):
    data, evaluation = whole
    other = Evaluation(None, data.y, data.incidence(TIMES, data.hazard**0.3), TIMES)
    found = evaluation.compare(other)
    mine, theirs = evaluation.table(), other.table()
    assert_array_equal(found["score"], mine["score"])
    assert_allclose(found["difference"], mine["value"] - theirs["value"])
    brier = found[found["score"] == "brier"]
    errors = mine.loc[mine["score"] == "brier", "standard_error"]
    assert (brier["standard_error"].to_numpy() < errors.to_numpy()).all()
    assert ((found["p_value"] < 0.05) == ((found["lower"] > 0) | (found["upper"] < 0)))[
        ~found["score"].isin(["ici", "e50", "e90", "emax", "root_squared_bias"])
    ].all()
    back = other.compare(evaluation)
    assert_allclose(back["difference"], -found["difference"])
    assert_allclose(back["standard_error"], found["standard_error"])
    with pytest.raises(ValueError, match="other people or times"):
        evaluation.compare(other.take(np.arange(300)))


def test_rows_of_a_person_count_once_in_errors(whole):
    data, evaluation = whole
    twice = np.repeat(np.arange(600), 2)
    y = tuple(part[twice] for part in data.y)
    curves = data.incidence(TIMES)[twice]
    grouped = Evaluation(None, y, curves, TIMES, groups=twice)
    table, once = (one.table(cause=1).dropna() for one in (grouped, evaluation))
    is_simulated = table["score"].isin(["ici", "e50", "e90", "emax", "root_squared_bias"])
    assert_allclose(table["value"], once["value"], rtol=5e-3)
    assert_allclose(
        table.loc[~is_simulated, "standard_error"],
        once.loc[~is_simulated, "standard_error"],
        rtol=0.01,
    )
    ratio = table.loc[is_simulated, "standard_error"] / once.loc[is_simulated, "standard_error"]
    assert ((ratio > 0.8) & (ratio < 1.25)).all()


def test_equal_predictions_have_a_calibration():
    data = simulate(100, seed=9)
    found = Evaluation(
        None, data.y, np.full((100, 1), 0.4), [0.5], event_ids=[0, 1, 2]
    ).calibration(1)
    observed = aalen_johansen(check_survival_target(data.y))(0.5)[1]
    assert_allclose(found.observed, [observed], rtol=1e-2)
    assert np.isnan(found.slope.value)
    assert np.isfinite(found.intercept.value)


def test_the_truth_is_calibrated_and_the_rest_is_not():
    data = simulate(20_000, seed=10, slope=0.0)
    truth = Evaluation(None, data.y, data.incidence([0.8]), [0.8]).calibration(1)
    assert abs(truth.intercept.value) < 3 * truth.intercept.standard_error
    assert abs(truth.slope.value - 1) < 3 * truth.slope.standard_error
    assert truth.p_value > 0.01
    assert truth.ici.value < 0.01
    gap = np.abs(truth.observed - truth.predicted)[20:-20]
    assert np.mean(gap < (truth.upper - truth.lower)[20:-20] / 2) > 0.8
    wrong = Evaluation(None, data.y, data.incidence([0.8], data.hazard * 1.5), [0.8]).calibration(1)
    assert wrong.p_value < 1e-6
    assert wrong.observed_expected.upper < 1
    assert wrong.ici.lower > 0.02


def test_people_in_several_rows_are_scored_as_people():
    rng = np.random.default_rng(0)
    n, times = 80, [1.0, 1.5, 2.0, 2.5]
    stop = rng.uniform(1.1, 2.5, n)
    stop[0] = 2.5
    whole = {"event": np.append(1, rng.integers(0, 2, n - 1)), "duration": stop}
    order = rng.permutation(2 * n)
    rows = np.arange(2 * n)[order] // 2
    is_last = np.arange(2 * n)[order] % 2 == 1
    long = {
        "id": rows,
        "start": np.where(is_last, 1.0, 0.0),
        "stop": np.where(is_last, stop[rows], 1.0),
        "event": np.where(is_last, whole["event"][rows], 0),
    }
    curves = 1 - rng.uniform(0.1, 0.9, (n, 1)) * (np.array(times) / 3)
    as_people = Evaluation(whole, whole, curves, times, landmark=1.0)
    as_rows = Evaluation(long, long, curves[rows], times, landmark=1.0)
    for name in ("brier", "scaled_brier", "log_loss"):
        ours, theirs = (getattr(one, name)() for one in (as_rows, as_people))
        assert_allclose(ours.value, theirs.value, atol=1e-12)
        assert_allclose(ours.standard_error, theirs.standard_error, atol=1e-12)
    ours, theirs = (
        Evaluation(None, y, found, times).likelihood()
        for y, found in ((long, curves[rows]), (whole, curves))
    )
    assert_allclose(ours.value, theirs.value)
    assert_allclose(ours.standard_error, theirs.standard_error)
    # Ends of rows are not censored.
    assert_allclose(
        KaplanMeierCensoring().fit(long).survival(times),
        KaplanMeierCensoring().fit(whole).survival(times),
    )
