"""The ASGI application: routes, limits and errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Any

from survival_objectives._version import __version__
from survival_objectives.serve._model import Limits, ModelFolder, RequestError, ServedModel

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
) -> Any:
    """An ASGI application that answers with the model of a folder.

    Run it with ``uvicorn``, or with ``survival-objectives serve``. ``POST /predict`` takes
    ``{"people": [{column: value}], "times": [...]}`` and returns probabilities of shape (people,
    states, times); ``POST /explain`` takes ``{"people": [...], "time": t}``. ``GET /schema``,
    ``/openapi.json``, ``/health`` and ``/`` (a page to try the model) describe it. No answer
    contains anything of the people the model was trained on. A changed folder is loaded again
    within a second or two.

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
    """
    limits = Limits(max_body, max_people, max_times, max_seconds)
    folder = ModelFolder(path, limits)
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
            async with asyncio.timeout(folder.limits.seconds):
                body = await _body(request, folder.limits.body)
            content = await run_in_threadpool(lambda: answer(folder.current(), _parsed(body)))
        except RequestError as error:
            return JSONResponse({"error": str(error)}, status_code=error.status)
        except TimeoutError:
            msg = f"The request did not arrive within {folder.limits.seconds:g} seconds."
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
    person = {
        "type": "object",
        "properties": {column.name: column.schema for column in served.columns},
        "required": [column.name for column in served.columns],
        "additionalProperties": False,
    }
    people = {
        "type": "array",
        "items": person,
        "minItems": 1,
        "maxItems": served.limits.people,
    }
    number = {"type": "number", "minimum": 0}
    times = {"type": "array", "items": number, "maxItems": served.limits.times}
    bodies = {
        "/predict": ({"people": people, "times": times, "conditional_after": number}, ["people"]),
        "/explain": ({"people": people, "time": number}, ["people", "time"]),
    }
    refused = {str(code): {"description": "Refused; `error` says why"} for code in (400, 413, 422)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "survival-objectives", "version": __version__},
        "paths": {
            path: {
                "post": {
                    "requestBody": {
                        "required": True,
                        "content": {
                            "application/json": {
                                "schema": {
                                    "type": "object",
                                    "properties": properties,
                                    "required": required,
                                    "additionalProperties": False,
                                }
                            }
                        },
                    },
                    "responses": {"200": {"description": "Answer"}, **refused},
                }
            }
            for path, (properties, required) in bodies.items()
        },
    }
