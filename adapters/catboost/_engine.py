"""CatBoost, driven chunk by chunk with its native losses, ten times faster than a custom loss.

A chunk of rounds is a separate model that starts from the current margins, passed as the baseline;
in the end the chunks are summed into one model. Several causes use CatBoost's MultiClass, with one
margin per state; a single cause, and censoring, use Logloss.
"""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._engines import protocol
from survival_objectives._engines.forest import Forest, Tree
from survival_objectives._engines.protocol import (
    BatchJoiner,
    Engine,
    import_engine,
    packed_state,
    unpacked_state,
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
)
from survival_objectives._people import Features
from survival_objectives._process.running import deliver_interrupt
from survival_objectives.adapters.catboost._pool import row_pool
from survival_objectives.stacking import drawn_states

catboost = import_engine("catboost")

_MAX_DEPTH = 16

_L2_PEOPLE = 3.0

_SYMMETRIC = "CatBoost supports monotone constraints for symmetric trees only"
_ENCODED = "categories are one-hot encoded: other encodings would store people's outcomes"

SETTINGS = EngineSettings(
    "catboost",
    {
        "learning_rate": Number(1e-6, 1),
        "depth": Whole(1, _MAX_DEPTH),
        "l2_leaf_reg": Number(0, 1e9),
        "rsm": Number(1e-6, 1),
        "border_count": Whole(1, 65535),
        "feature_border_type": Choice(
            (
                "GreedyLogSum",
                "GreedyMinEntropy",
                "MaxLogSum",
                "Median",
                "MinEntropy",
                "Uniform",
                "UniformAndQuantiles",
            )
        ),
        "nan_mode": Choice(("Min", "Max"), "people may have missing values in prediction"),
        "random_strength": Number(0, 1e6),
        "bootstrap_type": Choice(("No", "Bayesian", "Bernoulli", "MVS"), "others need a GPU"),
        "bagging_temperature": Number(0, 1e6),
        "subsample": Number(1e-3, 1),
        "mvs_reg": Number(0, 1e9),
        "sampling_frequency": Choice(("PerTree", "PerTreeLevel")),
        "leaf_estimation_iterations": Whole(1, 100),
        "leaf_estimation_method": Choice(("Newton", "Gradient")),
        "leaf_estimation_backtracking": Choice(("No", "AnyImprovement")),
        "score_function": Choice(("Cosine", "L2"), "others need a GPU"),
        "boosting_type": Choice(("Plain", "Ordered")),
        "grow_policy": Choice(("SymmetricTree",), _SYMMETRIC),
        "task_type": Choice(("CPU",), "column sampling and monotone curves need the CPU"),
        MONOTONE: checked_directions,
    },
    {
        "loss_function": OWNED["loss"],
        "objective": OWNED["loss"],
        "classes_count": OWNED["classes"],
        "class_names": OWNED["classes"],
        "target_border": OWNED["classes"],
        "boost_from_average": OWNED["start"],
        "cat_features": OWNED["categories"],
        "one_hot_max_size": _ENCODED,
        INTERACTION: "CatBoost has none; use engine='xgboost' or engine='lightgbm'",
        "iterations": OWNED["rounds"],
        "random_seed": OWNED["seed"],
        "thread_count": OWNED["threads"],
        "od_wait": OWNED["stopping"],
        "max_leaves": _SYMMETRIC,
        "min_data_in_leaf": _SYMMETRIC,
        **dict.fromkeys(("class_weights", "auto_class_weights"), OWNED["weights"]),
        "scale_pos_weight": OWNED["weights"],
        **dict.fromkeys(("eval_metric", "custom_metric"), OWNED["metric"]),
        **dict.fromkeys(("od_type", "od_pval", "use_best_model"), OWNED["stopping"]),
        **dict.fromkeys(("verbose", "silent", "logging_level"), OWNED["verbosity"]),
        **dict.fromkeys(("verbose_eval", "metric_period"), OWNED["verbosity"]),
        **dict.fromkeys(("simple_ctr", "combinations_ctr", "per_feature_ctr"), _ENCODED),
        **dict.fromkeys(("max_ctr_complexity", "counter_calc_method"), _ENCODED),
        **dict.fromkeys(("model_shrink_rate", "model_shrink_mode", "langevin"), OWNED["trees"]),
        **dict.fromkeys(("posterior_sampling", "diffusion_temperature"), OWNED["trees"]),
    },
    {
        "eta": "learning_rate",
        "max_bin": "border_count",
        "max_depth": "depth",
        "colsample_bylevel": "rsm",
        "random_state": "random_seed",
        "reg_lambda": "l2_leaf_reg",
        "n_estimators": "iterations",
        "num_boost_round": "iterations",
        "num_trees": "iterations",
        "n_iter": "iterations",
        "early_stopping_rounds": "od_wait",
        "custom_loss": "custom_metric",
        "num_leaves": "max_leaves",
        "min_child_samples": "min_data_in_leaf",
    },
    known=inspect.signature(catboost.CatBoostClassifier).parameters,
)
# Settings of the bins; training ignores them for a pool that is already binned.
_BINNING = ("border_count", "feature_border_type", "nan_mode")
# Bootstrap type that each sampling setting belongs to.
_SAMPLING = {"subsample": "Bernoulli", "bagging_temperature": "Bayesian", "mvs_reg": "MVS"}


