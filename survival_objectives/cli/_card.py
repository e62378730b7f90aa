"""``card``: a model card with the items of TRIPOD+AI, filled in as far as the software knows."""

from __future__ import annotations

import argparse
import json
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
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

# A paragraph, or the head and the rows of a table.
Fact = str | tuple[Sequence[str], Sequence[Sequence[str]]]
# Items to which people have nothing to add: always, and once there is a validation.
_CLOSED = {"12b", "12g", "13"}
_CLOSED_BY_DATA = {"12e", "20c", "21", "23a", "24"}
# Markdown would read these as markup.
_MARKUP = re.compile(r"([\\`*_\[\]|#])")


@dataclass(frozen=True)
class Item:
    """An item of the checklist, with what is known and whether people have to add to it."""

    number: str
    section: str
    question: str
    facts: Sequence[Fact]
    is_open: bool


def run_card(options: argparse.Namespace, console: Console) -> int:
    """Write the card of a model as Markdown and HTML."""
    lacking = missing_for_report()
    if lacking is not None:
        raise CommandError(lacking)
    if not options.out.endswith(".md"):
        msg = f"--out is {options.out!r}; name a file that ends in .md, beside which goes the HTML"
        raise UsageError(msg)
    inputs = [options.model, *filter(None, [options.data])]
    target = check_file(options.out, "--out", force=options.force, inputs=inputs)
    page = str(target.with_suffix(".html"))
    page_target = check_file(page, "--out", force=options.force, inputs=inputs, is_page=True)
    model, schema = load_folder(options.model)
    found = None if options.data is None else validated(model, schema, options, console)
    for option in ("by", "thresholds"):
        if found is None and getattr(options, option):
            msg = f"--{option} needs the people of --data"
            raise UsageError(msg)
    facts = _training_facts(model, schema, options)
    if found is not None:
        for number, more in _validation_facts(found, schema, options).items():
            facts.setdefault(number, []).extend(more)
    items = _items(facts, has_data=found is not None)
    title = options.title or "Model card"
    for file, name in ((target, "card.md"), (page_target, "card.html")):
        with replacing(file) as draft:
            draft.write_text(_rendered(name, items, title), encoding="utf-8")
    console.result(f"card: {target} and {page_target}")
    console.result(f"{sum(item.is_open for item in items)} of {len(items)} items need an answer")
    return 0


def _items(facts: dict[str, list[Fact]], *, has_data: bool) -> list[Item]:
    from survival_objectives.report._write import source

    closed = _CLOSED | (_CLOSED_BY_DATA if has_data else set())
    lines = [line for line in source("tripod.txt").splitlines() if not line.startswith("#")]
    fields = [line.split("\t") for line in lines]
    return [
        Item(number, section, question, facts.get(number, []), number not in closed)
        for number, section, question in fields
    ]


def _rendered(name: str, items: list[Item], title: str) -> str:
    from markupsafe import Markup, escape

    from survival_objectives.report._write import source, template

    def plain(text: str) -> Markup:
        """Text that Markdown shows as it is, in one line."""
        safe = str(escape(_MARKUP.sub(r"\\\1", text.replace("\n", " "))))
        return Markup(safe.replace("&#34;", '"').replace("&#39;", "'"))

    def plain_fact(fact: Fact) -> Any:
        if isinstance(fact, str):
            return plain(fact)
        head, rows = fact
        return [*map(plain, head)], [[*map(plain, row)] for row in rows]

    if name.endswith(".md"):
        items = [
            replace(
                item,
                question=plain(item.question),
                facts=[plain_fact(fact) for fact in item.facts],
            )
            for item in items
        ]
        title = plain(title)
    text: str = template(name).render(
        title=title,
        items=items,
        n_open=sum(item.is_open for item in items),
        version=__version__,
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        style=source("style.css"),
    )
    return text


