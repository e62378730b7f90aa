"""From a fitted model and its assessment to one HTML file."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from survival_objectives._people import (
    check_features,
    check_same_people,
    check_survival_target,
    take_rows,
)
from survival_objectives._process.files import is_stream, replacing
from survival_objectives.assessment import Assessment
from survival_objectives.estimators import HazardBoost, SurvivalBoost
from survival_objectives.report._facts import Study
from survival_objectives.report._in_short import Findings, InShort, find, in_short_of
from survival_objectives.report._page import page


def write_report(
    path: str | os.PathLike[str],
    *,
    model: HazardBoost | SurvivalBoost,
    X: Any,
    y: Any,
    assessment: Assessment,
    event_names: Sequence[str] | None = None,
    title: str = "Survival report",
    duration_name: str = "time",
    time_unit: str | None = None,
    description: str | None = None,
    cautions: Sequence[str] = (),
    show_people: bool = True,
    overwrite: bool = False,
) -> Path:
    """Write a report on a model as one HTML file that needs nothing else.

    It holds the features of three people of the data as examples, without row numbers or outcomes
    (`show_people=False` leaves them out), and otherwise only summaries.

    Parameters
    ----------
    path : path
        Where to write. The file appears when it is complete.
    model : HazardBoost or SurvivalBoost
        Fitted, usually on all of ``X`` and ``y``.
    X : array or DataFrame of shape (n_samples, n_features)
        The people.
    y : outcomes
        ``event`` and ``duration``, as everywhere in this package.
    assessment : Assessment
        Result of `survival_objectives.assessment.assess` for the same model and people.
    event_names : sequence of str, length K + 1, optional
        Names of the labels, in their order, the one of 0 first. Default: those of the model's
        ``event_names_``. "censored" is shown as "event-free" where it is about predictions.
    title : str, default="Survival report"
        Heading of the page.
    duration_name : str, default="time"
        What durations are called; axes are labelled with it.
    time_unit : str, optional
        Unit of the durations, such as "days". Times are then "7 days" instead of "time 7".
    description : str, optional
        A paragraph below the heading: where the data come from, and whom they describe.
    cautions : sequence of str
        Sentences to print before those that the report finds itself.
    show_people : bool, default=True
        Whether three rows of the data are printed as examples. Otherwise the curves of examples are
        means of groups of people, without features.
    overwrite : bool, default=False
        Whether an existing file may be replaced.

    Returns
    -------
    Path
        Where the report is.
    """
    study = checked_study(model, X, y, assessment, event_names, duration_name, time_unit)
    return Report(study).write(
        path,
        title=title,
        description=description,
        cautions=cautions,
        show_people=show_people,
        overwrite=overwrite,
    )


def in_short(
    *,
    model: HazardBoost | SurvivalBoost,
    X: Any,
    y: Any,
    assessment: Assessment,
    event_names: Sequence[str] | None = None,
    duration_name: str = "time",
    time_unit: str | None = None,
) -> InShort:
    """Sentences that sum up a model, and its cautions: the top of the report as text.

    Parameters
    ----------
    model, X, y, assessment, event_names, duration_name, time_unit
        As in `write_report`.

    Returns
    -------
    InShort
        ``sentences`` and ``cautions``.
    """
    study = checked_study(model, X, y, assessment, event_names, duration_name, time_unit)
    return Report(study).in_short()


@dataclass(frozen=True)
class Report:
    """A checked study, whose findings are computed once for the page and its summary."""

    study: Study

    @cached_property
    def findings(self) -> Findings:
        """Everything that the report writes or draws."""
        return find(self.study)

    def in_short(self) -> InShort:
        """The top of the page as text."""
        return in_short_of(self.study, self.findings)

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        title: str,
        description: str | None = None,
        cautions: Sequence[str] = (),
        show_people: bool = True,
        overwrite: bool = False,
    ) -> Path:
        """Write the page; parameters as in `write_report`."""
        destination = checked_path(path, overwrite=overwrite)
        layout = template("report.html")
        _check_text(title, "title")
        script = source("script.js")
        content = page(
            self.study, self.findings, title=title, description=description, show_people=show_people
        )
        opening: InShort = content["in_short"]
        content["in_short"] = replace(opening, cautions=[*cautions, *opening.cautions])
        html = layout.render(
            **content, style=source("style.css"), script=script, script_hash=_hash(script)
        )
        write_whole(destination, html, overwrite=overwrite)
        return destination


# ----------------------------------------------------------------------------------------- checks
def _check_text(text: Any, name: str) -> None:
    if not isinstance(text, str) or not text.strip():
        msg = f"`{name}` must be text; got {text!r}."
        raise TypeError(msg)


def checked_path(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Where to write a page; an error if something is there or there is no such folder."""
    destination = Path(path)
    if destination.is_dir():
        msg = f"{str(destination)!r} is a folder. Give the name of a file in it."
        raise IsADirectoryError(msg)
    if not destination.parent.is_dir():
        msg = f"The folder {str(destination.parent)!r} does not exist. Make it first."
        raise FileNotFoundError(msg)
    if destination.exists() and not (overwrite or is_stream(destination)):
        msg = f"{str(destination)!r} exists already. Use another name, or `overwrite=True`."
        raise FileExistsError(msg)
    return destination


