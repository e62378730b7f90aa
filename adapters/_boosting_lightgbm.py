"""LightGBM, driven round by round: a booster per chunk, all matrices binned alike.

LightGBM re-evaluates all trees when a booster changes its training data, but starts a new booster
from any margins at no cost. So every chunk of rounds is a booster of its own that starts where the
last one ended; matrices that wait for their turn ride along as validation sets, whose margins
LightGBM keeps up to date on binned values. In the end the chunks are joined into one model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from survival_objectives.adapters._boosting import TreeSettings
from survival_objectives.adapters._engine import column_names, import_engine, rising_in_time
from survival_objectives.losses import gradient_hessian
from survival_objectives.trees import Forest, Tree

lgb = import_engine("lightgbm")

__all__ = ["FILE_NAME", "Booster"]

FILE_NAME = "{name}.txt"

# LightGBM takes its main name for a setting where an alias is given as well, so ours would win.
_ALIASES = {
    alias: name
    for name, aliases in {
        "learning_rate": ("eta", "shrinkage_rate"),
        "num_leaves": ("num_leaf", "max_leaves", "max_leaf", "max_leaf_nodes"),
        "min_data_in_leaf": (
            "min_data",
            "min_data_per_leaf",
            "min_child_samples",
            "min_samples_leaf",
        ),
        "min_sum_hessian_in_leaf": (
            "min_sum_hessian",
            "min_sum_hessian_per_leaf",
            "min_hessian",
            "min_child_weight",
        ),
        "min_gain_to_split": ("min_split_gain",),
        "feature_fraction": ("sub_feature", "colsample_bytree"),
        "lambda_l2": ("reg_lambda", "lambda", "l2_regularization"),
        "seed": ("random_seed", "random_state"),
        "num_threads": ("num_thread", "nthread", "nthreads", "n_jobs"),
        "verbosity": ("verbose",),
        "monotone_constraints": ("mc", "monotone_constraint", "monotonic_cst"),
    }.items()
    for alias in aliases
}
# What LightGBM allows.
_MAX_LEAVES = 131072

_REFUSED = {
    "boosting": ("dart", "rf"),
    "boosting_type": ("dart", "rf"),
    "linear_tree": (True,),
}

Float32Array = npt.NDArray[np.float32]
FloatArray = npt.NDArray[np.float64]


class Booster:
    """K margins of K causes against the event-free state, boosted on several matrices in turn."""

    reference = True

    def __init__(self, settings: TreeSettings, model: Any = None) -> None:
        settings.refuse(_REFUSED)
        self._settings = settings
        self._n_margins = settings.n_causes
        self._datasets: list[Any] = []
        self._margins: list[FloatArray] = []
        self._chunks: list[Any] = [] if model is None else [model]

    @property
    def _params(self) -> dict[str, Any]:
        settings = self._settings
        params: dict[str, Any] = {
            "max_depth": settings.max_depth,
            "num_leaves": min(2**settings.max_depth, _MAX_LEAVES),
            "learning_rate": settings.learning_rate,
            "min_sum_hessian_in_leaf": settings.min_leaf_people,
            "min_gain_to_split": settings.min_split_gain,
            "feature_fraction": settings.column_share,
            # It would count rows, whatever they weigh.
            "min_data_in_leaf": 1,
            "lambda_l2": 1.0,
            # Chunks differ in their rows only; a seed that moves keeps column sampling varied.
            "seed": settings.seed + self.n_rounds,
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }
        if settings.n_jobs is not None:
            params["num_threads"] = settings.n_jobs
        if settings.monotone:
            params["monotone_constraints"] = rising_in_time(settings.schema)
        params.update(settings.own_params(_ALIASES))
        params.update({"objective": "none", "metric": "None", "num_class": self._n_margins})
        return params

    @property
    def n_rounds(self) -> int:
        return sum(chunk.current_iteration() for chunk in self._chunks)

    def add(self, values: Float32Array, start: FloatArray) -> int:
        schema = self._settings.schema
        dataset = lgb.Dataset(
            values,
            feature_name=column_names(schema),
            categorical_feature=sorted(schema.categories),
            reference=self._datasets[0] if self._datasets else None,
            params={**self._params, "feature_pre_filter": False},
        )
        margin = start
        for chunk in self._chunks:  # A model that training goes on from.
            margin = margin + chunk.predict(values, raw_score=True).reshape(start.shape)
        self._datasets.append(dataset.construct())
        self._margins.append(margin)
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

        weight = weight.astype(np.float32)
        out = np.empty((2, self._n_margins, len(target)), np.float32).transpose(0, 2, 1)

        def loss(margin: FloatArray, _: Any) -> tuple[Any, Any]:
            gradient, hessian = gradient_hessian(
                margin.reshape(out[0].shape, order="F"),
                target,
                weight,
                reference=True,
                out=(out[0], out[1]),
            )
            if self._n_margins == 1:
                return gradient[:, 0], hessian[:, 0]
            return gradient, hessian

        for _ in range(n_rounds):
            chunk.update(fobj=loss)
        self._read_margins(chunk, [key, *waiting])
        # LightGBM drops a round in which no split is worth it; the rounds asked for are kept count
        # of all the same. As text a booster holds neither data nor training state.
        n_dropped = n_rounds - chunk.current_iteration()
        text = _join([chunk.model_to_string()], n_empty=n_dropped * self._n_margins)
        self._chunks.append(lgb.Booster(model_str=text))

    def _read_margins(self, chunk: Any, keys: Sequence[int]) -> None:
        seen: list[FloatArray] = []

        def look(margin: FloatArray, _: Any) -> tuple[str, float, bool]:
            seen.append(np.array(margin).reshape(-1, self._n_margins, order="F"))
            return "look", 0.0, False

        chunk.eval_train(look)
        chunk.eval_valid(look)
        for key, margin in zip(keys, seen, strict=True):
            self._margins[key] = margin

    def margin(self, key: int) -> npt.ArrayLike:
        return self._margins[key]

    def contribution(self, values: Float32Array, first: int, last: int) -> npt.ArrayLike:
        total = np.zeros((len(values), self._n_margins))
        begin = 0
        for chunk in self._chunks:
            end = begin + chunk.current_iteration()
            low, high = max(first, begin), min(last, end)
            if low < high:
                total += chunk.predict(
                    values,
                    raw_score=True,
                    start_iteration=low - begin,
                    num_iteration=high - low,
                    **self._threads,
                ).reshape(total.shape)
            begin = end
        return total

    @property
    def _threads(self) -> dict[str, int]:
        n_jobs = self._settings.n_jobs
        return {} if n_jobs is None else {"num_threads": n_jobs}

    def model(self, n_rounds: int) -> Any:
        """The native booster of all chunks, cut to its first rounds."""
        joined = lgb.Booster(model_str=_join([chunk.model_to_string() for chunk in self._chunks]))
        if n_rounds < joined.current_iteration():
            joined = lgb.Booster(model_str=joined.model_to_string(num_iteration=n_rounds))
        return joined

    def forest(self) -> Forest:
        trees = [
            _tree(info["tree_structure"], number % self._n_margins)
            for number, info in enumerate(self._chunks[0].dump_model()["tree_info"])
        ]
        return Forest(trees, self._n_margins, self._settings.schema.n_features, at_most=True)

    def shap_values(self, values: Float32Array) -> npt.ArrayLike:
        """TreeSHAP of every margin, (n_rows, n_margins, n_columns + 1); the last is the base."""
        contributions = self._chunks[0].predict(values, pred_contrib=True, **self._threads)
        return contributions.reshape(len(values), self._n_margins, -1)  # type: ignore[no-any-return]

    def importances(self) -> FloatArray:
        """Total gain of every column, the time last."""
        gains: FloatArray = self._chunks[0].feature_importance("gain")
        return gains

    @staticmethod
    def save(model: Any, path: str) -> None:
        model.save_model(path)

    @staticmethod
    def load(path: str) -> Any:
        return lgb.Booster(model_file=path)


def _join(texts: Sequence[str], n_empty: int = 0) -> str:
    """The model text of several boosters with the same columns and margins, in a row.

    ``n_empty`` trees that add nothing follow.
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
            # Columns without missing values in training take a missing value for 0.
            as_zero = node["missing_type"] == "None"
            nan_left[number] = threshold[number] >= 0 if as_zero else node["default_left"]
        left[number] = visit(node["left_child"])
        right[number] = visit(node["right_child"])
        return number

    visit(root)
    return Tree(
        feature, threshold, left, right, nan_left, categories, value, margin, zero_is_missing
    )
