"""Truths are what they say, and the score of Burk et al. is theirs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("psutil")
pytest.importorskip("matplotlib")

from benchmarks import _burk, _pages, _problems
from benchmarks.__main__ import main
from benchmarks._environments import Environments
from benchmarks._problems import make_problem, scored
from benchmarks._suites import BURK_TABLES, REAL_TABLES, jobs_of
from benchmarks._truths import CHOOSE, CONFIRM, FAMILIES, HARD, HARD_CASES, draw_truth
from benchmarks.workers import work


@pytest.mark.parametrize("family", [*FAMILIES, *HARD])
def test_outcomes_follow_the_known_incidences(family: str) -> None:
    truth, generator = draw_truth(family, 3, censored=0.0, by_features=False)
    people = truth.draw(1500, generator)
    times = np.array([0.25, 0.5, 1.0])
    known = truth.incidence(people.X, times)
    assert known.shape == (1500, truth.n_causes + 1, 3)
    np.testing.assert_allclose(known.sum(axis=1), 1)
    for cause in range(1, truth.n_causes + 1):
        seen = (people.event == cause)[:, None] & (people.duration[:, None] <= times)
        # 4.5 standard errors of a share.
        error = 4.5 * np.sqrt(known[:, cause].mean(axis=0) / 1500)
        assert (np.abs(seen.mean(axis=0) - known[:, cause].mean(axis=0)) < error).all()


@pytest.mark.parametrize("family", [name for name in (*FAMILIES, *HARD) if name != "nothing"])
def test_incidences_rise_from_zero_and_differ_between_people(family: str) -> None:
    truth, generator = draw_truth(family, 0, censored=0.0, by_features=False)
    X = truth.draw(200, generator).X
    curves = truth.incidence(X, np.linspace(0, 1, 21))
    np.testing.assert_allclose(curves[:, 0, 0], 1)
    assert (np.diff(curves[:, 1:], axis=2) >= -1e-12).all()
    assert (curves >= -1e-12).all()
    assert curves[:, :, 10].std(axis=0).max() > 0.05


@pytest.mark.parametrize("by_features", [False, True])
@pytest.mark.parametrize("share", [0.4, 0.9])
def test_as_many_are_censored_as_wanted(share: float, by_features: bool) -> None:
    truth, generator = draw_truth("hazards, 1 cause", 1, censored=share, by_features=by_features)
    people = truth.draw(4000, generator)
    assert np.mean(people.event == 0) == pytest.approx(share, abs=0.03)


def test_seeds_are_other_members_of_a_family() -> None:
    X = np.random.default_rng(0).normal(size=(50, 8))
    first, second, again = (
        draw_truth("odds", seed, censored=0.3, by_features=True)[0].incidence(X, np.array([0.5]))
        for seed in (0, 100, 0)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - second).max() > 0.1


def test_months_are_whole() -> None:
    truth, generator = draw_truth("months", 0, censored=0.4, by_features=False)
    months = truth.draw(200, generator).duration * 24
    np.testing.assert_allclose(months, np.rint(months), atol=1e-9)


def test_halves_share_no_case_and_no_seed() -> None:
    assert not set(CHOOSE) & set(CONFIRM)
    assert not set(HARD_CASES) & {*CHOOSE, *CONFIRM}
    cases = {"choose": CHOOSE, "confirm": CONFIRM, "hard": HARD_CASES}
    seeds: dict[str, set[int]] = {group: set() for group in cases}
    for job in jobs_of("truths"):
        seeds[job.group].add(job.seed)
        assert job.case in cases[job.group]
    assert not seeds["choose"] & seeds["confirm"]
    families = {str(data["family"]) for data in CHOOSE.values()}
    assert len(families) >= 8
    shares = [float(str(data["censored"])) for data in (*CHOOSE.values(), *CONFIRM.values())]
    assert max(shares) >= 0.9


def test_unknown_family_is_named() -> None:
    with pytest.raises(ValueError, match="No family of truths is called 'unheard of'"):
        draw_truth("unheard of", 0, censored=0.1, by_features=False)


def test_true_curves_have_no_error() -> None:
    options = {**CHOOSE["cured, one closing date"], "n_samples": 200, "n_test": 40, "n_times": 6}
    problem = make_problem("truth", options, 0, None, Environments())
    number = options.pop("n_samples"), options.pop("n_test"), options.pop("n_times")
    truth, generator = draw_truth(seed=0, **options)  # type: ignore[arg-type]
    truth.draw(int(str(number[0])), generator)
    true = truth.incidence(truth.draw(40, generator).X, problem.times)
    found = scored(problem, true)
    assert found["ise_x1000"] == 0
    assert found["ise_marginal"] > 1


# -------------------------------------------------------------------------------------------- burk
def test_the_score_of_burk_is_its_formula() -> None:
    generator = np.random.default_rng(0)
    train = generator.integers(0, 2, 30), generator.integers(1, 12, 30).astype(float)
    test = generator.integers(0, 2, 20), generator.integers(1, 12, 20).astype(float)
    times = _burk.scoring_times(test[1])
    survival = np.sort(generator.random((20, len(times))), axis=1)[:, ::-1]

    def uncensored(time: float) -> float:
        product = 1.0
        for step in np.unique(train[1][train[1] <= time]):
            here = train[1] == step
            product *= 1 - (here & (train[0] == 0)).sum() / (train[1] >= step).sum()
        return max(product, 0.001)

    errors = np.zeros((20, len(times)))
    for person in range(20):
        for column, time in enumerate(times):
            if test[1][person] > time:
                errors[person, column] = (1 - survival[person, column]) ** 2 / uncensored(time)
            elif test[0][person]:
                errors[person, column] = survival[person, column] ** 2 / uncensored(test[1][person])
    expected = np.trapezoid(errors.mean(axis=0), times) / (times[-1] - times[0])
    assert _burk.integrated_survival_brier(train, test, survival, times) == pytest.approx(expected)


def test_scoring_ends_once_more_than_four_fifths_have_left() -> None:
    np.testing.assert_array_equal(_burk.scoring_times(np.arange(1.0, 11.0)), np.arange(1.0, 11.0))
    late = np.array([1.0, 1, 1, 1, 1, 1, 1, 1, 1, 5, 6, 7])
    np.testing.assert_array_equal(_burk.scoring_times(late), [1.0, 5, 6])
    np.testing.assert_array_equal(_burk.scoring_times(np.repeat(late, [9] + [1] * 11)), [1.0, 5])


@pytest.fixture
def data_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "burk2024"
    folder.mkdir()
    table = pd.DataFrame(
        {
            "time": [1.0, 2, 3, 4, 5, 6, 7, 8],
            "status": [1, 0, 1, 1, 0, 1, 1, 0],
            "stage": list("aabbccab"),
            "age": [50.0, 60, 70, 80, 50, 60, 70, 80],
            "test_1": [1, 0, 0, 1, 0, 0, 1, 0],
        }
    )
    table.to_csv(folder / "lung.csv", index=False)
    scores = pd.DataFrame(
        {"task_id": "lung", "learner_id": ["KM", "CPH"], "iteration": 1, "isbs": [0.2, 0.1]}
    )
    scores.to_csv(folder / "reference_scores.csv", index=False)
    return tmp_path


def test_tables_are_read_with_their_folds_and_scores(data_folder: Path) -> None:
    problem = make_problem("burk", {"table": "lung"}, 1, str(data_folder), Environments())
    # Age, and two columns for three stages.
    assert problem.X.shape == (5, 3)
    assert problem.X_test.shape == (3, 3)
    np.testing.assert_array_equal(problem.times, [1.0, 4, 7])
    found = scored(problem, np.full((3, 2, 3), 0.5))
    assert found["isbs, KM"] == 0.2
    assert found["isbs, CPH"] == 0.1
    assert found["isbs"] > 0


def test_missing_tables_are_named_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SURVIVAL_DATA_DIR", raising=False)
    results = tmp_path / "results"
    arguments = ["run", "burk", "--quick", "--data", str(tmp_path), "--results", str(results)]
    assert main(arguments) == 2
    assert "must have burk2024/reference_scores.csv" in capsys.readouterr().err
    assert not results.exists()


def test_ranks_are_among_the_quoted_learners() -> None:
    rows = [
        {"case": "lung", "contender": "cox", "isbs": isbs, "isbs, KM": 0.3, "isbs, CPH": 0.1}
        for isbs in (0.1, 0.2)
    ]
    ranks, n_learners = _pages.burk_ranks(pd.DataFrame(rows))
    assert n_learners == 2
    assert ranks["rank"].tolist() == [2]
    assert ranks["isbs"].tolist() == [pytest.approx(0.15)]


def test_burk_runs_all_tables_on_three_folds() -> None:
    jobs = [job for job in jobs_of("burk") if job.contender == "ours-hazards-xgboost"]
    assert {job.case for job in jobs} == set(BURK_TABLES)
    assert len(jobs) == 3 * len(BURK_TABLES) == 48


def test_ratios_are_to_the_best_rival_on_shared_seeds() -> None:
    errors = {
        "ours-hazards-xgboost": {0: 2.0, 1: 4.0},
        "ours-hazards-lightgbm": {0: 0.1, 1: 0.1},
        "ours-survivalboost": {0: 3.0, 1: 5.0},
        "cox": {0: 4.0, 1: 1.0},
        "hazardous": {0: 1.6},
    }
    rows = [
        {"case": "a", "contender": name, "seed": seed, "ise_x1000": error, "ise_marginal": 10.0}
        for name, by_seed in errors.items()
        for seed, error in by_seed.items()
    ]
    found = _pages.truth_ratios(pd.DataFrame(rows), "ours-hazards-xgboost").iloc[0]
    # hazardous on seed 0: 2.0 / 1.6; cox on both: 6 / 5; another engine is no rival.
    assert found["rival"] == "hazardous"
    assert found["ratio"] == pytest.approx(1.25)
    assert found["marginal"] == pytest.approx(0.3)


@pytest.mark.parametrize("table", REAL_TABLES)
def test_splits_are_fixed_and_test_three_in_ten(table: str) -> None:
    folds = pd.read_csv(_problems.FOLDS, dtype={"tested": str})
    tested = folds[folds["table"] == table].set_index("split")["tested"]
    assert list(tested.index) == [0, 1, 2, 3, 4]
    assert tested.nunique() == 5
    n_samples = len(tested[0])
    for split in tested.index:
        train, test = _problems.fixed_split(table, split, n_samples)
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(n_samples))
        assert len(test) == math.ceil(0.3 * n_samples)


def test_splits_of_another_number_of_people_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"covid has 10 people; folds\.csv is of 2675"):
        _problems.fixed_split("covid", 0, 10)


def test_the_first_event_counts_and_the_end_of_follow_up_without_one() -> None:
    events = [np.array([1, 1, 0, 1]), np.array([1, 0, 0, 1])]
    times = [np.array([3.0, 2.0, 4.0, 5.0]), np.array([1.0, 6.0, 7.0, 5.0])]
    event, time = work.load("read_tables")._first(*zip(events, times, strict=True))
    assert event.tolist() == [2, 1, 0, 1]
    assert time.tolist() == [1, 2, 7, 5]


def test_causes_are_compared_with_the_null_model() -> None:
    scores = {"ours-hazards-xgboost": (0.09, 0.21), "marginal": (0.10, 0.20)}
    rows = [
        {"case": "a", "contender": name, "seed": seed, "ibs_cause1": one, "ibs_cause2": two}
        for name, (one, two) in scores.items()
        for seed in range(3)
    ]
    found = _pages.null_ratios(pd.DataFrame(rows), "ours-hazards-xgboost").set_index("cause")
    np.testing.assert_allclose(found.loc[["1", "2"], "ratio"], [0.9, 1.05])
    np.testing.assert_allclose(found["low"], found["high"])  # No spread over splits.


def test_excluded_events_are_those_without_probability_in_their_interval() -> None:
    problem = make_problem("survival", {"table": "simulated"}, 0, None, Environments())
    steady = np.exp(-problem.times / problem.times[-1])
    survival = np.broadcast_to(steady, (len(problem.X_test), len(steady)))
    found = scored(problem, np.stack([survival, 1 - survival], axis=1))
    assert found["n_excluded"] == 0
    flat = np.ones_like(survival)
    assert scored(problem, np.stack([flat, 1 - flat], axis=1))["n_excluded"] > 20


def test_everyone_is_measured_in_multiples_of_ours() -> None:
    errors = {"ours-hazards-xgboost": (2.0, 1.0), "cox": (4.0, 8.0), "discrete-time": (1.0, None)}
    rows = [
        {"case": case, "contender": name, "seed": 0, "ise_x1000": error}
        for name, pair in errors.items()
        for case, error in zip("ab", pair, strict=True)
        if error is not None
    ]
    lines = _pages.times_ours_table(pd.DataFrame(rows)).splitlines()[2:]
    # sqrt(2 * 8) = 4 for Cox; the other has one family.
    assert lines == [
        "| discrete-time hazards, LightGBM | 0.50 | 0.50 | 1 of 1 |",
        "| Cox, cause-specific | 4.00 | 2.00 | 0 of 2 |",
    ]
