"""One harness over the three engines, and simulated people whose truth is known.

A test that takes the fixture `engine` runs once for each engine. What an engine calls its settings,
how it is trained and how its model is compared bit by bit is said here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import catboost
import lightgbm as lgb
import numpy as np
import xgboost as xgb

from survival_objectives.adapters import catboost as catboost_adapter
from survival_objectives.adapters import lightgbm as lightgbm_adapter
from survival_objectives.adapters import xgboost as xgboost_adapter


class XGBoostEngine:
    name = "xgboost"
    interruption: type[BaseException] = KeyboardInterrupt
    problem = xgboost_adapter.IPCWObjective
    snippet = """
import xgboost as xgb
from survival_objectives.adapters.xgboost import IPCWObjective

ipcw_objective = IPCWObjective(X, y, n_horizons=4, refresh_every=10, random_state=0)
dtrain = ipcw_objective.dtrain                                   # QuantileDMatrix of the stacked rows, time last
params = {**ipcw_objective.params, "max_depth": 4, "learning_rate": 0.05}
booster = xgb.train(params, dtrain, num_boost_round=100, obj=ipcw_objective)               # Kaplan-Meier weights, never refreshed
booster = xgb.train(params, dtrain, num_boost_round=100, obj=ipcw_objective,
                    callbacks=[ipcw_objective.refresh()])         # Algorithm 1: censoring model refreshed every 10 rounds
cif = ipcw_objective.predict_cumulative_incidence(booster, X_test, times)                  # (n, K+1, T); index 0 is survival
"""  # noqa: E501  Printed as in the contract.

    def params(self, depth=3, learning_rate=0.1, min_weight=1.0, **own):
        return {
            "max_depth": depth,
            "learning_rate": learning_rate,
            "min_child_weight": min_weight,
            "nthread": 1,
            **own,
        }

    def train(self, objective, n_rounds=20, *, refresh=False, callbacks=(), options=None, **params):
        callbacks = [objective.refresh(), *callbacks] if refresh else [*callbacks]
        return xgb.train(
            {**objective.params, **self.params(**params)},
            objective.dtrain,
            num_boost_round=n_rounds,
            obj=objective,
            callbacks=callbacks,
            **(options or {}),
        )

    def early_stopping(self, objective, held_out, patience):
        """Options of `train` that stop on the metric at held-out people."""
        self.history: dict[str, Any] = {}
        return {
            "evals": [(held_out, "held_out")],
            "custom_metric": objective.metric,
            "early_stopping_rounds": patience,
            "evals_result": self.history,
            "verbose_eval": False,
        }

    def scores(self, model):
        """Value of the metric after each round."""
        return self.history["held_out"]["ipcw_log_loss"]

    def best_round(self, model):
        return model.best_iteration

    def first_rounds(self, model, n_rounds):
        return model[:n_rounds]

    def interrupter(self, at):
        class Interrupt(xgb.callback.TrainingCallback):
            def after_iteration(self, model, epoch, evals_log):
                if epoch + 1 == at:
                    raise KeyboardInterrupt
                return False

        return Interrupt()

    def bits(self, model):
        model = model.copy()
        model.set_attr(best_iteration=None, best_score=None)
        return bytes(model.save_raw("ubj"))


class LightGBMEngine:
    name = "lightgbm"
    interruption: type[BaseException] = KeyboardInterrupt
    problem = lightgbm_adapter.IPCWObjective
    snippet = """
import lightgbm as lgb
from survival_objectives.adapters.lightgbm import IPCWObjective
objective = IPCWObjective(X, y, n_horizons=4, refresh_every=10, random_state=0)
booster = lgb.train({**objective.params, "objective": objective, "num_leaves": 15}, objective.train_set,
                    num_boost_round=100, callbacks=[objective.refresh()])
cif = objective.predict_cumulative_incidence(booster, X_test, times)
"""  # noqa: E501  Printed as in the contract.

    def params(self, depth=3, learning_rate=0.1, min_weight=1.0, **own):
        return {
            "max_depth": depth,
            "num_leaves": 2**depth,
            "learning_rate": learning_rate,
            "min_sum_hessian_in_leaf": min_weight,
            "num_threads": 1,
            **own,
        }

    def train(self, objective, n_rounds=20, *, refresh=False, callbacks=(), options=None, **params):
        options = dict(options or {})
        callbacks = [*options.pop("callbacks", ()), *callbacks]
        if refresh:
            callbacks.append(objective.refresh())
        return lgb.train(
            {**objective.params, "objective": objective, **self.params(**params)},
            objective.train_set,
            num_boost_round=n_rounds,
            callbacks=callbacks,
            **options,
        )

    def early_stopping(self, objective, held_out, patience):
        self.history: dict[str, Any] = {}
        return {
            "valid_sets": [held_out],
            "valid_names": ["held_out"],
            "feval": objective.metric,
            "callbacks": [
                lgb.early_stopping(patience, verbose=False),
                lgb.record_evaluation(self.history),
            ],
        }

    def scores(self, model):
        return self.history["held_out"]["ipcw_log_loss"]

    def best_round(self, model):
        return model.best_iteration - 1

    def first_rounds(self, model, n_rounds):
        return lgb.Booster(model_str=model.model_to_string(num_iteration=n_rounds))

    def interrupter(self, at):
        def interrupt(env):
            if env.iteration + 1 == at:
                raise KeyboardInterrupt

        return interrupt

    def bits(self, model):
        return model.model_to_string().encode()


class CatBoostEngine:
    name = "catboost"
    interruption: type[BaseException] = catboost.CatBoostError  # It wraps whatever is raised.
    problem = catboost_adapter.IPCWLoss
    snippet = """