class Evaluator(protocol.Evaluator):
    """A model of CatBoost with one margin, or as many as classes."""

    @property
    def n_rounds(self) -> int:
        return int(self.model.tree_count_)

    @property
    def n_margins(self) -> int:
        return int(np.size(self.model.get_scale_and_bias()[1]))

    def _pool(self, values: Float32Array) -> Any:
        names, n_threads = self.model.feature_names_, self.threads(len(values))
        return row_pool(values, self.schema, names, thread_count=n_threads)

    def _rounds(self, values: Float32Array, first: int, last: int) -> FloatArray:
        rows = self._pool(values) if self.schema.categories else values
        return self.of_pool(rows, first, last)

    def of_pool(self, rows: Any, first: int, last: int) -> FloatArray:
        """As `sum_of_trees`, on rows in any form of CatBoost's."""
        margin = self.model.predict(
            rows,
            prediction_type="RawFormulaVal",
            thread_count=self.threads(rows.shape[0]),
            ntree_start=first,
            ntree_end=last,
        )
        return np.asarray(margin, dtype=np.float64).reshape(-1, self.n_margins)

    def _contributions(self, values: Float32Array) -> npt.ArrayLike:
        found: npt.ArrayLike = self.model.get_feature_importance(
            self._pool(values), type="ShapValues", thread_count=self.threads(len(values))
        )
        return found

    def importances(self) -> FloatArray:
        """Change of the prediction by every column, the time last."""
        changes = self.model.get_feature_importance(
            type="PredictionValuesChange", thread_count=self.most_threads
        )
        return np.asarray(changes)

    def _read_forest(self) -> Forest:
        schema = self.schema
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.json"
            # CatBoost stores hashes of categories, and lists those of the given pool.
            pool = self._pool(_all_codes(schema)) if schema.categories else None
            self.model.save_model(str(path), format="json", pool=pool)
            content = json.loads(path.read_text())
        columns = _SplitColumns(content["features_info"])
        oblivious = content.get("oblivious_trees")  # None with another `grow_policy`.
        trees: list[Tree] = []
        breaks = None
        if oblivious is not None and all(
            split["split_type"] in ("FloatFeature", "OneHotFeature")
            for tree in oblivious
            for split in tree["splits"] or []
        ):
            trees = [_tree(tree, columns, self.n_margins) for tree in oblivious]
        else:
            # Only CatBoost knows the encodings of many categories, and evaluates such trees.
            breaks = columns.borders(schema.n_features)
        return Forest(trees, self.n_margins, schema.n_features, at_most=True, breaks=breaks)