def checked_study(
    model: Any,
    X: Any,
    y: Any,
    assessment: Any,
    event_names: Sequence[str] | None = None,
    duration_name: str = "time",
    time_unit: str | None = None,
) -> Study:
    """The study of a report; parameters as in `write_report`."""
    _check_text(duration_name, "duration_name")
    if time_unit is not None:
        _check_text(time_unit, "time_unit")
    if not isinstance(model, HazardBoost | SurvivalBoost):
        msg = f"`model` must be a fitted HazardBoost or SurvivalBoost; got {type(model).__name__}."
        raise TypeError(msg)
    check_is_fitted(model)
    if not isinstance(assessment, Assessment):
        msg = (
            f"`assessment` must come from `survival_objectives.assessment.assess`; got "
            f"{type(assessment).__name__}."
        )
        raise TypeError(msg)
    target = check_survival_target(y, event_ids=model.event_ids_)
    X = X if hasattr(X, "shape") else np.asarray(X)
    features = check_features(X)
    check_same_people(features.n_samples, target.n_samples)
    # A first prediction fails early if the columns are not those of training.
    model.predict_proba(take_rows(X, np.arange(1)))
    if not np.array_equal(assessment.event_ids, model.event_ids_):
        msg = (
            f"`assessment` is of the labels {assessment.event_ids.tolist()}, but `model` predicts "
            f"{model.event_ids_.tolist()}. Assess the model on the data it was trained on."
        )
        raise ValueError(msg)
    if assessment.index.max() >= target.n_samples:
        msg = (
            f"`assessment` is of row {assessment.index.max()}, but `X` has {target.n_samples} "
            "rows. Pass the people that were assessed."
        )
        raise ValueError(msg)
    states = _state_names(event_names, model)
    return Study(model, X, features, target, assessment, states, duration_name, time_unit)


def _state_names(
    event_names: Sequence[str] | None, model: HazardBoost | SurvivalBoost
) -> tuple[str, ...]:
    labels = model.event_ids_.tolist()
    if event_names is None:
        return model.event_names_
    if isinstance(event_names, str) or len(event_names) != len(labels):
        msg = (
            f"`event_names` is {event_names!r}; give one name for each of the labels {labels}, "
            "that of 0 first."
        )
        raise ValueError(msg)
    names = tuple(str(name) for name in event_names)
    first = "event-free" if names[0].lower() == "censored" else names[0]
    return (first, *names[1:])


# -------------------------------------------------------------------------------------- rendering
def template(name: str) -> Any:
    """A template of the folder, by its file name."""
    try:
        import jinja2
        import markupsafe
    except ImportError as error:
        msg = "Reports are written with jinja2: pip install jinja2"
        raise ImportError(msg) from error
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(source),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Names of columns may break after an underscore. `join` escapes the parts.
    underscore = markupsafe.Markup("_<wbr>")
    environment.filters["breakable"] = lambda name: underscore.join(name.split("_"))
    return environment.get_template(name)


def source(name: str) -> str:
    """The text of a file of the folder of templates."""
    template = files("survival_objectives.report") / "templates" / name
    return template.read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """Hash of the script for the page's security policy, which allows no other script."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def write_whole(path: Path, text: str, *, overwrite: bool) -> None:
    """Put a complete file in place, or none."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8", errors="replace")
        # The file may have been written while the report was made.
        checked_path(path, overwrite=overwrite)
