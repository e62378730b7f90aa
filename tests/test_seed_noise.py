"""The margin between models that differ by their seeds keeps its promise."""

import numpy as np
import pytest
from seed_noise import largest_mean


@pytest.mark.parametrize(("n", "m"), [(8, 1), (8, 4), (4, 2)])
def test_equally_good_methods_exceed_it_as_often_as_promised(n, m):
    rng = np.random.default_rng(0)
    n_pairs, level = 4000, 0.05
    exceeded = sum(
        rng.normal(2.0, 0.3, m).mean() > largest_mean(rng.normal(2.0, 0.3, n), m, level)
        for _ in range(n_pairs)
    )
    # Three standard errors of a share of `level`.
    assert abs(exceeded / n_pairs - level) < 3 * np.sqrt(level * (1 - level) / n_pairs)


def test_a_worse_method_exceeds_it():
    reference = np.random.default_rng(0).normal(1.0, 0.1, 8)
    assert 1.0 < largest_mean(reference, 4) < 1.5
