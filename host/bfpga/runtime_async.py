"""Runs that an event loop awaits: a device computes in a thread of its own while coroutines go on.

    async with bfpga.AsyncDevice(program, "board") as device:
        result = await device.run(x)
        async for result in device.stream(batches):
            ...
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

from bfpga.data import Given
from bfpga.devices.base import Device, DeviceResult
from bfpga.runtime import BATCH, Compiled, open_device, program_of, run

#: Batches of a stream that are under way or wait for their turn while the results of others are taken.
AHEAD = 2
Answer = TypeVar("Answer")


class _GivenUpError(Exception):
    """The run was cancelled; within this module only."""


class AsyncDevice:
    """A program on a device, for coroutines; used as ``async with``.

    device: its name, which is opened in the device's thread and closed at the end, or an opened one, which stays open.
    All runs are computed one after the other in that thread.
    """

    def __init__(self, program: Compiled, device: str | Device = "emulator") -> None:
        self.program = program_of(program)
        self._given = device
        self._opened: Device | None = None
        self._thread = ThreadPoolExecutor(1, "bfpga device")

    async def __aenter__(self) -> AsyncDevice:
        self._opened = await self._call(self._open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        opened, self._opened = self._opened, None
        try:
            if opened is not None and isinstance(self._given, str):
                await self._call(opened.close)
        finally:
            self._thread.shutdown(wait=False)

    async def run(self, x: Given, *, batch: int = BATCH) -> DeviceResult:
        """As `bfpga.run`.

        A run that is cancelled ends after the batch under way, and is awaited until then: the device has no start in
        flight afterwards. After an error the next run finds the device as after one of `bfpga.run`.
        """
        return await self._begin(x, batch).result()

    async def stream(
        self, batches: Iterable[Given] | AsyncIterable[Given], *, batch: int = BATCH
    ) -> AsyncIterator[DeviceResult]:
        """The result of each of many batches, in order; the next ones are computed while a result is used.

        Batches under way when the iteration ends early are given up as in ``run``.
        """
        waiting: deque[_Run] = deque()
        try:
            async for x in _each(batches):
                waiting.append(self._begin(x, batch))
                if len(waiting) > AHEAD:
                    yield await waiting[0].result()
                    waiting.popleft()
            while waiting:
                yield await waiting[0].result()
                waiting.popleft()
        finally:
            for one in waiting:
                one.give_up()
            for one in waiting:
                await one.ended()

    def _begin(self, x: Given, batch: int) -> _Run:
        device = self._opened
        if device is None:
            raise RuntimeError("the device is not open: use it as `async with AsyncDevice(...) as device`")
        return _Run(lambda progress: run(self.program, x, device, batch=batch, progress=progress), self._thread)

    def _open(self) -> Device:
        return open_device(self._given, self.program) if isinstance(self._given, str) else self._given

    async def _call(self, work: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


class _Run:
    """A run in the device's thread. work: takes what is called after each batch."""

    def __init__(
        self, work: Callable[[Callable[[int, int], None]], DeviceResult], thread: ThreadPoolExecutor
    ) -> None:
        self._given_up = threading.Event()
        self._future = asyncio.get_running_loop().run_in_executor(thread, self._compute, work)

    def _compute(self, work: Callable[[Callable[[int, int], None]], DeviceResult]) -> DeviceResult:
        self._check()
        return work(lambda done, samples: self._check())

    def _check(self) -> None:
        if self._given_up.is_set():
            raise _GivenUpError

    async def result(self) -> DeviceResult:
        """What the run gives; one that is cancelled is given up and awaited."""
        try:
            return await asyncio.shield(self._future)
        except asyncio.CancelledError:
            self.give_up()
            await self.ended()
            raise

    def give_up(self) -> None:
        """No further batch is begun."""
        self._given_up.set()

    async def ended(self) -> None:
        """Wait until nothing of the run is under way, however it ends."""
        await asyncio.wait([self._future])
        if not self._future.cancelled():
            self._future.exception()  # it is not wanted any more, and was asked for


async def _each(batches: Iterable[Given] | AsyncIterable[Given]) -> AsyncIterator[Given]:
    if isinstance(batches, AsyncIterable):
        async for x in batches:
            yield x
    else:
        for x in batches:
            yield x
