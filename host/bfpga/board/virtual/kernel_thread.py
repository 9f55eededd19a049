"""The thread in which the kernels of a board with several cores run, whichever thread lets the board run.

A compiled kernel is suspended in the middle of a start and keeps addresses of its thread while it is: it can neither go
on nor be given up in another one, nor after its thread has ended. So this one lasts as long as the process.
"""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class KernelThread:
    """Calls, one after the other, in one thread."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "kernels")
        self._later: deque[Callable[[], object]] = deque()

    def call(self, work: Callable[[], object]) -> None:
        """Do it and wait for it."""
        self._executor.submit(self._do, work).result()

    def later(self, work: Callable[[], object]) -> None:
        """Do it before the next call: a finalizer may run where the executor holds its locks."""
        self._later.append(work)

    def _do(self, work: Callable[[], object]) -> None:
        while self._later:
            self._later.popleft()()
        work()


def kernel_thread() -> KernelThread:
    """The thread of this process."""
    return _thread_of(os.getpid())


@functools.cache
def _thread_of(process: int) -> KernelThread:
    """A fork has no threads of its parent."""
    return KernelThread()
