"""XGBoost, driven round by round: one booster, many matrices whose margins XGBoost caches."""

from __future__ import annotations

import ctypes
import inspect
import json
import re
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._engines import protocol
from survival_objectives._engines.forest import Forest, Tree
from survival_objectives._engines.protocol import (
    BatchJoiner,
    Engine,
    column_names,
    import_engine,
    models_gradient_hessian,
)
from survival_objectives._engines.settings import (
    INTERACTION,
    MONOTONE,
    OWNED,
    Choice,
    EngineSettings,
    Number,
    TreeSettings,
    Whole,
    checked_directions,
    checked_groups,
)
from survival_objectives._people import Features
from survival_objectives._process.running import deliver_interrupt, interrupts_held

xgb = import_engine("xgboost")

_MAX_DEPTH = 64


def n_cuda_devices() -> int:
    """Number of CUDA devices that the driver shows to this process."""
    for library in ("libcuda.so.1", "nvcuda.dll"):
        try:
            driver = ctypes.CDLL(library)
        except OSError:
            continue
        count = ctypes.c_int(0)
        if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0:
            return count.value
    return 0


def _device(value: Any) -> str:
    """``value``, or an error where XGBoost would silently fall back to the CPU."""
    if value == "cpu":
        return "cpu"
    if not isinstance(value, str) or re.fullmatch(r"(cuda|gpu)(:\d+)?", value) is None:
        wanted = "must be 'cpu', 'cuda' or 'cuda:<number>'"
        raise ValueError(wanted)
    if not xgb.build_info().get("USE_CUDA"):
        wanted = "needs an XGBoost that was built with CUDA; use 'cpu'"
        raise ValueError(wanted)
    n_devices, number = n_cuda_devices(), int(value.partition(":")[2] or 0)
    if number >= n_devices:
        wanted = f"needs a GPU, and this process sees {n_devices}; use 'cpu'"
        raise ValueError(wanted)
    return value


_ALIASES = {
    "eta": "learning_rate",
    "reg_lambda": "lambda",
    "reg_alpha": "alpha",
    "min_split_loss": "gamma",
    "random_state": "seed",
    "n_jobs": "nthread",
}

SETTINGS = EngineSettings(
    "xgboost",
    {
        "learning_rate": Number(1e-6, 1),
        "max_depth": Whole(1, _MAX_DEPTH),
        "max_leaves": Whole(0, 2**17),
        "grow_policy": Choice(("depthwise", "lossguide")),
        "min_child_weight": Number(0, 1e9),
        "gamma": Number(0, 1e9),
        "max_delta_step": Number(0, 1e6),
        "subsample": Number(1e-3, 1),
        "sampling_method": Choice(("uniform",), "others need a GPU"),
        "colsample_bytree": Number(1e-6, 1),
        "colsample_bylevel": Number(1e-6, 1),
        "colsample_bynode": Number(1e-6, 1),
        "lambda": Number(0, 1e9),
        "alpha": Number(0, 1e9),
        "max_bin": Whole(2, 2**16),
        "max_cat_to_onehot": Whole(1, 2**16),
        "max_cat_threshold": Whole(1, 2**16),
        "max_cached_hist_node": Whole(1, 2**17),
        "num_parallel_tree": Whole(1, 1000),
        "booster": Choice(("gbtree",), OWNED["trees"]),
        "multi_strategy": Choice(("one_output_per_tree",), OWNED["trees"]),
        "tree_method": Choice(("hist", "auto"), "others do not take binned matrices"),
        "device": _device,
        MONOTONE: checked_directions,
        INTERACTION: checked_groups,
    },
    {
        "objective": OWNED["loss"],
        "num_class": OWNED["classes"],
        "num_target": OWNED["classes"],
        "base_score": OWNED["start"],
        "scale_pos_weight": OWNED["weights"],
        "eval_metric": OWNED["metric"],
        "disable_default_eval_metric": OWNED["metric"],
        "seed": OWNED["seed"],
        "seed_per_iteration": OWNED["seed"],
        "nthread": OWNED["threads"],
        "verbosity": OWNED["verbosity"],
        "silent": OWNED["verbosity"],
        "early_stopping_rounds": OWNED["stopping"],
        "enable_categorical": OWNED["categories"],
        "feature_types": OWNED["categories"],
        **dict.fromkeys(("n_estimators", "num_boost_round", "num_round"), OWNED["rounds"]),
        **dict.fromkeys(("iterations", "n_iter", "num_iterations"), OWNED["rounds"]),
        **dict.fromkeys(("updater", "process_type", "refresh_leaf"), OWNED["trees"]),
        **dict.fromkeys(("rate_drop", "skip_drop", "sample_type"), OWNED["trees"]),
        **dict.fromkeys(("normalize_type", "one_drop", "feature_selector"), OWNED["trees"]),
    },
    _ALIASES,
    known={*inspect.signature(xgb.XGBModel).parameters, "validate_parameters", "top_k"},
)


