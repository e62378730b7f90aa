"""Text of the parameters and attributes that the objectives of all engines share."""

PARAMETERS = """Parameters
    ----------
    X : array or DataFrame of shape (n_samples, n_features)
        Numbers with NaN for missing; frames (pandas, polars) may have categorical columns.
    y : DataFrame, dict, structured array, tuple or array
        Outcomes: ``event`` (0 = censored, 1..K = causes) and ``duration``; see
        `survival_objectives._people.check_survival_target` for the accepted forms.
    n_horizons : int, default=4
        Horizons at which each person is observed: stacked rows per person.
    horizon_sampler : {"uniform", "stratified", "events", "mixture"} or callable, default="mixture"
        Where horizons fall; see `survival_objectives.stacking.TimeStacker`. "uniform" is the
        paper's.
    horizon_max : float, optional
        Latest horizon. Default: the longest duration or, if earlier, the time after which fewer
        than one in ten are uncensored; predictions after it continue with the hazards of the
        population.
    hard_zero_fraction : float, default=0.0
        Share of rows whose horizon is exactly 0.
    refresh_every : int, default=10
        Rounds between two refreshes of the censoring weights, where `refresh` is used.
    censoring : "kaplan-meier" or CensoringModel, default="kaplan-meier"
        Where the weights come from before (or without) any refresh. A model of your own is kept as
        it is.
    completion : CompletionModel or "hazards", optional
        Complete people who were censored before a horizon by a distribution over the states
        (equation (46)) instead of weighting the others. Your
        own model must not have been fitted to the same people. "hazards": hazard models of
        the same engine, cross-fitted on two halves of the people. Every row then counts 1, and
        there is nothing to refresh.
    doubly_robust : bool, default=False
        Keep the rows of people who were censored, with targets that combine weights and
        completion (equation (47)): they are right if either
        the model of censoring or that of the events is. `refresh` computes them from both models,
        from its second time on; before that, rows are weighted.
    margins : {"reference", "free"}, default="reference"
        Link: K margins with the event-free one fixed at 0, or the K + 1 margins of the paper; see
        `survival_objectives.losses`.
    start : {"constant", "marginal", "zero"}, default="constant"
        Where boosting starts: at the best constant, at the Aalen-Johansen curve (fewer rounds, but
        with ``monotone`` individual odds then rise at least as fast as marginal odds), or at 0.
    monotone : bool, optional
        Whether survival curves never rise in time, by a constraint on every tree. Needs the
        reference link. Default: True where link and engine allow it.
    min_censoring_survival : float, default=0.05
        Floor of G in the weights, so that no weight exceeds its inverse. A lower floor has
        less bias and more variance. ``n_floored_`` counts the rows it touches.
    min_event_survival : float, default=0.05
        The same for the event-free probability in the weights of the censoring model.
    sample_weight : array of shape (n_samples,), optional
        Weights of people, relative to each other: they are divided by their mean. People of weight
        0 are left out, with the causes that only they have.
    random_state : int, Generator, RandomState or None
        Seed of the horizons and of the engine.

    Attributes
    ----------
    event_ids_ : array of shape (K + 1,)
        Labels of the curves: 0 for event-free, then the causes.
    event_names_ : tuple of str, or None
        Names of the states, if the events are text.
    censoring_ : CensoringModel
        The current model of censoring.
    n_floored_ : int
        Training rows whose weight the floor limits.
    completion_ : CompletionModel or None
        What completed people who were censored.
    refreshes_ : list of RefreshRecord
        What each refresh of the last training did."""
