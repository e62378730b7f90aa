"""A trainer whose margins are a formula: it shows what training asks of an engine."""

from __future__ import annotations

import numpy as np


class FixedTrainer:
    """Margins rise with the time and the rounds; nothing is learnt, and calls are recorded."""

    reference = True

    def __init__(self, n_margins=1, slope=0.3):
        self.n_margins, self.slope = n_margins, slope
        self.n_rounds = 0
        self.rows, self.boosted, self.n_released, self.bins = [], [], 0, []

    def add_batches(self, rows):
        batches = list(rows())
        self.rows.append(tuple(np.concatenate(column) for column in zip(*batches, strict=True)))
        return len(self.rows) - 1

    def boost(self, key, target, weight, n_rounds):
        self.boosted.append((key, np.array(target), np.array(weight), n_rounds))
        self.n_rounds += n_rounds

    def margin(self, key):
        values, start = self.rows[key]
        return start + self.sum_of_trees(values, 0, self.n_rounds)

    def sum_of_trees(self, values, first, last):
        steps = self.slope * np.arange(1, self.n_margins + 1) * (last - first) / 10
        return (values[:, -1:] - 1) * steps

    def release(self):
        self.rows.clear()
        self.n_released += 1

    def set_bins(self, rows):
        self.bins.append(np.concatenate([values for values, _ in rows()]))

    def state(self):
        return str(self.n_rounds).encode()

    def restore(self, state):
        self.n_rounds = int(state)

    def finished(self, n_rounds):
        return n_rounds
