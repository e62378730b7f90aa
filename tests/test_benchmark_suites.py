"""The benchmark suites rehearse at a tiny size, keep their records, and judge by arithmetic."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("psutil")
pytest.importorskip("matplotlib")

from benchmarks import _environments, _pages, _problems, _records, _report, _tables
from benchmarks.__main__ import main
from benchmarks._comparison import METRICS, compare, standard_error
from benchmarks._contenders import CONTENDERS, contender
from benchmarks._environments import Environments, EnvironmentUnavailableError, plain
from benchmarks._problems import make_problem, scored
from benchmarks._process import run_limited
from benchmarks._records import Store
from benchmarks._runner import Runner, fingerprint
from benchmarks._suites import SIZES, SUITES, Job, jobs_of
from benchmarks.workers import work
from survival_objectives._people import check_survival_target
from survival_objectives.datasets import make_competing_risks
from survival_objectives.marginal import aalen_johansen, kaplan_meier
from survival_objectives.metrics import integrated_brier_score


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of all suites at the smallest size."""
    folder = tmp_path_factory.mktemp("results")
    for suite in SUITES:
        assert main(["run", suite, "--smoke", "--results", str(folder)]) == 0
    return folder


def small_job(**changes: Any) -> Job:
    data = {"n_samples": 120, "n_causes": 2, "n_features": 6, "censoring_rate": 0.5}
    data |= {"n_test": 20, "n_times": 5}
    job = Job("competing", "base", "marginal", 0, "base", "simulated", data)
    return replace(job, **changes)


def runner(folder: Path, **changes: Any) -> Runner:
    suite = changes.pop("suite", SUITES["competing"])
    environments = changes.pop("environments", Environments())
    return Runner(suite, Store("competing", folder), environments, **changes)


# ------------------------------------------------------------------------------------- rehearsals
@pytest.mark.parametrize("suite", list(SUITES))
def test_every_job_of_a_suite_is_recorded(rehearsal: Path, suite: str) -> None:
    latest = Store(suite, rehearsal).latest()
    assert set(latest) == {job.key for job in jobs_of(suite, "smoke")}
    for record in latest.values():
        if record["status"] == "unavailable":
            assert record["reason"].startswith("ModuleNotFoundError")
            continue
        assert record["status"] == "ok", record["reason"]
        assert all(value is None or math.isfinite(value) for value in record["metrics"].values())
        assert record["fit_cpu"] >= 0
        assert record["predict_cpu"] >= 0
        assert record["peak_mib"] > 0
        assert record["versions"]["python"]
        assert set(record["machine"]) == {"cpu", "cores", "memory_gib", "system", "architecture"}


def test_the_search_tries_the_defaults_first_and_counts(rehearsal: Path) -> None:
    record = Store("survival", rehearsal).latest()[
        "survival/simulated/ours-hazards-xgboost tuned/0"
    ]
    assert record["extra"]["n_settings"] == 2
    assert record["extra"]["chosen"]["engine"] == "xgboost"


def test_records_name_no_path_of_the_machine(rehearsal: Path) -> None:
    for path in rehearsal.glob("*.jsonl"):
        text = path.read_text()
        assert str(Path.home()) not in text
        assert str(rehearsal) not in text
        assert sys.prefix not in text


