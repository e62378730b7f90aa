"""How a model shows itself: one line in a terminal, a small table in a notebook."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np


def rounds_of(model: Any) -> str:
    """How many rounds of trees a model has, in words."""
    if not model.n_estimators_:
        linear = getattr(model, "member_weights_", {}).get("linear")
        return f"{'linear hazards' if linear else 'one curve'} only: no tree was worth its place"
    return f"{model.n_estimators_:,} rounds"


class DisplayMixin:
    """What a fitted model is, added to the display of a scikit-learn estimator."""

    def _facts(self) -> dict[str, str]:
        """Engine, people, events, treatment of censoring and horizon, as far as they are known."""
        model: Any = self
        if not model.__sklearn_is_fitted__():
            return {}
        facts = {"engine": f"{model.engine_}, {rounds_of(model)}"}
        counts = getattr(model, "n_events_", None)
        names = model.event_names_
        if counts is not None:
            facts["people"] = f"{int(np.sum(counts))}, {int(counts[0])} censored"
            seen = zip(names[1:], counts[1:], strict=True)
            facts["events"] = ", ".join(f"{int(count)} {name}" for name, count in seen)
        else:
            facts["events"] = ", ".join(names[1:])
        weights = getattr(model, "member_weights_", None)
        if weights is None:
            facts["censoring"] = str(model.censoring_method_)
        else:
            facts["hazards"] = ", ".join(f"{kind} {one:.2f}" for kind, one in weights.items())
        facts["horizon"] = f"{model.times_[-1]:g}"
        return facts

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Parameters as scikit-learn shows them; of a fitted model also what it was fitted to."""
        text: str = super().__repr__(N_CHAR_MAX)  # type: ignore[call-arg]
        facts = "; ".join(f"{name}: {value}" for name, value in self._facts().items())
        return f"{text}\n# {facts}" if facts else text

    def _repr_html_inner(self) -> str:
        return self._facts_html() + str(super()._repr_html_inner())  # type: ignore[misc]

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._facts_html() + bundle["text/html"]
        return bundle

    def _facts_html(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th>"
            f"<td style='text-align:left'>{escape(value)}</td></tr>"
            for name, value in self._facts().items()
        )
        return f"<table>{rows}</table>" if rows else ""
