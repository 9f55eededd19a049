"""The two ways to wait for a start: looking at the status registers, or sleeping until interrupts arrive.

Both end: at the deadline, at the first error of a channel, and when a finished transfer's interrupt does not arrive.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from bfpga.board.dma import BoardChannel, ChannelError
from bfpga.board.wait import Backoff, Deadline

#: Seconds between looks at the status while an interrupt is awaited.
SLICE_SECONDS = 0.05
#: Seconds by which an interrupt may come later than the status bit.
GRACE_SECONDS = 0.25
#: Seconds for which a call waits for its own thread beyond the deadline.
THREAD_SECONDS = 5.0

Finished = Callable[[], bool]
Result = TypeVar("Result")


class WaitLimitError(Exception):
    """The deadline passed; within the driver only."""


class LostInterruptError(Exception):
    """A transfer is finished, its interrupt never came; within the driver only. ``name``: of the channel."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


class Waiter(Protocol):
    """How to wait for the channels of a start and then for the kernel."""

    def wait(self, channels: Sequence[BoardChannel], finished: Finished, deadline: Deadline) -> None:
        """Return when all is done; ChannelError, LostInterruptError or WaitLimitError otherwise."""
        ...

    def close(self) -> None: ...


class PollingWaiter:
    """Looks at the status registers, first without pause, then ever more rarely."""

    def wait(self, channels: Sequence[BoardChannel], finished: Finished, deadline: Deadline) -> None:
        backoff = Backoff()
        while True:
            moved = [channel.advance() for channel in channels]
            if all(moved) and finished():
                return
            if deadline.expired:
                raise WaitLimitError
            backoff.pause()

    def close(self) -> None:
        """Nothing is held."""


class InterruptThread:
    """An event loop in a thread of its own: a notebook's thread has one already, which must not be blocked."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bfpga interrupts", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, Result], seconds: float) -> Result:
        """Run a coroutine in the thread; TimeoutError if it does not end."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds + THREAD_SECONDS)
        except (concurrent.futures.TimeoutError, TimeoutError):  # two types on Python 3.10
            future.cancel()
            raise

    def build(self, make: Callable[[], Result]) -> Result:
        """Make an object in the thread: PYNQ binds the file of an interrupt to the loop of the thread it is made in."""

        async def work() -> Result:
            return make()

        return self.call(work(), THREAD_SECONDS)

    def close(self) -> None:
        """End the thread, once."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(THREAD_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()


class InterruptWaiter:
    """Sleeps until the channels' interrupts arrive. ``interrupts``: PYNQ's objects by name of the channel."""

    def __init__(self, thread: InterruptThread, interrupts: dict[str, Any]) -> None:
        self._thread, self._interrupts = thread, interrupts

    def wait(self, channels: Sequence[BoardChannel], finished: Finished, deadline: Deadline) -> None:
        self._thread.call(self._wait(channels, finished, deadline), deadline.left)

    async def _wait(self, channels: Sequence[BoardChannel], finished: Finished, deadline: Deadline) -> None:
        tasks = [asyncio.ensure_future(self._channel(channel, deadline)) for channel in channels if channel.busy]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        while not finished():
            if deadline.expired:
                raise WaitLimitError
            await asyncio.sleep(0.0005)

    async def _channel(self, channel: BoardChannel, deadline: Deadline) -> None:
        interrupt = self._interrupts[channel.name]
        while channel.busy:
            arrived = await _arrives(interrupt, SLICE_SECONDS)
            state = channel.state()
            if state.failed:
                raise ChannelError(state)
            if state.idle:
                if not arrived and not await _arrives(interrupt, GRACE_SECONDS):
                    raise LostInterruptError(channel.name)
                channel.clear_interrupt()
                channel.complete()
            elif deadline.expired:
                raise WaitLimitError

    def close(self) -> None:
        """End the thread."""
        self._thread.close()


async def _arrives(interrupt: Any, seconds: float) -> bool:
    """True if the interrupt comes in time. One that is given up stays registered, so the next call awaits it still."""
    try:
        await asyncio.wait_for(interrupt.wait(), seconds)
    except (asyncio.TimeoutError, TimeoutError):  # two types on Python 3.10
        return False
    return True
