"""Neural networks of pycox: DeepHit (also for competing risks) and PC-Hazard."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torchtuples
from pycox.models import DeepHit, DeepHitSingle, PCHazard
from pycox.preprocessing.label_transforms import LabTransDiscreteTime

N_DURATIONS = 30
# Points between two durations where curves are interpolated.
N_BETWEEN = 10
WIDTH = 64
EPOCHS = 100


class CauseNetwork(torch.nn.Module):
    """Shared layers, then one head a cause; the answer is (people, causes, durations)."""

    def __init__(self, n_features: int, n_causes: int, n_durations: int) -> None:
        super().__init__()
        self.shared = torchtuples.practical.MLPVanilla(
            n_features, [WIDTH], WIDTH, batch_norm=True, dropout=0.1
        )
        self.heads = torch.nn.ModuleList(
            torchtuples.practical.MLPVanilla(
                WIDTH, [WIDTH], n_durations, batch_norm=True, dropout=0.1
            )
            for _ in range(n_causes)
        )

    def forward(self, people: Any) -> Any:
        """Margins of all causes and durations."""
        shared = self.shared(people)
        return torch.stack([head(shared) for head in self.heads], dim=1)


class IntegerLabels(LabTransDiscreteTime):  # type: ignore[misc]
    """Durations in steps; events keep their number."""

    def fit(self, durations: Any, events: Any) -> Any:
        """Choose the steps."""
        # The quantiles are of a Kaplan-Meier curve, which knows events and no events.
        return super().fit(durations, (events > 0).astype("float32"))

    def transform(self, durations: Any, events: Any) -> Any:
        """Steps and events."""
        steps, is_event = super().transform(durations, events > 0)
        events = np.where(is_event > 0, events, 0)
        return steps, events.astype("int64")


def fit(
    X: Any, event: Any, duration: Any, *, seed: int, n_threads: int, model: str, **options: Any
) -> Any:
    torch.manual_seed(seed)
    torch.set_num_threads(n_threads)
    np.random.seed(seed)  # noqa: NPY002 - torchtuples splits batches by it.
    n_causes = int(event.max())
    centre, spread = X.mean(axis=0), X.std(axis=0)
    spread[spread == 0] = 1

    def scaled(values: Any) -> Any:
        return ((values - centre) / spread).astype("float32")

    if n_causes > 1:
        labels: Any = IntegerLabels(N_DURATIONS, scheme="quantiles")
    elif model == "pchazard":
        labels = PCHazard.label_transform(N_DURATIONS, scheme="quantiles")
    else:
        labels = DeepHitSingle.label_transform(N_DURATIONS, scheme="quantiles")
    given = event if n_causes > 1 else event.astype("float32")
    outcome = labels.fit_transform(duration.astype("float32"), given)
    if n_causes > 1:
        network: Any = CauseNetwork(X.shape[1], n_causes, len(labels.cuts))
        net = DeepHit(
            network, torchtuples.optim.Adam(0.001), alpha=0.2, sigma=0.1, duration_index=labels.cuts
        )
    else:
        network = torchtuples.practical.MLPVanilla(
            X.shape[1], [WIDTH, WIDTH], labels.out_features, batch_norm=True, dropout=0.1
        )
        family = PCHazard if model == "pchazard" else DeepHitSingle
        net = family(network, torchtuples.optim.Adam(0.001), duration_index=labels.cuts)
    held = np.random.default_rng(seed).permutation(len(X)) < len(X) // 5
    values = scaled(X)
    net.fit(
        values[~held],
        tuple(part[~held] for part in outcome),
        batch_size=options.get("batch_size", 256),
        epochs=options.get("epochs", EPOCHS),
        callbacks=[torchtuples.callbacks.EarlyStopping(patience=10)],
        val_data=(values[held], tuple(part[held] for part in outcome)),
        verbose=False,
        # No training person may fall into the last interval, which then is not trained.
        **({"check_out_features": False} if model == "pchazard" else {}),
    )
    net.net.eval()

    def predict(X_test: Any, times: Any) -> Any:
        values = scaled(X_test)
        if n_causes > 1:
            # (causes, durations, people)
            incidence = net.predict_cif(values)
            known = np.asarray(labels.cuts, dtype=np.float64)
            curves = incidence.transpose(2, 0, 1)
        else:
            if model == "pchazard":
                net.sub = N_BETWEEN
                frame = net.predict_surv_df(values)
            else:
                frame = net.interpolate(N_BETWEEN).predict_surv_df(values)
            known = frame.index.to_numpy(np.float64)
            curves = 1 - frame.to_numpy(np.float64).T[:, None]
        if known[0] > 0:
            known = np.concatenate([[0.0], known])
            curves = np.concatenate([np.zeros((*curves.shape[:2], 1)), curves], axis=2)
        at_times = np.empty((len(curves), n_causes, len(times)))
        for person, rows in enumerate(curves):
            for cause, row in enumerate(rows):
                at_times[person, cause] = np.interp(times, known, row)
        at_times = np.clip(at_times, 0, 1)
        event_free = np.clip(1 - at_times.sum(axis=1, keepdims=True), 0, 1)
        return np.concatenate([event_free, at_times], axis=1)

    return predict
