"""What an engine must offer to be trained from here, and which engines there are.

An adapter module describes its engine by one `Engine`: how a model is trained (`Trainer`) and
evaluated (`Evaluator`), saved and loaded, and which settings are passed on. `ENGINES` lists the
adapters; a further engine needs its module and a line there. Both have every member that training
and prediction use, and tests/adapters/test_engine_protocol.py checks them for all engines. At the
end is what all adapters share.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import Float32Array, FloatArray
from survival_objectives._engines.forest import Forest
from survival_objectives._engines.settings import EngineSettings
from survival_objectives._people import Features
from survival_objectives._process.running import default_threads, most_threads, passive_wait
from survival_objectives.losses import gradient_hessian

logger = logging.getLogger("survival_objectives")

#: Stacked rows (features, time) with their starting margins.
StackedBatch = tuple[Float32Array, npt.NDArray[np.floating[Any]]]
#: Batch by batch, from the beginning at each call.
StackedBatches = Callable[[], Iterator[StackedBatch]]


class Trainer(Protocol):
    """Boosted models of one engine while they are trained, on several registered matrices in turn.

    Several models may be trained side by side on the same rows, each with its own starting margins
    and weights: n_margins are then those of the first model, followed by those of the others.
    """

    #: Whether the event-free margin is left out (see `survival_objectives.losses`).
    reference: bool

    @property
    def n_rounds(self) -> int:
        """Rounds so far."""

    def add(self, values: Float32Array, start: FloatArray) -> int:
        """Register rows (features, time) with their starting margins; returns their key."""

    def add_batches(self, rows: StackedBatches) -> int:
        """Register rows that come in batches, as one matrix; returns its key."""

    def boost(
        self, key: int, target: npt.NDArray[Any], weight: npt.NDArray[Any], n_rounds: int
    ) -> None:
        """Train ``n_rounds`` more rounds on registered rows.

        ``target`` are states, int32 of shape (n_rows,), or distributions over the states, float32
        of shape (n_rows, K + 1), where the engine takes them. ``weight`` is (n_rows,), or
        (n_rows, n_models) for models side by side.
        """

    def margin(self, key: int) -> npt.ArrayLike:
        """Current margins of registered rows, (n_rows, n_margins), start included."""

    def sum_of_trees(self, values: Float32Array, first: int, last: int) -> FloatArray:
        """Sum of the trees of rounds first..last-1 on any rows, (n_rows, n_margins)."""

    def release(self) -> None:
        """Forget all registered rows; the trees stay."""

    def state(self) -> bytes:
        """The trees so far, and what else training on the registered rows depends on.

        Empty before the first round.
        """

    def restore(self, state: bytes) -> None:
        """Continue from a `state`, with the same rows registered in the same order."""

    def finished(self, n_rounds: int) -> Evaluator:
        """The trees of the first rounds, free of training data.

        Of models side by side, either all margins or, of as many margins as one model has, the sum.
        """


class BatchJoiner:
    """``add_batches`` of engines that keep all registered rows in memory."""

    def add_batches(self: Any, rows: StackedBatches) -> int:
        batches = list(rows())
        if len(batches) == 1:
            values, start = batches.pop()
        else:
            values, start = (np.concatenate(column) for column in zip(*batches, strict=True))
        key: int = self.add(values, start)
        return key


@dataclass(frozen=True)
class Engine:
    """One engine, as its adapter describes it.

    Attributes
    ----------
    name : str
    trainer : callable
        ``trainer(settings, model=None, n_models=1)`` makes a `Trainer` with these `TreeSettings`,
        empty or with the trees of the engine's own model. Trainings from disk and on a cluster
        replace it.
    evaluator : type of Evaluator
        ``evaluator(model, schema, n_jobs)`` evaluates the engine's own model.
    settings : EngineSettings
        Settings in the engine's own terms that are passed on.
    max_depth : int
        The deepest trees it grows.
    file_name : str
        Pattern of the files of its models, with a place for their ``{name}``.
    refresh_every : int
        Default number of rounds between two refreshes of targets and weights.
    save, load : callable
        Write the engine's own model to a path, and read it.
    rounds_per_call : int
        Fewest rounds per call of `Trainer.boost` where there are many rows and calls cost much.
    most_rows : float
        Most rows of hazards that are drawn from a large population, where rows cost much.
    takes_any_target : bool
        Whether `Trainer.boost` takes targets that sum to 1 but are no distributions.
    coarse_bins : mapping
        Settings for about 64 bins per column, which is enough for rows of hazards.
    lacks : tuple of str
        Parameters of the estimators that it has no setting for.
    hazard_defaults : mapping
        Defaults of `survival_objectives.HazardBoost` that are other than those of other engines.
    """

    name: str
    trainer: Callable[..., Trainer]
    evaluator: type[Evaluator]
    settings: EngineSettings
    max_depth: int
    file_name: str
    refresh_every: int
    save: Callable[[Any, str], None]
    load: Callable[[str], Any]
    rounds_per_call: int = 1
    most_rows: float = np.inf
    takes_any_target: bool = False
    coarse_bins: Mapping[str, Any] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    hazard_defaults: Mapping[str, float] = field(default_factory=dict)


class Adapter(NamedTuple):
    """Where an engine is: the module that holds its `Engine`, and the package it needs."""

    module: str
    package: str


#: Adapters by engine, in the order in which a missing engine is replaced.
ENGINES: dict[str, Adapter] = {
    "xgboost": Adapter("survival_objectives.adapters.xgboost._engine", "xgboost"),
    "lightgbm": Adapter("survival_objectives.adapters.lightgbm._engine", "lightgbm"),
    "catboost": Adapter("survival_objectives.adapters.catboost._engine", "catboost"),
}


def engine(name: str) -> Engine:
    """The engine of this name; its adapter is imported when first asked for."""
    found: Engine = importlib.import_module(ENGINES[name].module).ENGINE
    return found


def is_installed(name: str) -> bool:
    """Whether the package of an engine can be imported."""
    return importlib.util.find_spec(ENGINES[name].package) is not None


def engine_to_use(wanted: str) -> str:
    """The engine that is asked for or, where it is not installed, the first that is."""
    for name in (wanted, *ENGINES):
        if is_installed(name):
            return name
    msg = f"No engine is installed ({', '.join(ENGINES)}). Use: pip install {wanted}"
    raise ImportError(msg)


def installed_engine(wanted: str) -> str:
    """As `engine_to_use`, with a log line where another engine takes the place."""
    name = engine_to_use(wanted)
    if name != wanted:
        logger.warning("%s is not installed; training with %s instead.", wanted, name)
    return name


def packed_state(trees: bytes, margins: list[FloatArray]) -> bytes:
    """Trees and the margins of all registered rows as bytes, for `Trainer.state`."""
    stream = io.BytesIO()
    arrays: dict[str, Any] = {str(number): margin for number, margin in enumerate(margins)}
    np.savez(stream, trees=np.frombuffer(trees, np.uint8), **arrays)
    return stream.getvalue()


def unpacked_state(state: bytes) -> tuple[bytes, list[FloatArray]]:
    """Trees and margins from `packed_state`."""
    with np.load(io.BytesIO(state), allow_pickle=False) as content:
        margins = [content[str(number)] for number in range(len(content.files) - 1)]
        return content["trees"].tobytes(), margins


class Evaluator(ABC):
    """Trees of one engine's own model, which are final.

    Parameters
    ----------
    model : object
        The engine's own model.
    schema : Features
        Columns of training, without the time, which is the last column of all rows.
    n_jobs : int, optional
        Threads of predictions. Default: by the number of rows.
    """

    def __init__(self, model: Any, schema: Features, n_jobs: int | None = None) -> None:
        self.model, self.schema, self.n_jobs = model, schema, n_jobs
        self._forest: Forest | None = None

    @property
    @abstractmethod
    def n_rounds(self) -> int:
        """Rounds of boosting."""

    @property
    @abstractmethod
    def n_margins(self) -> int:
        """Margins per row."""

    @abstractmethod
    def _rounds(self, values: Float32Array, first: int, last: int) -> npt.ArrayLike:
        """As `sum_of_trees`, of at least one round, in any shape with the rows first."""

    @abstractmethod
    def _read_forest(self) -> Forest:
        """The trees in plain numbers."""

    @abstractmethod
    def _contributions(self, values: Float32Array) -> npt.ArrayLike:
        """As `shap_values`, in any shape with the rows first."""

    @abstractmethod
    def importances(self) -> FloatArray:
        """Importance of every column, not negative, the time last."""

    def threads(self, n_rows: int) -> int:
        """Threads for so many rows."""
        return default_threads(n_rows, self.schema.n_features + 1, self.n_jobs)

    @property
    def most_threads(self) -> int:
        """Threads for any number of rows."""
        return most_threads(self.n_jobs)

    def sum_of_trees(
        self, values: Float32Array, first: int = 0, last: int | None = None
    ) -> FloatArray:
        """Sum of the trees of rounds first..last-1 on any rows, (n_rows, n_margins)."""
        last = self.n_rounds if last is None else last
        if first == last or not len(values):
            return np.zeros((len(values), self.n_margins))
        total: FloatArray = np.asarray(self._rounds(values, first, last), np.float64)
        return total.reshape(len(values), self.n_margins)

    def forest(self) -> Forest:
        """The trees in plain numbers, read at the first call."""
        if self._forest is None:
            self._forest = self._read_forest()
        return self._forest

    def shap_values(self, values: Float32Array) -> FloatArray:
        """TreeSHAP of every margin, (n_rows, n_margins, n_columns + 1); the last is the base."""
        found: FloatArray = np.asarray(self._contributions(values), np.float64)
        return found.reshape(len(values), self.n_margins, values.shape[1] + 1)

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        # A pickle leaves the forest out: it is read again from the engine's model.
        return type(self), (self.model, self.schema, self.n_jobs)


def sum_of_chunks(
    chunks: Sequence[Evaluator], values: Float32Array, n_margins: int, first: int, last: int
) -> FloatArray:
    """Sum of the trees of rounds first..last-1 of models that follow each other."""
    total = np.zeros((len(values), n_margins))
    begin = 0
    for chunk in chunks:
        end = begin + chunk.n_rounds
        low, high = max(first, begin), min(last, end)
        if low < high:
            total += chunk.sum_of_trees(values, low - begin, high - begin)
        begin = end
    return total


# Rows of many models whose derivatives stay in the L2 cache.
_BLOCK = 2048

# What to install, where it is more than the package of that name.
_PACKAGES = {
    "catboost": "catboost numba",
    "dask": '"dask[dataframe,distributed]" xgboost pyarrow',
}


def import_engine(name: str, *, extra: str | None = None) -> ModuleType:
    """The engine's module, or an ImportError that says how to install what ``extra`` names."""
    try:
        with passive_wait():
            return importlib.import_module(name)
    except ImportError as error:
        msg = f"{name} is not installed. Install it with: {install_command(extra or name)}"
        raise ImportError(msg) from error


