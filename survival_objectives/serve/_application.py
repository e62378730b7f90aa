"""The ASGI application: routes, limits and errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from survival_objectives._version import __version__
from survival_objectives.serve._model import ModelFolder, RequestError, ServedModel, Settings

try:
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route
except ImportError as error:
    msg = "A service needs Starlette and uvicorn. Use: pip install starlette uvicorn"
    raise ImportError(msg) from error

_PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
}


def application(
    path: Any,
    *,
    max_body: int = 10_000_000,
    max_people: int = 10_000,
    max_times: int = 1_000,
    max_seconds: float = 10.0,
    event_names: Sequence[str] | None = None,
    time_unit: str | None = None,
    dates: Sequence[str] = (),
) -> Any:
    """An ASGI application that answers with the model of a folder.

    Run it with ``uvicorn``, or with ``survival-objectives serve``. ``POST /predict`` takes
    ``{"people": [{column: value}], "times": [...]}`` and returns probabilities of shape (people,
    states, times), with ``"confidence": 0.9`` also the limits of their bands; ``POST /explain``
    takes ``{"people": [...], "time": t}``. ``GET /schema``, ``/openapi.json``, ``/health`` and
    ``/`` (a page to try the model, with the requests that it sends; also as ``/docs``) describe it.
    No answer contains anything of the people the model was trained on, and none has more than a
    million probabilities. A changed folder is loaded again within a second or two.

    Parameters
    ----------
    path : path
        Folder of a saved model.
    max_body : int
        Bytes of a request.
    max_people, max_times : int
        Most people and times per request.
    max_seconds : float
        Until the body of a request must have arrived.
    event_names : sequence of str, length K + 1, optional
        Names of the states, as in `write_report`. Default: those of the model.
    time_unit : str, optional
        What times are counted in, such as "days", for the page.
    dates : sequence of str, optional
        Columns that the model takes as days since 1970-01-01: requests have dates such as
        "2024-05-31" there.
    """
    names = tuple(event_names or ())
    settings = Settings(
        max_body, max_people, max_times, max_seconds, names, time_unit, tuple(dates)
    )
    folder = ModelFolder(path, settings)
    page = files("survival_objectives.serve").joinpath("templates", "page.html").read_text("utf-8")

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok", "version": __version__})

    async def schema(_: Request) -> Response:
        return JSONResponse(folder.current().describe())

    async def openapi(_: Request) -> Response:
        return JSONResponse(_openapi(folder.current()))

    async def index(_: Request) -> Response:
        return HTMLResponse(page, headers=_PAGE_HEADERS)

    return Starlette(
        routes=[
            Route("/", index),
            Route("/docs", index),
            Route("/health", health),
            Route("/schema", schema),
            Route("/openapi.json", openapi),
            Route("/predict", _answering(folder, ServedModel.predict), methods=["POST"]),
            Route("/explain", _answering(folder, ServedModel.explain), methods=["POST"]),
        ]
    )


def _answering(
    folder: ModelFolder, answer: Callable[[ServedModel, Mapping[str, Any]], dict[str, Any]]
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            async with asyncio.timeout(folder.settings.seconds):
                body = await _body(request, folder.settings.body)
            content = await run_in_threadpool(lambda: answer(folder.current(), _parsed(body)))
        except RequestError as error:
            return JSONResponse({"error": str(error)}, status_code=error.status)
        except OverflowError:
            msg = "A number of the request is larger than any that can be computed with."
            return JSONResponse({"error": msg}, status_code=422)
        except TimeoutError:
            msg = f"The request did not arrive within {folder.settings.seconds:g} seconds."
            return JSONResponse({"error": msg}, status_code=408)
        except ClientDisconnect:
            return Response(status_code=400)
        return JSONResponse(content)

    return endpoint


async def _body(request: Request, most: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            msg = f"The request has more than {most} bytes. Send fewer people at a time."
            raise RequestError(msg, 413)
        parts.append(part)
    return b"".join(parts)


def _parsed(body: bytes) -> Any:
    def refuse(constant: str) -> None:
        msg = f"{constant} is not JSON; a missing value is null."
        raise RequestError(msg, 400)

    try:
        return json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        if isinstance(error, RequestError):
            raise
        msg = f"The request is not JSON: {str(error)[:200]}"
        raise RequestError(msg, 400) from error


def _openapi(served: ServedModel) -> dict[str, Any]:
    """The service in OpenAPI 3.1, with the columns of the model."""
    person = _object({column.name: column.schema for column in served.columns})
    people = {
        "type": "array",
        "items": person,
        "minItems": 1,
        "maxItems": served.settings.people,
    }
    number = {"type": "number", "minimum": 0}
    times = {"type": "array", "items": number, "maxItems": served.settings.times}
    after = {"anyOf": [number, {"type": "array", "items": number}]}
    words = {"type": "array", "items": {"type": "string"}}
    numbers: dict[str, Any] = {"type": "number"}
    for _ in range(3):
        numbers = {"type": "array", "items": numbers}
    predicted = {"times": times, "states": words, "probabilities": numbers, "warnings": words}
    level = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    with_bands = {"confidence": level} if served.model.fitted_model.has_bands else {}
    explained = {"columns": words, "causes": words, "contributions": numbers, "warnings": words}
    described = {"200": _content("What is known", {"type": "object"})}
    refused = {
        str(code): _content("Refused", _object({"error": {"type": "string"}}))
        for code in (400, 408, 413, 422)
    }

    def post(summary: str, asked: Any, required: list[str], answer: Any) -> dict[str, Any]:
        body = _content("", _object(asked, required)) | {"required": True}
        answers = {"200": _content("Answer", _object(answer)), **refused}
        return {"post": {"summary": summary, "requestBody": body, "responses": answers}}

    return {
        "openapi": "3.1.0",
        "info": {"title": "survival-objectives", "version": __version__},
        "paths": {
            "/predict": post(
                "Probabilities (people, states, times)",
                {"people": people, "times": times, "conditional_after": after, **with_bands},
                ["people"],
                predicted,
            ),
            "/explain": post(
                "Contributions of columns to log-odds (people, causes, columns)",
                {"people": people, "time": number},
                ["people", "time"],
                explained,
            ),
            "/schema": {"get": {"summary": "Columns and states", "responses": described}},
            "/health": {"get": {"summary": "Whether it answers", "responses": described}},
        },
    }


def _content(description: str, schema: Any) -> dict[str, Any]:
    found = {"content": {"application/json": {"schema": schema}}}
    return {"description": description, **found} if description else found


def _object(properties: Any, required: list[str] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }
