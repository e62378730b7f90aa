r"""SuMo-net of Rindt et al. (2022), written after the paper: its code is on no package index.

A network of the features joins the time in layers whose weights are positive, so that the incidence

    F(t|x) = sigmoid(g(t, h(x)))

rises with time. It is trained on the likelihood of right-censored times: log f(t|x) for events,
with the density f as the derivative of F, and log(1 - F(t|x)) for the censored.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch.nn import functional

WIDTH = 32
DROPOUT = 0.1
EPOCHS = 100
PATIENCE = 15
BATCH = 256
LEARNING_RATE = 3e-3
HELD_OUT = 0.2
# Test people predicted at a time.
BLOCK = 512


class PositiveLinear(torch.nn.Linear):
    """A linear layer whose weights are positive."""

    def forward(self, values: Any) -> Any:
        """Margins of the next layer."""
        return functional.linear(values, self.weight**2, self.bias)


class Network(torch.nn.Module):
    """Margin of F(t|x), rising with t."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.people = torch.nn.Sequential(
            torch.nn.Linear(n_features, WIDTH),
            torch.nn.Tanh(),
            torch.nn.Dropout(DROPOUT),
            torch.nn.Linear(WIDTH, WIDTH),
            torch.nn.Tanh(),
        )
        # Features may lower the margin; only what time goes through must be positive.
        self.entry = torch.nn.Linear(WIDTH, WIDTH)
        self.time = PositiveLinear(1, WIDTH)
        self.joint = torch.nn.Sequential(
            torch.nn.Tanh(), PositiveLinear(WIDTH, WIDTH), torch.nn.Tanh(), PositiveLinear(WIDTH, 1)
        )

    def forward(self, people: Any, time: Any) -> Any:
        """Margins of people (n, features) at times (n, 1)."""
        return self.joint(self.entry(self.people(people)) + self.time(time))[:, 0]


def loss(network: Network, people: Any, time: Any, event: Any) -> Any:
    """Minus the mean log-likelihood."""
    time = time.clone().requires_grad_()
    margin = network(people, time)
    (slope,) = torch.autograd.grad(margin.sum(), time, create_graph=True)
    # log f = log F + log(1 - F) + log slope of the margin.
    density = functional.logsigmoid(margin) + torch.log(slope[:, 0].clamp_min(1e-12))
    return -(functional.logsigmoid(-margin) + event * density).mean()


def fit(X: Any, event: Any, duration: Any, *, seed: int, n_threads: int, **options: Any) -> Any:
    torch.manual_seed(seed)
    torch.set_num_threads(n_threads)
    centre, spread, unit = X.mean(axis=0), X.std(axis=0), duration.std()
    spread[spread == 0] = 1

    def scaled(values: Any) -> Any:
        return torch.tensor((values - centre) / spread, dtype=torch.float32)

    generator = np.random.default_rng(seed)
    held = generator.permutation(len(X)) < HELD_OUT * len(X)
    people, time = scaled(X), torch.tensor(duration[:, None] / unit, dtype=torch.float32)
    happened = torch.tensor(event > 0, dtype=torch.float32)
    network = Network(X.shape[1])
    optimizer = torch.optim.Adam(network.parameters(), options.get("learning_rate", LEARNING_RATE))
    best, best_loss, since = copy.deepcopy(network.state_dict()), np.inf, 0
    for _ in range(options.get("epochs", EPOCHS)):
        network.train()
        order = generator.permutation(np.flatnonzero(~held))
        for start in range(0, len(order), BATCH):
            rows = torch.from_numpy(order[start : start + BATCH])
            optimizer.zero_grad()
            loss(network, people[rows], time[rows], happened[rows]).backward()
            optimizer.step()
        network.eval()
        held_loss = loss(network, people[held], time[held], happened[held]).item()
        since += 1
        if held_loss < best_loss:
            best, best_loss, since = copy.deepcopy(network.state_dict()), held_loss, 0
        elif since >= PATIENCE:
            break
    network.load_state_dict(best)
    network.eval()

    def predict(X_test: Any, times: Any) -> Any:
        values = scaled(X_test)
        at = torch.tensor(np.asarray(times)[:, None] / unit, dtype=torch.float32)
        incidence = np.empty((len(X_test), len(times)))
        with torch.no_grad():
            for start in range(0, len(values), BLOCK):
                block = values[start : start + BLOCK]
                rows = block.repeat_interleave(len(at), dim=0), at.repeat(len(block), 1)
                incidence[start : start + len(block)] = (
                    torch.sigmoid(network(*rows)).reshape(len(block), -1).double().numpy()
                )
        return np.stack([1 - incidence, incidence], axis=1)

    return predict
