"""Files and folders that appear when they are complete, or not at all; streams are written to.

A folder holds files, and JSON with digests of them and of itself. There is no pickle, so that
reading runs no code from the files. Digests detect damage; they do not prove who wrote a file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np


def is_stream(path: Path) -> bool:
    """Whether a path is a pipe, a terminal or the like, which is written to and never replaced."""
    if str(path.parent) in ("/dev/fd", "/proc/self/fd") or str(path) in _STANDARD:
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


# These may be regular files that a shell has opened.
_STANDARD = ("/dev/stdout", "/dev/stderr")


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A temporary file to write: at the end it replaces ``target``, or its content is streamed.

    A link stays as it is, and the file that it leads to is replaced.
    """
    streams = is_stream(target)
    target = target if streams else Path(os.path.realpath(target))
    place = None if streams else target.parent
    with tempfile.TemporaryDirectory(dir=place, prefix=f".{target.name}-") as folder:
        draft = Path(folder) / target.name
        yield draft
        if streams:
            with draft.open("rb") as whole, target.open("wb") as stream:
                shutil.copyfileobj(whole, stream)
        else:
            draft.replace(target)


# ------------------------------------------------------------------------------------------ folders
# Of files beside the JSON, so that none is outside the folder.
_FILE_NAME = re.compile(r"[a-z0-9_-]+\.[a-z]+")


def write_folder(
    path: Path,
    metadata: str,
    content: Mapping[str, Any],
    files: Mapping[str, Callable[[str], Any]],
) -> None:
    """Write a folder that does not exist yet, atomically.

    Parameters
    ----------
    path : Path
    metadata : str
        Name of the JSON file.
    content : mapping
        What it holds, besides the digests.
    files : mapping of str to callable
        Other files by name, each written by a function of its path.
    """
    if path.exists():
        msg = f"{str(path)!r} exists already. Choose another folder, or remove it first."
        raise FileExistsError(msg)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
        draft = Path(folder) / "draft"
        draft.mkdir()
        for name, write in files.items():
            write(str(draft / name))
        described = {**content, "files": {name: _digest(draft / name) for name in files}}
        described["digest"] = content_digest(described)
        (draft / metadata).write_text(json.dumps(described, indent=1, allow_nan=False))
        # A rename is atomic: an interrupted save leaves no half-written folder.
        draft.rename(path)


def read_folder(path: Path, metadata: str, what: str, newest: int) -> dict[str, Any]:
    """The JSON content of a folder, whose files are all as they were written.

    Parameters
    ----------
    path : Path
    metadata : str
        Name of the JSON file.
    what : str
        What the folder should hold, for errors.
    newest : int
        The latest ``format`` that can be read.
    """
    try:
        content = _read(path / metadata)
        version = content["format"]
        if type(version) is not int:
            msg = f"format is {version!r}"
            raise TypeError(msg)
    except FileNotFoundError:
        msg = f"{str(path)!r} holds no {what}: there is no {metadata}."
        raise FileNotFoundError(msg) from None
    except (ValueError, KeyError, TypeError, NotADirectoryError, RecursionError) as error:
        msg = f"{str(path / metadata)!r} is not the description of a {what} ({error})."
        raise ValueError(msg) from error
    if version > newest:
        msg = (
            f"{str(path)!r} was written in format {version} by a newer survival-objectives "
            f"({content.get('version')}); this one reads up to format {newest}. Upgrade it."
        )
        raise ValueError(msg)
    if "digest" not in content or content["digest"] != content_digest(content):
        msg = f"{str(path)!r} is damaged: {metadata} is not as it was saved."
        raise ValueError(msg)
    for name, digest in content["files"].items():
        if not _FILE_NAME.fullmatch(name):
            msg = f"{str(path)!r} is damaged: {name!r} is no name of a file."
            raise ValueError(msg)
        # Engines read some broken files without an error, and crash the process on others.
        missing = not (path / name).exists()
        if missing or _digest(path / name) != digest:
            reason = "is missing" if missing else "is not the one that was saved"
            msg = f"{str(path)!r} is damaged: the file {name} {reason}."
            raise ValueError(msg)
    return content


def content_digest(content: Mapping[str, Any]) -> str:
    """Digest of all content but the digest itself, independent of order and white space."""
    covered = {name: value for name, value in content.items() if name != "digest"}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def plain_entries(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that JSON can hold, with numpy scalars as Python scalars.

    >>> plain_entries({"max_depth": np.int64(4), "horizon_sampler": len})
    {'max_depth': 4}
    """
    return {name: _plain(value) for name, value in entries.items() if _is_plain(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(_plain(value), allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _read(file: Path) -> dict[str, Any]:
    def finite(text: str) -> float:
        number = float(text)
        if not math.isfinite(number):
            msg = f"{text} is not a finite number"
            raise ValueError(msg)
        return number

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            msg = "a name occurs twice"
            raise ValueError(msg)
        return found

    content = json.loads(
        file.read_text(encoding="utf-8"),
        parse_float=finite,
        parse_constant=finite,
        object_pairs_hook=unique,
    )
    if not isinstance(content, dict):
        msg = f"it is a {type(content).__name__}"
        raise TypeError(msg)
    return content


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
