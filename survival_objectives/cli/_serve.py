"""`serve`: a saved model as a web service."""

from __future__ import annotations

import argparse

from survival_objectives.cli._console import Console
from survival_objectives.cli._errors import CommandError
from survival_objectives.cli._folder import load_model, load_schema


def run_serve(options: argparse.Namespace, console: Console) -> int:
    """Answer requests with a saved model until interrupted."""
    try:
        import uvicorn

        from survival_objectives.serve import application
    except ImportError as error:
        msg = "a service needs Starlette and uvicorn. Use: pip install starlette uvicorn"
        raise CommandError(msg) from error
    load_model(options.model)  # Before the server starts: its errors name the way out.
    schema = load_schema(options.model)
    service = application(
        options.model,
        max_body=options.max_body,
        max_people=options.max_people,
        max_times=options.max_times,
        max_seconds=options.max_seconds,
        event_names=None if schema is None else ["event-free", *schema.events.causes],
        time_unit=None if schema is None else schema.follow_up.unit,
    )
    console.progress(f"serving on http://{options.host}:{options.port} (Ctrl-C ends it)")
    uvicorn.run(service, host=options.host, port=options.port, log_level="warning")
    return 0
