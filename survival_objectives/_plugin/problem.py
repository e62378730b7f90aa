"""What the objectives of all subjects and engines share: own rows, own models, derivatives."""

from __future__ import annotations

import difflib
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy.typing as npt
from sklearn.model_selection import GroupKFold

from survival_objectives._arrays import Float32Array, FloatArray, IntArray
from survival_objectives._engines.settings import column_directions, column_groups
from survival_objectives._people import Features, check_positive_int
from survival_objectives._plugin.slot import DerivativeBuffers
from survival_objectives.losses import Target, gradient_hessian

HOLDS_OUT_NO_ONE = (
    "This objective holds out no one. Pass people, `held_out(X, y)`, or use the objectives of "
    "`cross_fit`."
)


class PluginProblem(ABC):
    """One training problem in the engine's own training call."""

    #: Attributes that hold engine handles and what is computed from others: never pickled.
    _transient: tuple[str, ...] = ()
    #: Name of the engine.
    _engine_name: ClassVar[str] = ""
    #: Text in place of ``{parameters}`` in docstrings.
    _parameters_text: ClassVar[str] = ""
    _scratch: DerivativeBuffers

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__doc__ = (cls.__doc__ or "").replace("{parameters}", cls._parameters_text)

    def _refuse_unknown(self, given: Mapping[str, Any], constructor: Callable[..., Any]) -> None:
        """Raise an error for parameters that the constructor does not have."""
        for name in given:
            known = list(inspect.signature(constructor).parameters)[1:-1]
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
            public = next(one.__name__ for one in type(self).__mro__ if one.__name__[0] != "_")
            msg = f"{public} has no parameter {name!r}. Did you mean {nearest!r}?"
            raise TypeError(msg)

    # --------------------------------------------------------------------------------------- rows
    @property
    @abstractmethod
    def event_ids_(self) -> IntArray:
        """Labels of the curves: 0 for event-free, then the causes as the user named them."""

    @property
    @abstractmethod
    def n_margins(self) -> int:
        """Margins that the engine trains."""

    @property
    @abstractmethod
    def person(self) -> IntArray:
        """Person of each training row, by position in ``X``; rows of one are not independent.

        In a long table people are counted by their first rows.
        """

    @property
    def _fold_unit(self) -> IntArray:
        """What is on one side of every fold, for each training row."""
        return self.person

    def folds(
        self, n_splits: int = 5, *, random_state: int | None = None
    ) -> list[tuple[IntArray, IntArray]]:
        """Training and test rows of a cross-validation over people, for the engine's ``cv``.

        Rows of one person, and those of one of the ``groups``, always stay on one side.
        """
        splitter = GroupKFold(
            check_positive_int(n_splits, "n_splits"), shuffle=True, random_state=random_state
        )
        unit = self._fold_unit
        return list(splitter.split(unit, groups=unit))

    # -------------------------------------------------------------------------------- constraints
    def constraints(self, *, monotone: Any = None, interaction: Any = None) -> dict[str, Any]:
        """Parameters for constraints on features, together with that on time.

        Parameters
        ----------
        monotone : dict of str to int, or sequence of int
            +1 for features in which risks rise, -1 for those in which they fall, by name or one for
            each.
        interaction : sequence of groups of features, by names or positions
            Features of one group may interact with each other, and all with the time.

        Returns
        -------
        dict
            To merge after ``params``: ``{**objective.params, **objective.constraints(...)}``.
        """
        schema, time = self._constrained_columns()
        directions = column_directions(monotone, schema, time)
        if directions is not None:
            self._check_directions(directions)
        return self._constraint_params(directions, column_groups(interaction, schema))

    def _check_directions(self, directions: list[int]) -> None:  # noqa: B027  Not for all.
        """Refuse directions that the start of boosting contradicts."""

    @abstractmethod
    def _constrained_columns(self) -> tuple[Features, int]:
        """Columns of the features, and the direction of the time."""

    @abstractmethod
    def _constraint_params(
        self, directions: list[int] | None, groups: list[list[int]] | None
    ) -> dict[str, Any]:
        """Constraints on the stacked columns as parameters of the engine."""

    # --------------------------------------------------------------------------------- prediction
    @abstractmethod
    def predict_cumulative_incidence(self, model: Any, X: Any, times: Any) -> FloatArray:
        """Probability of each state at each time, (n_samples, K + 1, n_times)."""

    # --------------------------------------------------------------------------------- own models
    @cached_property
    @abstractmethod
    def _fingerprint(self) -> str:
        """Fingerprint, eight hex digits, of everything that turns margins into curves."""

    def _marked(self, columns: Sequence[str]) -> list[str]:
        """Names of the stacked columns, that of the time with the fingerprint.

        Engines show an objective no booster to mark, but they all save these names with it. They
        also print them where data of one's own lack the column: the name says who makes such data.
        """
        return [*columns[:-1], f"{columns[-1]}_of_held_out_{self._fingerprint}"]

    def _check_trained(self, columns: Sequence[str] | None, n_margins: int) -> None:
        """Refuse a model by its number of margins and the mark of its time column.

        Parameters
        ----------
        columns : sequence of str, or None
            Names of the model's columns; None if training had no names.
        n_margins : int
            Margins of the model.
        """
        name = None if columns is None else columns[-1]
        # Models of estimators have no mark; all objectives have one.
        marked = name is None or re.search("_[0-9a-f]{8}$", name)
        if marked and n_margins != self.n_margins:
            raise ValueError(self._wrong_margins(n_margins))
        if name is None or not name.endswith(f"_{self._fingerprint}"):
            msg = (
                f"This model was not trained by this objective: its last column is {name!r}, but "
                f"this objective's time column ends in '_{self._fingerprint}'. Predict with the "
                "objective that trained it, or with one made from the same data, settings and "
                "`random_state`."
            )
            raise ValueError(msg)

    def _wrong_margins(self, n_margins: float) -> str:
        return (
            f"The model has {n_margins:g} margins per row, but this objective trains "
            f"{self.n_margins}. Merge its parameters into yours: `{{**objective.params, ...}}`, "
            "and set neither the number of classes nor another objective."
        )

    # -------------------------------------------------------------------------------- derivatives
    def _scaled_derivatives(
        self,
        margin: npt.NDArray[Any],
        target: Target,
        weight: npt.NDArray[Any],
        order: Literal["C", "F"],
        *,
        reference: bool = True,
        hessian_scale: float = 1.0,
    ) -> tuple[Float32Array, Float32Array]:
        """Gradient and Hessian of rows, in float32 buffers that are used again."""
        shape = (len(target), self.n_margins)
        if margin.size != len(target) * self.n_margins:
            raise ValueError(self._wrong_margins(margin.size / len(target)))
        gradient, hessian = self._scratch.pair(shape, order)
        gradient_hessian(
            margin.reshape(shape, order=order),
            target,
            weight,
            reference=reference,
            hessian_scale=hessian_scale,
            out=(gradient, hessian),
        )
        return gradient, hessian

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._transient}


def refuse_change(data: str, method: str) -> str:
    """What to say where the training data of an objective would be changed."""
    return (
        f"`{data}` keeps the labels, weights and start of its objective, which `{method}` would "
        "change for a part of it only: derivatives come from the objective. Weights of people are "
        "its `sample_weight`, outcomes its `y`, and it chooses where boosting starts."
    )


def sklearn_advice(call: str) -> str:
    """What to say where an objective itself is given to a scikit-learn wrapper."""
    return (
        f"This objective is for `{call}`. The scikit-learn wrappers start at 0 and show no matrix: "
        "give them `objective=o.sklearn_objective` of an IPCWObjective `o` with `start='zero'` "
        "(and `margins='free'` for several causes), and fit on `o.stacked_features`, `o.target` "
        "and `sample_weight=o.initial_weight`."
    )
