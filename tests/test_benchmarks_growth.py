"""The study of growth: its populations are what they are said to be, and the page shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

study = pytest.importorskip("benchmarks.growth_study")


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    """Few people for the scales of a population, and small chunks."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(study, "_N_PILOT", 2_000)
        patched.setattr(study, "_CHUNK", 5_000)
        yield


@pytest.fixture(scope="module")
def mixed() -> Any:
    return study.Population("mixed")


def test_people_do_not_depend_on_how_many_there_are(mixed: Any) -> None:
    few, many = mixed.draw(50, 3), mixed.draw(80, 3)
    assert few.X.equals(many.X[:50])
    assert few.y.equals(many.y[:50])
    assert not mixed.draw(50, 4).y.equals(few.y)


def test_curves_are_those_of_the_people(mixed: Any) -> None:
    people = mixed.draw(5_000, 0)
    states = mixed.incidence(people.risk, np.array([0.02, 0.3, 0.9]))
    np.testing.assert_allclose(states.sum(axis=1), 1, atol=1e-9)
    assert (np.diff(states[:, 0]) < 0).all()
    # Hardly anyone is censored by then.
    early = people.y["duration"] <= 0.02
    for cause in (1, 2, 3):
        seen = (early & (people.y["event"] == cause)).mean()
        assert seen == pytest.approx(states[:, cause, 0].mean(), abs=0.005)
    assert (people.y["event"] == 0).mean() == pytest.approx(0.45, abs=0.04)


def test_a_rare_cause_happens_to_one_in_a_thousand() -> None:
    population = study.Population("mixed", rare=True)
    people = population.draw(5_000, 0)
    rare = population.incidence(people.risk, np.array([1.0]))[:, 3].mean()
    assert rare == pytest.approx(0.001, rel=0.4)


def test_a_fit_is_measured() -> None:
    job = next(job for job in study.jobs(["growth"]) if job["engine"] == "lightgbm")
    settings = {"n_estimators": 20, "n_folds": 2, "n_repeats": 1}
    found = study.fit_job({**job, "n": 1_000, "settings": settings})
    assert 0 < found["error"] < found["best_constant"]
    assert sum(found["events"]) == 1_000
    assert found["cpu"] > 0
    assert found["peak_mib"] > 50


def test_every_measurement_is_one_of_the_study() -> None:
    jobs = [{name: job[name] for name in study.NAMES} for job in study.jobs(study.PARTS)]
    for row in study.records():
        assert {name: row[name] for name in study.NAMES} in jobs


def test_the_page_shows_the_record(tmp_path: Path) -> None:
    page, rows = study.PAGE.read_text(encoding="utf-8"), study.records()
    assert study.page_text(rows) == page
    assert f"../../benchmarks/figures/{study.FIGURE.name}" in page
    drawn = study.picture(rows, tmp_path / "growth.svg").read_text(encoding="utf-8")
    n_lines = len({(row["engine"], row["family"]) for row in rows if row["part"] == "growth"})
    assert drawn.count("columns -->") == n_lines
    assert n_lines == study.FIGURE.read_text(encoding="utf-8").count("columns -->")