from catboost import CatBoost
from survival_objectives.adapters.catboost import IPCWLoss
loss = IPCWLoss(X, y, n_horizons=4, refresh_every=10, random_state=0)
model = CatBoost({**loss.params, "loss_function": loss, "iterations": 100, "depth": 4})
model.fit(loss.train_pool, callbacks=[loss.refresh()])
cif = loss.predict_cumulative_incidence(model, X_test, times)
"""

    def params(self, depth=3, learning_rate=0.1, min_weight=1.0, **own):
        return {"depth": depth, "learning_rate": learning_rate, "thread_count": 1, **own}

    def train(self, objective, n_rounds=20, *, refresh=False, callbacks=(), options=None, **params):
        options = dict(options or {})
        params = self.params(**params)
        trees = {name: params[name] for name in ("depth", "learning_rate", "thread_count")}
        callbacks = [objective.refresh(trees), *callbacks] if refresh else [*callbacks]
        model = catboost.CatBoost(
            {
                **objective.params,
                "loss_function": objective,
                "iterations": n_rounds,
                "verbose": False,
                **params,
                **options.pop("params", {}),
            }
        )
        return model.fit(objective.train_pool, callbacks=callbacks or None, **options)

    def early_stopping(self, objective, held_out, patience):
        return {"eval_set": held_out, "params": {"early_stopping_rounds": patience}}

    def scores(self, model):
        return model.get_evals_result()["validation"]["IPCWLogLoss"]

    def best_round(self, model):
        return model.get_best_iteration()

    def first_rounds(self, model, n_rounds):
        shorter = model.copy()
        shorter.shrink(n_rounds)
        return shorter

    def interrupter(self, at):
        class Interrupt:
            def after_iteration(self, info):
                if info.iteration == at:
                    raise KeyboardInterrupt
                return True

        return Interrupt()

    def bits(self, model):
        # The saved file holds the time of training, so: all splits and leaves.
        return repr(model.get_borders()).encode() + model.get_leaf_values().tobytes()


ENGINES = {engine.name: engine for engine in (XGBoostEngine, LightGBMEngine, CatBoostEngine)}


@dataclass(frozen=True)
class People:
    """People with exponential causes and exponential censoring, all rates known."""

    X: np.ndarray
    y: tuple[np.ndarray, np.ndarray]
    rate: np.ndarray  # (n, K)
    censoring_rate: np.ndarray  # (n,)

    def true_incidence(self, times):
        """(n, K + 1, n_times), index 0 the survival."""
        total = self.rate.sum(axis=1)[:, None]
        survival = np.exp(-total * np.asarray(times))
        incidence = (self.rate / total)[:, :, None] * (1 - survival)[:, None]
        return np.concatenate([survival[:, None], incidence], axis=1)

    def true_censoring(self, times):
        return np.exp(-self.censoring_rate[:, None] * np.asarray(times))


def simulate(
    n_samples, *, n_causes=2, seed=0, censored=True, n_features=6, two_groups=False, tied=False
):
    """People of whom about 55 % are censored, the more the larger their first feature.

    With ``two_groups`` the first feature is 1 or -1: trees find it at once, so that what remains of
    the error is mostly bias of the weights. With ``tied`` durations are multiples of 1/4, 0 among
    them, so that events and censorings happen at the same times.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features))
    if two_groups:
        X[:, 0] = np.sign(X[:, 0])
    log_rates = [
        -1.0 + 0.8 * X[:, 0] + 0.3 * X[:, 1],
        -1.3 - 0.5 * X[:, 0] + 0.5 * X[:, 2],
        -1.5 + 0.5 * X[:, 1] - 0.5 * X[:, 2],
    ]
    rate = np.exp(np.column_stack(log_rates[:n_causes]))
    latent = rng.exponential(size=rate.shape) / rate
    time, event = latent.min(axis=1), latent.argmin(axis=1) + 1
    censoring_rate = np.exp(-0.5 + X[:, 0])
    censoring = rng.exponential(size=n_samples) / censoring_rate
    if not censored:
        censoring = np.full(n_samples, np.inf)
    event = np.where(time <= censoring, event, 0)
    duration = np.minimum(time, censoring)
    if tied:
        duration = np.floor(4 * duration) / 4
    return People(X, (event, duration), rate, censoring_rate)
