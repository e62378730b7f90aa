r"""SurvivalBoost for more people than memory holds, on one machine, by XGBoost's external memory.

People come in batches, for instance from Parquet files. Each batch is stacked by itself, at
horizons that are drawn again from the same seed whenever it is read, and XGBoost keeps the binned
rows in files (`xgboost.ExtMemQuantileDMatrix`). Everything else is as in `SurvivalBoost`: the same
loop, weights, censoring model and trees.

What stays in memory, with h stacked rows a person and model (at most ``n_horizons``; rows that
teach nothing are left out) and K causes:

- 20 bytes a person for the outcome, and 8 for a sample weight;
- of the people who are boosted on, XGBoost's margins, 8 K h s bytes of the events (value and start)
  and 8 h s of the censoring, where s = 3 draws of horizons are kept;
- while the events are boosted, gradients, weights and row numbers, about (16 K + 16) h bytes of
  these people;
- one batch of people, stacked, and a few pages of the binned rows.

By default everybody is boosted on, so that all of this but the last grows with people, if not with
features. With ``people_per_turn`` the rounds between two refreshes take other people in turn, with
one draw of horizons (s = 1): then only the first line grows. ``benchmarks/distributed.py`` measures
both. On disk are about (n_features + 1) (h s + 1) bytes a person boosted on, and model.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import expit

from survival_objectives.adapters import _boosting_xgboost
from survival_objectives.adapters._engine import column_names, import_engine
from survival_objectives.adapters._fitted import hand_over
from survival_objectives.boosting import BoostingLoop, Imputation
from survival_objectives.censoring import time_feature
from survival_objectives.estimator import SurvivalBoost, _People
from survival_objectives.losses import pointwise_log_loss, probabilities
from survival_objectives.population import counted
from survival_objectives.stacking import (
    Role,
    TimeStacker,
    censoring_role,
    conditional_incidence,
    drawn_states,
    lost_rows,
    stacked_matrix,
)
from survival_objectives.validation import (
    Features,
    SurvivalTarget,
    check_features,
    check_positive_int,
    check_random_state,
    check_sample_weight,
    check_survival_target,
)

xgb = import_engine("xgboost")

__all__ = ["ParquetBatches", "fit_external"]

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
Rows = Callable[[], Iterator[tuple[Float32Array, FloatArray]]]

# Stacked rows for which numbers are computed at a time.
_SLICE = 2**20


class ParquetBatches:
    """Batches of people from Parquet files, read again whenever they are iterated over.

    Parameters
    ----------
    paths : path or sequence of paths
        Files, or folders of files that end in ``.parquet``, in order of their names.
    event, duration : str
        Columns of the outcome.
    sample_weight : str, optional
        Column of the weights of people.
    features : sequence of str, optional
        Columns to learn from. Default: all others.
    batch_size : int, default=100_000
        People at a time.

    Examples
    --------
    >>> batches = ParquetBatches("people.parquet", batch_size=50_000)  # doctest: +SKIP
    """

    def __init__(
        self,
        paths: Any,
        *,
        event: str = "event",
        duration: str = "duration",
        sample_weight: str | None = None,
        features: Sequence[str] | None = None,
        batch_size: int = 100_000,
    ) -> None:
        self._parquet = import_engine("pyarrow.parquet", extra="dask")
        self.files = _files([paths] if isinstance(paths, str | Path) else list(paths))
        self.event, self.duration, self.sample_weight = event, duration, sample_weight
        self.batch_size = check_positive_int(batch_size, "batch_size")
        self._n_batches: dict[int, int] = {}  # By file, once it was read.
        given = self._parquet.read_schema(self.files[0]).names
        outcome = [name for name in (event, duration, sample_weight) if name is not None]
        kept = [name for name in given if name not in outcome and name != "__index_level_0__"]
        self.features = kept if features is None else list(features)
        missing = [name for name in (*outcome, *self.features) if name not in given]
        if missing:
            msg = f"{str(self.files[0])!r} has no column {missing[0]!r}; it has {given}."
            raise ValueError(msg)

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        """Features, outcomes and weights, batch by batch."""
        for _, batch in self.chosen(None):
            yield batch

    def chosen(self, numbers: frozenset[int] | None) -> Iterator[tuple[int, tuple[Any, Any, Any]]]:
        """Batches of these numbers (None: all); files without any of them are not opened again."""
        wanted = [*self.features, self.event, self.duration]
        if self.sample_weight is not None:
            wanted.append(self.sample_weight)
        first = 0
        for place, path in enumerate(self.files):
            n_batches = self._n_batches.get(place)
            inside = range(first, first + (n_batches or 0))
            if n_batches is None or numbers is None or not numbers.isdisjoint(inside):
                n_batches = 0
                with self._parquet.ParquetFile(path) as file:
                    for batch in file.iter_batches(self.batch_size, columns=wanted):
                        if numbers is None or first + n_batches in numbers:
                            yield first + n_batches, self._batch(batch.to_pandas())
                        n_batches += 1
                self._n_batches[place] = n_batches
            first += n_batches

    def _batch(self, frame: pd.DataFrame) -> tuple[Any, Any, Any]:
        weight = None if self.sample_weight is None else frame[self.sample_weight]
        return frame[self.features], (frame[self.event], frame[self.duration]), weight


def _files(paths: Sequence[Any]) -> list[Path]:
    files: list[Path] = []
    for path in map(Path, paths):
        found = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not found or not found[0].exists():
            msg = f"There is no Parquet file at {str(path)!r}."
            raise FileNotFoundError(msg)
        files += found
    if not files:
        msg = "`paths` is empty."
        raise ValueError(msg)
    return files


def fit_external(
    model: SurvivalBoost,
    batches: Iterable[Any],
    *,
    eval_set: Any = None,
    people_per_turn: int | None = None,
    cache_folder: Any = None,
) -> SurvivalBoost:
    """Train ``model`` on batches of people that are never in memory together.

    Parameters
    ----------
    model : SurvivalBoost
        With ``engine="xgboost"``; its parameters are used, and it is fitted.
    batches : iterable of (X, y) or (X, y, sample_weight)
        For instance `ParquetBatches`. It is iterated over again and again, about ten times or, with
        ``people_per_turn``, about eight times a refresh, and must give the same people every time,
        in the types that ``SurvivalBoost.fit`` takes. With a method ``chosen(numbers)`` like
        that of `ParquetBatches`, only the batches that are needed are read.
    eval_set : pair (X, y), optional
        Held-out people, in memory. Early stopping needs them here.
    people_per_turn : int, optional
        The rounds between two refreshes are boosted on at most so many people, those of some
        batches, and the next rounds on others, until it is the first ones' turn again. This bounds
        memory and time whatever the number of people. Trees then err like those of so few people,
        of which only the average is better: make it 100 000 or more. Default: everybody, always.
    cache_folder : path, optional
        Where XGBoost keeps the binned rows while it trains; a local disk is best. Default: the
        system's folder for temporary files. Emptied when training ends, however it ends.

    Returns
    -------
    SurvivalBoost
        ``model``.
    """
    model._check_parameters()
    _check_external(model, batches, eval_set)
    if people_per_turn is not None:
        check_positive_int(people_per_turn, "people_per_turn")
    source, target, weight = _read_outcomes(batches)
    turns = _turns(source.sizes, people_per_turn)
    everybody = counted(target, weight)
    people = _People(source.schema, target, weight)
    held_out = None if eval_set is None else model._checked_eval_set(eval_set, people)
    with tempfile.TemporaryDirectory(prefix="survival-boost-", dir=cache_folder) as folder:
        trainer = _ExternalBoost(**model.get_params())
        trainer._source, trainer._cache = source, itertools.count()
        trainer._folder, trainer._turns = folder, turns
        generator = check_random_state(model.random_state)
        trainer._begin(source.schema, everybody)
        trainer._train(people, everybody, held_out, generator, goes_on=False)
        hand_over(trainer, model, {"_source", "_cache", "_folder", "_turns"})
    return model


def _check_external(model: SurvivalBoost, batches: Any, eval_set: Any) -> None:
    if model.engine != "xgboost":
        msg = (
            f"`engine` is {model.engine!r}; external memory is XGBoost's. "
            'Use `SurvivalBoost(engine="xgboost")`.'
        )
        raise ValueError(msg)
    if model.warm_start:
        msg = "`warm_start` does not go with external memory: its bins are made for one training."
        raise ValueError(msg)
    if model.early_stopping_rounds is not None and eval_set is None:
        msg = "`early_stopping_rounds` needs `eval_set` here: batches are not split."
        raise ValueError(msg)
    if iter(batches) is batches:
        msg = (
            f"`batches` is a {type(batches).__name__}, which can be read only once. Pass an object "
            "whose `__iter__` begins anew, such as `ParquetBatches`."
        )
        raise TypeError(msg)


# ----------------------------------------------------------------------------------------- batches
@dataclass(frozen=True)
class _Source:
    """Features of the people, batch by batch.

    Attributes
    ----------
    batches, schema
        Where they come from, and their columns.
    numbers, sizes : list of int
        Which batches have people who count, and how many.
    """

    batches: Iterable[Any]
    schema: Features
    numbers: list[int]
    sizes: list[int]

    def features(self, places: Sequence[int]) -> Iterator[Features]:
        """People of the batches at these places of ``numbers``."""
        expected = [(self.numbers[place], self.sizes[place]) for place in places]
        given = _people(self.batches, self.schema, frozenset(number for number, _ in expected))
        for known, found in itertools.zip_longest(expected, given):
            if known is None or found is None or (found[0], found[1].n_samples) != known:
                number = found[0] if known is None else known[0]
                msg = f"`batches` gave other people when it was read again (batch {number})."
                raise ValueError(msg)
            yield found[1]

    def slices(self, places: Sequence[int] | None = None) -> list[slice]:
        """Where the people of each batch stand among everybody."""
        ends = np.cumsum([0, *self.sizes])
        every = range(len(self.sizes)) if places is None else places
        return [slice(int(ends[place]), int(ends[place + 1])) for place in every]


def _turns(sizes: Sequence[int], people_per_turn: int | None) -> list[list[int]]:
    """Places of the batches of each turn.

    Neighbours take different turns, as files are often sorted by something that matters.

    >>> _turns([5, 5, 5, 5, 3], 10)
    [[0, 3], [1, 4], [2]]
    >>> _turns([5, 5], None)
    [[0, 1]]
    """
    limit = sum(sizes) if people_per_turn is None else people_per_turn
    if max(sizes) > limit:
        msg = (
            f"`people_per_turn` is {limit}, but a batch has {max(sizes)} people. Raise it, or make "
            "smaller batches (`batch_size` of `ParquetBatches`)."
        )
        raise ValueError(msg)
    n_turns = -(-sum(sizes) // limit)
    while max(sum(sizes[first::n_turns]) for first in range(n_turns)) > limit:
        n_turns += 1
    return [list(range(first, len(sizes), n_turns)) for first in range(n_turns)]


def _people(
    batches: Iterable[Any], like: Features | None, numbers: frozenset[int] | None = None
) -> Iterator[tuple[int, Features, SurvivalTarget | None, FloatArray | None]]:
    """Checked people of the batches who count; outcomes only where nothing is known yet."""
    if hasattr(batches, "chosen"):
        numbered = batches.chosen(numbers)
    else:
        every = enumerate(batches)
        numbered = every if numbers is None else (one for one in every if one[0] in numbers)
    for number, batch in numbered:
        try:
            X, y, *rest = batch
            people = _batch_people(X, y, rest[0] if rest else None, like)
        except (TypeError, ValueError) as error:
            msg = f"Batch {number}: {error}"
            raise type(error)(msg) from None
        if people is not None:
            yield number, *people


def _batch_people(
    X: Any, y: Any, weight: Any, like: Features | None
) -> tuple[Features, SurvivalTarget | None, FloatArray | None] | None:
    if len(X) == 0 or (weight is not None and not np.any(np.asarray(weight))):
        return None
    features, target = check_features(X, like=like), None
    if like is None:
        target = check_survival_target(y, require_event=False)
        if target.n_samples != features.n_samples:
            msg = f"`X` has {features.n_samples} rows but `y` has {target.n_samples}."
            raise ValueError(msg)
    checked = check_sample_weight(weight, features.n_samples)
    if checked is not None and not checked.all():
        keep = np.flatnonzero(checked)
        features, checked = replace(features, values=features.values[keep]), checked[keep]
        if target is not None:
            target = replace(target, event=target.event[keep], duration=target.duration[keep])
    return features, target, checked


def _read_outcomes(batches: Iterable[Any]) -> tuple[_Source, SurvivalTarget, FloatArray | None]:
    """One pass over everything: checks, outcomes, weights, and the levels of categories."""
    schema: Features | None = None
    labels, durations = [], []
    weights: list[FloatArray | None] = []
    numbers: list[int] = []
    sizes: list[int] = []
    for number, features, target, weight in _people(batches, None):
        assert target is not None
        schema = features.schema if schema is None else _with_levels(schema, features, number)
        if weights and (weight is None) != (weights[0] is None):
            msg = f"Batch {number}: either all batches have weights or none has."
            raise ValueError(msg)
        labels.append(target.event_ids[target.event])
        durations.append(time_feature(target.duration))
        weights.append(weight)
        numbers.append(number)
        sizes.append(features.n_samples)
    if schema is None:
        msg = "`batches` has no people."
        raise ValueError(msg)
    known = check_survival_target((np.concatenate(labels), np.concatenate(durations)))
    total = None
    if weights[0] is not None:
        total = np.concatenate([weight for weight in weights if weight is not None])
    return _Source(batches, schema, numbers, sizes), known, total


def _with_levels(schema: Features, features: Features, number: int) -> Features:
    """The schema with the levels of one more batch, whose columns must be the same."""
    if features.names != schema.names or set(features.categories) != set(schema.categories):
        msg = (
            f"Batch {number}: columns or their kinds differ from those of the first batch, "
            f"{list(schema.names or range(schema.n_features))}."
        )
        raise ValueError(msg)
    if features.n_features != schema.n_features:
        msg = f"Batch {number}: `X` has {features.n_features} columns, not {schema.n_features}."
        raise ValueError(msg)
    categories = {}
    for column, levels in schema.categories.items():
        new = features.categories[column]
        categories[column] = levels.append(pd.Index(new[~new.isin(levels)]))
    return replace(schema, categories=categories)


# ---------------------------------------------------------------------------------------- training
class _Booster(_boosting_xgboost.Booster):
    """The booster of the estimator on rows that come in batches and stay on disk."""

    def __init__(self, settings: Any, model: Any = None, cache: Any = None) -> None:
        super().__init__(settings, model)
        self._cache = cache
        self._bins: Any = None

    def add_batches(self, rows: Rows) -> int:
        options: dict[str, Any] = {}
        if self._bins is not None or self._matrices:
            options["ref"] = self._bins or self._matrices[0]
        max_bin = self._settings.engine_params.get("max_bin")
        if max_bin is not None:
            options["max_bin"] = max_bin
        schema = self._settings.schema
        columns = range(schema.n_features + 1)
        reader = _Reader(
            rows,
            self._cache(),
            feature_names=column_names(schema),
            feature_types=["c" if column in schema.categories else "q" for column in columns],
        )
        matrix = xgb.ExtMemQuantileDMatrix(
            reader,
            enable_categorical=bool(schema.categories),
            nthread=self._settings.n_jobs,
            **options,
        )
        self._matrices.append(matrix)
        return len(self._matrices) - 1

    def release(self) -> None:
        """Forget all rows, on disk too; one made-up row keeps the bins for those to come."""
        if self._bins is None and self._matrices:
            row = np.zeros((1, self._settings.schema.n_features + 1), np.float32)
            self._bins = self._matrix(xgb.QuantileDMatrix, row, ref=self._matrices[0])
        self._matrices.clear()


class _Reader(xgb.DataIter):  # type: ignore[misc, name-defined]
    """Batches of stacked rows as XGBoost asks for them."""

    def __init__(self, rows: Rows, prefix: str, **columns: Any) -> None:
        self._rows, self._columns = rows, columns
        self._batches: Iterator[tuple[Float32Array, FloatArray]] = iter(())
        super().__init__(cache_prefix=prefix, release_data=True)

    def next(self, input_data: Callable[..., Any]) -> bool:
        for values, start in self._batches:
            if len(values):
                margin = np.asarray(start, np.float32)
                input_data(data=values, base_margin=margin, **self._columns)
                return True
        return False

    def reset(self) -> None:
        self._batches = self._rows()


@dataclass
class _BatchedStack:
    """One draw of horizons: its number, keys of its rows, and the targets of the event model."""

    number: int
    events: Any
    event_key: int
    censoring_key: int | None


@dataclass
class _BatchedLoop(BoostingLoop):
    """The loop, with weights computed batch by batch from horizons that are drawn again.

    Where people take turns, each chunk of rounds has rows of its own, and the last ones are
    forgotten first. The models see the people of a turn for the first time then, or have not seen
    them for long, which is no matter: their margins are sums over all trees.
    """

    source: _Source | None = None
    seed: int = 0
    turns: list[list[int]] = field(default_factory=list)
    _turn: int = 0
    _n_drawn: int = 0

    def _prepare(self, n_chunks: int) -> None:
        if len(self.turns) == 1:
            super()._prepare(n_chunks)

    def _stack(self, chunk: int) -> Any:
        if len(self.turns) == 1:
            return super()._stack(chunk)
        boosters: Any = [one for one in (self.events, self.censoring) if one is not None]
        for booster in boosters:
            booster.release()
        self._turn = chunk % len(self.turns)
        stack = self._new_stack()
        self._add_exits()
        return stack

    def _features(self) -> Iterator[Features]:
        assert self.source is not None
        return self.source.features(self.turns[self._turn])

    def _outcomes(self) -> Iterator[tuple[SurvivalTarget, FloatArray | None]]:
        assert self.source is not None
        target, weight = self.target, self.sample_weight
        for rows in self.source.slices(self.turns[self._turn]):
            part = replace(target, event=target.event[rows], duration=target.duration[rows])
            yield part, None if weight is None else weight[rows]

    def _roles(self, number: int) -> Iterator[tuple[SurvivalTarget, FloatArray | None, Role, Role]]:
        for batch, (target, weight) in enumerate(self._outcomes()):
            stack = _stacker(self.stacker, [self.seed, number, batch]).draw(target)
            yield target, weight, self._event_role(target, stack), censoring_role(target, stack)

    def _new_stack(self) -> Any:
        number = self._n_drawn
        self._n_drawn += 1
        targets, anybody = [], False
        for _, _, events, _ in self._roles(number):
            targets.append(events.target.astype(np.int8))
            anybody = anybody or bool(events.stayed.any())
        if not anybody:
            msg = "Nobody is event-free at any horizon, so there is one class only to learn."
            raise ValueError(msg)
        boosters: Any = self.events, self.censoring
        event_key = boosters[0].add_batches(partial(self._event_rows, number))
        censoring_key = None
        if self.censoring is not None:
            censoring_key = boosters[1].add_batches(partial(self._censoring_rows, number))
        target = np.concatenate(targets)
        return _BatchedStack(number, SimpleNamespace(target=target), event_key, censoring_key)

    def _event_rows(self, number: int) -> Iterator[tuple[Float32Array, FloatArray]]:
        for features, (_, _, role, _) in zip(self._features(), self._roles(number), strict=True):
            yield role.matrix(features), np.tile(self.start, (role.n_rows, 1))

    def _censoring_rows(self, number: int) -> Iterator[tuple[Float32Array, FloatArray]]:
        for features, (_, _, _, role) in zip(self._features(), self._roles(number), strict=True):
            yield role.matrix(features), self.censoring_start(role.horizon)[:, None]

    def _add_exits(self) -> None:
        boosters: Any = self.events, self.censoring
        if self.censoring is not None or self.imputation is not None:
            self._event_exits = boosters[0].add_batches(self._censored_rows)
        if self.censoring is not None:
            self._censoring_exits = boosters[1].add_batches(self._happened_rows)

    def _censored_rows(self) -> Iterator[tuple[Float32Array, FloatArray]]:
        for features, (target, _) in zip(self._features(), self._outcomes(), strict=True):
            people = np.flatnonzero(target.event == 0)
            rows = stacked_matrix(features, people, time_feature(target.duration[people]))
            yield rows, np.tile(self.start, (len(rows), 1))

    def _happened_rows(self) -> Iterator[tuple[Float32Array, FloatArray]]:
        for features, (target, _) in zip(self._features(), self._outcomes(), strict=True):
            people = np.flatnonzero(target.event > 0)
            times = target.duration[people]
            rows = stacked_matrix(features, people, time_feature(times, left=True))
            yield rows, self.censoring_start(times, left=True)[:, None]

    def _completed(self, stack: Any, imputation: Imputation, chunk: int) -> tuple[Any, Any]:
        targets, weights = [], []
        knows_enough = self._knows_enough(imputation)
        if knows_enough:
            margin = _Taken(self.events.margin(stack.event_key))
            exits = _Taken(self.events.margin(self._event_exits))
        generator = np.random.default_rng([imputation.seed, chunk])
        for target, weight, role, _ in self._roles(stack.number):
            lost = lost_rows(target, role)
            person = role.person[lost]
            if knows_enough:
                censored = np.flatnonzero(target.event == 0)
                at_horizon = self._states_of(margin.next(role.n_rows)[lost])
                at_exit = self._states_of(exits.next(len(censored)))
                at_exit = at_exit[np.searchsorted(censored, person)]
            else:
                at_horizon = imputation.marginal(role.horizon[lost])
                at_exit = imputation.marginal(target.duration[person])
            state = role.target.astype(np.int8)
            state[lost] = drawn_states(conditional_incidence(at_horizon, at_exit), generator)
            targets.append(state)
            weights.append(self._person_weight(role, weight).astype(np.float32))
        return np.concatenate(targets), np.concatenate(weights)

    def _event_weight(self, stack: Any) -> FloatArray:
        weights, n_floored = [], 0
        uses_marginal = self.censoring is None or self.censoring.n_rounds == 0
        if not uses_marginal:
            assert self.censoring is not None
            margin = _Taken(self.censoring.margin(stack.censoring_key))
            exits = _Taken(self.censoring.margin(self._censoring_exits))
        for target, weight, role, other in self._roles(stack.number):
            if uses_marginal:
                at_horizon = self.kaplan_meier.survival(role.horizon[role.stayed])
                at_exit = self.kaplan_meier.survival(target.duration[role.leaver], left=True)
            else:
                at_horizon = expit(-margin.next(other.n_rows)[other.stayed, 0])
                happened = np.flatnonzero(target.event > 0)
                before = expit(-exits.next(len(happened))[:, 0])
                before[target.duration[happened] <= 0] = 1.0
                at_exit = before[np.searchsorted(happened, role.leaver)]
            own, n_batch = role.weights(
                at_horizon,
                at_exit,
                floor=self.settings.min_censoring_survival,
                sample_weight=weight,
            )
            weights.append((own / self.stacker.n_horizons).astype(np.float32))
            n_floored += n_batch
        total = np.concatenate(weights)
        self.n_floored, self.n_weighted_rows = n_floored, len(total)
        return total  # type: ignore[return-value]

    def _advance_censoring(self, stack: Any, n_rounds: int) -> None:
        assert self.censoring is not None
        margin = _Taken(self.events.margin(stack.event_key))
        exits = _Taken(self.events.margin(self._event_exits))
        targets, weights = [], []
        for target, weight, events, role in self._roles(stack.number):
            censored = np.flatnonzero(target.event == 0)
            at_horizon = self._states_of(margin.next(events.n_rows)[events.stayed])[:, 0]
            at_exit = self._states_of(exits.next(len(censored)))[:, 0]
            own, _ = role.weights(
                at_horizon,
                at_exit[np.searchsorted(censored, role.leaver)],
                floor=self.settings.min_event_survival,
                sample_weight=weight,
            )
            targets.append(role.target.astype(np.int8))
            weights.append((own / self.stacker.n_horizons).astype(np.float32))
        censored_by_then: Any = np.concatenate(targets)
        if not censored_by_then.any():
            return
        every_weight: Any = np.concatenate(weights)
        self.censoring.boost(stack.censoring_key, censored_by_then, every_weight, n_rounds)
        self.refreshed_rounds.append(self.events.n_rounds)

    def _states_of(self, margin: FloatArray) -> FloatArray:
        return probabilities(margin, reference=self.events.reference)

    def _latest_loss(self, stack: Any, target: Any, weight: FloatArray) -> float:
        if self.history:
            return self.history[-1].loss
        margin = np.asarray(self.events.margin(stack.event_key))
        total = 0.0
        for begin in range(0, len(target), _SLICE):
            rows = slice(begin, begin + _SLICE)
            losses = pointwise_log_loss(
                margin[rows], target[rows], weight[rows], reference=self.events.reference
            )
            total += float(losses.sum())
        return total / float(weight.sum(dtype=np.float64))


class _Taken:
    """Rows of an array, a batch at a time, as float64."""

    def __init__(self, values: npt.ArrayLike) -> None:
        self._values = np.asarray(values)
        self._begin = 0

    def next(self, n_rows: int) -> FloatArray:
        rows = self._values[self._begin : self._begin + n_rows]
        self._begin += n_rows
        return rows.astype(np.float64)


def _stacker(stacker: TimeStacker, seed: Sequence[int]) -> TimeStacker:
    """The same stacker with a stream of its own."""
    return TimeStacker(
        stacker.n_horizons,
        stacker.sampler,
        horizon_max=stacker.horizon_max,
        random_state=np.random.default_rng(seed),
        event_times=stacker.event_times,
        time_unit=stacker.time_unit,
    )


class _ExternalBoost(SurvivalBoost):
    """The estimator on batches."""

    _source: _Source
    _cache: Iterator[int]
    _folder: str
    _turns: list[list[int]]

    def _adapter(self) -> Any:
        def prefix() -> str:
            return str(Path(self._folder) / f"rows-{next(self._cache)}")

        return SimpleNamespace(Booster=partial(_Booster, cache=prefix))

    def _new_loop(self, *arguments: Any) -> BoostingLoop:
        stacker = arguments[3]
        seed = int(stacker.generator.integers(2**62))
        loop = _BatchedLoop(*arguments)
        loop.source, loop.seed, loop.turns = self._source, seed, self._turns
        return loop

    def _state_weights(
        self,
        people: _People,
        stacker: TimeStacker,
        kaplan_meier: Any,
        imputation: Imputation | None,
    ) -> FloatArray:
        total = np.zeros(people.target.n_causes + 1)
        for rows in self._source.slices():
            part = _People(
                people.features,
                replace(
                    people.target,
                    event=people.target.event[rows],
                    duration=people.target.duration[rows],
                ),
                None if people.weight is None else people.weight[rows],
            )
            total += super()._state_weights(part, stacker, kaplan_meier, imputation)
        return total
