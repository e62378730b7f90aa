"""The estimator whose training runs on all workers of a Dask cluster."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from survival_objectives._fit.boosters import finished_boosters
from survival_objectives._fit.checkpoint import (
    Checkpoint,
    TrainingState,
    plain_parameters,
    read_checkpoint,
)
from survival_objectives._fit.cohort import Cohort
from survival_objectives._model.fitted import FittedModel
from survival_objectives.adapters._engine import import_engine
from survival_objectives.adapters.dask._cluster import (
    Training,
    WorkerLostError,
    gather,
    one_at_a_time,
)
from survival_objectives.adapters.dask._collection import (
    Collection,
    by_rows,
    held_out_collection,
    is_collection,
    partition_blocks,
    pieces_of,
    schema_of,
)
from survival_objectives.adapters.dask._worker import (
    Plan,
    part_digest,
    resolutions,
    summary,
    train,
)
from survival_objectives.estimator import SurvivalBoost
from survival_objectives.validation import (
    Features,
    KeptValues,
    check_positive_int,
    check_random_state,
    check_survival_target,
    check_times,
    warn_about_labels,
)

dask = import_engine("dask")
distributed = import_engine("distributed", extra="dask")
da = import_engine("dask.array", extra="dask")
dd = import_engine("dask.dataframe", extra="dask")

__all__ = ["DaskSurvivalBoost", "WorkerLostError"]

_CHECKPOINT_EVERY = 50
# Seconds in which lost workers may come back before a training is resumed.
_RESTART = 60
# Parameters that do not change the model, so that a training may be resumed with others.
_WITHOUT_EFFECT = {"n_jobs", "verbose", "warm_start", "random_state"}


class DaskSurvivalBoost(SurvivalBoost):
    """SurvivalBoost trained by all workers of a Dask cluster.

    Parameters are those of `survival_objectives.SurvivalBoost`, with XGBoost as the engine, and:

    Parameters
    ----------
    checkpoint_folder : str, optional
        Where to write checkpoints: a folder that all workers see.
    checkpoint_every : int, optional
        Rounds between two checkpoints, which are written at the next refresh of the weights.
        Default: 50. After each, the trees draw other columns than they would without: the model
        depends on where checkpoints fall, but not on whether training was interrupted.
    timeout : int, default=600
        Seconds that a worker waits for the others within one step before it gives up. A worker
        whose process dies is noticed at once; this is for machines that vanish, and must be longer
        than the slowest worker takes for one step.

    Notes
    -----
    ``n_jobs`` are threads per worker; by default those that Dask gives it. A ``horizon_sampler``
    that is a function gets the people of one worker at a time. ``verbose`` shows in the workers'
    logs.

    Partitions that are in memory are trained on where they are. Others are loaded by the workers in
    contiguous blocks, so that the same data, seed and number of workers give the same model.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from survival_objectives.datasets import make_competing_risks
    >>> data = make_competing_risks(500, n_causes=2, random_state=0)
    >>> X = da.from_array(data.X.to_numpy(), chunks=(250, -1))
    >>> y = da.from_array(data.y.to_numpy(), chunks=(250, -1))
    >>> with Client(n_workers=2, threads_per_worker=1) as client:  # doctest: +SKIP
    ...     model = DaskSurvivalBoost(n_estimators=20, random_state=0).fit(X, y)
    ...     curves = model.predict_cumulative_incidence(X, [1.0, 2.0])  # lazy, (500, 3, 2)
    ...     curves.compute()
    """

    def __init__(
        self,
        engine: str = "xgboost",
        *,
        checkpoint_folder: str | None = None,
        checkpoint_every: int | None = None,
        timeout: int = 600,
        **parameters: Any,
    ) -> None:
        super().__init__(engine, **parameters)
        self.checkpoint_folder = checkpoint_folder
        self.checkpoint_every = checkpoint_every
        self.timeout = timeout

    @classmethod
    def _get_param_names(cls) -> list[str]:
        # scikit-learn reads them off the signature, which does not repeat those of SurvivalBoost.
        own = ("checkpoint_folder", "checkpoint_every", "timeout")
        return sorted({*SurvivalBoost._get_param_names(), *own})

    # ---------------------------------------------------------------------------------- training
    # Outcomes of a collection are collections: they are not taken from columns of ``X``.
    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        eval_set: Any = None,
        *,
        resume: bool = False,
        client: Any = None,
    ) -> DaskSurvivalBoost:
        """Train the model on all workers that hold or load partitions.

        Parameters
        ----------
        X : dask DataFrame or Array of shape (n_samples, n_features)
            Partitioned by people. Sizes of chunks may be unknown, partitions may be empty.
            Categorical columns need known categories.
        y : dask DataFrame or Array, tuple or dict
            Outcomes in the same partitions: a frame with ``event`` and ``duration``, an (n, 2)
            array, a tuple ``(event, duration)`` of Series or arrays, or a tuple of the names of
            these two columns in ``X``.
        sample_weight : dask Series or Array, optional
            Weights of people, in the same partitions.
        eval_set : pair (X, y), optional
            Held-out people as Dask collections. Without it, early stopping holds out people of
            every worker.
        resume : bool, default=False
            Continue from the latest checkpoint in ``checkpoint_folder``, if there is one. The model
            is that of an uninterrupted training.
        client : distributed.Client, optional
            Default: the current one.

        Returns
        -------
        DaskSurvivalBoost
            Itself.
        """
        self._check_parameters()
        if resume and self.checkpoint_folder is None:
            msg = "`resume=True` needs the `checkpoint_folder` of the interrupted training."
            raise ValueError(msg)
        is_warm_start = bool(self.warm_start) and self.__sklearn_is_fitted__()
        if is_warm_start:
            self._check_warm_start()
        client = _connected(client)
        people = Collection.checked(X, y, sample_weight, self._schema if is_warm_start else None)
        held_out = None
        if eval_set is not None:
            held_out = held_out_collection(eval_set, people.schema)
        with client.as_current(), one_at_a_time(client):
            self._fit_on(client, people, held_out, is_warm_start, resume)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.engine != "xgboost":
            msg = (
                f"`engine` is {self.engine!r}; on Dask it is 'xgboost', whose collective lets "
                "several models train in turn. `SurvivalBoost` has the other engines."
            )
            raise ValueError(msg)
        own = self.own_models()
        if own:
            msg = (
                f"`{own[0]}` is a {type(getattr(self, own[0])).__name__}; a model of your own "
                'needs all people in one process. Leave `censoring="auto"` on Dask, and '
                "`completion` out."
            )
            raise ValueError(msg)
        check_positive_int(self.timeout, "timeout")
        if self.checkpoint_every is not None:
            check_positive_int(self.checkpoint_every, "checkpoint_every")
            if self.checkpoint_folder is None:
                msg = "`checkpoint_every` is set, but there is no `checkpoint_folder`."
                raise ValueError(msg)

    def _fit_on(
        self,
        client: Any,
        people: Collection,
        held_out: Collection | None,
        is_warm_start: bool,
        resume: bool,
    ) -> None:
        workers = sorted(client.nthreads())
        if not workers:
            msg = "The cluster has no workers."
            raise RuntimeError(msg)
        found = self._found_checkpoint(client, workers) if resume else None
        if found is None:
            groups = people.placed(client, workers)
        else:
            groups = _regrouped(found[0], people.n_partitions, client)
        with people.loaded(client, groups) as parts:
            model = self._trained(
                client, groups, parts, people.schema, held_out, found, is_warm_start
            )
        self._set_model(model)
        self._warn_about_model(people.schema)

    def _trained(
        self,
        client: Any,
        groups: dict[str, list[int]],
        parts: list[Any],
        schema: Features,
        held_out: Collection | None,
        found: tuple[Checkpoint, TrainingState] | None,
        is_warm_start: bool,
    ) -> FittedModel:
        summaries = gather(client, client.map(summary, parts, pure=False), list(groups))
        n_samples = [n_people for n_people, _ in summaries]
        event_ids = self.event_ids_ if is_warm_start else None
        labels = [labels for _, labels in summaries]
        event_ids = _event_ids(labels, sum(n_samples), event_ids)
        if not is_warm_start:
            warn_about_labels(event_ids, has_censored=any(0 in seen for seen in labels))
        kept_values = KeptValues()
        for lost in gather(client, client.map(resolutions, parts, pure=False), list(groups)):
            if lost is not None:
                kept_values.add(*lost)
        kept_values.check(schema)
        # A worker whose partitions are all empty takes no part in training.
        groups = {
            worker: block
            for worker, block in groups.items()
            if sum(n_samples[number] for number in block)
        }
        parameters = {**self._plain_parameters(), "checkpoint_every": self._checkpoint_every()}
        with self._held_out_parts(client, held_out, list(groups), event_ids) as held_parts:
            all_parts = [*parts, *(part for block in held_parts or () for part in block)]
            digests = self._digests(client, all_parts, list(groups))
            checkpoint = Checkpoint(
                parameters, self._seed(), list(groups.values()), n_samples, digests
            )
            state = None
            if found is not None:
                found[0].check_resumes(checkpoint)
                checkpoint, state = found
            return self._run(
                client,
                groups,
                parts,
                held_parts,
                self._plan(schema, event_ids, checkpoint, state, is_warm_start),
            )

    def _digests(self, client: Any, parts: list[Any], workers: list[str]) -> list[str]:
        """Digests that identify the people, where the training may be resumed."""
        if self.checkpoint_folder is None:
            return []
        tasks = client.map(part_digest, parts, pure=False)
        digests: list[str] = gather(client, tasks, workers)
        return digests

    def _run(
        self,
        client: Any,
        groups: dict[str, list[int]],
        parts: list[Any],
        held_parts: list[list[Any]] | None,
        plan: Plan,
    ) -> FittedModel:
        with Training(client, list(groups), self.timeout) as training:
            plan = replace(plan, training=training.name, tracker=training.tracker)
            tasks = [
                client.submit(
                    train,
                    rank,
                    [parts[number] for number in block],
                    None if held_parts is None else held_parts[rank],
                    plan,
                    key=f"{training.name}-{rank}",
                    workers=[worker],
                    allow_other_workers=False,
                    pure=False,
                    retries=0,
                )
                for rank, (worker, block) in enumerate(groups.items())
            ]
            result: FittedModel = gather(client, tasks, list(groups))[0]
        return result

    def _found_checkpoint(
        self, client: Any, workers: list[str]
    ) -> tuple[Checkpoint, TrainingState] | None:
        reading = client.submit(
            read_checkpoint, self.checkpoint_folder, workers=workers[:1], pure=False
        )
        found: tuple[Checkpoint, TrainingState] | None = gather(client, [reading], workers[:1])[0]
        return found

    def _plain_parameters(self) -> dict[str, Any]:
        parameters = plain_parameters(self._local_parameters())
        return {name: value for name, value in parameters.items() if name not in _WITHOUT_EFFECT}

    def _local_parameters(self) -> dict[str, Any]:
        names = SurvivalBoost._get_param_names()
        return {name: getattr(self, name) for name in names}

    def _seed(self) -> int:
        if isinstance(self.random_state, numbers.Integral):
            check_random_state(self.random_state)
            return int(self.random_state)
        return int(check_random_state(self.random_state).integers(2**63))

    @staticmethod
    @contextmanager
    def _held_out_parts(
        client: Any,
        held_out: Collection | None,
        workers: list[str],
        event_ids: npt.NDArray[np.int64],
    ) -> Iterator[list[list[Any]] | None]:
        if held_out is None:
            yield None
            return
        groups = partition_blocks(held_out.n_partitions, workers)
        with held_out.loaded(client, groups) as parts:
            summaries = gather(client, client.map(summary, parts, pure=False), list(groups))
            labels, n_people = [seen for _, seen in summaries], sum(n for n, _ in summaries)
            try:
                _event_ids(labels, n_people, event_ids)
            except ValueError as error:
                msg = f"`eval_set`: {error}"
                raise ValueError(msg) from None
            yield [[parts[number] for number in groups.get(worker, [])] for worker in workers]

    def _plan(
        self,
        schema: Features,
        event_ids: npt.NDArray[np.int64],
        checkpoint: Checkpoint,
        state: TrainingState | None,
        is_warm_start: bool,
    ) -> Plan:
        return Plan(
            parameters=self._plan_parameters(),
            schema=schema,
            event_ids=event_ids,
            seed=checkpoint.seed,
            timeout=int(self.timeout),
            previous=self._model if is_warm_start else None,
            checkpoint=checkpoint,
            checkpoint_folder=self.checkpoint_folder,
            checkpoint_every=self._checkpoint_every(),
            resume=state,
        )

    def _plan_parameters(self) -> dict[str, Any]:
        """Parameters of the training; a generator has given its `_seed` and stays here."""
        parameters = self._local_parameters()
        if not isinstance(self.random_state, numbers.Integral):
            parameters["random_state"] = None
        return parameters

    def _checkpoint_every(self) -> int:
        return _CHECKPOINT_EVERY if self.checkpoint_every is None else int(self.checkpoint_every)

    # --------------------------------------------------------------------------------- prediction
    def to_local(self) -> SurvivalBoost:
        """The fitted model as a plain SurvivalBoost, which needs no cluster."""
        check_is_fitted(self)
        model = SurvivalBoost(**self._local_parameters())
        model._set_model(_local(self._model))
        return model

    @classmethod
    def from_local(cls, model: SurvivalBoost) -> DaskSurvivalBoost:
        """A fitted XGBoost SurvivalBoost that predicts for Dask collections."""
        check_is_fitted(model)
        copy = cls(**model.get_params())
        copy._set_model(_local(model._model))
        return copy

    def save(self, path: Any) -> None:
        """Write the model to a folder of the client, as `SurvivalBoost.save` does."""
        self.to_local().save(path)

    @classmethod
    def load(cls, path: Any, *, isolated: bool = False) -> DaskSurvivalBoost:
        """The model that `save` of this class or of SurvivalBoost wrote to a folder."""
        return cls.from_local(SurvivalBoost.load(path, isolated=isolated))

    # Of a collection, all causes come at once, and frames are made of curves only.
    def predict_cumulative_incidence(  # type: ignore[override]
        self,
        X: Any,
        times: Any = None,
        *,
        conditional_after: float | None = None,
        as_frame: bool = False,
    ) -> Any:
        """Probability of each state at each time, lazily for a Dask collection.

        Parameters are those of `SurvivalBoost.predict_cumulative_incidence`. A dask Array of shape
        (n_samples, K + 1, n_times) with the chunks of ``X`` comes back, or with ``as_frame`` a dask
        DataFrame. People who are not in a Dask collection get their curves at once.
        """
        return self._curves_by_part(
            "predict_cumulative_incidence", X, times, conditional_after, as_frame
        )

    def predict_survival_function(
        self,
        X: Any,
        times: Any = None,
        *,
        conditional_after: float | None = None,
        as_frame: bool = False,
    ) -> Any:
        """Probability of being event-free, (n_samples, n_times), lazily for a Dask collection."""
        return self._curves_by_part(
            "predict_survival_function", X, times, conditional_after, as_frame
        )

    def _curves_by_part(
        self, method: str, X: Any, times: Any, conditional_after: float | None, as_frame: bool
    ) -> Any:
        model = self.to_local()
        options = {"conditional_after": conditional_after, "as_frame": as_frame}
        if not is_collection(X):
            return getattr(model, method)(X, times, **options)
        times = self.times_ if times is None else check_times(times)
        # What one made-up person gets shows mistakes in the arguments now, and the shape.
        one = getattr(model, method)(self._made_up(), times, **options)
        if not as_frame:
            return self._by_part(method, X, one.shape[1:], times, **options)
        return _frame_by_part(model, method, X, one.iloc[:0], (times,), options)

    def predict_proba(  # type: ignore[override]
        self, X: Any, time_horizon: float | None = None
    ) -> Any:
        """Probability of each state at one horizon, (n_samples, K + 1), lazily for a collection."""
        return self._by_part("predict_proba", X, None, time_horizon)

    def predict(self, X: Any) -> Any:
        """Risk of any event, higher is worse, lazily for a Dask collection."""
        return self._by_part("predict", X, None)

    def predict_quantile(  # type: ignore[override]
        self, X: Any, quantile: float = 0.5
    ) -> Any:
        """First time by which an event has happened with this probability, lazily."""
        return self._by_part("predict_quantile", X, None, quantile)

    def predict_restricted_mean_time(
        self, X: Any, horizon: float | None = None, *, cause: int | str | None = None
    ) -> Any:
        """Mean event-free time up to a horizon, or the mean time lost to a cause, lazily."""
        return self._by_part("predict_restricted_mean_time", X, None, horizon, cause=cause)

    def shap_values(self, X: Any, time_horizon: float) -> Any:
        """TreeSHAP of the margins at a horizon, lazily for a Dask collection."""
        return self._by_part("shap_values", X, None, time_horizon)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Minus the integrated Brier score, as `SurvivalBoost.score`, computed by partition."""
        model = self.to_local()
        if not is_collection(X):
            return model.score(X, y, sample_weight)
        people = Collection.checked(X, y, sample_weight, self._schema)
        last = dask.delayed(max)([dask.delayed(_latest)(part) for part in people.parts])
        scores = [dask.delayed(_part_score)(model, part, last) for part in people.parts]
        totals = np.sum(dask.compute(*scores), axis=0)
        return float(totals[0] / totals[1])

    def _made_up(self) -> Features:
        missing = np.full((1, self.n_features_in_), np.nan, np.float32)
        return Features(missing, self._schema.names, self._schema.categories)

    def _by_part(
        self, method: str, X: Any, tail: tuple[int, ...] | None, *arguments: Any, **options: Any
    ) -> Any:
        model = self.to_local()
        if not is_collection(X):
            return getattr(model, method)(X, *arguments, **options)
        if tail is None:
            tail = getattr(model, method)(self._made_up(), *arguments, **options).shape[1:]
        schema_of(X, self._schema)
        X = by_rows(X)
        predict = dask.delayed(_part_prediction, pure=False)
        # One copy of the model in the graph, not one per partition.
        shared = dask.delayed(model, pure=False)
        sizes = X.chunks[0] if isinstance(X, da.Array) else [np.nan] * X.npartitions
        blocks = [
            da.from_delayed(
                predict(shared, method, part, tail, arguments, options), (size, *tail), np.float64
            )
            for part, size in zip(pieces_of(X), sizes, strict=True)
        ]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)


