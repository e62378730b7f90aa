"""LightGBM, driven round by round: a booster per chunk, all matrices binned alike.

LightGBM re-evaluates all trees when a booster changes its training data, but a new booster can
start from any margins at no cost. So every chunk of rounds is a separate booster that starts from
the margins of the last one; the other matrices are its validation sets, whose margins LightGBM
updates on binned values. In the end the chunks are joined into one model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    packed_state,
    unpacked_state,
)
from survival_objectives._engines.settings import (
    INTERACTION,
    MONOTONE,
    OWNED,
    Choice,
    EngineSettings,
    Flag,
    Number,
    TreeSettings,
    Whole,
    checked_directions,
    checked_groups,
)
from survival_objectives._process.running import deliver_interrupt

lgb = import_engine("lightgbm")

_MAX_DEPTH = 64
# Limit of LightGBM.
_MAX_LEAVES = 131072
# Sums of Hessians are differences of floating-point sums; below this, LightGBM would create empty
# leaves, and stop with an error.
_MIN_HESSIAN = 1e-3

_ALIASES = {
    alias: name
    for name, aliases in lgb.basic._ConfigAliases._get_all_param_aliases().items()
    for alias in aliases
}

SETTINGS = EngineSettings(
    "lightgbm",
    {
        "learning_rate": Number(1e-6, 1),
        "max_depth": Whole(1, _MAX_DEPTH),
        "num_leaves": Whole(2, _MAX_LEAVES),
        "min_data_in_leaf": Whole(1, 2**30),
        "min_sum_hessian_in_leaf": Number(_MIN_HESSIAN, 1e9),
        "min_gain_to_split": Number(0, 1e9),
        "feature_fraction": Number(1e-6, 1),
        "feature_fraction_bynode": Number(1e-6, 1),
        "bagging_fraction": Number(1e-3, 1),
        "bagging_freq": Whole(0, 10**6),
        "extra_trees": Flag(),
        "lambda_l1": Number(0, 1e9),
        "lambda_l2": Number(0, 1e9),
        "max_delta_step": Number(0, 1e6),
        "path_smooth": Number(0, 1e9),
        "max_bin": Whole(2, 2**16),
        "min_data_in_bin": Whole(1, 2**30),
        "bin_construct_sample_cnt": Whole(1, 2**30),
        "max_cat_threshold": Whole(1, 2**16),
        "max_cat_to_onehot": Whole(1, 2**16),
        "cat_l2": Number(0, 1e9),
        "cat_smooth": Number(0, 1e9),
        "min_data_per_group": Whole(1, 2**30),
        MONOTONE: checked_directions,
        INTERACTION: checked_groups,
        "monotone_constraints_method": Choice(("basic", "intermediate", "advanced")),
        "monotone_penalty": Number(0, 1e6),
        "histogram_pool_size": Number(-1, 1e9),
        "enable_bundle": Flag(),
        "is_enable_sparse": Flag(),
        "use_missing": Flag(),
        "zero_as_missing": Flag(),
        "boosting": Choice(("gbdt",), OWNED["trees"]),
        "data_sample_strategy": Choice(
            ("bagging",),
            "GOSS lets 1 / learning_rate rounds pass first, and chunks of rounds are shorter",
        ),
        "device_type": Choice(("cpu",), "curves from GPU models have not been compared"),
        "tree_learner": Choice(
            ("serial",), "`survival_objectives.adapters.dask` trains on several"
        ),
    },
    {
        "objective": OWNED["loss"],
        "num_class": OWNED["classes"],
        "is_unbalance": OWNED["weights"],
        "scale_pos_weight": OWNED["weights"],
        "pos_bagging_fraction": OWNED["weights"],
        "neg_bagging_fraction": OWNED["weights"],
        "metric": OWNED["metric"],
        "first_metric_only": OWNED["metric"],
        "boost_from_average": OWNED["start"],
        "input_model": "use `warm_start=True` to continue a model",
        "categorical_feature": OWNED["categories"],
        "linear_tree": OWNED["trees"],
        "linear_lambda": OWNED["trees"],
        "early_stopping_round": OWNED["stopping"],
        "num_threads": OWNED["threads"],
        "verbosity": OWNED["verbosity"],
        "num_iterations": OWNED["rounds"],
        "iterations": OWNED["rounds"],
        "deterministic": "the same seed and threads always give the same model",
        **dict.fromkeys(("seed", "bagging_seed", "feature_fraction_seed"), OWNED["seed"]),
        **dict.fromkeys(("extra_seed", "data_random_seed", "objective_seed"), OWNED["seed"]),
        **dict.fromkeys(("top_rate", "other_rate"), "GOSS is not used"),
        **dict.fromkeys(("drop_rate", "skip_drop", "max_drop", "drop_seed"), OWNED["trees"]),
    },
    _ALIASES,
    known=_ALIASES,
)


class Evaluator(protocol.Evaluator):
    """A booster of LightGBM with one margin, or as many as classes."""

    @property
    def n_rounds(self) -> int:
        return int(self.model.current_iteration())

    @property
    def n_margins(self) -> int:
        return int(self.model.num_model_per_iteration())

    def _rounds(self, values: Float32Array, first: int, last: int) -> npt.ArrayLike:
        margin: npt.ArrayLike = self.model.predict(
            values,
            raw_score=True,
            start_iteration=first,
            num_iteration=last - first,
            num_threads=self.threads(len(values)),
        )
        return margin

    def _contributions(self, values: Float32Array) -> npt.ArrayLike:
        found: npt.ArrayLike = self.model.predict(
            values, pred_contrib=True, num_threads=self.threads(len(values))
        )
        return found

    def importances(self) -> FloatArray:
        """Total gain of every column, the time last."""
        gains: FloatArray = self.model.feature_importance("gain")
        return gains

    def _read_forest(self) -> Forest:
        trees = [
            _tree(info["tree_structure"], number % self.n_margins)
            for number, info in enumerate(self.model.dump_model()["tree_info"])
        ]
        return Forest(trees, self.n_margins, self.schema.n_features, at_most=True)


class Trainer(BatchJoiner):
    """K margins of K causes against the event-free state, boosted on several matrices in turn."""

    reference = True

    def __init__(self, settings: TreeSettings, model: Any = None, n_models: int = 1) -> None:
        self._settings = settings
        self._n_margins = n_models * settings.n_causes
        self._datasets: list[Any] = []
        self._margins: list[FloatArray] = []
        self._chunks: list[Evaluator] = [] if model is None else [self._evaluator(model)]
        self._n_rows = 0  # Of the largest matrix.

    @property
    def _params(self) -> dict[str, Any]:
        settings = self._settings
        own = SETTINGS.resolved(settings.engine_params)
        params: dict[str, Any] = {
            "max_depth": settings.max_depth,
            "num_leaves": min(2 ** own.get("max_depth", settings.max_depth), _MAX_LEAVES),
            "learning_rate": settings.learning_rate,
            "min_sum_hessian_in_leaf": max(settings.min_leaf_people, _MIN_HESSIAN),
            "min_gain_to_split": settings.min_split_gain,
            # It would count rows regardless of their weight.
            "min_data_in_leaf": 1,
            "lambda_l2": 1.0,
            # Chunks differ in their rows only; a seed that moves keeps column sampling varied.
            "seed": settings.seed + self.n_rounds,
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
            "num_threads": settings.threads(self._n_rows),
        }
        if self._has_own_draws:
            params["feature_fraction"] = settings.column_share
        if "bagging_fraction" in own:
            params["bagging_freq"] = 1  # Without it LightGBM would not draw any rows.
        params.update(own)
        constraints = zip((MONOTONE, INTERACTION), settings.constraints(), strict=True)
        params.update({name: value for name, value in constraints if value is not None})
        params.update({"objective": "none", "metric": "None", "num_class": self._n_margins})
        return params

    @property
    def _has_own_draws(self) -> bool:
        """Whether columns are drawn by settings of the user's own, beside ``max_features``."""
        own = SETTINGS.resolved(self._settings.engine_params)
        return any(name.startswith("feature_fraction") for name in own)

    @property
    def n_rounds(self) -> int:
        return sum(chunk.n_rounds for chunk in self._chunks)

    def add(self, values: Float32Array, start: FloatArray) -> int:
        deliver_interrupt()
        schema = self._settings.schema
        self._n_rows = max(self._n_rows, len(values))
        dataset = lgb.Dataset(
            values,
            feature_name=column_names(schema),
            categorical_feature=sorted(schema.categories),
            reference=self._datasets[0] if self._datasets else None,
            params={**self._params, "feature_pre_filter": False},
        )
        self._datasets.append(dataset.construct())
        # There are trees in a warm start.
        self._margins.append(start + self.sum_of_trees(values, 0, self.n_rounds))
        return len(self._datasets) - 1

    def boost(
        self, key: int, target: npt.NDArray[np.int32], weight: FloatArray, n_rounds: int
    ) -> None:
        for dataset, margin in zip(self._datasets, self._margins, strict=True):
            dataset.set_init_score(margin[:, 0] if self._n_margins == 1 else margin)
        chunk = lgb.Booster(self._params, self._datasets[key])
        waiting = [other for other in range(len(self._datasets)) if other != key]
        for other in waiting:
            chunk.add_valid(self._datasets[other], str(other))

        weight = np.asarray(weight, np.float32)
        out = np.empty((2, self._n_margins, len(target)), np.float32).transpose(0, 2, 1)

        def loss(margin: FloatArray, _: Any) -> tuple[Any, Any]:
            margin = margin.reshape(out[0].shape, order="F")
            gradient, hessian = models_gradient_hessian(margin, target, weight, (out[0], out[1]))
            if self._n_margins == 1:
                return gradient[:, 0], hessian[:, 0]
            return gradient, hessian

        has_own_draws = self._has_own_draws
        for number in range(self.n_rounds, self.n_rounds + n_rounds):
            deliver_interrupt()
            is_drawn = None if has_own_draws else self._settings.drawn_columns(number)
            if is_drawn is not None:
                # LightGBM's own draws cannot keep the time: splits of other columns gain nothing.
                # A reset begins the stream of random thresholds again, hence another seed.
                contribution = is_drawn.astype(float).tolist()
                seed = (self._settings.seed + number) % 2**31
                chunk.reset_parameter({"feature_contri": contribution, "extra_seed": seed})
            chunk.update(fobj=loss)
        self._read_margins(chunk, [key, *waiting])
        # LightGBM drops a round without a worthwhile split; empty trees keep the number of rounds.
        # As text, a booster holds neither data nor training state.
        n_dropped = n_rounds - chunk.current_iteration()
        text = _join([chunk.model_to_string()], n_empty=n_dropped * self._n_margins)
        self._chunks.append(self._evaluator(lgb.Booster(model_str=text)))

    def _read_margins(self, chunk: Any, keys: Sequence[int]) -> None:
        margins: list[FloatArray] = []

        def record(margin: FloatArray, _: Any) -> tuple[str, float, bool]:
            margins.append(np.array(margin).reshape(-1, self._n_margins, order="F"))
            return "record", 0.0, False

        chunk.eval_train(record)
        chunk.eval_valid(record)
        for key, margin in zip(keys, margins, strict=True):
            self._margins[key] = margin

    def margin(self, key: int) -> npt.ArrayLike:
        return self._margins[key]

    def sum_of_trees(self, values: Float32Array, first: int, last: int) -> FloatArray:
        return protocol.sum_of_chunks(self._chunks, values, self._n_margins, first, last)

    def release(self) -> None:
        self._datasets.clear()
        self._margins.clear()

    def state(self) -> bytes:
        return packed_state(self._text().encode(), self._margins) if self._chunks else b""

    def restore(self, state: bytes) -> None:
        if state:
            text, self._margins = unpacked_state(state)
            self._chunks = [self._evaluator(lgb.Booster(model_str=text.decode()))]

    def _text(self) -> str:
        return _join([chunk.model.model_to_string() for chunk in self._chunks])

    def finished(self, n_rounds: int) -> Evaluator:
        joined = lgb.Booster(model_str=self._text())
        if n_rounds < joined.current_iteration():
            joined = lgb.Booster(model_str=joined.model_to_string(num_iteration=n_rounds))
        return self._evaluator(joined)

    def _evaluator(self, model: Any) -> Evaluator:
        return Evaluator(model, self._settings.schema, self._settings.n_jobs)


