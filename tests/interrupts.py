"""Real Ctrl-C in trainings: every signal must end them with KeyboardInterrupt, whenever it comes.

Run by hand; it takes some minutes of CPU:

    python -m tests.interrupts --signals 200

Each signal goes to a process of its own, at a random moment of a training that is repeated until it
comes. What counts as a failure: another exception, an abort or a crash, and a signal that is lost.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from importlib import import_module

import numpy as np

from survival_objectives import HazardBoost, SurvivalBoost
from survival_objectives.datasets import make_competing_risks

ENGINES = ("xgboost", "lightgbm", "catboost")
INTERRUPTED = "KeyboardInterrupt"
# A signal that has had no effect after so many seconds is lost.
_PATIENCE = 60
_LATEST = 1.5


def trainings(engine: str) -> list[Callable[[], object]]:
    """Short trainings by the estimator and by the plugin, and with XGBoost from disk."""
    data = make_competing_risks(400, n_causes=2, n_features=5, random_state=0)
    X, y = data.X, data.y
    settings = {"engine": engine, "n_estimators": 20, "n_jobs": 1, "random_state": 0}

    def fit(kind: type[HazardBoost] | type[SurvivalBoost]) -> object:
        return kind(**settings).fit(X, y)

    def plugin() -> object:
        adapter = import_module(f"survival_objectives.adapters.{engine}")
        if engine == "catboost":
            return adapter.IPCWLoss(X, y, random_state=0).train_pool
        objective = adapter.IPCWObjective(X, y, random_state=0)
        data = objective.dtrain if engine == "xgboost" else objective.train_set
        return data, objective.held_out(X, y)

    def disk() -> object:
        module = import_module("survival_objectives.adapters.external_memory")
        half = len(X) // 2
        batches = [(X[:half], y[:half]), (X[half:], y[half:])]
        return module.fit_external(HazardBoost(**settings), batches)

    found = [lambda: fit(HazardBoost), lambda: fit(SurvivalBoost), plugin]
    return [*found, disk] if engine == "xgboost" else found


def outcome(training: Callable[[], object], moment: float) -> str:
    """What a signal at a moment, in seconds after the start, did to a process that trains."""
    ready, begin = os.pipe()
    child = os.fork()
    if child == 0:
        os._exit(_train(training, begin))
    os.read(ready, 1)
    os.close(ready)
    os.close(begin)
    time.sleep(moment)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGINT)
    for _ in range(_PATIENCE * 100):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.01)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "lost"
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return {0: INTERRUPTED, 1: "another exception"}.get(os.WEXITSTATUS(status), "exit")


def _train(training: Callable[[], object], begin: int) -> int:
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Kept: a signal that falls into the deletion of a finished model is XGBoost's to lose.
    finished = []
    try:
        os.write(begin, b".")
        while True:
            finished.append(training())
    except KeyboardInterrupt:
        return 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 1


def count(engine: str, n_signals: int, seed: int = 0, latest: float = _LATEST) -> Counter[str]:
    """How often signals had each outcome."""
    generator = np.random.default_rng(seed)
    # Imported before the processes fork, but not used: OpenMP's threads do not survive a fork.
    import_module(f"survival_objectives.adapters.{engine}._engine")
    import_module("survival_objectives.adapters.external_memory")
    cases = trainings(engine)
    return Counter(
        outcome(cases[number % len(cases)], generator.uniform(0, latest))
        for number in range(n_signals)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signals", type=int, default=200)
    parser.add_argument("--engines", nargs="+", default=ENGINES, choices=ENGINES)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failed = False
    for engine in options.engines:
        counts = count(engine, options.signals, options.seed)
        print(engine, dict(counts), flush=True)
        failed |= set(counts) != {INTERRUPTED}
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
