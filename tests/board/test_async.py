"""A device that an event loop awaits: results, order, coroutines that go on, cancelled and failing runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pynq")

from board_fixtures import compiled_program, expected
from board_targets import check_clean, opened, same

from bfpga.board.load import BoardError
from bfpga.board.virtual.faults import DmaError
from bfpga.devices.base import DeviceResult
from bfpga.errors import DataError
from bfpga.runtime_async import AsyncDevice

pytestmark = pytest.mark.board
CASE = "digits_tiny"


class Gated:
    """A device whose runs wait for a gate, noting each; computed by another device."""

    name = "gated"

    def __init__(self, device: Any) -> None:
        self.device = device
        self.begun: list[int] = []
        self.started, self.gate = threading.Semaphore(0), threading.Semaphore(0)

    def run(self, inputs: Any, *, trace: bool = False) -> DeviceResult:
        self.begun.append(len(next(iter(inputs.values()))))
        self.started.release()
        self.gate.acquire()
        result: DeviceResult = self.device.run(inputs, trace=trace)
        return result

    def reset(self) -> None:
        self.device.reset()

    def close(self) -> None:
        self.device.close()


def test_a_run_is_awaited_while_coroutines_go_on() -> None:
    reference = expected(CASE, 6)

    async def work(device: Gated) -> DeviceResult:
        async with AsyncDevice(compiled_program(CASE), device) as front:
            run = asyncio.ensure_future(front.run(reference.inputs))
            while not device.begun:
                await asyncio.sleep(0.001)
            assert not run.done(), "the loop runs while the device computes"
            device.gate.release()
            return await run

    with opened(CASE) as (overlay, device):
        assert same(asyncio.run(work(Gated(device))), reference)
        check_clean(overlay)
        assert same(device.run(reference.inputs), reference), "a device that was given stays open"


def test_a_stream_gives_results_in_the_order_of_its_batches() -> None:
    reference = expected(CASE, 9)
    parts = [{name: value[n : n + 3] for name, value in reference.inputs.items()} for n in (0, 3, 6)]

    async def camera() -> AsyncIterator[dict[str, Any]]:
        for part in parts:
            await asyncio.sleep(0)
            yield part

    async def work(device: Any, batches: Any) -> list[DeviceResult]:
        async with AsyncDevice(compiled_program(CASE), device) as front:
            return [result async for result in front.stream(batches)]

    with opened(CASE) as (_, device):
        for batches in (parts, camera()):
            results = asyncio.run(work(device, batches))
            for name, value in reference.outputs.items():
                np.testing.assert_array_equal(np.concatenate([one.outputs[name] for one in results]), value)


def test_a_cancelled_run_ends_after_its_batch_and_leaves_the_board_usable() -> None:
    reference = expected(CASE, 6)

    async def work(device: Gated) -> DeviceResult:
        async with AsyncDevice(compiled_program(CASE), device) as front:
            run = asyncio.ensure_future(front.run(reference.inputs, batch=2))
            await asyncio.to_thread(device.started.acquire)
            run.cancel()
            await asyncio.sleep(0.01)
            assert not run.done(), "a start is under way"
            device.gate.release()
            with pytest.raises(asyncio.CancelledError):
                await run
            assert device.begun == [2]
            for _ in range(3):
                device.gate.release()
            return await front.run(reference.inputs, batch=2)

    with opened(CASE) as (overlay, device):
        assert same(asyncio.run(work(Gated(device))), reference)
        check_clean(overlay)


def test_a_stream_that_is_left_early_begins_no_further_batch() -> None:
    reference = expected(CASE, 6)
    parts = [{name: value[n : n + 1] for name, value in reference.inputs.items()} for n in range(6)]

    async def work(device: Gated) -> None:
        async with AsyncDevice(compiled_program(CASE), device) as front:
            stream = front.stream(parts)
            device.gate.release()
            await anext_of(stream)
            await asyncio.to_thread(device.started.acquire)
            await asyncio.to_thread(device.started.acquire)
            closing = asyncio.ensure_future(stream.aclose())  # type: ignore[attr-defined]
            await asyncio.sleep(0)
            assert not closing.done(), "a batch is under way"
            device.gate.release()
            await closing

    async def anext_of(stream: AsyncIterator[DeviceResult]) -> DeviceResult:
        return await stream.__anext__()

    with opened(CASE) as (overlay, device):
        gated = Gated(device)
        asyncio.run(work(gated))
        assert gated.begun == [1, 1]
        check_clean(overlay)


def test_a_failing_start_is_an_error_of_its_run_alone() -> None:
    reference = expected(CASE, 4)

    async def work(overlay: Any, device: Any) -> DeviceResult:
        async with AsyncDevice(compiled_program(CASE), device) as front:
            overlay.target.board.faults.inject(DmaError(dma="tensor_dma", channel="mm2s", kind="slave"))
            with pytest.raises(BoardError, match="slave error"):
                await front.run(reference.inputs)
            with pytest.raises(DataError):
                await front.run(np.zeros((2, 5)))
            return await front.run(reference.inputs)

    with opened(CASE) as (overlay, device):
        assert same(asyncio.run(work(overlay, device)), reference)
        check_clean(overlay)


def test_a_device_of_a_name_is_opened_and_closed_with_the_front() -> None:
    reference = expected(CASE, 3)

    async def work() -> DeviceResult:
        front = AsyncDevice(compiled_program(CASE))
        async with front as device:
            result = await device.run(reference.inputs)
        with pytest.raises(RuntimeError, match="not open"):
            await front.run(reference.inputs)
        return result

    assert same(asyncio.run(work()), reference)
