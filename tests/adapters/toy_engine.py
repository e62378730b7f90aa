"""A fourth engine on scikit-learn's trees: all that an engine needs, in one adapter module."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from survival_objectives._engines import protocol
from survival_objectives._engines.forest import Forest, Tree
from survival_objectives._engines.protocol import (
    BatchJoiner,
    Engine,
    models_gradient_hessian,
    packed_state,
    unpacked_state,
)
from survival_objectives._engines.settings import EngineSettings, Whole

SETTINGS = EngineSettings("toy", {"max_leaf_nodes": Whole(2, 1000)}, {"loss": "it is fixed"})
# Missing values go left at every split.
_MISSING = np.float32(-1e30)


class Evaluator(protocol.Evaluator):
    """Rounds of one regression tree per margin, as lists that JSON can hold."""

    @property
    def n_rounds(self):
        return len(self.model["rounds"])

    @property
    def n_margins(self):
        return len(self.model["rounds"][0])

    def _rounds(self, values, first, last):
        total = np.zeros((len(values), self.n_margins))
        for trees in self.model["rounds"][first:last]:
            for margin, tree in enumerate(trees):
                total[:, margin] += np.asarray(tree["value"])[_path(tree, _filled(values))[-1]]
        return total

    def _read_forest(self):
        trees = [
            Tree(
                tree["feature"],
                tree["threshold"],
                tree["left"],
                tree["right"],
                [True] * len(tree["feature"]),
                {},
                [(value,) for value in tree["value"]],
                margin,
            )
            for trees in self.model["rounds"]
            for margin, tree in enumerate(trees)
        ]
        n_features = self.schema.n_features
        return Forest(trees, self.n_margins, n_features, at_most=True)

    def _contributions(self, values):
        """Changes of the value along the path of each row, which sum to the margin."""
        shares = np.zeros((len(values), self.n_margins, values.shape[1] + 1))
        rows = np.arange(len(values))
        for trees in self.model["rounds"]:
            for margin, tree in enumerate(trees):
                value, feature = np.asarray(tree["value"]), np.asarray(tree["feature"])
                path = _path(tree, _filled(values))
                shares[:, margin, -1] += value[0]
                for node, child in itertools.pairwise(path):
                    shares[rows, margin, feature[node]] += value[child] - value[node]
        return shares

    def importances(self):
        return np.sum([tree["gain"] for trees in self.model["rounds"] for tree in trees], axis=0)


class Trainer(BatchJoiner):
    """One regression tree per margin and round, grown on Newton steps."""

    reference = True

    def __init__(self, settings, model=None, n_models=1):
        self._settings = settings
        self._n_margins = n_models * settings.n_causes
        self._rounds = [] if model is None else list(model["rounds"])
        self._values, self._margins = [], []

    @property
    def n_rounds(self):
        return len(self._rounds)

    def add(self, values, start):
        self._values.append(values)
        self._margins.append(start + self.sum_of_trees(values, 0, self.n_rounds))
        return len(self._values) - 1

    def boost(self, key, target, weight, n_rounds):
        for _ in range(n_rounds):
            margin = self._margins[key]
            gradient, hessian = models_gradient_hessian(
                margin, target, weight, (np.empty_like(margin), np.empty_like(margin))
            )
            trees = [
                self._grown(key, gradient[:, margin], hessian[:, margin])
                for margin in range(self._n_margins)
            ]
            self._rounds.append(trees)
            last = self.n_rounds
            for other, values in enumerate(self._values):
                self._margins[other] = self._margins[other] + self.sum_of_trees(
                    values, last - 1, last
                )

    def _grown(self, key, gradient, hessian):
        settings = self._settings
        grown = DecisionTreeRegressor(
            max_depth=settings.max_depth,
            min_samples_leaf=self._min_rows(key),
            random_state=settings.seed + self.n_rounds,
            **SETTINGS.resolved(settings.engine_params),
        )
        hessian = np.maximum(hessian, 1e-9)
        grown.fit(_filled(self._values[key]), -gradient / hessian, sample_weight=hessian)
        tree = grown.tree_
        return {
            "feature": np.where(tree.children_left < 0, -1, tree.feature).tolist(),
            "threshold": tree.threshold.tolist(),
            "left": tree.children_left.tolist(),
            "right": tree.children_right.tolist(),
            "value": (settings.learning_rate * tree.value[:, 0, 0]).tolist(),
            "gain": tree.compute_feature_importances(normalize=False).tolist(),
        }

    def _min_rows(self, key):
        return max(1, len(self._values[key]) // 20)

    def margin(self, key):
        return self._margins[key]

    def sum_of_trees(self, values, first, last):
        if first == last:
            return np.zeros((len(values), self._n_margins))
        return self.finished(last).sum_of_trees(values, first, last)

    def release(self):
        self._values.clear()
        self._margins.clear()

    def state(self):
        return packed_state(json.dumps(self._rounds).encode(), self._margins)

    def restore(self, state):
        trees, self._margins = unpacked_state(state)
        self._rounds = json.loads(trees)

    def finished(self, n_rounds):
        settings = self._settings
        return Evaluator({"rounds": self._rounds[:n_rounds]}, settings.schema, settings.n_jobs)


def _filled(values):
    return np.where(np.isnan(values), _MISSING, values)


def _path(tree, values):
    """Nodes that each row passes, the leaf last; a row that has arrived stays where it is."""
    feature, threshold, left, right = (
        np.asarray(tree[name]) for name in ("feature", "threshold", "left", "right")
    )
    rows = np.arange(len(values))
    path = [np.zeros(len(values), np.int64)]
    while (feature[path[-1]] >= 0).any():
        node = path[-1]
        goes_left = values[rows, feature[node]] <= threshold[node]
        child = np.where(goes_left, left[node], right[node])
        path.append(np.where(feature[node] >= 0, child, node))
    return path


ENGINE = Engine(
    name="toy",
    trainer=Trainer,
    evaluator=Evaluator,
    settings=SETTINGS,
    max_depth=8,
    file_name="{name}.json",
    refresh_every=5,
    save=lambda model, path: Path(path).write_text(json.dumps(model)),
    load=lambda path: json.loads(Path(path).read_text()),
)
