"""``card``: a model card with the items of TRIPOD+AI, filled in as far as the software knows."""

from __future__ import annotations

import argparse
import json
import platform
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from survival_objectives._models.storage import METADATA
from survival_objectives._process.files import replacing
from survival_objectives._version import __version__
from survival_objectives.cli._errors import CommandError, Console, UsageError
from survival_objectives.cli._evaluate import validated
from survival_objectives.cli._folder import Schema, check_file, load_folder
from survival_objectives.cli._training import missing_for_report

if TYPE_CHECKING:
    from survival_objectives.report._validation import Validation

# Paragraphs, and tables as head and rows.
Facts = list[Any]
# Markdown would read these as markup.
_MARKUP = re.compile(r"([\\`*_\[\]|#])")


def run_card(options: argparse.Namespace, console: Console) -> int:
    """Write the card of a model as Markdown and HTML."""
    lacking = missing_for_report()
    if lacking is not None:
        raise CommandError(lacking)
    if not options.out.endswith(".md"):
        msg = f"--out is {options.out!r}; name a file that ends in .md, beside which goes the HTML"
        raise UsageError(msg)
    for option in ("by", "thresholds"):
        if options.data is None and getattr(options, option):
            msg = f"--{option} needs the people of --data"
            raise UsageError(msg)
    inputs = [options.model, *filter(None, [options.data])]
    target = check_file(options.out, "--out", force=options.force, inputs=inputs)
    page = str(target.with_suffix(".html"))
    page_target = check_file(page, "--out", force=options.force, inputs=inputs, is_page=True)
    model, schema = load_folder(options.model)
    known = _of_development(model, schema, options)
    if options.data is not None:
        known |= _of_evaluation(validated(model, schema, options, console), options)
    items = _items(known, has_data=options.data is not None)
    for file, name in ((target, "card.md"), (page_target, "card.html")):
        with replacing(file) as draft:
            draft.write_text(_rendered(name, items, options.title), encoding="utf-8")
    console.result(f"card: {target} and {page_target}")
    n_open = sum(item["is_open"] for item in items)
    console.result(f"{n_open} of {len(items)} items need an answer")
    return 0


def _items(known: dict[str, Any], *, has_data: bool) -> list[dict[str, Any]]:
    """The items of the checklist: what is asked, what is known, whether people have to add."""
    from survival_objectives.report._write import source

    items = []
    for line in source("tripod.txt").splitlines():
        if line.startswith("#"):
            continue
        number, section, question, closed, then, now = line.split("\t")
        facts: Facts = []
        for part in filter(None, [*then.split("|"), *(now.split("|") if has_data else [])]):
            name = part.strip("{}")
            # A name alone stands for a table, or for several facts.
            facts += known[name] if isinstance(known.get(name), list) else [part.format(**known)]
        is_open = not (closed == "always" or (closed == "data" and has_data))
        item = {"number": number, "section": section, "question": question, "facts": facts}
        items.append({**item, "is_open": is_open})
    return items


def _rendered(name: str, items: list[dict[str, Any]], title: str) -> str:
    from markupsafe import Markup, escape

    from survival_objectives.report._write import source, template

    def plain(fact: Any) -> Any:
        """What Markdown shows as it is, each text in one line."""
        if not isinstance(fact, str):
            return [plain(part) for part in fact]
        safe = str(escape(_MARKUP.sub(r"\\\1", fact.replace("\n", " "))))
        return Markup(safe.replace("&#34;", '"').replace("&#39;", "'"))

    if name.endswith(".md"):
        title = plain(title)
        shown = ("question", "facts")
        items = [{**item, **{key: plain(item[key]) for key in shown}} for item in items]
    text: str = template(name).render(
        title=title,
        items=items,
        n_open=sum(item["is_open"] for item in items),
        version=__version__,
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        style=source("style.css"),
    )
    return text


