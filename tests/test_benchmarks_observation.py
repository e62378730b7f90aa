"""The studies of late entry, features that change and visits run, small."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest

from survival_objectives import HazardBoost

observation = pytest.importorskip("benchmarks.observation_study")
intervals = pytest.importorskip("benchmarks.interval_study")

FEW = partial(HazardBoost, n_folds=2, n_repeats=1, n_estimators=5)


def shown(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_real_tables_are_scored_beside_cox(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def table(name: str, _: object) -> tuple[pd.DataFrame, pd.DataFrame]:
        rng = np.random.default_rng(len(name))
        x = rng.normal(size=100)
        time, change = rng.exponential(np.exp(-x)) + 0.01, rng.exponential(size=100)
        whole = pd.DataFrame({"id": np.arange(100), "start": 0.0, "x": x, "later": 0.0})
        later = whole.assign(start=change, later=1.0)[change < time]
        ends = np.concatenate([np.minimum(time, change), time[change < time]])
        event = np.concatenate([time <= change, np.ones(len(later))]).astype(int)
        columns = pd.concat([whole, later], ignore_index=True)
        return columns, pd.DataFrame({"event": event, "duration": ends})

    monkeypatch.setattr(observation, "read_table", table)
    monkeypatch.setattr(observation, "HazardBoost", FEW)
    observation.real(["lightgbm"], None)
    rows = shown(capsys)[1:]
    assert [row[3] for row in rows] == ["lightgbm", "Cox", "marginal"] * 2
    loss = {row[3]: float(row[4]) for row in rows[:3]}
    assert loss["Cox"] < loss["marginal"]
    assert loss["lightgbm"] < loss["marginal"]


def test_intervals_are_compared_with_exact_times_and_midpoints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(intervals, "HazardBoost", FEW)
    monkeypatch.setattr(intervals, "FAMILIES", {"weibull": observation.FAMILIES["weibull"]})
    intervals.study(300, ["lightgbm"], 1)
    rows = shown(capsys)
    assert [row[0] for row in rows[1:]] == ["shared", "shared", "own", "own"]
    marginal, exact, _, found = map(float, rows[1][3:7])
    assert exact < marginal
    assert found < marginal
