r"""Training on more people than memory holds, on one machine, by XGBoost's external memory.

People come in batches, for instance from Parquet files. Each batch is stacked separately, at
horizons that are drawn again from the same seed whenever it is read, and XGBoost keeps the binned
rows in files (`xgboost.ExtMemQuantileDMatrix`). Everything else is as in memory: the same
training runs on batches that are read from disk, with boosters whose rows stay there.

What stays in memory, with h stacked rows per person and model (at most ``n_horizons``; rows without
information are left out) and K causes:

- 20 bytes per person for the outcome, and 8 for a sample weight;
- for the people in use, XGBoost's margins, 8 K h s bytes of the events (value and start)
  and 8 h s of the censoring, where s = 3 draws of horizons are kept;
- while the events are boosted, gradients, weights and row numbers, about (16 K + 16) h bytes of
  these people;
- one batch of people, stacked, and a few pages of the binned rows.

By default all people are used in every round, so all but the last item grow with their number,
though not with the number of features. With ``people_per_turn``, the rounds between two refreshes
use other people in turn, with one draw of horizons (s = 1) and their features in memory: then only
the first item grows. ``benchmarks/distributed.py`` measures both. Files on disk take about
(n_features + 1) (h s + 1) bytes per person in use and model.
"""

from survival_objectives.adapters.external_memory._training import ParquetBatches, fit_external

__all__ = ["ParquetBatches", "fit_external"]
