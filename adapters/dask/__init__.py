r"""HazardBoost and SurvivalBoost on a Dask cluster, by XGBoost.

The loss is a sum over people, so a worker that holds some of them can stack them, draw their
horizons and weight them independently. One task on each worker runs the training of a single
machine on its own people, inside XGBoost's communicator:

- XGBoost merges the sketches of the bins and sums the histograms of every tree level, so that all
  workers grow the same trees, of the events and of the censoring;
- the label set, the latest horizon, Kaplan-Meier, the event times that horizons follow, the
  constant to start from, the rows that the floor affects and the held-out loss are reduced
  over workers (`CollectiveReduction`); a few megabytes once, a few bytes per refresh;
- nothing else leaves a worker, and no partition is sent to the client.

Trainings with one worker and an integer seed give the model of one machine, bit for bit, if it
trains on the same people in the same order with the same number of threads. More workers draw other
horizons and sum in another order: the same estimate up to noise.

Why not LightGBM. `lightgbm.dask` (4.7) gives a worker one call, ``LGBMModel.fit``, on one Dataset
that it builds itself. The objective and callbacks are pickled to the workers and do run there, but:

- the loop needs two boosters that train in turn, on several Datasets that share their bins, inside
  one network; ``fit`` makes one of each, and frees the network when it returns;
- ``Booster.update(train_set=...)`` and the Datasets of the alternation would have to be made by a
  callback from rows that it does not have: it sees the live booster of stacked rows, and no people;
- LightGBM's network cannot be used from Python (`LGBM_NetworkInitWithFunctions` and its reductions
  are C only), so the sums above would need a second network;
- a worker that dies leaves the others waiting for ``time_out``, 120 minutes by default.
"""

from survival_objectives.adapters.dask._cluster import WorkerLostError
from survival_objectives.adapters.dask._fit import fit_dask
from survival_objectives.adapters.dask._predictions import predict_dask, score_dask

__all__ = ["WorkerLostError", "fit_dask", "predict_dask", "score_dask"]
