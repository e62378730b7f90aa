r"""Decisions: net benefit of treating those whose predicted risk exceeds a threshold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._arrays import FloatArray
from survival_objectives._people import check_times
from survival_objectives.marginal import aalen_johansen, incidence_influence
from survival_objectives.metrics._influence import Influence, stacked
from survival_objectives.metrics._inputs import ScoredPeople
from survival_objectives.metrics._workspace import Workspace

_N_THRESHOLDS = 19


def net_benefit(work: Workspace, cause: int, thresholds: npt.ArrayLike | None) -> pd.DataFrame:
    """The table of `Evaluation.net_benefit` at the only time."""
    q, scored, is_known = checked_thresholds(thresholds), work.scored, work.followed()[0]
    ((code, risk),) = scored.risks(cause)
    model, everyone, described = net_benefit_influence(
        scored, code, risk[:, 0], float(scored.times[0]), q
    )
    columns: dict[str, FloatArray] = {"threshold": q}
    for name, influence in (("", model), ("all", everyone), ("gain", model - everyone)):
        kept = influence if is_known else influence.map(lambda values: values * np.nan)
        found, prefix = work.estimate(kept), f"{name}_" if name else ""
        columns |= {
            name or "net_benefit": found.value,
            f"{prefix}standard_error": found.standard_error,
            f"{prefix}lower": found.lower,
            f"{prefix}upper": found.upper,
        }
    treated, caught = described[0], described[0] * described[1]
    # Of all people, from the net benefit of treating them.
    observed = everyone.value * (1 - q) + q
    missed = observed - caught
    shares = {"treated": treated, "caught": caught, "missed": missed}
    shares["spared"] = 1 - treated - missed
    known = 1.0 if is_known else np.nan
    return pd.DataFrame(columns | {name: share * known for name, share in shares.items()})


def net_benefit_over_time(work: Workspace, cause: int | None, threshold: float) -> Influence:
    """Influence on the net benefit of a threshold at all times."""
    parts = []
    for column, known in enumerate(work.followed()):
        scored = work.only(column).scored
        ((code, risk),) = scored.risks(cause)
        at, q = float(scored.times[0]), np.array([threshold])
        found = net_benefit_influence(scored, code, risk[:, 0], at, q)[0]
        factor = 1.0 if known else np.nan
        parts.append(Influence(factor * found.value[0], factor * found.people[:, 0], None))
    return stacked(parts)


def checked_thresholds(thresholds: npt.ArrayLike | None) -> FloatArray:
    """Risks between 0 and 1; None for 0.05, 0.1, ..., 0.95."""
    if thresholds is None:
        return np.arange(1, _N_THRESHOLDS + 1) / (_N_THRESHOLDS + 1)
    q = check_times(thresholds)
    if not ((q > 0) & (q < 1)).all():
        msg = f"`thresholds` are risks between 0 and 1, without them; got {q.tolist()}."
        raise ValueError(msg)
    return q


def net_benefit_influence(
    scored: ScoredPeople, code: int, risk: FloatArray, horizon: float, thresholds: FloatArray
) -> tuple[Influence, Influence, FloatArray]:
    r"""Influence on the net benefit at all thresholds, of the model and of treating all.

        NB(q) = pi (F - (1 - F) q / (1 - q))                                                   (33)

    with pi the share of people whose risk at the horizon is above q, who are treated, and F their
    Aalen-Johansen incidence. People with a competing event count as people without the event. The
    third array, (2, n_thresholds), is pi and F.
    """
    target, weight = scored.target, scored.sample_weight
    share = weight / weight.sum()
    odds = thresholds / (1 - thresholds)
    values, parts = np.zeros((2, len(odds))), np.zeros((len(share), 2, len(odds)))
    described = np.zeros((2, len(odds)))
    for model, chosen in ((True, thresholds), (False, thresholds[:1])):
        for column, threshold in enumerate(chosen):
            treated = np.flatnonzero((risk > threshold) if model else np.ones(len(risk), bool))
            some = treated[weight[treated] > 0]
            if len(some) == 0:
                continue
            group = target.take(some)
            curve = aalen_johansen(group, weight[some])(horizon)
            moved = incidence_influence(group, weight[some], [horizon])[:, code, 0]
            observed = curve[code] if code else 1 - curve[0]
            pi = share[some].sum()
            at = slice(column, column + 1) if model else slice(None)
            gain = observed * (1 + odds[at]) - odds[at]
            row = int(not model)
            values[row, at] = pi * gain
            parts[:, row, at] -= np.multiply.outer(share * pi, gain)
            parts[some, row, at] += np.multiply.outer(share[some], gain)
            moved = moved if code else -moved
            parts[some, row, at] += np.multiply.outer(moved * pi, 1 + odds[at])
            if model:
                described[:, column] = pi, observed
    all_people = Influence(values[1], parts[:, 1], None)
    return Influence(values[0], parts[:, 0], None), all_people, described
