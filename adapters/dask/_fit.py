"""Training of an estimator on all workers of a Dask cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from survival_objectives._engines.protocol import import_engine
from survival_objectives._people import check_positive_int
from survival_objectives.adapters.dask._cluster import one_at_a_time
from survival_objectives.adapters.dask._collection import Collection, held_out_collection
from survival_objectives.adapters.dask._training import ClusterTraining

if TYPE_CHECKING:
    from survival_objectives.estimators import HazardBoost, SurvivalBoost

_Estimator = TypeVar("_Estimator", "HazardBoost", "SurvivalBoost")

distributed = import_engine("distributed", extra="dask")

_CHECKPOINT_EVERY = 50


def fit_dask(
    model: _Estimator,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    eval_set: Any = None,
    censored: Any = None,
    checkpoint_folder: str | None = None,
    checkpoint_every: int | None = None,
    timeout: int = 600,
    resume: bool = False,
    client: Any = None,
) -> _Estimator:
    """Train ``model`` on all workers that hold or load partitions.

    Parameters
    ----------
    model : HazardBoost or SurvivalBoost
        With ``engine="xgboost"``; its parameters are used, and it is fitted.
    X : dask DataFrame or Array of shape (n_samples, n_features)
        Partitioned by people. Sizes of chunks may be unknown, partitions may be empty. Categorical
        columns need known categories.
    y : dask DataFrame or Array, tuple or dict
        Outcomes in the same partitions: a frame with ``event`` and ``duration``, an (n, 2) array, a
        tuple ``(event, duration)`` of Series or arrays, or a tuple of the names of these two
        columns in ``X``. Events may be text, which is then read once more.
    sample_weight : dask Series or Array, optional
        Weights of people, in the same partitions.
    eval_set : pair (X, y), optional
        Held-out people as Dask collections. Without it, early stopping of a SurvivalBoost holds out
        people of every worker.
    censored : str or sequence of str, optional
        As in ``fit``.
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
    resume : bool, default=False
        Continue from the latest checkpoint in ``checkpoint_folder``, if there is one. The model is
        that of an uninterrupted training.
    client : distributed.Client, optional
        Default: the current one.

    Returns
    -------
    HazardBoost or SurvivalBoost
        ``model``, which needs no cluster any more. `predict_dask` applies it to collections.

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
    >>> from survival_objectives import HazardBoost
    >>> from survival_objectives.datasets import make_competing_risks
    >>> data = make_competing_risks(500, n_causes=2, random_state=0)
    >>> X = da.from_array(data.X.to_numpy(), chunks=(250, -1))
    >>> y = da.from_array(data.y.to_numpy(), chunks=(250, -1))
    >>> with Client(n_workers=2, threads_per_worker=1) as client:  # doctest: +SKIP
    ...     model = fit_dask(HazardBoost(random_state=0), X, y)
    ...     curves = predict_dask(model, X, [1.0, 2.0])  # lazy, (500, 3, 2)
    ...     curves.compute()
    """
    request = model.training_request()
    wanted = request.parameters["engine"]
    if wanted != "xgboost":
        msg = (
            f"`engine` is {wanted!r}; on Dask it is 'xgboost', whose collective lets several "
            "models train in turn. In memory there are the other engines."
        )
        raise ValueError(msg)
    request.check_no_own_model("in one process")
    request.check_eval_set(eval_set)
    check_positive_int(timeout, "timeout")
    if checkpoint_every is not None:
        check_positive_int(checkpoint_every, "checkpoint_every")
    if checkpoint_folder is None and (resume or checkpoint_every is not None):
        name = "resume=True" if resume else "checkpoint_every"
        msg = f"`{name}` needs the `checkpoint_folder` of the training."
        raise ValueError(msg)
    client = _connected(client)
    previous = request.previous
    people = Collection.checked(X, y, sample_weight, None if previous is None else previous.schema)
    training = ClusterTraining(
        client,
        request,
        int(timeout),
        checkpoint_folder,
        int(checkpoint_every or _CHECKPOINT_EVERY),
    )
    with client.as_current(), one_at_a_time(client):
        people = people.with_labels(client, censored, previous)
        held_out = None
        if eval_set is not None:
            held_out = held_out_collection(eval_set, people)
        fitted = training.fit(people, held_out, resume=resume)
    model.fitted_model = request.finished(fitted, people.labels)
    return model


def _connected(client: Any) -> Any:
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError:
            msg = (
                "There is no Dask client. Make one, e.g. `client = distributed.Client()`, or pass "
                "`client=client`."
            )
            raise ValueError(msg) from None
    if not isinstance(client, distributed.Client) or client.asynchronous:
        msg = f"`client` must be a synchronous distributed.Client; got {type(client).__name__}."
        raise TypeError(msg)
    return client
