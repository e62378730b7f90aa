"""What an estimator asks to be trained: its parameters, checked and resolved once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from survival_objectives._engines.protocol import (
    ENGINES,
    Engine,
    engine,
    installed_engine,
    is_installed,
)
from survival_objectives._models.checks import warn_about_model
from survival_objectives._models.fitted import FittedModel, snapshot
from survival_objectives._models.run import Run
from survival_objectives._people import (
    SurvivalTarget,
    check_choice,
    check_random_state,
    warn_about_outcomes,
)
from survival_objectives._people.labels import EventLabels, names_of
from survival_objectives._training.fit import Settings


@dataclass(frozen=True)
class Request:
    """One training of an estimator.

    Attributes
    ----------
    settings : HazardSettings or HorizonSettings
    engine : Engine
    parameters : dict
        As passed to the constructor; they are kept with the model for its copy after loading.
    previous : FittedModel, optional
        The model that a warm start continues.
    """

    settings: Settings
    engine: Engine
    parameters: dict[str, Any]
    previous: FittedModel | None

    @classmethod
    def of(
        cls,
        parameters: Mapping[str, Any],
        fitted: FittedModel | None,
        settings: Callable[[Mapping[str, Any], Engine], Settings],
    ) -> Request:
        """The request of an estimator, or an error that names a parameter and the way out."""
        wanted = check_choice(parameters["engine"], "engine", tuple(ENGINES))
        previous = fitted if parameters["warm_start"] else None
        if previous is None:
            used = engine(installed_engine(wanted))
        else:
            used = engine(_same_engine(previous, wanted))
        found = settings(parameters, used)
        if previous is not None and found.n_rounds and found.n_rounds <= previous.n_rounds:
            msg = (
                f"`n_estimators` is {found.n_rounds}, but the model to continue has "
                f"{previous.n_rounds} rounds already. Raise it, or set `warm_start=False`."
            )
            raise ValueError(msg)
        return cls(found, used, snapshot(parameters), previous)

    def run(self, generator: np.random.Generator | None = None, **others: Any) -> Run:
        """What the training runs with."""
        if generator is None:
            generator = check_random_state(self.parameters["random_state"])
        return Run(self.engine, generator, previous=self.previous, **others)

    def check_people(self, target: SurvivalTarget) -> None:
        """Warn if outcomes of a first training look miscoded."""
        if self.previous is None:
            warn_about_outcomes(target)

    def check_eval_set(self, eval_set: Any) -> None:
        """Raise an error if a parameter has no effect beside held-out people."""
        name, default = self.settings.holds_out
        if eval_set is not None and self.parameters[name] != default:
            msg = (
                f"`{name}` is {self.parameters[name]!r}, but has no effect beside `eval_set`, "
                "whose people are held out instead. Leave out one of them."
            )
            raise ValueError(msg)

    def check_no_own_model(self, where: str) -> None:
        """Raise an error if a parameter is a model of the user's own, which needs all people.

        ``where`` is where they would have to be, such as "in memory".
        """
        name = self.settings.own_model
        if name is not None:
            msg = (
                f"`{name}` is a {type(self.parameters[name]).__name__}; a model of your own needs "
                f"all people {where}. Leave it out here."
            )
            raise ValueError(msg)

    def finished(self, model: FittedModel, labels: EventLabels | None) -> FittedModel:
        """The trained model with the names of its states and the parameters of the estimator.

        Warns if its probabilities are biased, or the same for all people.
        """
        names = names_of(labels, model.frame.event_ids)
        if labels is None and self.previous is not None:
            names = self.previous.frame.event_names
        model = model.with_frame(event_names=names, parameters=self.parameters)
        warn_about_model(model)
        return model


def _same_engine(previous: FittedModel, wanted: str) -> str:
    used = previous.frame.engine
    if used != wanted and is_installed(wanted):
        msg = (
            f"The model to continue was trained by {used}, not {wanted}. "
            f'Use `engine="{used}"`, or set `warm_start=False`.'
        )
        raise ValueError(msg)
    return used