# ------------------------------------------------------------------------------------------ facts
def _of_development(model: Any, schema: Schema, options: argparse.Namespace) -> dict[str, Any]:
    """What is known from the model folder, by its name in the checklist."""
    events, follow_up, scores = schema.events, schema.follow_up, schema.assessment.get("scores", {})
    counts = ", ".join(f"{count} {name}" for name, count in schema.people.items())
    n_people = sum(schema.people.values())
    kinds = {column.name: str(column) for column in schema.columns}
    columns = [
        (each["name"], kinds[each["name"]], each["text"], f"{each['missing']:.1%}")
        for each in schema.features
    ]
    settings = [
        (name, repr(value)) for name, value in model.get_params().items() if value is not None
    ]
    rows = [
        (name, *(scores[each][name] for each in scores)) for name in next(iter(scores.values()), {})
    ]
    found = model.recalibration_
    return {
        "causes": " or ".join(events.causes),
        "n_people": n_people,
        "events": f"{n_people} people ({counts})",
        "cells": ", ".join(map(repr, schema.missing)) or "none",
        "event": repr(follow_up.event),
        "labels": "; ".join(
            f"{name}: {', '.join(map(repr, events.labels(code))) or 'no label'}"
            for code, name in events.names.items()
        ),
        "columns_of_time": ", ".join(
            repr(name) for name in follow_up.columns if name != follow_up.event
        ),
        "unit": follow_up.unit or "units of the file",
        "last": f"{model.times_[-1]:g}",
        "used": ", ".join(kinds),
        "unused": ", ".join(f"{name} ({why})" for name, why in schema.dropped.items()) or "none",
        "columns": [(("Column", "Kind", "In development", "Missing"), columns)],
        "n_columns": len(columns),
        "title": schema.assessment.get("title", "Not assessed"),
        "engine": model.engine_,
        "parts": ", ".join(f"{name} {share:.2f}" for name, share in model.member_weights_.items()),
        "settings": [(("Setting", "Value"), settings)],
        "version": __version__,
        "python": platform.python_version(),
        "versions": ", ".join(f"{name} {version}" for name, version in schema.versions.items()),
        "digest": json.loads((Path(options.model) / METADATA).read_text(encoding="utf-8"))[
            "digest"
        ],
        "seed": repr(model.random_state),
        "held_out": [(("Score", *scores), rows)] if rows else [],
        "recalibrated": "The model was not recalibrated."
        if found is None
        else f"The model is recalibrated: {found}.",
    }


def _of_evaluation(found: Validation, options: argparse.Namespace) -> dict[str, Any]:
    """What the people of ``--data`` add."""
    from survival_objectives.report import _validation_page as page
    from survival_objectives.report._validation import SCORES

    y = found.y
    names = {0: "censored", **found.causes}
    counts = ", ".join(f"{int((y['event'] == code).sum())} {name}" for code, name in names.items())
    scores: Facts = [*found.cautions, found.verdict()]
    for cause, name in found.causes.items():
        scores += [f"Evaluation, {name}:", page.score_table(found, cause)]
        scores += [page.group_table(found, cause)] if found.by else []
    if found.by:
        scores.append(f"Groups are by {found.when(found.middle)}; * fewer than 20 events.")
    shift, changed = page.shift_table(found), page.recalibration_table(found)
    updated: Facts = ["Recalibration on the people evaluated would change nothing."]
    if changed is not None:
        said = f"Recalibration on the people evaluated would change the hazards ({changed[0]})"
        left_out = "people judged by a model that was recalibrated without them"
        updated = [f"{said}; by {found.when(found.middle)}, {left_out}:", changed[1]]
    return {
        "evaluated": f"Evaluation: {len(y)} people ({counts}) of {Path(options.data).name}",
        "times": ", ".join(f"{time:g}" for time in found.times),
        "measures": ", ".join(words for words, _ in SCORES.values()),
        "longest": f"{y['duration'].max():g}",
        "middle": f"{y['duration'].median():g}",
        "n_scored": len(found.evaluation),
        "shift": [] if shift is None else [shift],
        "found": scores,
        "recalibration": updated,
    }