def _join(texts: Sequence[str], n_empty: int = 0) -> str:
    """The concatenated model text of several boosters with the same columns and margins.

    It ends with ``n_empty`` trees that add nothing.
    """
    blocks: list[str] = []
    for text in texts:
        body = text[text.index("Tree=") : text.index("end of trees")]
        blocks.extend(re.findall(r"Tree=\d+\n(.*?)(?=Tree=\d+\n|\Z)", body, flags=re.DOTALL))
    blocks.extend([_EMPTY_TREE] * n_empty)
    trees = [f"Tree={number}\n{block}" for number, block in enumerate(blocks)]
    head = texts[0][: texts[0].index("Tree=")]
    sizes = " ".join(str(len(tree.encode())) for tree in trees)
    head = re.sub(r"tree_sizes=.*", f"tree_sizes={sizes}", head)
    tail = texts[0][texts[0].index("end of trees") :]
    return head + "".join(trees) + tail


_EMPTY_TREE = """num_leaves=1
num_cat=0
split_feature=
split_gain=
threshold=
decision_type=
left_child=
right_child=
leaf_value=0
leaf_weight=0
leaf_count=0
internal_value=
internal_weight=
internal_count=
is_linear=0
shrinkage=1


"""


def _tree(root: dict[str, Any], margin: int) -> Tree:
    feature: list[int] = []
    threshold: list[float] = []
    left: list[int] = []
    right: list[int] = []
    nan_left: list[bool] = []
    zero_is_missing: list[bool] = []
    categories: dict[int, frozenset[int]] = {}
    value: list[tuple[float, ...]] = []

    def visit(node: dict[str, Any]) -> int:
        number = len(feature)
        for column, default in ((feature, -1), (left, -1), (right, -1)):
            column.append(default)
        threshold.append(0.0)
        nan_left.append(False)
        zero_is_missing.append(node.get("missing_type") == "Zero")
        value.append((float(node.get("leaf_value", 0.0)),))
        if "split_feature" not in node:
            return number
        feature[number] = node["split_feature"]
        if node["decision_type"] == "==":
            categories[number] = frozenset(int(code) for code in node["threshold"].split("||"))
        else:
            threshold[number] = node["threshold"]
            # Columns without missing values in training treat a missing value as 0.
            as_zero = node["missing_type"] == "None"
            nan_left[number] = threshold[number] >= 0 if as_zero else node["default_left"]
        left[number] = visit(node["left_child"])
        right[number] = visit(node["right_child"])
        return number

    visit(root)
    return Tree(
        feature, threshold, left, right, nan_left, categories, value, margin, zero_is_missing
    )


ENGINE = Engine(
    name="lightgbm",
    trainer=Trainer,
    evaluator=Evaluator,
    settings=SETTINGS,
    max_depth=_MAX_DEPTH,
    file_name="{name}.txt",
    refresh_every=10,
    save=lgb.Booster.save_model,
    load=lambda path: lgb.Booster(model_file=path),
    takes_any_target=True,
    coarse_bins={"max_bin": 63},
    # LightGBM does not retry a column further down a branch in which it gained less than this.
    hazard_defaults={"min_split_gain": 0.0},
)