# Weight of a column in the draws of columns, where others have 1.
_ALWAYS_DRAWN = 1e20


def row_matrix(
    kind: type, values: Float32Array, schema: Features, start: npt.ArrayLike, **options: Any
) -> Any:
    """A matrix with starting margins: what is given leaves ``base_score`` without effect."""
    types = ["c" if column in schema.categories else "q" for column in range(values.shape[1])]
    with interrupts_held():
        matrix = kind(
            values,
            feature_types=types,
            enable_categorical=bool(schema.categories),
            **{"feature_names": column_names(schema), **options},
        )
    matrix.set_base_margin(np.asarray(start, np.float32))
    return matrix


def constraint_params(
    directions: list[int] | None, groups: list[list[int]] | None
) -> dict[str, str]:
    """Constraints on the stacked columns as parameters of XGBoost."""
    params = {}
    if directions is not None:
        params[MONOTONE] = str(tuple(directions))
    if groups is not None:
        params[INTERACTION] = str(groups)
    return params


def margins_of(booster: Any) -> int:
    """Margins per row."""
    shape = json.loads(booster.save_config())["learner"]["learner_model_param"]
    return max(1, int(shape["num_class"]), int(shape["num_target"]))


def directions_of(model: Any) -> list[int]:
    """Monotone constraints with which a booster was trained; none are known of one from a file."""
    config = json.loads(model.save_config())["learner"]["gradient_booster"]
    trees = config.get("gbtree", config).get("tree_train_param", {})
    return [int(sign) for sign in re.findall(r"-?\d", trees.get("monotone_constraints", ""))]


def rounds_of(booster: Any) -> int:
    """Rounds up to the best one: early stopping leaves those after it in the booster."""
    best = booster.attr("best_iteration")
    return int(booster.num_boosted_rounds() if best is None else int(best) + 1)


class Evaluator(protocol.Evaluator):
    """A booster of XGBoost with one margin, or as many as classes."""

    def __init__(self, model: Any, schema: Features, n_jobs: int | None = None) -> None:
        super().__init__(model, schema, n_jobs)
        # Predictions take the threads of the booster, which files do not keep.
        model.set_param({"nthread": self.most_threads})

    @property
    def n_rounds(self) -> int:
        return int(self.model.num_boosted_rounds())

    @cached_property
    def n_margins(self) -> int:
        return margins_of(self.model)

    def _matrix(self, values: Float32Array) -> Any:
        return row_matrix(
            xgb.DMatrix,
            values,
            self.schema,
            np.zeros((len(values), self.n_margins), np.float32),
            feature_names=self.model.feature_names,
            nthread=self.threads(len(values)),
        )

    def _rounds(self, values: Float32Array, first: int, last: int) -> npt.ArrayLike:
        rounds = (first, last)
        return self.model.predict(  # type: ignore[no-any-return]
            self._matrix(values), output_margin=True, iteration_range=rounds
        )

    def _contributions(self, values: Float32Array) -> npt.ArrayLike:
        return self.model.predict(self._matrix(values), pred_contribs=True)  # type: ignore[no-any-return]

    def importances(self) -> FloatArray:
        """Total gain of every column, the time last."""
        gains = self.model.get_score(importance_type="total_gain")
        return np.array([np.sum(gains.get(name, 0.0)) for name in self.model.feature_names])

    def _read_forest(self) -> Forest:
        content = json.loads(self.model.save_raw("json"))
        model = content["learner"]["gradient_booster"]["model"]
        trees = zip(model["trees"], model["tree_info"], strict=True)
        return Forest(
            [_tree(tree, margin) for tree, margin in trees],
            self.n_margins,
            self.schema.n_features,
            at_most=False,
        )


