"""``explain``: a page about one person, with their curves and SHAP values."""

from __future__ import annotations

import argparse
from pathlib import Path

from survival_objectives._process.files import replacing
from survival_objectives.cli._console import Console
from survival_objectives.cli._engines import missing_for_report
from survival_objectives.cli._errors import CommandError
from survival_objectives.cli._folder import check_file, load_folder
from survival_objectives.cli._people import schema_features, schema_table, warn_of_late_times


def run_explain(options: argparse.Namespace, console: Console) -> int:
    """Write a page about one person of a file."""
    lacking = missing_for_report()
    if lacking is not None:
        raise CommandError(lacking)
    from survival_objectives.report._person import person_page

    inputs = [options.data, options.model]
    target = check_file(options.out, "--out", force=options.force, inputs=inputs, is_page=True)
    model, schema = load_folder(options.model)
    table = schema_table(options, schema)
    if options.row is None and table.n_rows > 1:
        msg = (
            f"{table.source} has {table.n_rows} people; choose one with --row 1 to --row "
            f"{table.n_rows}"
        )
        raise CommandError(msg)
    row = (options.row or 1) - 1
    if row >= table.n_rows:
        msg = f"--row is {row + 1}, but {table.source} has {table.n_rows} people; use a lower one"
        raise CommandError(msg)
    warn_of_late_times(model, options.times, console)
    page = person_page(
        model,
        schema_features(table, schema, console).iloc[[row]],
        title=options.title or f"{Path(table.source).name}, {table.place(row)}",
        states=["event-free", *schema.events.causes],
        times=[float(time) for time in options.times] or None,
        time_name=schema.follow_up.duration or "time",
        time_unit=schema.follow_up.unit,
    )
    with replacing(target) as file:
        file.write_text(page, encoding="utf-8")
    console.result(f"page: {target}")
    return 0
