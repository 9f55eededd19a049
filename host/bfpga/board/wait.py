"""Waiting that ends: a deadline, and pauses that grow from spinning to sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds of spinning before the first sleep: most transfers of small networks end within it.
SPIN_SECONDS = 0.0005
#: Shortest and longest sleep between two looks at the hardware.
SLEEP_SECONDS = (0.00005, 0.002)


class Deadline:
    """A point in time on the monotonic clock; changes of the wall clock do not move it."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._end = clock() + seconds

    @property
    def left(self) -> float:
        """Seconds that remain, 0 at least."""
        return max(0.0, self._end - self._clock())

    @property
    def expired(self) -> bool:
        return self._clock() >= self._end


class Backoff:
    """Pauses between looks at a register: none at first, then sleeps that double up to 2 ms."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._spin_end = clock() + SPIN_SECONDS
        self._pause = SLEEP_SECONDS[0]

    def pause(self) -> None:
        """Give the hardware time."""
        if self._clock() < self._spin_end:
            return
        self._sleep(self._pause)
        self._pause = min(2 * self._pause, SLEEP_SECONDS[1])


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """True as soon as ``condition`` holds, False if it does not within ``seconds``; it is looked at once at least."""
    deadline, backoff = Deadline(seconds), Backoff()
    while not condition():
        if deadline.expired:
            return False
        backoff.pause()
    return True