class Trainer(BatchJoiner):
    """K margins of K causes against the event-free state, boosted on several matrices in turn.

    Inside XGBoost's communicator the matrices are parts of larger ones on several workers, all of
    which make the same calls: bins and histograms are merged by XGBoost.

    Parameters
    ----------
    settings : TreeSettings
    model : xgboost.Booster, optional
        Trees to continue from.
    n_models : int, default=1
        Models side by side, with the margins of one after those of another.
    before_round : callable, optional
        Called before every round; an exception ends the training.
    """

    reference = True

    def __init__(
        self,
        settings: TreeSettings,
        model: Any = None,
        n_models: int = 1,
        before_round: Callable[[], None] | None = None,
    ) -> None:
        self._before_round = before_round
        self._settings = settings
        self._n_margins = n_models * settings.n_causes
        self._matrices: list[Any] = []
        self._booster = model
        self._n_rounds = 0 if model is None else model.num_boosted_rounds()
        self._is_warm_start = model is not None
        self._n_rows = 0  # Of the largest matrix.
        # Whether trees have grown on bins other than those of the registered matrices.
        self._has_other_bins = model is not None
        self._is_copy = False

    @property
    def _params(self) -> dict[str, Any]:
        settings = self._settings
        params: dict[str, Any] = {
            "max_depth": settings.max_depth,
            "learning_rate": settings.learning_rate,
            "min_child_weight": settings.min_leaf_people,
            "gamma": settings.min_split_gain,
            "colsample_bytree": settings.column_share,
            "seed": settings.seed,
            # Else columns are drawn from a state that depends on what else the process trained.
            "seed_per_iteration": True,
            "verbosity": 0,
            "nthread": settings.threads(self._n_rows),
        }
        params.update(SETTINGS.resolved(settings.engine_params))
        params.update(constraint_params(*settings.constraints()))
        if self._n_margins == 1:
            params.update({"objective": "binary:logistic", "base_score": 0.5})
        else:
            params.update({"num_class": self._n_margins, "base_score": 0.0})
        params["disable_default_eval_metric"] = True
        return params

    @property
    def n_rounds(self) -> int:
        return self._n_rounds

    def _matrix(
        self, kind: type, values: Float32Array, start: npt.ArrayLike, **options: Any
    ) -> Any:
        settings = self._settings
        threads = settings.threads(len(values))
        return self._with_time_drawn(
            row_matrix(kind, values, settings.schema, start, nthread=threads, **options)
        )

    def _with_time_drawn(self, matrix: Any) -> Any:
        """The matrix, with weights by which every draw of columns includes the time.

        Not for draws of the user's own, which may be of a single column.
        """
        own = SETTINGS.resolved(self._settings.engine_params)
        has_own_draws = any(name.startswith("colsample") for name in own)
        if self._settings.column_share < 1 and not has_own_draws:
            weights = np.ones(self._settings.schema.n_features + 1, np.float32)
            weights[-1] = _ALWAYS_DRAWN
            matrix.set_info(feature_weights=weights)
        return matrix

    def add(self, values: Float32Array, start: FloatArray) -> int:
        deliver_interrupt()
        with warnings.catch_warnings():
            # A worker may have no rows of a matrix while other workers have some.
            warnings.filterwarnings("ignore", message=".*Empty dataset at worker")
            matrix = self._training_matrix(values, start)
        self._n_rows = max(self._n_rows, len(values))
        self._matrices.append(matrix)
        return len(self._matrices) - 1

    def _training_matrix(self, values: Float32Array, start: FloatArray) -> Any:
        if self._has_other_bins:
            # A quantile matrix keeps values only up to its own bins, which differ from the split
            # points of the existing trees: their margins would be wrong.
            return self._matrix(xgb.DMatrix, values, start)
        options = {"ref": self._matrices[0]} if self._matrices else {}
        max_bin = self._settings.engine_params.get("max_bin")
        if max_bin is not None:
            options["max_bin"] = max_bin
        return self._matrix(xgb.QuantileDMatrix, values, start, **options)

    def boost(
        self, key: int, target: npt.NDArray[np.int32], weight: FloatArray, n_rounds: int
    ) -> None:
        matrix = self._matrices[key]
        if self._booster is None:
            self._booster = xgb.Booster(self._params, [matrix])
        elif self._is_warm_start and not self._is_copy:
            # XGBoost trains in place; the passed model must not change.
            self._booster = self._booster.copy()
            self._booster.set_param(self._params)
            self._is_copy = True
        loss = None
        # XGBoost's own loss takes probabilities only.
        is_probability = target.ndim == 1 or (target.min() >= 0 and target.max() <= 1)
        if self._n_margins == 1 and is_probability:
            # For a distribution over two states, the label is the probability of the cause.
            label = target if target.ndim == 1 else target[:, 1]
            matrix.set_info(label=label, weight=weight)
        else:
            weight = np.asarray(weight, np.float32)
            out = np.empty((2, len(target), self._n_margins), np.float32)

            def loss(margin: Float32Array, _: Any) -> tuple[Any, Any]:
                return models_gradient_hessian(margin, target, weight, (out[0], out[1]))

        for _ in range(n_rounds):
            deliver_interrupt()
            if self._before_round is not None:
                self._before_round()
            self._booster.update(matrix, self._n_rounds, fobj=loss)
            self._n_rounds += 1

    def margin(self, key: int) -> npt.ArrayLike:
        matrix = self._matrices[key]
        if self._booster is None:
            return matrix.get_base_margin().reshape(-1, self._n_margins)  # type: ignore[no-any-return]
        margin = self._booster.predict(matrix, output_margin=True)
        return margin.reshape(-1, self._n_margins)  # type: ignore[no-any-return]

    def sum_of_trees(self, values: Float32Array, first: int, last: int) -> FloatArray:
        if first == last:  # XGBoost would interpret (0, 0) as all rounds.
            return np.zeros((len(values), self._n_margins))
        start = np.zeros((len(values), self._n_margins), np.float32)
        matrix = self._matrix(xgb.DMatrix, values, start)
        margin = self._booster.predict(matrix, output_margin=True, iteration_range=(first, last))
        return np.asarray(margin, np.float64).reshape(-1, self._n_margins)

    def release(self) -> None:
        self._matrices.clear()
        self._has_other_bins = self._booster is not None

    def state(self) -> bytes:
        return b"" if self._booster is None else bytes(self._booster.save_raw("ubj"))

    def restore(self, state: bytes) -> None:
        if state:
            self._booster = xgb.Booster(self._params, [self._matrices[0]])
            self._booster.load_model(bytearray(state))
            self._booster.set_param(self._params)
            self._n_rounds = self._booster.num_boosted_rounds()

    def finished(self, n_rounds: int) -> Evaluator:
        settings = self._settings
        return Evaluator(self._booster[:n_rounds], settings.schema, settings.n_jobs)


