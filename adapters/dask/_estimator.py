"""The estimator whose training runs on all workers of a Dask cluster."""

from __future__ import annotations

from typing import Any

from survival_objectives._models.boosters import finished_boosters
from survival_objectives._models.checks import warn_about_model
from survival_objectives._models.fitted import FittedModel
from survival_objectives._people import check_positive_int
from survival_objectives._training.limits import (
    check_no_own_models,
    check_parameters,
    check_warm_start,
)
from survival_objectives.adapters._engine import import_engine
from survival_objectives.adapters.dask._cluster import WorkerLostError, one_at_a_time
from survival_objectives.adapters.dask._collection import (
    Collection,
    held_out_collection,
    is_collection,
)
from survival_objectives.adapters.dask._predictions import PartPredictions
from survival_objectives.adapters.dask._training import ClusterTraining
from survival_objectives.estimators import SurvivalBoost

distributed = import_engine("distributed", extra="dask")

__all__ = ["DaskSurvivalBoost", "WorkerLostError"]

_CHECKPOINT_EVERY = 50
# Names of the parameters that are not those of `SurvivalBoost`.
_OWN = ("checkpoint_folder", "checkpoint_every", "timeout")


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
        return sorted({*SurvivalBoost().get_params(deep=False), *_OWN})

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
        self._check_for_cluster()
        if resume and self.checkpoint_folder is None:
            msg = "`resume=True` needs the `checkpoint_folder` of the interrupted training."
            raise ValueError(msg)
        previous = self.fitted_model if self.warm_start and self.__sklearn_is_fitted__() else None
        if previous is not None:
            check_warm_start(self, previous)
        client = _connected(client)
        people = Collection.checked(
            X, y, sample_weight, None if previous is None else previous.schema
        )
        held_out = None
        if eval_set is not None:
            held_out = held_out_collection(eval_set, people.schema)
        every = _CHECKPOINT_EVERY if self.checkpoint_every is None else int(self.checkpoint_every)
        training = ClusterTraining(
            client,
            self._local_parameters(),
            int(self.timeout),
            self.checkpoint_folder,
            every,
            previous,
        )
        with client.as_current(), one_at_a_time(client):
            model = training.fit(people, held_out, resume=resume)
        self.fitted_model = model
        warn_about_model(model, people.schema.values, stacklevel=2)
        return self

    def _local_parameters(self) -> dict[str, Any]:
        parameters = self.get_params(deep=False)
        return {name: value for name, value in parameters.items() if name not in _OWN}

    def _check_for_cluster(self) -> None:
        check_parameters(self)
        if self.engine != "xgboost":
            msg = (
                f"`engine` is {self.engine!r}; on Dask it is 'xgboost', whose collective lets "
                "several models train in turn. `SurvivalBoost` has the other engines."
            )
            raise ValueError(msg)
        check_no_own_models(self, "in one process")
        check_positive_int(self.timeout, "timeout")
        if self.checkpoint_every is not None:
            check_positive_int(self.checkpoint_every, "checkpoint_every")
            if self.checkpoint_folder is None:
                msg = "`checkpoint_every` is set, but there is no `checkpoint_folder`."
                raise ValueError(msg)

    # --------------------------------------------------------------------------------- prediction
    def to_local(self) -> SurvivalBoost:
        """The fitted model as a plain SurvivalBoost, which needs no cluster."""
        model = SurvivalBoost(**self._local_parameters())
        model.fitted_model = _local(self.fitted_model)
        return model

    @classmethod
    def from_local(cls, model: SurvivalBoost) -> DaskSurvivalBoost:
        """A fitted XGBoost SurvivalBoost that predicts for Dask collections."""
        copy = cls(**model.get_params())
        copy.fitted_model = _local(model.fitted_model)
        return copy

    def save(self, path: Any) -> None:
        """Write the model to a folder of the client, as `SurvivalBoost.save` does."""
        self.to_local().save(path)

    @classmethod
    def load(cls, path: Any, *, isolated: bool = False) -> DaskSurvivalBoost:
        """The model that `save` of this class or of SurvivalBoost wrote to a folder."""
        return cls.from_local(SurvivalBoost.load(path, isolated=isolated))

    # For a collection, all causes are returned, and only curves can be frames.
    def predict_cumulative_incidence(  # type: ignore[override]
        self,
        X: Any,
        times: Any = None,
        *,
        conditional_after: float | None = None,
        as_frame: bool = False,
    ) -> Any:
        """Probability of each state at each time, lazily for a Dask collection.

        Parameters are those of `SurvivalBoost.predict_cumulative_incidence`. Returns a dask Array
        of shape (n_samples, K + 1, n_times) with the chunks of ``X``, or with ``as_frame`` a dask
        DataFrame. For other inputs the curves are computed immediately.
        """
        options = {"conditional_after": conditional_after, "as_frame": as_frame}
        return self._lazy("predict_cumulative_incidence", X, times, **options)

    def predict_survival_function(  # type: ignore[override]
        self,
        X: Any,
        times: Any = None,
        *,
        conditional_after: float | None = None,
        as_frame: bool = False,
    ) -> Any:
        """Probability of being event-free, (n_samples, n_times), lazily for a Dask collection."""
        options = {"conditional_after": conditional_after, "as_frame": as_frame}
        return self._lazy("predict_survival_function", X, times, **options)

    def predict_proba(  # type: ignore[override]
        self, X: Any, time_horizon: float | None = None
    ) -> Any:
        """Probability of each state at one horizon, (n_samples, K + 1), lazily for a collection."""
        return self._lazy("predict_proba", X, time_horizon)

    def predict(self, X: Any) -> Any:
        """Risk of any event, higher is worse, lazily for a Dask collection."""
        return self._lazy("predict", X)

    def predict_quantile(  # type: ignore[override]
        self, X: Any, quantile: float = 0.5
    ) -> Any:
        """First time by which an event has happened with this probability, lazily."""
        return self._lazy("predict_quantile", X, quantile)

    def predict_restricted_mean_time(  # type: ignore[override]
        self, X: Any, horizon: float | None = None, *, cause: int | str | None = None
    ) -> Any:
        """Mean event-free time up to a horizon, or the mean time lost to a cause, lazily."""
        return self._lazy("predict_restricted_mean_time", X, horizon, cause=cause)

    def shap_values(self, X: Any, time_horizon: float) -> Any:
        """TreeSHAP of the margins at a horizon, lazily for a Dask collection."""
        return self._lazy("shap_values", X, time_horizon)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Minus the integrated Brier score, as `SurvivalBoost.score`, computed by partition."""
        model = self.to_local()
        if not is_collection(X):
            return model.score(X, y, sample_weight)
        return PartPredictions(model).score(X, y, sample_weight)

    def _lazy(self, method: str, X: Any, *arguments: Any, **options: Any) -> Any:
        return PartPredictions(self.to_local()).lazy(method, X, *arguments, **options)


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
