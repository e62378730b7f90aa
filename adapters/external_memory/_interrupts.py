"""Ctrl-C while an engine calls back: held until no exception has to cross foreign code.

An exception that leaves a function called from C is printed and lost, and the engine continues
without its result: XGBoost then reports an error of its own, or crashes.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_Handler = Callable[[int, FrameType | None], Any]


class HeldInterrupts:
    """Interrupts that wait, but for the sections that are `open` to them."""

    def __init__(self, handler: _Handler | None) -> None:
        self._handler = handler
        self._is_open = False
        self._waiting: tuple[int, FrameType | None] | None = None

    def receive(self, signum: int, frame: FrameType | None) -> None:
        """What Python calls in place of the user's handler."""
        self._waiting = signum, frame
        if self._is_open:
            self.deliver()

    def deliver(self) -> None:
        """Call the handler that was installed before; Python's own raises KeyboardInterrupt."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None and self._handler is not None:
            self._handler(*waiting)

    @contextmanager
    def open(self) -> Iterator[None]:
        """A section from which an exception is caught before it reaches foreign code."""
        self._is_open = True
        try:
            self.deliver()
            yield
        finally:
            self._is_open = False


@contextmanager
def interrupts_held() -> Iterator[HeldInterrupts]:
    """Hold Ctrl-C back until the end of this context, where its usual handler is called."""
    handler = signal.getsignal(signal.SIGINT)
    # Signals arrive in the main thread only, and only it may set their handlers.
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield HeldInterrupts(None)
        return
    held = HeldInterrupts(handler)
    signal.signal(signal.SIGINT, held.receive)
    try:
        yield held
    finally:
        signal.signal(signal.SIGINT, handler)
        held.deliver()
