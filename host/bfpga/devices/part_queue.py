"""Parts of a run that wait for a board or a core: each is answered once, by whichever can."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")
#: Seconds between two looks for an interruption from the keyboard.
LOOK_SECONDS = 0.2


class PartQueue(Generic[Answer]):
    """Parts 0 to ``parts`` - 1; safe for threads. most_failures: of one part, before the run is given up."""

    def __init__(self, parts: int, most_failures: int) -> None:
        self._waiting = deque(range(parts))
        self._running: set[int] = set()
        self._answers: dict[int, Answer] = {}
        self._failures: Counter[int] = Counter()
        self._parts, self._most = parts, most_failures
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return self._error is not None or len(self._answers) == self._parts

    def take(self) -> int | None:
        """The next part, awaited if all are with boards; None when the run is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self.over)
            if self.over:
                return None
            number = self._waiting.popleft()
            self._running.add(number)
            return number

    def answer(self, number: int, answer: Answer) -> None:
        """The result of a part that was taken."""
        with self._changed:
            self._running.remove(number)
            self._answers[number] = answer
            self._changed.notify_all()

    def give_back(self, number: int, error: BaseException) -> None:
        """A part whose board failed: it is the next to be taken, unless it has failed on too many."""
        with self._changed:
            self._running.remove(number)
            self._failures[number] += 1
            if self._failures[number] >= self._most:
                self._error = self._error or error
            self._waiting.appendleft(number)
            self._changed.notify_all()

    def give_up(self, error: BaseException) -> None:
        """End the run with an error."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def rest(self, seconds: float) -> bool:
        """Wait so long, less if the run ends; whether it goes on."""
        with self._changed:
            self._changed.wait_for(lambda: self.over, seconds)
            return not self.over

    def results(self, progress: Callable[[int], None]) -> list[Answer]:
        """All answers in the order of the parts, when they are there; the error of a run that was given up.

        progress: called with the number of answered parts, in the thread of the caller.
        """
        reported = -1
        while True:
            with self._changed:
                if not self.over and len(self._answers) == reported:
                    self._changed.wait(LOOK_SECONDS)
                done, error = len(self._answers), self._error
            if done != reported:
                progress(done)
                reported = done
            if error is not None:
                raise error
            if done == self._parts:
                return [self._answers[number] for number in range(self._parts)]