def _regrouped(checkpoint: Checkpoint, n_partitions: int, client: Any) -> dict[str, list[int]]:
    """The groups of the interrupted training on the workers of now."""
    partitions = checkpoint.partitions
    if len(checkpoint.n_samples) != n_partitions:
        msg = (
            f"The checkpoint was written with {len(checkpoint.n_samples)} partitions; here are "
            f"{n_partitions}. Pass the same data, or fit with `resume=False`."
        )
        raise ValueError(msg)
    with suppress(TimeoutError):  # A worker that was lost may be starting again.
        client.wait_for_workers(len(partitions), timeout=_RESTART)
    workers = sorted(client.nthreads())
    if len(workers) < len(partitions):
        msg = (
            f"The checkpoint was written by {len(partitions)} workers; here are {len(workers)}. "
            "Add workers, or fit with `resume=False`."
        )
        raise ValueError(msg)
    groups = [list(block) for block in partitions]
    known = {number for block in groups for number in block}
    groups[-1] += [number for number in range(n_partitions) if number not in known]
    return dict(zip(workers, groups, strict=False))


def _event_ids(
    labels: Sequence[list[int]], n_samples: int, known: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.int64]:
    """The label set of all partitions."""
    if n_samples == 0:
        msg = "`y` is empty: there is nobody to learn from."
        raise ValueError(msg)
    seen = sorted({label for part in labels for label in part})
    if known is None and seen == [0]:
        msg = (
            f"All {n_samples} people are censored (event = 0), so no cause can be learnt. "
            "Check which column marks the event: 0 = censored, 1..K = causes."
        )
        raise ValueError(msg)
    return check_survival_target((seen, np.ones(len(seen))), event_ids=known).event_ids