def install_command(extra: str) -> str:
    """The command that installs what an extra of this package needs.

    It names the packages themselves, so that it works wherever it is typed: extras can be named
    only beside a copy of the repository.

    >>> install_command("xgboost"), install_command("catboost")
    ('pip install xgboost', 'pip install catboost numba')
    """
    return f"pip install {_PACKAGES.get(extra, extra)}"


def column_names(schema: Features) -> list[str]:
    r"""Distinct names of the stacked columns, the time last, that all engines accept.

    >>> import numpy as np
    >>> names = ("age [years]", "horizon", "a b", "a_b", "x\ty", "")
    >>> column_names(Features(np.empty((0, 6), np.float32), names, {}))
    ['age _years_', 'horizon', 'a b', 'a_b_', 'x_y', '_', 'horizon_']
    """
    given = schema.names or tuple(f"x{column}" for column in range(schema.n_features))
    names: list[str] = []
    taken: set[str] = set()
    for raw in (*given, "horizon"):
        # XGBoost refuses [ ] <. LightGBM refuses what JSON gives a meaning, and its files give one
        # to = and to ends of lines. No engine takes half a surrogate pair.
        name = re.sub(r"[\[\]<>{}\":,=\\]", "_", raw) or "_"
        name = "".join(letter if letter.isprintable() else "_" for letter in name)
        # LightGBM writes an underscore for a blank.
        while name.replace(" ", "_") in taken:
            name += "_"
        taken.add(name.replace(" ", "_"))
        names.append(name)
    return names