def test_the_report_shows_all_contenders_and_is_reproducible(
    rehearsal: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first" / "RESULTS.md", tmp_path / "second" / "RESULTS.md"
    for path in (first, second):
        path.parent.mkdir()
        assert main(["report", "--results", str(rehearsal), "--out", str(path)]) == 0
    names = sorted(path.name for path in (first.parent / "results").iterdir())
    assert names == sorted(f"{name}.md" for name in (*SUITES, "comparisons", "failures"))
    summary = first.read_text()
    assert summary == second.read_text()
    text = ""
    for name in names:
        assert f"](results/{name})" in summary
        page = (first.parent / "results" / name).read_text()
        assert page == (second.parent / "results" / name).read_text()
        text += page
    for suite in SUITES.values():
        assert f"# {suite.title}" in text
    for record in Store("survival", rehearsal).latest().values():
        assert contender(record["contender"]).label in text
    figures = sorted(path.name for path in (first.parent / "figures").iterdir())
    pictures = ("ablations", "competing", "growth", "real", "speed", "survival")
    assert figures == [f"{name}.svg" for name in pictures]
    for name in figures:
        drawn = (first.parent / "figures" / name).read_bytes()
        assert drawn == (second.parent / "figures" / name).read_bytes()
        assert f"](../figures/{name})" in text


def test_a_second_run_skips_what_is_done(
    rehearsal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "real.jsonl"
    store.write_text((rehearsal / "real.jsonl").read_text())
    before = len(Store("real", tmp_path).records())
    assert main(["run", "real", "--smoke", "--results", str(tmp_path)]) == 0
    assert len(Store("real", tmp_path).records()) == before
    assert f"{before} of {before} jobs are done already" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------- suites
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("suite", list(SUITES))
def test_jobs_are_well_formed(suite: str, size: str) -> None:
    jobs = jobs_of(suite, size)
    assert len({job.key for job in jobs}) == len(jobs) > 0
    assert SUITES[suite].cpu_seconds <= 600
    for job in jobs:
        one = contender(job.contender)
        assert one.environment in ("ours", *Environments.names())
        if job.data.get("n_causes", 1) > 1 or job.kind == "competing":
            assert one.competing
        json.dumps(job.settings)


def test_every_environment_pins_all_it_names() -> None:
    for name in Environments.names():
        lines = Environments.requirements(name).splitlines()
        pins = [line for line in lines if line and not line.startswith("#")]
        assert pins
        assert all("==" in pin for pin in pins)


# ------------------------------------------------------------------------------------------ records
def test_the_latest_record_counts_and_old_ones_stay(tmp_path: Path) -> None:
    store = Store("survival", tmp_path)
    for value in (1.0, 2.0):
        store.append({"key": "a", "fingerprint": "f", "status": "ok", "value": value})
    store.append({"key": "b", "fingerprint": "f", "status": "ok", "value": float("nan")})
    assert [record["value"] for record in store.records()] == [1.0, 2.0, None]
    assert store.latest()["a"]["value"] == 2.0


@pytest.mark.parametrize(
    ("status", "is_done"),
    [("ok", True), ("timeout", True), ("memory", True), ("error", False), ("unavailable", False)],
)
def test_only_settled_jobs_of_the_same_code_are_done(
    tmp_path: Path, status: str, is_done: bool
) -> None:
    store = Store("survival", tmp_path)
    store.append({"key": "a", "fingerprint": "f", "status": status})
    assert store.settled() == ({("a", "f")} if is_done else set())


def test_again_runs_what_is_done(tmp_path: Path) -> None:
    job = small_job()
    assert len(runner(tmp_path, in_process=True).run([job])) == 1
    assert runner(tmp_path, in_process=True).run([job]) == []
    assert len(runner(tmp_path, in_process=True, again=True).run([job])) == 1
    assert len(Store("competing", tmp_path).records()) == 2


def test_the_fingerprint_follows_settings_and_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, other = small_job(contender="ours-hazards-lightgbm"), small_job(contender="hazardous")
    before = fingerprint(ours), fingerprint(other)
    assert fingerprint(replace(ours, options={"n_estimators": 3})) != before[0]
    assert fingerprint(replace(ours, seed=1)) == before[0]
    monkeypatch.setattr(_records, "_source_digest", lambda _: b"changed")
    assert fingerprint(ours) != before[0]
    assert fingerprint(other) == before[1]


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    store = Store("survival", tmp_path)
    store.append({"key": "a"})
    with store.path.open("a") as file:
        file.write("{broken\n")
    with pytest.raises(ValueError, match=r"Line 2 of survival\.jsonl"):
        store.records()


# ------------------------------------------------------------------------------------------- limits
LIMITS: dict[str, float] = {"cpu_seconds": 30, "wall_seconds": 30, "memory_mib": 4096}


@pytest.mark.parametrize(
    ("code", "limits", "status", "reason"),
    [
        ("pass", {}, "ok", ""),
        ("import time; time.sleep(60)", {"wall_seconds": 0.3}, "timeout", "more than 0 seconds"),
        ("while True: pass", {"cpu_seconds": 0.3}, "timeout", "CPU seconds"),
        ("x = bytearray(200 << 20)\nwhile True: pass", {"memory_mib": 100}, "memory", "100 MiB"),
        ("raise ValueError('so')", {}, "error", "ValueError: so"),
        ("import os; os.kill(os.getpid(), 11)", {}, "error", "signal 11"),
    ],
)
def test_a_program_is_ended_at_its_limits(
    code: str, limits: dict[str, float], status: str, reason: str
) -> None:
    outcome = run_limited([sys.executable, "-c", code], **{**LIMITS, **limits})
    assert outcome.status == status
    assert reason in outcome.reason
    assert outcome.wall < 30


def test_a_child_that_outgrows_memory_counts() -> None:
    child = "x = bytearray(200 << 20)\nwhile True: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    outcome = run_limited([sys.executable, "-c", code], **{**LIMITS, "memory_mib": 150})
    assert outcome.status == "memory"


@pytest.mark.parametrize(
    ("limit", "status"), [({"cpu_seconds": 0.01}, "timeout"), ({"memory_mib": 5.0}, "memory")]
)
def test_lost_jobs_are_recorded_and_their_other_seeds_not_started(
    tmp_path: Path, limit: dict[str, float], status: str
) -> None:
    limited = runner(tmp_path, suite=replace(SUITES["competing"], **limit))
    first, second = limited.run([small_job(), small_job(seed=1)])
    assert first["status"] == second["status"] == status
    assert first["reason"].startswith("more than")
    assert second["reason"].startswith("not started")


def test_a_job_in_a_process_of_its_own(tmp_path: Path) -> None:
    record = runner(tmp_path).record(small_job())
    assert record["status"] == "ok", record["reason"]
    same = runner(tmp_path, in_process=True).record(small_job())
    assert record["metrics"] == same["metrics"]


def test_sizes_out_of_reach_are_not_started(tmp_path: Path) -> None:
    limited = runner(tmp_path, in_process=True)
    job = small_job(contender="cox")
    (record,) = limited.run([job])
    larger = replace(job, case="n", data={**job.data, "n_samples": 10**9})
    verdict = limited.record(larger)
    assert verdict["status"] == "timeout"
    assert (
        f"{record['fit_cpu'] + record['predict_cpu']:.0f} CPU seconds at n = 120"
        in (verdict["reason"])
    )


# ------------------------------------------------------------------------------------- environments
def test_an_environment_that_does_not_install_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaint = "ERROR: No matching distribution for /some/where/comprisk at https://host/simple"
    calls = []

    real = subprocess.run

    def fail(command: Any, **options: Any) -> subprocess.CompletedProcess[str]:
        if "pip" not in command:  # git, for the revision
            return real(command, **options)
        calls.append(command)
        return subprocess.CompletedProcess(command, 1, "", complaint)

    monkeypatch.setattr(_environments.subprocess, "run", fail)
    monkeypatch.setattr(_environments.venv, "create", lambda *_, **__: None)
    environments = Environments(cache=tmp_path / "cache")
    jobs = [small_job(contender="fine-gray", seed=seed) for seed in (0, 1)]
    records = runner(tmp_path, environments=environments).run(jobs)
    assert [record["status"] for record in records] == ["unavailable"] * 2
    assert records[0]["reason"] == (
        "installation failed: ERROR: No matching distribution for <path> at <address>"
    )
    assert len(calls) == 1
    monkeypatch.undo()
    runner(tmp_path, in_process=True).run([small_job(), small_job(seed=1)])
    _report.write_report(tmp_path, tmp_path / "RESULTS.md")
    assert "| Fine-Gray | unavailable |" in (tmp_path / "results" / "competing.md").read_text()
    assert records[0]["reason"] in (tmp_path / "results" / "failures.md").read_text()


def test_an_environment_is_remade_when_its_list_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def succeed(command: Any, **_: Any) -> subprocess.CompletedProcess[str]:
        made.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(_environments.subprocess, "run", succeed)
    monkeypatch.setattr(
        _environments.venv, "create", lambda folder, **_: Path(folder).mkdir(parents=True)
    )
    environments = Environments(cache=tmp_path)
    assert environments.state("boosters") == "not made yet"
    environments.python("boosters")
    environments.python("boosters")
    assert len(made) == 1
    assert environments.state("boosters") == "ready"
    monkeypatch.setattr(Environments, "requirements", staticmethod(lambda _: "other==1"))
    assert environments.state("boosters") == "outdated"
    environments.python("boosters")
    assert len(made) == 2


def test_installation_that_never_ends_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(command: Any, **_: Any) -> None:
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(_environments.subprocess, "run", hang)
    monkeypatch.setattr(_environments.venv, "create", lambda *_, **__: None)
    with pytest.raises(EnvironmentUnavailableError, match="took more than"):
        Environments(cache=tmp_path).python("pycox")


def test_reasons_are_plain() -> None:
    assert plain("in /usr/lib/python/x.py: file:///opt/pypi no") == "in <path>: <address> no"
    assert plain("ratio 1/2 of a/b") == "ratio 1/2 of a/b"
    assert len(plain("x " * 1000)) == 300


# ---------------------------------------------------------------------------------------- mistakes
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "real", "--smoke", "--only", "nobody"], "No contender is called 'nobody'"),
        (["run", "real", "--smoke", "--seeds", "99"], "No job of real fits"),
        (["run", "truths", "--smoke", "--cases", "six causes", "35 %"], "No job of truths fits"),
        (["run", "real", "--smoke", "--python", "hazardous"], "--python takes ENVIRONMENT=PATH"),
        (["run", "real", "--smoke", "--python", "x=y"], "No environment is called 'x'"),
        (["run", "real", "--smoke", "--python", "pycox=/no/python"], "no such interpreter"),
        (["run", "survival", "--data", "/no/folder"], "METABRIC is needed"),
        (["report"], "There are no results"),
    ],
)
def test_mistakes_are_named_before_any_work(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--results", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_cases_are_named_as_they_are(tmp_path: Path) -> None:
    case = "deterministic, 35 %"
    chosen = ["--cases", case, "--results", str(tmp_path)]
    assert main(["run", "truths", "--smoke", *chosen]) == 0
    assert [record["case"] for record in Store("truths", tmp_path).records()] == [case]


def test_lists(rehearsal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--smoke", "--results", str(rehearsal)]) == 0
    out = capsys.readouterr().out
    assert "3 jobs,    3 done   Competing risks, real data" in out
    assert main(["list", "real", "--smoke", "--results", str(rehearsal)]) == 0
    assert "ok                   real/covid/cox/0" in capsys.readouterr().out
    assert main(["environments"]) == 0
    assert "hazardous==0.2.0" in capsys.readouterr().out


# -------------------------------------------------------------------------------- win, tie and lose
def test_verdicts_are_those_of_the_paired_t_interval() -> None:
    ibs = METRICS["ibs"]
    ours = {0: 0.10, 1: 0.20, 2: 0.15}
    ahead = [0.10, 0.08, 0.12]
    other = {seed: ours[seed] * math.exp(share) for seed, share in enumerate(ahead)}
    found = compare(ibs, ours, other, splits=False)
    assert found is not None
    assert found.verdict == "win"
    assert found.mean == pytest.approx(10)
    assert found.error == pytest.approx(2 / math.sqrt(3))
    reverse = compare(ibs, other, ours, splits=False)
    assert reverse is not None
    assert reverse.verdict == "lose"
    assert reverse.mean == pytest.approx(-10)
    # 4.30 standard errors of 2 / sqrt(3) are reached by 10, not by those of overlapping splits.
    split = compare(ibs, ours, other, splits=True)
    assert split is not None
    assert split.error == pytest.approx(2 * math.sqrt(1 / 3 + 3 / 7))
    assert split.verdict == "win"
    noisy = {seed: ours[seed] * math.exp(share) for seed, share in enumerate([0.2, -0.1, 0.1])}
    tie = compare(ibs, ours, noisy, splits=False)
    assert tie is not None
    assert tie.verdict == "tie"


def test_higher_is_better_for_concordance() -> None:
    found = compare(METRICS["c_index"], {0: 0.7, 1: 0.72}, {0: 0.6, 1: 0.62}, splits=False)
    assert found is not None
    assert found.mean == pytest.approx(10)
    assert found.verdict == "win"


def test_only_shared_pairs_are_compared_and_one_is_no_verdict() -> None:
    ibs = METRICS["ibs"]
    assert compare(ibs, {0: 0.1}, {1: 0.1}, splits=False) is None
    one = compare(ibs, {0: 0.1, 1: 0.2}, {1: 0.3, 2: 9.0}, splits=False)
    assert one is not None
    assert (one.verdict, one.n_pairs) == ("one run", 1)
    assert math.isnan(standard_error([1.0], splits=False))


def test_equal_results_tie() -> None:
    same = {0: 0.1, 1: 0.2}
    found = compare(METRICS["ibs"], same, same, splits=False)
    assert found is not None
    assert found.verdict == "tie"


def test_tables_mark_the_best_and_those_within_a_standard_error() -> None:
    values = {
        "ours-hazards-lightgbm": [0.10, 0.20, 0.30],
        "cox": [0.13, 0.17, 0.33],
        "hazardous": [0.15, 0.26, 0.34],
    }
    rows = [
        {"contender": name, "seed": seed, "status": "ok", "ibs": value}
        for name, column in values.items()
        for seed, value in enumerate(column)
    ]
    rows.append({"contender": "rsf", "seed": 0, "status": "memory", "ibs": np.nan})
    text = _tables.score_table(pd.DataFrame(rows), ["ibs"], splits=False)
    lines = text.splitlines()[2:]
    assert lines[0].startswith("| **HazardBoost, LightGBM** | **0.2000** ± 0.1000")
    assert lines[1].startswith("| Cox, cause-specific | ≈ 0.2100")
    assert lines[2].startswith("| hazardous | 0.2500")
    assert lines[3] == "| survival forest, scikit-survival | memory |"


def test_the_report_counts_wins_and_losses(tmp_path: Path) -> None:
    store = Store("competing", tmp_path)
    errors = {"ours-hazards-xgboost": 3.0, "hazardous": 6.0, "cox": 1.5}
    for name, error in errors.items():
        for seed in range(3):
            job = small_job(contender=name, seed=seed)
            record = runner(tmp_path, in_process=True).record(small_job(seed=seed))
            metrics = {"ise_x1000": error + 0.01 * seed, "ibs_true_curves": 0.1}
            made = {"key": job.key, "contender": name, "metrics": metrics, "fit_cpu": error}
            store.append({**record, **made})
    text = _report.write_report(tmp_path, tmp_path / "RESULTS.md").read_text()
    wins = text.split("## What we win, tie and lose")[1].split("\n## ")[0]
    every = (tmp_path / "results" / "comparisons.md").read_text()
    assert "| **HazardBoost, XGBoost** | 1 | 0 | 1 | 0 | 1 | 0 | 1 | 0 |" in wins
    lost = wins.split("### What we lose")[1].split("###")[0]
    assert "simulated, base case, error to the truth × 1000: Cox, cause-specific, -69." in lost
    assert "hazardous" not in lost
    assert "win ×2 |" in every


def test_ablations_are_changes_against_the_defaults_of_the_same_seed() -> None:
    rows = [
        {
            "case": "c",
            "group": "defaults" if variant == "defaults" else "floor",
            "variant": variant,
            "seed": seed,
            "ise_x1000": (seed + 1) * factor,
            "fit_cpu": 2.0 * factor,
        }
        for variant, factor in (("defaults", 1.0), ("floor 0.2", math.e**0.1))
        for seed in range(3)
    ]
    changes = _pages.ablation_changes(pd.DataFrame(rows)).set_index("variant")
    assert changes.loc["floor 0.2", "change"] == pytest.approx(10)
    assert changes.loc["floor 0.2", "error"] == pytest.approx(0, abs=1e-9)
    assert changes.loc["floor 0.2", "cpu"] == pytest.approx(math.e**0.1)
    assert changes.loc["defaults", "change"] == 0


# --------------------------------------------------------------------------------------- contenders
@pytest.fixture(scope="module")
def one_cause() -> Any:
    data = make_competing_risks(400, n_causes=1, random_state=0)
    return (
        data.X.to_numpy(),
        data.y["event"].to_numpy(np.int64),
        data.y["duration"].to_numpy(),
    )


FIXED = {"seed": 0, "n_threads": 1}


@pytest.mark.parametrize(
    "name", ["xgboost-cox", "xgboost-aft", "discrete-time", "rsf", "gbs", "cox", "marginal"]
)
def test_curves_fall_and_sum_to_one(one_cause: Any, name: str) -> None:
    one = CONTENDERS[name]
    options = dict(one.options)
    if name in ("rsf", "gbs", "xgboost-cox", "xgboost-aft", "discrete-time"):
        options["n_estimators"] = 5
    predict = work.load(one.worker).fit(*one_cause, **FIXED, **options)
    curves = predict(one_cause[0][:10], np.linspace(0, one_cause[2].max(), 9))
    assert curves.shape == (10, 2, 9)
    np.testing.assert_allclose(curves.sum(axis=1), 1)
    assert (np.diff(curves[:, 0], axis=1) <= 1e-12).all()


@pytest.mark.parametrize("name", ["xgboost-cox", "pchazard"])
def test_contenders_of_one_cause_are_not_given_two(tmp_path: Path, name: str) -> None:
    (record,) = runner(tmp_path, in_process=True).run([small_job(contender=name)])
    assert (record["status"], record["reason"]) == ("unavailable", "knows one cause only")


def test_the_breslow_baseline_without_trees_is_nelson_aalen(one_cause: Any) -> None:
    X, event, duration = one_cause
    one = CONTENDERS["xgboost-cox"]
    fit = work.load(one.worker).fit
    predict = fit(np.zeros_like(X), event, duration, **FIXED, **one.options, n_estimators=1)
    times = np.quantile(duration, [0.1, 0.5, 0.9])
    hazard = [
        sum(1 / (duration >= exit_).sum() for exit_ in duration[(event == 1) & (duration <= time)])
        for time in times
    ]
    np.testing.assert_allclose(predict(X[:1] * 0, times)[0, 0], np.exp(-np.array(hazard)), 1e-6)


def test_discrete_hazards_without_features_follow_aalen_johansen() -> None:
    data = make_competing_risks(3000, n_causes=2, censoring="independent", random_state=0)
    event, duration = data.y["event"].to_numpy(np.int64), data.y["duration"].to_numpy()
    X = np.zeros((3000, 1))
    fit = work.load("fit_discrete").fit
    predict = fit(X, event, duration, **FIXED, learning_rate=0.3)
    times = np.quantile(duration[event > 0], [0.2, 0.5, 0.8])
    expected = aalen_johansen(check_survival_target((event, duration)))(times).T
    np.testing.assert_allclose(predict(X[:1], times)[0], expected, atol=0.02)


def test_the_score_of_a_search_is_the_integrated_brier_score() -> None:
    data = make_competing_risks(300, n_causes=2, random_state=0)
    y = data.y["event"].to_numpy(), data.y["duration"].to_numpy()
    train, test = [(part[:200]) for part in y], [(part[200:]) for part in y]
    # The same steps between two times, so that the mean over times is the integral.
    times = np.linspace(0.2, 1.0, 200)
    curves = data.true.cumulative_incidence(data.X[200:], times)
    ours = integrated_brier_score(tuple(train), tuple(test), curves, times)
    assert work.integrated_brier(train, test, curves, times) == pytest.approx(ours, rel=2e-3)
    at = np.quantile(train[1], [0.1, 0.5])
    turned = check_survival_target((train[0] == 0, train[1]))
    if not np.intersect1d(train[1][train[0] == 0], train[1][train[0] > 0]).size:
        np.testing.assert_allclose(work.uncensored(train, at, "right"), kaplan_meier(turned)(at))


def test_settings_that_cannot_be_fitted_lose(one_cause: Any) -> None:
    class Fussy:
        @staticmethod
        def fit(X: Any, event: Any, duration: Any, *, good: bool, **_: Any) -> Any:
            if not good:
                raise ValueError("no")
            return lambda X_test, times: np.full((len(X_test), 2, len(times)), 0.5)

        @staticmethod
        def draw(generator: Any, **_: Any) -> dict[str, Any]:
            return {"good": bool(generator.integers(2))}

    budget = {"cpu_seconds": 60, "max_settings": 12}
    best, found = work.search(Fussy, one_cause, FIXED, {"good": False}, budget)
    assert best == {"good": True}
    assert found["n_settings"] == 12
    assert 1 <= found["n_failed"] < 12


def test_curves_that_cannot_be_scored_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shapeless(*_: Any, **__: Any) -> Any:
        return lambda X_test, times: np.zeros((len(X_test), 1, len(times)))

    monkeypatch.setattr(work, "load", lambda _: type("Worker", (), {"fit": shapeless}))
    record = runner(tmp_path, in_process=True).record(small_job())
    assert record["status"] == "error"
    assert "curves have shape (20, 1, 5), not (20, 3, 5)" in record["reason"]


def test_the_true_curves_have_no_error() -> None:
    options = {"n_samples": 200, "n_causes": 2, "n_features": 6, "n_test": 30, "n_times": 6}
    problem = make_problem("simulated", options, 0, None, Environments())
    data = make_competing_risks(200, n_causes=2, n_features=6, random_state=0)
    test = data.draw(30, random_state=500)
    true = data.true.cumulative_incidence(test.X, problem.times)
    assert scored(problem, true)["ise_x1000"] == 0
    assert scored(problem, true)["ibs_oracle"] == scored(problem, true)["ibs_true_curves"]
    assert scored(problem, true[:, [0, 2, 1]])["ise_x1000"] > 1


def test_polar_features_hold_the_same_knowledge() -> None:
    options = {"n_samples": 50, "n_causes": 2, "n_features": 6, "n_test": 30, "n_times": 6}
    plain_one = make_problem("simulated", options, 0, None, Environments())
    turned = make_problem("simulated", {**options, "polar": True}, 0, None, Environments())
    distance, angle = turned.X[:, 0::2], turned.X[:, 1::2]
    np.testing.assert_allclose(distance * np.cos(angle), plain_one.X[:, 0::2], atol=1e-12)
    np.testing.assert_allclose(distance * np.sin(angle), plain_one.X[:, 1::2], atol=1e-12)
    np.testing.assert_array_equal(turned.duration, plain_one.duration)


def test_calibration_is_read_at_fine_times() -> None:
    """Curves that drop at once are calibrated, which 32 nodes would not show."""
    problem = make_problem("survival", {"table": "simulated"}, 0, None, Environments())
    events = problem.duration[problem.event > 0]
    inside = np.quantile(events, np.linspace(0, 1, 201), method="inverted_cdf")
    assert np.isin(inside[inside > 0], problem.times).all()


def test_metrics_of_an_older_scoring_are_left_out(tmp_path: Path) -> None:
    job = next(job for job in jobs_of("survival") if job.contender == "marginal")
    metrics = {"ibs": 0.2, "d_calibration_p": 0.5}
    for scoring, expected in ((1, None), (2, 0.5)):
        record = {
            **runner(tmp_path, in_process=True).record(small_job()),
            "key": job.key,
            "contender": job.contender,
            "settings": {**job.settings, "scoring": scoring},
            "metrics": metrics,
        }
        Store("survival", tmp_path).append(record)
        found = _tables.latest("survival", tmp_path).iloc[0]
        assert found["ibs"] == 0.2
        assert found["d_calibration_p"] == expected


def test_ties_are_spread_over_their_day_and_other_times_stay() -> None:
    y = pd.DataFrame({"event": [1, 1, 0, 2], "duration": [4.0, 4.0, 4.0, 7.0]})
    spread = _problems._untied(y)["duration"]
    assert spread[2] == 4
    assert ((spread[[0, 1]] > 3) & (spread[[0, 1]] <= 4)).all()
    assert 6 < spread[3] <= 7
    assert spread.nunique() == 4
    continuous = y.assign(duration=[4.5, 4.5, 4.0, 7.0])
    assert _problems._untied(continuous) is continuous
