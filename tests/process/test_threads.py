"""Default threads, and how they wait."""

import os
import re
import subprocess
import sys

import joblib
import numpy as np
import pytest
import threadpoolctl

from survival_objectives import HazardBoost
from survival_objectives._process import running
from survival_objectives.datasets import make_competing_risks


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in (*running._LIMITS, *running._WAITING, "LOKY_MAX_CPU_COUNT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def many_cores(monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 32)
    monkeypatch.setattr(running, "_IS_PASSIVE", True)


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "expected"),
    [(0, 5, 1), (10**4, 10, 1), (10**5, 10, 7), (10**8, 10, 32)],
)
def test_threads_follow_the_size_of_the_work(many_cores, n_rows, n_columns, expected):
    assert running.default_threads(n_rows, n_columns) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("OMP_NUM_THREADS", "3", 3),
        ("OMP_NUM_THREADS", "4,2", 4),
        ("OMP_NUM_THREADS", "many", 32),
        ("OMP_THREAD_LIMIT", "2", 2),
        ("SLURM_CPUS_PER_TASK", "6", 6),
        ("NSLOTS", "5", 5),
        ("NCPUS", "64", 32),
    ],
)
def test_limits_of_the_environment(many_cores, monkeypatch, name, value, expected):
    monkeypatch.setenv(name, value)
    assert running.available_threads() == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_affinity_limits_threads():
    program = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]);"
        "from survival_objectives._process.running import default_threads;"
        "print(default_threads(10**8, 9))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["1"], done.stderr


def test_waiting_is_passive_in_the_context_only():
    with running.passive_wait():
        assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    assert "OMP_WAIT_POLICY" not in os.environ


@pytest.mark.parametrize("name", running._WAITING)
def test_the_environment_of_the_user_stays(monkeypatch, name):
    monkeypatch.setenv(name, "7")
    before = dict(os.environ)
    with running.passive_wait():
        assert dict(os.environ) == before
    assert dict(os.environ) == before


def spin_counts(program, **environment):
    """How often each copy of OpenMP looks before it sleeps, which it prints when it is loaded."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_DISPLAY_ENV": "VERBOSE", **environment},
    )
    assert done.returncode == 0, done.stderr
    found = re.findall(r"GOMP_SPINCOUNT = '(\d+)'", done.stderr)
    if not found:
        pytest.skip("this OpenMP does not print its settings")
    return set(found), done.stdout.split()


FIT = """
import survival_objectives.adapters.{engine}._engine
from survival_objectives._process.running import default_threads
print(default_threads(2**19, 1))
"""


@pytest.mark.parametrize("engine", ["xgboost", "lightgbm"])
def test_engines_are_loaded_with_a_passive_wait(engine):
    counts, _ = spin_counts(FIT.format(engine=engine))
    assert counts == {"0"}


EACH_FIRST = """
import os, sys
import pandas, scipy.stats  # Not scikit-learn: what follows is quick, and starts from here.
for name in sys.argv[1:]:
    if os.fork() == 0:
        __import__("survival_objectives." + name)
        from survival_objectives._process.running import _IS_PASSIVE
        if not _IS_PASSIVE:
            print(name, flush=True)
        os._exit(0)
    os.wait()
"""


def test_whatever_is_imported_first_makes_threads_wait_passively():
    """Otherwise scikit-learn would be imported before it is told how, and small fits be slow."""
    names = "assessment baselines cli._fit estimators metrics mlflow report uncertainty"
    program = [sys.executable, "-c", EACH_FIRST, *names.split()]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(program, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_help_and_import_load_no_tables_and_no_learning():
    """The command answers at once; public names come on first use."""
    program = (
        "import sys, survival_objectives, survival_objectives.cli._main as main;"
        "main._parser(); print({'numpy', 'pandas', 'sklearn'} & {*sys.modules});"
        "from survival_objectives import HazardBoost; print(HazardBoost.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["set()", "HazardBoost"]


def test_a_wait_of_the_user_stays():
    counts, _ = spin_counts(FIT.format(engine="xgboost"), OMP_WAIT_POLICY="ACTIVE")
    assert counts.isdisjoint({"0", "300000"})


def test_small_work_has_one_thread_where_threads_spin():
    counts, printed = spin_counts("import sklearn.utils\n" + FIT.format(engine="xgboost"))
    # Wheels of scikit-learn and XGBoost that share no copy of OpenMP have another that sleeps.
    assert "300000" in counts
    assert printed == ["1"]


@pytest.mark.parametrize("engine", ["xgboost", "lightgbm", "catboost"])
def test_models_do_not_depend_on_the_number_of_threads(engine):
    data = make_competing_risks(2000, n_causes=2, random_state=0)
    curves = [
        HazardBoost(engine, n_estimators=20, n_repeats=1, random_state=0, n_jobs=n_jobs)
        .fit(data.X, data.y)
        .predict_cumulative_incidence(data.X[:100])
        for n_jobs in (1, 2, None)
    ]
    np.testing.assert_allclose(curves[1], curves[0], rtol=0, atol=1e-6)
    np.testing.assert_allclose(curves[2], curves[0], rtol=0, atol=1e-6)


def test_linear_algebra_of_a_fit_has_one_thread():
    data = make_competing_risks(200, n_causes=1, random_state=0)
    seen = []

    def look(*_):
        pools = threadpoolctl.threadpool_info()
        seen.extend(pool["num_threads"] for pool in pools if pool["user_api"] == "blas")

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = [one["num_threads"] for one in threadpoolctl.threadpool_info()]
        HazardBoost(n_estimators=5, n_folds=2, n_repeats=1, n_jobs=2, random_state=0).fit(
            data.X, data.y, callbacks=[look]
        )
        assert before == [one["num_threads"] for one in threadpoolctl.threadpool_info()]
    assert set(seen) == {1}
