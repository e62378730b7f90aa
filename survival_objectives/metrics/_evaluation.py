"""The validation of a model on people it was not trained on, as one object."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from survival_objectives._arrays import FloatArray, IntArray
from survival_objectives._people import (
    check_choice,
    check_fraction,
    check_groups,
    check_positive_int,
)
from survival_objectives.metrics._decisions import (
    checked_thresholds,
    net_benefit,
    net_benefit_over_time,
)
from survival_objectives.metrics._distribution import ProbabilityBins, probability_bins
from survival_objectives.metrics._estimate import Estimate
from survival_objectives.metrics._influence import (
    Influence,
    auc_influence,
    changing_concordance_influence,
    concordance_influence,
    mean_influence,
    ratio_influence,
    stacked,
)
from survival_objectives.metrics._inputs import (
    FollowUpWarning,
    at_landmark,
    check_scored,
    warn_follow_up,
)
from survival_objectives.metrics._likelihood import likelihood_losses
from survival_objectives.metrics._risk_groups import RiskGroups, jackknife, risk_groups
from survival_objectives.metrics._scores import accuracy, integrated_score, weighted_vector_losses
from survival_objectives.metrics._smooth import (
    Calibration,
    calibration,
    observed_expected_influence,
)
from survival_objectives.metrics._tables import (
    ScoreRow,
    Scores,
    differences_of,
    group_table,
    joined_groups,
    levels_of,
    score_rows,
    table_of,
)
from survival_objectives.metrics._workspace import NAN_BEYOND, Workspace


class Evaluation:
    r"""Scores of predicted curves, with standard errors and 95 % limits.

    Every method computes one score when it is asked for; what they share, such as the weights (20),
    is computed once. `table` has the scores that a validation reports, `by` has them for subgroups
    and `compare` the differences from another model on the same people.

    Limits are for the score that these curves would have on infinitely many people like these: a
    model is judged, not a way of fitting it. The error of the Kaplan-Meier weights counts.

    Parameters
    ----------
    y_train : outcomes, CensoringModel or None
        Training outcomes, whose censoring is then estimated by Kaplan-Meier, or any model with the
        method of `survival_objectives.censoring.CensoringModel`, an oracle included. With None, or
        outcomes equal to ``y``, the censoring of the people scored, as for new data.
    y : outcomes
        What happened to the people predicted for. In a long table, curves are of the features of
        each row; `likelihood` and `concordance` take it, and at a `landmark` all scores do.
    curves : array of shape (n_samples, K + 1, n_times) or (n_samples, n_times)
        Predicted probabilities by any package, the event-free one first. In two dimensions: the
        event-free probability, or the incidence of the ``cause`` that a method is asked for.
    times : array of shape (n_times,)
        Horizons, in any order.
    X : features, optional
        Features of the people, for a censoring model that depends on them.
    sample_weight : array of shape (n_samples,), optional
        A weight of 2 acts like a repeated person in a score; people stay the units of its error.
    groups : array of shape (n_samples,), optional
        Person of each row, where people have several: they count as one in the errors.
    event_ids : array of shape (K + 1,), optional
        Labels of the curves, 0 first. Default: those of the outcomes.
    landmark : float, optional
        A time s, one of ``times``. Scored are the people with entry <= s < duration, at the later
        times, on curves and weights conditional on s. Where people enter late, all scores but
        `likelihood` and `concordance` need it.
    min_censoring_survival : float, default=0.0
        Smaller censoring probabilities count as this one in the weights.

    Attributes
    ----------
    times : float64 array
        Those that are scored, after the landmark.
    event_ids : int64 array of shape (K + 1,)
        Labels, 0 first.

    Notes
    -----
    The ``cause`` of a method is a label, or 0: being event-free, which for scores of risks is any
    event. Default: all of them, as the first axis of the values.

    Examples
    --------
    >>> y = ([1, 0, 1, 1, 0, 1], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    >>> survival = [[0.3], [0.5], [0.4], [0.6], [0.7], [0.8]]
    >>> found = Evaluation(None, y, survival, [2.5]).brier()
    >>> found.value.round(3), found.standard_error.round(3), found.lower.round(3)
    (array([0.15]), array([0.057]), array([0.038]))
    """

    def __init__(
        self,
        y_train: Any,
        y: Any,
        curves: npt.ArrayLike,
        times: npt.ArrayLike,
        *,
        X: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        event_ids: npt.ArrayLike | None = None,
        landmark: float | None = None,
        min_censoring_survival: float = 0.0,
    ) -> None:
        scored = check_scored(y_train, y, curves, times, X, sample_weight, event_ids)
        group = check_groups(groups, scored.target.n_samples)
        scored = replace(scored, group=scored.target.person if group is None else group)
        if landmark is not None:
            scored = at_landmark(scored, landmark)
        floor = check_fraction(min_censoring_survival, "min_censoring_survival", one=False)
        self.workspace = Workspace(scored, floor)

    @property
    def times(self) -> FloatArray:
        """Times that are scored."""
        return self.workspace.scored.times

    @property
    def event_ids(self) -> IntArray:
        """Labels of the curves, 0 first."""
        return self.workspace.scored.target.event_ids

    def __len__(self) -> int:
        """Number of people scored."""
        return self.workspace.scored.target.n_samples

    def take(self, rows: npt.ArrayLike) -> Self:
        """The evaluation of some of the people scored, by row numbers or a mask.

        Weights from the censoring of the people scored become those of the people taken.
        """
        part = copy.copy(self)
        part.workspace = self.workspace.take(rows)
        return part

    def at(self, horizon: float) -> Self:
        """The evaluation at one of its ``times``."""
        part = copy.copy(self)
        part.workspace = self.workspace.only(self.workspace.column(horizon))
        return part

    # ------------------------------------------------------------------------------- proper scores
    def brier(
        self, cause: int | None = None, *, integrated: bool = False, rule: str = "trapezoid"
    ) -> Estimate:
        r"""Brier score at each time, or integrated over time.

            BS_k(z) = mean_i w_i(z) (F_k(z|x_i) - Y_k(z))^2                                     (22)

        with Y_k(z) = [t_i <= z, d_i = k] and Y_0(z) = [t_i > z]. Strictly proper for F_k(z|x), with
        the true censoring probabilities in (20); Kaplan-Meier weights need censoring that does not
        depend on x. With k = 0 it is the score of Graf et al. (1999), with k > 0 that of Schoop et
        al. (2011). Lower is better.

        Parameters
        ----------
        cause : int, optional
            Label of a cause, or 0 for being event-free. Default: all of them.
        integrated : bool, default=False
            Whether to average over time by (25). Times beyond follow-up are left out.
        rule : {"trapezoid", "steps"}, default="trapezoid"
            How to integrate: "steps" is (60), as R's riskRegression and pec report.
        """
        parts = self.workspace.squared_errors(cause, integrated=integrated)
        if integrated:
            return self._integrated(parts, cause, rule)
        return self._estimate(parts, cause, "loss")

    def scaled_brier(self, cause: int | None = None) -> Estimate:
        r"""Share of the Brier score that the model explains, the index of prediction accuracy.

            IPA_k(z) = 1 - BS_k(z) / BS_k^null(z)                                               (21)

        The null model predicts the Aalen-Johansen incidence of the people scored for all of them.
        1 is perfect, 0 no better than that, and less is worse.
        """
        work = self.workspace
        found = work.squared_errors(cause)
        # In two dimensions, curves without a cause are event-free probabilities.
        is_survival = cause is None and work.is_single(cause)
        null = work.null.squared_errors(0 if is_survival else cause)
        return self._estimate(
            [ratio_influence(*pair) for pair in zip(found, null, strict=True)], cause
        )

    def log_loss(self, *, integrated: bool = False, min_probability: float = 1e-15) -> Estimate:
        r"""Log-loss of all incidences at each time, the paper's L_zeta, or integrated over time.

            L(z) = -mean_i w_i(z) sum_{k=0..K} Y_k(z) log F_k(z|x_i)                            (23)

        Strictly proper for the vector (F_0, ..., F_K) at z, with the true censoring probabilities
        in (20) (Theorem 4.2 of Alberge et al., AISTATS 2025, where the sign is the other one).
        Event-free curves alone are scored as K = 1. Lower is better.

        Parameters
        ----------
        integrated : bool, default=False
            As in `brier`.
        min_probability : float, default=1e-15
            Smaller predicted probabilities count as this one, so that the loss is finite.
        """
        work = self.workspace
        work.refuse_entry("log_loss")
        work.warn_weights(integrated=integrated)
        losses = weighted_vector_losses(work.scored, work.weights, min_probability)
        part = mean_influence(work.scored, work.weights, losses, work.floor)
        return self._integrated([part], 0) if integrated else work.estimate(part, "loss")

    def likelihood(
        self,
        *,
        n_nodes: int = 32,
        nodes: npt.ArrayLike | None = None,
        min_probability: float = 1e-15,
    ) -> Estimate:
        """Minus the log-likelihood per person in intervals of time, S_Cen-log-simple.

        Equation (30) (Yanagisawa, 2023), conditional on entry (97). No weights, so no model of
        censoring: the likelihood needs only an event time independent of censoring and entry given
        x. It is proper where incidences are linear between the nodes, and
        an approximation of the log-likelihood, which is proper, otherwise: people censored early in
        an interval are charged for surviving all of it. Lower is better.

        Parameters
        ----------
        n_nodes : int, default=32
            B: the nodes cut the time up to the last of ``times`` into B equal intervals.
        nodes : array of shape (B + 1,), optional
            Nodes to use instead. Curves are read at the nodes by linear interpolation, from the
            event-free state at time 0.
        min_probability : float, default=1e-15
            Smaller predicted probabilities count as this one, so that the score is finite.
        """
        scored = self.workspace.scored
        losses, counts = likelihood_losses(scored, n_nodes, nodes, min_probability)
        one_per_person = counts.copy()
        if scored.target.person is not None:
            rows = np.flatnonzero(counts)
            one_per_person[:] = False
            one_per_person[rows[np.unique(scored.target.person[rows], return_index=True)[1]]] = True
        weight = scored.sample_weight / (scored.sample_weight @ one_per_person)
        mean = weight @ (losses * counts)
        influence = weight * (losses * counts - mean * one_per_person)
        return self.workspace.estimate(Influence(mean, influence, None))

    # ------------------------------------------------------------------------------ discrimination
    def auc(self, cause: int | None = None, *, controls: str = "all") -> Estimate:
        """Area under the cumulative/dynamic ROC curve (28) at each time, weighted for censoring.

        Cases have had the cause by then. Not proper: it does not see calibration. Higher is better,
        0.5 is chance.

        Parameters
        ----------
        cause : int, optional
            Label of a cause, or 0 for any event. Default: all of them.
        controls : {"all", "event-free"}, default="all"
            Whether controls are all others, or only those to whom nothing has happened (Blanche et
            al., 2013); the two agree for K = 1.
        """
        check_choice(controls, "controls", ("all", "event-free"))
        work = self.workspace
        work.refuse_entry("auc")
        parts = [
            auc_influence(work.scored, work.weights, code, risk, controls, work.floor)
            for code, risk in work.scored.risks(cause)
        ]
        return self._ranked(parts, cause)

    def concordance(
        self, cause: int | None = None, *, weighted: bool = True, changing: bool = False
    ) -> Estimate:
        """Concordance index (26) at each time, the paper's C_zeta, or that of Antolini et al.

        A person who had the cause by then is compared with those who had it later or, as a
        competing event came first, never (Wolbers et al., 2014), weighted for censoring. Not
        proper. Higher is better, 0.5 is chance.

        Parameters
        ----------
        cause : int, optional
            Label of a cause, or 0 for any event. Default: all of them.
        weighted : bool, default=True
            Whether pairs are weighted for censoring. False puts G = 1, as Harrell does; what it
            estimates then depends on the censoring. Where people enter late, pairs are not
            weighted, and are of people who are at risk together (as in R's ``concordance``).
        changing : bool, default=False
            Antolini's index (24), without weights: a person with the event is compared with those
            still at risk, by risks at the first of ``times`` from the event on, up to z. Give many
            times.
        """
        scored, floor = self.workspace.scored, self.workspace.floor
        risks = scored.risks(cause)
        if changing:
            return self._ranked([changing_concordance_influence(scored, *r) for r in risks], cause)
        if not weighted or scored.target.entry is not None:
            scored = replace(scored, censoring=None, sample=None)
        return self._ranked([concordance_influence(scored, *r, floor) for r in risks], cause)

    # --------------------------------------------------------------------------------- calibration
    def observed_expected(self, cause: int | None = None) -> Estimate:
        """Ratio of the observed to the expected incidence at each time.

        Equation (36): observed is the Aalen-Johansen incidence of the people scored. 1 for a model
        that is right on average; of a model that predicts too much it is below 1.
        """
        work = self.workspace
        work.refuse_entry("observed_expected")
        work.warn_followed()
        known = work.followed()
        parts = [
            observed_expected_influence(work.scored, code, risk).map(
                lambda values: np.where(known, values, np.nan)
            )
            for code, risk in work.scored.risks(cause)
        ]
        return self._estimate(parts, cause, "log")

    def calibration(self, cause: int, horizon: float | None = None) -> Calibration:
        """Smooth calibration curve of a cause at one of the times, and what sums it up.

        Parameters
        ----------
        cause : int
            Label of a cause, or 0 for any event.
        horizon : float, optional
            One of ``times``. Default: the only one.

        Returns
        -------
        Calibration
            The curve and its limits, ``observed_expected``, ``intercept``, ``slope``, ``ici``,
            ``e50``, ``e90``, ``emax``, ``root_squared_bias``, and ``p_value``.
        """
        self.workspace.refuse_entry("calibration")
        work = self.workspace.only(self.workspace.column(horizon))
        work.warn_followed("Curves stay flat there.")
        ((code, risk),) = work.scored.risks(cause)
        ratio = observed_expected_influence(work.scored, code, risk)
        return calibration(
            cause,
            float(work.scored.times[0]),
            risk[:, 0],
            work.pseudo_observations(cause, 0),
            work.scored.sample_weight,
            work.estimate(ratio.map(lambda parts: parts[..., 0]), "log"),
            work.scored.group,
        )

    def risk_groups(
        self, cause: int, horizon: float | None = None, *, n_groups: int = 10
    ) -> RiskGroups:
        """Observed and predicted incidence in groups of similar risk, with a chi-square test."""
        self.workspace.refuse_entry("risk_groups")
        work = self.workspace.only(self.workspace.column(horizon))
        work.warn_followed()
        return risk_groups(work.scored, cause, check_positive_int(n_groups, "n_groups"))

    def d_calibration(self, *, n_bins: int = 10) -> ProbabilityBins:
        """Chi-square test that event-free probabilities at the event times are uniform."""
        self.workspace.refuse_entry("d_calibration")
        return probability_bins(self.workspace.scored, check_positive_int(n_bins, "n_bins"))

    def pseudo_observations(self, horizon: float | None = None) -> FloatArray:
        """Jackknife values of the Aalen-Johansen estimator at a time, (n_samples, K + 1).

        Equation (43). Rows sum to 1. Without censoring they are the outcomes. In expectation given
        x they are the incidences, approximately, if censoring is independent of the event and of x;
        so their mean in any group is an observed incidence, and they are outcomes of regressions.
        """
        self.workspace.refuse_entry("pseudo_observations")
        work = self.workspace.only(self.workspace.column(horizon))
        work.warn_followed("Curves stay flat there.")
        return jackknife(work.scored.target, float(work.scored.times[0]))

    # ----------------------------------------------------------------------------------- decisions
    def net_benefit(
        self,
        cause: int,
        horizon: float | None = None,
        *,
        thresholds: npt.ArrayLike | None = None,
    ) -> pd.DataFrame:
        """Net benefit of treating people whose risk exceeds a threshold, beside treating all.

        Equation (33): observed by Aalen-Johansen among the people treated; people with a competing
        event count as people without the event. Treating no one has a net benefit of 0.

        Parameters
        ----------
        cause : int
            Label of a cause, or 0 for any event.
        horizon : float, optional
            One of ``times``. Default: the only one.
        thresholds : array, optional
            Values q in (0, 1). Default: 0.05, 0.1, ..., 0.95.

        Returns
        -------
        DataFrame
            One row per threshold: ``net_benefit``, ``standard_error``, ``lower``, ``upper``; the
            same of treating all (``all``, ...); of the difference (``gain``, ...); and the shares
            of people who are ``treated``, ``caught`` (treated, with the event), ``missed`` (not
            treated, with the event) and ``spared`` (not treated, without it).
        """
        self.workspace.refuse_entry("net_benefit")
        work = self.workspace.only(self.workspace.column(horizon))
        work.warn_followed()
        return net_benefit(work, cause, thresholds)

    # ------------------------------------------------------------------------------ other measures
    def accuracy(self, *, weighted: bool = False) -> FloatArray:
        """Share of people whose most probable state at each time is the one observed, (31)."""
        self.workspace.refuse_entry("accuracy")
        weights = self.workspace.weights if weighted else None
        values, known, reason = accuracy(self.workspace.scored, weights)
        warn_follow_up(self.times, known, reason, NAN_BEYOND)
        return values

    # -------------------------------------------------------------------------------------- tables
    def table(self, cause: int | None = None, *, thresholds: npt.ArrayLike = ()) -> pd.DataFrame:
        """The scores that a validation reports, one row per score, cause and time.

        Parameters
        ----------
        cause : int, optional
            Label of a cause. Default: all causes.
        thresholds : array, optional
            Risks in (0, 1) at which the net benefit of treating is a score too, named
            "net_benefit_0.2".

        Returns
        -------
        DataFrame
            ``score``, ``cause``, ``time``, ``value``, ``standard_error``, ``lower``, ``upper``.
            Where people enter late: the concordance of people at risk together.
        """
        return table_of(self._rows(cause, thresholds))

    def compare(
        self, other: Evaluation, cause: int | None = None, *, thresholds: npt.ArrayLike = ()
    ) -> pd.DataFrame:
        """Differences from another model on the same people: this one minus the other.

        Parameters
        ----------
        other : Evaluation
            Of other curves, by any package, with the same outcomes and times.
        cause, thresholds
            As in `table`.

        Returns
        -------
        DataFrame
            As `table`, with ``difference`` and ``p_value``. What is common to both models cancels
            out person by person.
        """
        same = np.array_equal(self.times, other.times) and np.array_equal(
            self.workspace.scored.target.duration, other.workspace.scored.target.duration
        )
        if not same:
            msg = "The evaluations are of other people or times; a comparison needs the same."
            raise ValueError(msg)
        return differences_of(self._rows(cause, thresholds), other._rows(cause, thresholds))

    def by(
        self, column: npt.ArrayLike, cause: int | None = None, *, thresholds: npt.ArrayLike = ()
    ) -> pd.DataFrame:
        """The `table` of every group of people, with numbers of people and events.

        Parameters
        ----------
        column : array of shape (n_samples,)
            Group of each person scored: labels, or numbers, which are cut at quartiles if there are
            more than ten. People without a value are the group "missing".
        cause, thresholds
            As in `table`.

        Returns
        -------
        DataFrame
            `table` with ``group``, ``n_people`` and ``n_events`` (of the cause, by the time) first.
            A warning names groups that are too small for their limits to be trusted.
        """
        labels = levels_of(column, len(self))
        tables = []
        for level in labels.categories:
            part = self.take(np.flatnonzero(labels == level))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FollowUpWarning)
                table = part.table(cause, thresholds=thresholds)
            tables.append(group_table(level, part.workspace, table))
        return joined_groups(tables)

    # -------------------------------------------------------------------------------------- pieces
    def _rows(self, cause: int | None, thresholds: npt.ArrayLike) -> Iterator[ScoreRow]:
        scores: Scores = {"concordance": self.concordance}
        if self.workspace.scored.target.entry is None:
            others = (self.brier, self.scaled_brier, self.auc, self.observed_expected)
            scores |= {method.__name__: method for method in others}
        if len(np.atleast_1d(thresholds)):
            self.workspace.refuse_entry("net_benefit")
            scores |= {
                f"net_benefit_{threshold:g}": partial(self._benefit, threshold=threshold)
                for threshold in checked_thresholds(thresholds).tolist()
            }
        return score_rows(self.workspace, scores, cause)

    def _benefit(self, cause: int | None, threshold: float) -> Estimate:
        return self.workspace.estimate(net_benefit_over_time(self.workspace, cause, threshold))

    def _estimate(
        self, parts: list[Influence], cause: int | None, limits: str = "plain"
    ) -> Estimate:
        single = self.workspace.is_single(cause)
        return self.workspace.estimate(parts[0] if single else stacked(parts), limits)

    def _integrated(
        self, parts: list[Influence], cause: int | None, rule: str = "trapezoid"
    ) -> Estimate:
        over_time = partial(integrated_score, times=self.times, rule=rule)
        return self._estimate([part.map(over_time) for part in parts], cause, "loss")

    def _ranked(self, parts: list[Influence], cause: int | None) -> Estimate:
        found = self._estimate(parts, cause, "logit")
        defined = np.asarray(~np.isnan(np.atleast_2d(found.value)).any(axis=0))
        reason = (
            "there is no pair of people to compare, or the probability of being uncensored is 0 or "
            "unknown. Ask for times after the first event and before the last censoring."
        )
        warn_follow_up(self.times, defined, reason, NAN_BEYOND)
        return found