# ------------------------------------------------------------------------------------- by partition
def _part_prediction(
    model: SurvivalBoost,
    method: str,
    X: Any,
    tail: tuple[int, ...],
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    if len(X) == 0:
        return np.empty((0, *tail))
    return getattr(model, method)(X, *arguments, **options)


def _frame_prediction(
    X: Any, model: SurvivalBoost, method: str, meta: Any, arguments: Any, options: Any
) -> Any:
    return meta if len(X) == 0 else getattr(model, method)(X, *arguments, **options)


def _frame_by_part(
    model: SurvivalBoost, method: str, X: Any, meta: Any, arguments: Any, options: Any
) -> Any:
    schema_of(X, model._schema)
    if isinstance(X, dd.DataFrame):
        meta = meta.set_axis(X._meta.index)
        return X.map_partitions(
            _frame_prediction, model, method, meta, arguments, options, meta=meta
        )
    predict = dask.delayed(_frame_prediction, pure=False)
    shared = dask.delayed(model, pure=False)
    parts = [predict(part, shared, method, meta, arguments, options) for part in pieces_of(X)]
    return dd.from_delayed(parts, meta=meta, verify_meta=False)


def _latest(part: Cohort) -> float:
    return float(part.target.duration.max()) if part.n_samples else 0.0


def _part_score(model: SurvivalBoost, part: Cohort, last: float) -> tuple[float, float]:
    """Score of a partition times its weight, and that weight."""
    if part.n_samples == 0:
        return 0.0, 0.0
    total = float(part.n_samples if part.weight is None else part.weight.sum())
    y = (part.target.event_ids[part.target.event], part.target.duration)
    return model._score(part.features, y, part.weight, last) * total, total


def _local(model: FittedModel) -> FittedModel:
    """The model with boosters of its own."""
    return model.wrapped(finished_boosters(model.frame, model.record.method))


def _connected(client: Any) -> Any:
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError:
            msg = (
                "There is no Dask client. Make one, e.g. `client = distributed.Client()`, or pass "
                "`fit(..., client=client)`."
            )
            raise ValueError(msg) from None
    if not isinstance(client, distributed.Client) or client.asynchronous:
        msg = f"`client` must be a synchronous distributed.Client; got {type(client).__name__}."
        raise TypeError(msg)
    return client