class Trainer(BatchJoiner):
    """Margins of all states (one cause: of that cause), boosted on several matrices in turn."""

    def __init__(self, settings: TreeSettings, model: Any = None, n_models: int = 1) -> None:
        self._settings = settings
        self.reference = settings.n_causes == 1
        self._n_margins = 1 if self.reference else settings.n_causes + 1
        self._values: list[Float32Array] = []
        self._pools: dict[int, Any] = {}  # Targets and binned training rows.
        self._rows: dict[int, Any] = {}  # All rows, for prediction.
        self._margins: list[FloatArray] = []
        # Of each model, all rounds so far. CatBoost's classes share their trees, models do not.
        self._chunks: list[list[Evaluator]] = [[] for _ in range(n_models)]
        if model is not None:
            self._chunks = [[one] for one in self._parted(model)]

    @property
    def _params(self) -> dict[str, Any]:
        settings = self._settings
        params: dict[str, Any] = {
            "depth": settings.max_depth,
            "learning_rate": settings.learning_rate,
            "rsm": settings.column_share,
            "random_seed": (settings.seed + self.n_rounds) % 2**31,
            "leaf_estimation_iterations": 1,
            "bootstrap_type": "No",
            "random_strength": 0,
            "boost_from_average": False,
            # Above this many categories (at most 255) CatBoost encodes them, by statistics of the
            # target unless it is told to count: those would store people's outcomes.
            "one_hot_max_size": 255,
            "simple_ctr": "Counter",
            "combinations_ctr": "Counter",
            "thread_count": settings.threads(self._n_rows),
        }
        own = SETTINGS.resolved(settings.engine_params)
        for name, kind in _SAMPLING.items():
            if name in own:
                params["bootstrap_type"] = kind
        params.update(own)
        params.update(self._constraints(is_constrained=params.pop(MONOTONE, None) is not None))
        if self.reference:
            params["loss_function"] = "Logloss"
        else:
            params.update({"loss_function": "MultiClass", "classes_count": self._n_margins})
            params.pop("boost_from_average")
        params.update({"verbose": False, "allow_writing_files": False})
        return params

    def _constraints(self, *, is_constrained: bool) -> dict[str, Any]:
        """Parameters of monotone constraints, which CatBoost has for one margin only."""
        if not self.reference:
            if is_constrained:
                msg = (
                    "`engine_params` has monotone_constraints, which CatBoost has for a single "
                    f"cause only; there are {self._settings.n_causes}. Use engine='xgboost' or "
                    "engine='lightgbm', or combine the causes."
                )
                raise ValueError(msg)
            return {}
        directions, _ = self._settings.constraints()
        if directions is None:
            return {}
        # CatBoost shrinks constrained models by default, which moves the start as well.
        return {MONOTONE: directions, "model_shrink_rate": 0}

    @property
    def n_rounds(self) -> int:
        return sum(chunk.n_rounds for chunk in self._chunks[0])

    @property
    def _n_rows(self) -> int:
        """Number of rows of the largest matrix."""
        return max(map(len, self._values), default=0)

    def _row_pool(self, values: Float32Array, **options: Any) -> Any:
        n_threads = self._settings.threads(len(values))
        return row_pool(values, self._settings.schema, thread_count=n_threads, **options)

    def add(self, values: Float32Array, start: FloatArray) -> int:
        deliver_interrupt()
        margin = start + self.sum_of_trees(values, 0, self.n_rounds)
        self._values.append(values)
        self._margins.append(margin)
        return len(self._values) - 1

    def boost(
        self, key: int, target: npt.NDArray[np.int32], weight: FloatArray, n_rounds: int
    ) -> None:
        if target.ndim == 2:
            # Native losses accept labels only: a state is drawn from each distribution, with a new
            # draw for each chunk of rounds.
            generator = np.random.default_rng([self._settings.seed, self.n_rounds])
            target = drawn_states(target[:, 1:].astype(np.float64), generator)
        deliver_interrupt()
        pool = self._pool(key, target)
        for other, values in enumerate(self._values):
            if other not in self._rows:
                self._rows[other] = self._row_pool(values)
        params = {**self._params, "iterations": n_rounds}
        weights = weight.reshape(len(weight), len(self._chunks))
        for number, (chunks, own) in enumerate(zip(self._chunks, weights.T, strict=True)):
            pool.set_weight(own)
            columns = slice(number * self._n_margins, (number + 1) * self._n_margins)
            pool.set_baseline(self._margins[key][:, columns])
            # CatBoost multiplies its regularisation by the mean row weight; here it is in people.
            model = catboost.CatBoost({"l2_leaf_reg": _L2_PEOPLE / own.mean(), **params})
            # A trained model holds the memory of its training, a copy does not (catboost 2827).
            chunks.append(self._evaluator(model.fit(pool).copy()))
            for other, rows in self._rows.items():
                self._margins[other][:, columns] += chunks[-1].of_pool(rows, 0, n_rounds)

    def _pool(self, key: int, target: npt.NDArray[np.int32]) -> Any:
        known, pool = self._pools.get(key, (None, None))
        # The labels of a pool cannot be replaced.
        if known is None or not np.array_equal(known, target):
            pool = self._row_pool(self._values[key], label=target)
            if not self._settings.schema.categories:
                own = SETTINGS.resolved(self._settings.engine_params)
                pool.quantize(**{name: own[name] for name in _BINNING if name in own})
            self._pools[key] = target, pool
        return pool

    def margin(self, key: int) -> npt.ArrayLike:
        return self._margins[key]

    def sum_of_trees(self, values: Float32Array, first: int, last: int) -> FloatArray:
        return np.concatenate(
            [
                protocol.sum_of_chunks(chunks, values, self._n_margins, first, last)
                for chunks in self._chunks
            ],
            axis=1,
        )

    def release(self) -> None:
        for rows in (self._values, self._margins, self._pools, self._rows):
            rows.clear()

    def state(self) -> bytes:
        if not self.n_rounds:
            return b""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.cbm"
            self.finished(self.n_rounds).model.save_model(str(path))
            return packed_state(path.read_bytes(), self._margins)

    def restore(self, state: bytes) -> None:
        if state:
            trees, self._margins = unpacked_state(state)
            joined = catboost.CatBoost().load_model(blob=trees)
            self._chunks = [[one] for one in self._parted(joined)]

    def finished(self, n_rounds: int) -> Evaluator:
        """One native model, the sum of all, each truncated to its first rounds."""
        models = [_joined([chunk.model for chunk in chunks]) for chunks in self._chunks]
        for model in models:
            if n_rounds < model.tree_count_:
                model.shrink(n_rounds)
        return self._evaluator(_joined(models))

    def _parted(self, joined: Any) -> list[Evaluator]:
        """The models side by side whose sum was `finished`; all have as many rounds."""
        n_models = len(self._chunks)
        n_rounds = joined.tree_count_ // n_models
        parts = [joined.copy() for _ in range(n_models)]
        for number, part in enumerate(parts if n_models > 1 else []):
            part.shrink((number + 1) * n_rounds, ntree_start=number * n_rounds)
        return [self._evaluator(part) for part in parts]

    def _evaluator(self, model: Any) -> Evaluator:
        return Evaluator(model, self._settings.schema, self._settings.n_jobs)


