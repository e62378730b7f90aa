"""What the scores of an evaluation share: people, weights, the null model, follow-up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from survival_objectives._arrays import BoolArray, FloatArray
from survival_objectives._people import take_rows
from survival_objectives.marginal import aalen_johansen
from survival_objectives.metrics._estimate import Estimate, estimate
from survival_objectives.metrics._influence import Influence, mean_influence
from survival_objectives.metrics._inputs import (
    WITH_ENTRY,
    CensoringSample,
    ScoredPeople,
    Weights,
    end_of_follow_up,
    ipcw_weights,
    warn_follow_up,
)
from survival_objectives.metrics._risk_groups import jackknife
from survival_objectives.metrics._scores import weighted_squared_errors

NAN_BEYOND = "The values there are NaN."


@dataclass(frozen=True)
class Workspace:
    """The people scored, and what is computed once for all scores of them.

    Attributes
    ----------
    scored : ScoredPeople
    floor : float
        Smaller censoring probabilities count as this one in the weights.
    """

    scored: ScoredPeople
    floor: float

    @cached_property
    def weights(self) -> Weights:
        """The weights (20)."""
        return ipcw_weights(self.scored, self.floor)

    @cached_property
    def null(self) -> Workspace:
        """The same people with the marginal incidences as curves."""
        scored = self.scored
        marginal = aalen_johansen(scored.target, scored.sample_weight)(scored.times).T
        states = np.broadcast_to(marginal, (scored.target.n_samples, *marginal.shape))
        return replace(self, scored=replace(scored, incidence=states, only_survival=False))

    def is_single(self, cause: int | None) -> bool:
        """Whether a score has one curve, so that its values have no axis of causes."""
        return self.scored.incidence.ndim == 2 or cause is not None

    def squared_errors(self, cause: int | None, *, integrated: bool = False) -> list[Influence]:
        """Influence on the Brier score of every curve asked for."""
        self.refuse_entry("brier")
        self.warn_weights(integrated=integrated)
        return [
            mean_influence(self.scored, self.weights, losses, self.floor)
            for losses in weighted_squared_errors(self.scored, self.weights, cause)
        ]

    def estimate(self, influence: Influence, limits: str = "plain") -> Estimate:
        """An estimate in whose error the rows of a person count together."""
        scored = self.scored
        is_scored = len(influence.people) == scored.target.n_samples
        return estimate(
            influence.summed(scored.group if is_scored else scored.sample_group), limits
        )

    def pseudo_observations(self, cause: int, column: int) -> FloatArray:
        """Equation (43) of a cause at one of the times."""
        pseudo = jackknife(self.scored.target, float(self.scored.times[column]))
        code = self.scored.cause_code(cause)
        return pseudo[:, code] if code else 1 - pseudo[:, 0]

    # ------------------------------------------------------------------------------------- parts
    def take(self, rows: npt.ArrayLike) -> Workspace:
        """Some of the people, by row numbers or a mask."""
        scored = self.scored
        chosen = np.arange(scored.target.n_samples)[np.asarray(rows)]
        if len(chosen) == 0 or not scored.sample_weight[chosen].any():
            msg = "There is no one to score among the rows taken."
            raise ValueError(msg)
        target, weight = scored.target.take(chosen), scored.sample_weight[chosen]
        part = replace(
            scored,
            target=target,
            incidence=scored.incidence[chosen],
            sample_weight=weight,
            X=None if scored.X is None else take_rows(scored.X, chosen),
            group=None if scored.group is None else scored.group[chosen],
        )
        if scored.sample is not None and scored.sample.rows is not None:
            order = scored.sample.rows
            if len(order) == scored.sample.target.n_samples:
                needed = not target.event.all()
                sample = CensoringSample.of(target, weight, np.arange(len(chosen)), needed=needed)
            else:  # At a landmark, others who come later are at risk of censoring too.
                sample = replace(scored.sample, rows=order[chosen])
            part = replace(part, sample=sample, censoring=sample.curve())
        return replace(self, scored=part)

    def only(self, column: int) -> Workspace:
        """The same people at one of the times."""
        scored = self.scored
        times, incidence = scored.times[[column]], scored.incidence[..., [column]]
        return replace(self, scored=replace(scored, times=times, incidence=incidence))

    def column(self, horizon: float | None) -> int:
        """Position of ``horizon`` among the times; None is the only one."""
        times = self.scored.times
        if horizon is None and len(times) > 1:
            msg = f"`times` has {len(times)} values; choose one with `horizon`."
            raise ValueError(msg)
        column = 0 if horizon is None else int(np.abs(times - horizon).argmin())
        if horizon is not None and times[column] != horizon:
            nearest = times[column]
            msg = f"`horizon` is {horizon:g}, which is not among `times`; nearest: {nearest:g}."
            raise ValueError(msg)
        return column

    # --------------------------------------------------------------------------- what is not known
    def followed(self) -> BoolArray:
        """Whether marginal curves are known at the times: at the last censoring they still are."""
        end = end_of_follow_up(self.scored.target, self.scored.sample_weight)
        return np.asarray(self.scored.times <= end)

    def warn_followed(self, consequence: str = NAN_BEYOND) -> None:
        """Warn of times at which marginal curves are not known."""
        last = self.scored.target.duration[self.scored.sample_weight > 0].max()
        reason = (
            f"the last person under observation is censored at {last:g}. Ask for times up to it."
        )
        warn_follow_up(self.scored.times, self.followed(), reason, consequence)

    def warn_weights(self, *, integrated: bool) -> None:
        """Warn of times at which weights are not known."""
        times, known = self.scored.times, self.weights.known
        consequence = NAN_BEYOND
        if integrated:
            end = f"ends at {times[known].max():g}" if known.any() else "is NaN"
            consequence = f"The integral {end}."
        warn_follow_up(times, known, self.weights.reason, consequence)

    def refuse_entry(self, score: str) -> None:
        """Raise an error if people enter late."""
        entry = self.scored.target.entry
        if entry is not None:
            msg = (
                f"`{score}` has no definition for people who enter late, as "
                f"{np.count_nonzero(entry)} of {len(entry)} do. {WITH_ENTRY}."
            )
            raise ValueError(msg)
