"""Ctrl-C during a training: held until no exception has to cross foreign code.

An exception that leaves a function called from C, or the deletion of an object, is printed and
lost, and the engine continues without its result: XGBoost then reports an error of its own, or
crashes. So a training holds interrupts back, and delivers them at moments between calls of the
engine.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_Handler = Callable[[int, FrameType | None], Any]


class _Interrupts:
    """What is held back in this process; signals arrive in its main thread only."""

    def __init__(self) -> None:
        self.handler: _Handler | None = None  # The user's.
        self.is_open = False
        self.waiting: tuple[int, FrameType | None] | None = None

    def receive(self, signum: int, frame: FrameType | None) -> None:
        """What Python calls in place of the user's handler."""
        self.waiting = signum, frame
        if self.is_open:
            self.deliver()

    def deliver(self) -> None:
        waiting, self.waiting = self.waiting, None
        if waiting is not None and self.handler is not None:
            self.handler(*waiting)


_INTERRUPTS = _Interrupts()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def deliver_interrupt() -> None:
    """Call the usual handler of an interrupt that waits; Python's own raises KeyboardInterrupt."""
    if _is_main_thread():
        _INTERRUPTS.deliver()


@contextmanager
def interrupts_open() -> Iterator[None]:
    """A section from which an exception is caught before it reaches foreign code."""
    if not _is_main_thread():
        yield
        return
    _INTERRUPTS.is_open = True
    try:
        _INTERRUPTS.deliver()
        yield
    finally:
        _INTERRUPTS.is_open = False


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back until `deliver_interrupt`, or the end of the outermost of these contexts."""
    handler = signal.getsignal(signal.SIGINT) if _is_main_thread() else None
    # Only the main thread may set handlers. An outer context holds interrupts already.
    if not callable(handler) or handler == _INTERRUPTS.receive:
        yield
        return
    _INTERRUPTS.handler = handler
    signal.signal(signal.SIGINT, _INTERRUPTS.receive)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        _INTERRUPTS.deliver()