def rising_in_time(schema: Features) -> list[int]:
    """Monotone constraint of each stacked column: +1 for the time, the last one, 0 for free."""
    return [0] * schema.n_features + [1]


def models_gradient_hessian(
    margin: npt.NDArray[Any],
    target: npt.NDArray[Any],
    weight: npt.NDArray[Any],
    out: tuple[npt.NDArray[Any], npt.NDArray[Any]],
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """`gradient_hessian` of models side by side, with the reference link.

    ``weight`` is (n_rows,) for one model, or (n_rows, n_models) where all have the same labels.
    """
    if weight.ndim == 1:
        return gradient_hessian(margin, target, weight, reference=True, out=out)
    gradient, hessian = out
    shape = weight.shape[1], margin.shape[1] // weight.shape[1], -1
    labels = np.arange(1, shape[1] + 1, dtype=target.dtype)[:, None]
    for first in range(0, len(margin), _BLOCK):
        rows = slice(first, first + _BLOCK)
        proba = np.array(margin[rows].T, gradient.dtype, order="C").reshape(shape)
        top = np.maximum(proba.max(axis=1, keepdims=True), 0)
        proba -= top
        np.exp(proba, out=proba)
        proba /= proba.sum(axis=1, keepdims=True) + np.exp(-top)
        own = weight[rows].T[:, None].astype(gradient.dtype, copy=False)
        hessian[rows] = (proba * (1 - proba) * own).reshape(margin.shape[1], -1).T
        proba -= target[rows] == labels
        proba *= own
        gradient[rows] = proba.reshape(margin.shape[1], -1).T
    return out
