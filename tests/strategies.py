"""What the property tests of the core draw their examples from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from survival_objectives._people import SurvivalTarget, check_survival_target

# A multiple of 2^-20 up to 10^4 is exact in float64 also after adding a step of 2^-13, so that
# finite differences see no rounding of their arguments.
GRID = 2.0**-20


@dataclass
class WeightedRows:
    """Margins with targets and weights, and the link they are meant for."""

    margin: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    reference: bool

    @property
    def arguments(self):
        return self.margin, self.target, self.weight

    @property
    def n_classes(self):
        return self.margin.shape[1] + self.reference


@st.composite
def weighted_rows(draw, largest=1e4, max_rows=6, max_causes=4):
    """Rows with moderate or extreme margins, weights incl. 0, and both links."""
    n_rows = draw(st.integers(1, max_rows))
    n_causes = draw(st.integers(1, max_causes))
    reference = draw(st.booleans())
    scale = draw(st.sampled_from([1.0, 10.0, largest]))
    elements = st.floats(-scale, scale).map(lambda value: round(value / GRID) * GRID)
    margin = draw(hnp.arrays(np.float64, (n_rows, n_causes + 1 - reference), elements=elements))
    target = draw(hnp.arrays(np.int32, n_rows, elements=st.integers(0, n_causes)))
    weights = st.one_of(st.just(0.0), st.floats(1e-3, 20.0))
    weight = draw(hnp.arrays(np.float64, n_rows, elements=weights))
    return WeightedRows(margin, target, weight, reference)


@st.composite
def survival_targets(draw, max_people=12, max_causes=3, min_events=0) -> SurvivalTarget:
    """Outcomes on few distinct times, so that most are tied; time 0 included."""
    n_people = draw(st.integers(max(2, min_events), max_people))
    n_causes = draw(st.integers(1, max_causes))
    event = draw(
        st.lists(st.integers(0, n_causes), min_size=n_people, max_size=n_people).filter(
            lambda events: sum(event > 0 for event in events) >= min_events
        )
    )
    # Eighths are exact in float32.
    times = st.integers(0, 8).map(lambda eighths: eighths / 8)
    duration = draw(st.lists(times, min_size=n_people, max_size=n_people).filter(any))
    return check_survival_target((event, duration), event_ids=range(n_causes + 1))