def _joined(models: Sequence[Any]) -> Any:
    """A new model with the trees of all, one model after another."""
    if len(models) == 1:
        return models[0].copy()
    # Each keeps its own counts of categories: their average would change its splits.
    return catboost.sum_models(models, ctr_merge_policy="KeepAllTables")


def _all_codes(schema: Features) -> Float32Array:
    """Rows with every level of every categorical column, and missing."""
    n_levels = max(len(levels) for levels in schema.categories.values())
    values = np.zeros((n_levels + 1, schema.n_features + 1), np.float32)
    values[:, sorted(schema.categories)] = np.append(np.arange(n_levels), np.nan)[:, None]
    return values


class _SplitColumns:
    """Columns and conditions of splits, from CatBoost's description of its features."""

    def __init__(self, info: dict[str, Any]) -> None:
        self._floats = info.get("float_features", [])
        self._categories = info.get("categorical_features", [])
        # A missing category is -1.
        self._code = {
            entry["hash"]: int(entry["value"]) for entry in info.get("cat_features_hash", [])
        }

    def borders(self, column: int) -> Float32Array:
        """Borders of a numeric column."""
        info = next(info for info in self._floats if info["flat_feature_index"] == column)
        return np.asarray(info["borders"] or [], dtype=np.float32)

    def condition(self, split: dict[str, Any]) -> tuple[int, float, bool, int | None]:
        """Column, threshold, whether a missing value fails the split, and the code tested for."""
        if split["split_type"] == "OneHotFeature":
            info = self._categories[split["cat_feature_index"]]
            # Signed in splits, unsigned in the list of hashes.
            code = self._code[split["value"] % 2**32]
            return info["flat_feature_index"], 0.0, code != -1, code
        info = self._floats[split["float_feature_index"]]
        fails = info.get("nan_value_treatment", "AsIs") != "AsTrue"
        return info["flat_feature_index"], float(np.float32(split["border"])), fails, None


