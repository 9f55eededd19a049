"""An interrupt line of the processor as PYNQ sees it through Linux' UIO."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Protocol


class Event(Protocol):
    """What PYNQ waits on: an `asyncio.Event`, or its interrupt controller."""

    def set(self) -> None: ...


class InterruptLine:
    """One level-sensitive line: waiting enables it, firing disables it until the next wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._level = False
        self._waiting: list[tuple[Event, asyncio.AbstractEventLoop]] = []

    def add_event(self, event: Event, number: int) -> None:
        """Set ``event`` when the line is high, at once if it is. Called in a coroutine; ``number`` is always 0."""
        with self._lock:
            self._waiting.append((event, asyncio.get_running_loop()))
            level = self._level
        if level:
            self._fire()

    def change_level(self, level: bool) -> None:
        """The board drives the line; any thread may call."""
        with self._lock:
            self._level = level
        if level:
            self._fire()

    def _fire(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for event, loop in waiting:
            # A closed loop has no waiter left.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)
