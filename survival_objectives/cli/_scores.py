"""Scores as tables and as JSON."""

from __future__ import annotations

from typing import Any

import pandas as pd

from survival_objectives.cli._outcomes import Events

_BETTER = {True: "higher", False: "lower"}


def score_table(assessment: Any, events: Events) -> str:
    """The scores of all models, one line per score."""
    summary = assessment.summary().T
    summary.index = pd.Index([_named(label, events) for label in summary.index])
    summary.insert(
        0, "better", [_BETTER[label.startswith("concordance")] for label in summary.index]
    )
    summary.columns.name = None
    lines = [summary.to_string()]
    for name, reason in assessment.unavailable.items():
        lines.append(f"\n{name} is unavailable: {reason}")
    return "\n".join(lines)


def assessment_content(assessment: Any, events: Events, title: str) -> dict[str, Any]:
    """The scores as data to store with the model."""
    summary = assessment.summary()
    scores = {
        model: {_named(label, events): value for label, value in row.items()}
        for model, row in summary.iterrows()
    }
    return {"title": title, "model": assessment.main, "scores": scores}


def _named(label: str, events: Events) -> str:
    """The label of a score with the name of the cause instead of its code."""
    metric, comma, code = label.rpartition(", cause ")
    if not comma:
        return label
    return f"{metric}, {events.names[int(code)]}" if len(events.names) > 2 else metric