def _tree(oblivious: dict[str, Any], columns: _SplitColumns, n_margins: int) -> Tree:
    """A symmetric tree as a binary one: all nodes of a level share a split, the last one first."""
    splits = oblivious["splits"] or []
    depth = len(splits)
    n_inner, n_nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    values = np.reshape(oblivious["leaf_values"], (2**depth, n_margins))
    feature, threshold, nan_left = [-1] * n_nodes, [0.0] * n_nodes, [False] * n_nodes
    value: list[Any] = [()] * n_nodes
    left = [2 * node + 1 for node in range(n_nodes)]
    right = [2 * node + 2 for node in range(n_nodes)]
    categories: dict[int, frozenset[int]] = {}
    conditions = [columns.condition(split) for split in splits]
    for node in range(n_nodes):
        level = (node + 1).bit_length() - 1
        if node >= n_inner:
            value[node] = values[node - n_inner].tolist()
            continue
        # Heap order: the split of the highest bit of the leaf number is the root.
        feature[node], threshold[node], fails, code = conditions[depth - 1 - level]
        nan_left[node] = fails
        if code is not None:
            # The tested category goes right in CatBoost; `Tree` lists those that go left.
            categories[node] = frozenset([code])
            left[node], right[node] = right[node], left[node]
            nan_left[node] = not fails
    return Tree(
        feature=feature,
        threshold=threshold,
        left=left,
        right=right,
        nan_left=nan_left,
        categories=categories,
        value=value,
        first_margin=0,
    )


ENGINE = Engine(
    name="catboost",
    trainer=Trainer,
    evaluator=Evaluator,
    settings=SETTINGS,
    max_depth=_MAX_DEPTH,
    file_name="{name}.cbm",
    # Every refresh begins a new model.
    refresh_every=20,
    save=catboost.CatBoost.save_model,
    load=lambda path: catboost.CatBoost().load_model(path),
    # Each call keeps about 200 bytes per row until the process ends.
    rounds_per_call=30,
    most_rows=1_000_000,
    coarse_bins={"border_count": 64},
    lacks=("min_leaf_people", "min_split_gain"),
    # Symmetric trees split less per round.
    hazard_defaults={"learning_rate": 0.4},
)