# ------------------------------------------------------------------------------------------ facts
def _training_facts(
    model: Any, schema: Schema, options: argparse.Namespace
) -> dict[str, list[Fact]]:
    """What is known from the model folder, by the number of the item."""
    causes, follow_up = schema.events.causes, schema.follow_up
    unit = follow_up.unit or "units of the file"
    people = sum(schema.people.values())
    counts = ", ".join(f"{count} {name}" for name, count in schema.people.items())
    labels = "; ".join(
        f"{name}: {', '.join(map(repr, schema.events.labels(code))) or 'no label'}"
        for code, name in schema.events.names.items()
    )
    dropped = [f"{name} ({reason})" for name, reason in schema.dropped.items()]
    unused = f"Not used: {', '.join(dropped)}." if dropped else "All other columns were used."
    kinds = {column.name: str(column) for column in schema.columns}
    columns = [
        (each["name"], kinds[each["name"]], each["text"], f"{each['missing']:.1%}")
        for each in schema.features
    ]
    settings = [
        (name, repr(value)) for name, value in model.get_params().items() if value is not None
    ]
    parts = ", ".join(f"{name} {weight:.2f}" for name, weight in model.member_weights_.items())
    digest = json.loads((Path(options.model) / METADATA).read_text(encoding="utf-8"))["digest"]
    versions = ", ".join(f"{name} {version}" for name, version in schema.versions.items())
    scores = schema.assessment.get("scores", {})
    names = list(next(iter(scores.values()), {}))
    rows = [(name, *(scores[each][name] for each in scores)) for name in names]
    events = f"{people} people ({counts})"
    missing = "Missing values stay missing"
    title = schema.assessment.get("title", "Not assessed")
    times = [repr(name) for name in follow_up.columns if name != follow_up.event]
    cells = [repr(cell) for cell in schema.missing]
    return {
        "1": [f"Predicted: the time to {' or '.join(causes)}, whichever is first."],
        "5a": [f"Development: {people} people."],
        "7": [f"Cells that mean missing besides the usual ones: {', '.join(cells) or 'none'}."],
        "8a": [
            f"Column {follow_up.event!r}; {labels}. Time: {', '.join(times)}, in {unit}.",
            f"The model predicts up to {model.times_[-1]:g} {unit}.",
        ],
        "9a": [f"Used: {', '.join(kinds)}. {unused}"],
        "9b": [(("Column", "Kind", "In development", "Missing"), columns)],
        "10": [f"Development: {events}, {len(columns)} columns."],
        "11": [
            f"{missing}: trees send them to the side that fits better, linear hazards have a "
            "column that says so. How many there were is under 9b. Levels of categories that are "
            "not known from training count as missing."
        ],
        "12a": [f"{title}; the model is trained on all."],
        "12b": [
            "Linear hazards: numbers standardised and clipped at 4 standard deviations, a column "
            "for each frequent level. Trees: numbers and levels as they are."
        ],
        "12c": [
            f"HazardBoost on {model.engine_}: hazards of each cause between times, a mixture of "
            f"linear and boosted ones weighted by the likelihood of held-out people ({parts}). "
            f"Rounds by early stopping in folds. Internal validation: {title}. Settings:",
            (("Setting", "Value"), settings),
        ],
        "12g": [
            f"survival-objectives {__version__}, Python {platform.python_version()}: "
            "predict_cumulative_incidence of the saved model."
        ],
        "13": [
            "The software used none. Where it trains on some of many people, weights restore the "
            "shares of outcomes."
        ],
        "14": ["The software did nothing in training. Scores of groups, if any, are under 23a."],
        "15": [
            "The probability of each state at any time, summing to 1. No classes; no threshold is "
            "part of the model."
        ],
        "18f": [f"Software: {versions}."],
        "20a": [f"Development: {events}."],
        "20b": ["Predictors of development are under 9b, those of the evaluation under 20c."],
        "21": [f"Development: {events}."],
        "22": [
            f"Folder of the saved model, digest {digest}, seed {model.random_state!r}. Read by "
            f"survival_objectives.load; trained with {versions}."
        ],
        "23a": [
            f"{title}:",
            (("Score", *scores), rows),
        ]
        if rows
        else ["Not assessed in development."],
        "24": [
            "The model was not recalibrated."
            if model.recalibration_ is None
            else f"The model is recalibrated: {model.recalibration_}."
        ],
        "27a": [f"Predictions are made with missing values. {missing}; see 11."],
    }


def _validation_facts(
    found: Validation, schema: Schema, options: argparse.Namespace
) -> dict[str, list[Fact]]:
    """What the people of ``--data`` add."""
    from survival_objectives.report import _validation as page

    y = found.y
    names = {0: "censored", **found.causes}
    counts = ", ".join(f"{int((y['event'] == code).sum())} {name}" for code, name in names.items())
    people = f"Evaluation: {len(y)} people ({counts}) of {Path(options.data).name}"
    times = ", ".join(f"{time:g}" for time in found.times)
    scores: list[Fact] = []
    for cause, name in found.causes.items():
        scores += [f"Evaluation, {name}:", page.score_table(found, cause)]
        if found.by:
            scores.append(page.group_table(found, cause))
    if found.by:
        scores.append(f"Groups are by {found.when(found.middle)}; * fewer than 20 events.")
    shift = page.shift_table(found)
    changed = page.recalibration_table(found)
    middle, last = (float(y["duration"].quantile(share)) for share in (0.5, 1.0))
    return {
        "1": ["Development and evaluation."],
        "5a": [f"{people}."],
        "8a": [f"Evaluated by {times} {schema.follow_up.unit or ''}."],
        "10": [f"{people}."],
        "12a": [f"Evaluation on {len(y)} people of {Path(options.data).name}."],
        "12e": [
            "Those of the STRATOS guide to validation with competing risks (BMJ 2022;377:e069249), "
            "with 95% limits, weights by Kaplan-Meier of the censoring of the people evaluated: "
            f"{', '.join(words for words, _ in page.SCORES.values())}."
        ],
        "12f": ["The evaluation is of the model as it was saved; see 24."],
        "20a": [
            f"{people}; observed up to {last:g}, median {middle:g}; {len(found.evaluation)} scored."
        ],
        "20c": [] if shift is None else ["* standardised difference above 0.1.", shift],
        "21": [f"{people}."],
        "23a": [*found.cautions, found.verdict(), *scores],
        "24": [
            "Recalibration on the people evaluated would change nothing."
            if changed is None
            else f"Recalibration on the people evaluated would change the hazards ({changed[0]}); "
            f"by {found.when(found.middle)}, people judged by a model recalibrated without them:",
            *([] if changed is None else [changed[1]]),
        ],
    }