def _tree(tree: dict[str, Any], margin: int) -> Tree:
    left = tree["left_children"]
    is_leaf = [child == -1 for child in left]
    # XGBoost lists the categories that go right.
    right_sets: dict[int, frozenset[int]] = {}
    for node, start, size in zip(
        tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True
    ):
        right_sets[node] = frozenset(tree["categories"][start : start + size])
    # At a node that splits on a category, children and default direction are swapped.
    swapped = [node in right_sets for node in range(len(left))]
    right = tree["right_children"]
    default_left = [bool(flag) for flag in tree["default_left"]]
    return Tree(
        feature=[
            -1 if leaf else column
            for leaf, column in zip(is_leaf, tree["split_indices"], strict=True)
        ],
        # JSON has the shortest decimals that parse to the same float32, not its exact value.
        threshold=np.asarray(tree["split_conditions"], np.float32).astype(np.float64).tolist(),
        left=[b if swap else a for a, b, swap in zip(left, right, swapped, strict=True)],
        right=[a if swap else b for a, b, swap in zip(left, right, swapped, strict=True)],
        nan_left=[flag != swap for flag, swap in zip(default_left, swapped, strict=True)],
        categories=right_sets,
        value=[(value,) for value in tree["split_conditions"]],
        first_margin=margin,
    )


ENGINE = Engine(
    name="xgboost",
    trainer=Trainer,
    evaluator=Evaluator,
    settings=SETTINGS,
    max_depth=_MAX_DEPTH,
    file_name="{name}.ubj",
    refresh_every=10,
    save=xgb.Booster.save_model,
    load=lambda path: xgb.Booster(model_file=path),
    takes_any_target=True,
    coarse_bins={"max_bin": 64},
)
