"""Files that appear when they are complete, or not at all; streams are written to."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
