"""Programs that stay on the chip, on a virtual board: repeated, interrupted and failed starts, two in flight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

pytest.importorskip("pynq")

from board_targets import check_clean, target_of
from kernel_pairs import SMALL
from small_networks import Network, compiled

from bfpga.accelerator.variants import accelerator_around
from bfpga.board.load import BoardError, BoardOverlay
from bfpga.board.overlays import load_overlay
from bfpga.board.virtual.faults import CorruptedTransfer, Fault, KernelNeverDone, ShortPacket, StuckStream
from bfpga.contract.program import Program
from bfpga.devices.emulator import Emulator
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.vendor.overlay_files import write_overlay

CONFIG = replace(SMALL, program_descriptors=32)
HEADER, DESCRIPTOR = 64, 320
INPUT = "tensor_dma/M_AXIS_MM2S"
SAMPLES = np.random.default_rng(5).normal(size=(23, 3, 6, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    network = Network(3, 6, 6)
    network.conv(5, 3, 3, pads=[1, 1, 1, 1])
    network.add("Relu")
    network.conv(4, 5, 3)
    return compiled(network, tmp_path_factory.mktemp("network"), config=CONFIG)


@pytest.fixture(scope="module")
def board(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BoardOverlay, StreamingDevice]]:
    folder = tmp_path_factory.mktemp("overlay")
    write_overlay(accelerator_around(CONFIG, program.accelerator, program.digest), folder)
    files = load_overlay(folder)
    with BoardOverlay(files, target_of("virtual", files.manifest.board.processing_system)) as overlay:
        yield overlay, overlay.open(program)


def check(program: Program, device: StreamingDevice, samples: np.ndarray[Any, Any]) -> list[int]:
    """A run gives what the emulator gives; bytes of the input of each of its starts."""
    sizes: list[int] = []
    kernel, begin = device.streaming, device.streaming.begin
    with patch.object(kernel, "begin", lambda start: (sizes.append(len(start.packet)), begin(start))):
        got = device.run({"x": samples})
    expected = Emulator(program).run({"x": samples})
    for name in program.outputs:
        np.testing.assert_array_equal(got.outputs[name], expected.outputs[name])
    return sizes


def sent(program: Program, device: StreamingDevice) -> int:
    """Bytes of the descriptors of a sample."""
    (packets,) = device._packets.values()
    assert packets.kept is not None
    return DESCRIPTOR * packets.kept.length


@pytest.fixture
def device(board: tuple[BoardOverlay, StreamingDevice]) -> StreamingDevice:
    board[1].samples_a_start = 4
    return board[1]


def test_a_program_crosses_the_stream_once(program: Program, device: StreamingDevice) -> None:
    """FP R2: two starts in flight, then runs that name program and samples; the last of each has fewer samples."""
    device.reset()
    first, *others, last = check(program, device, SAMPLES)
    descriptors, tensors = sent(program, device), device._packets[next(iter(device._packets))].input_bytes
    assert first in (HEADER + descriptors + 4 * tensors, HEADER + 4 * tensors)
    assert others == [HEADER + 4 * tensors] * 4
    assert last == HEADER + 3 * tensors
    assert check(program, device, SAMPLES[::-1]) == [HEADER + 4 * tensors] * 5 + [last]


def test_all_samples_of_a_run_may_share_a_start(program: Program, device: StreamingDevice) -> None:
    device.samples_a_start = len(SAMPLES)
    assert len(check(program, device, SAMPLES)) == 1
    measured = device.run({"x": SAMPLES}).measured
    assert measured is not None
    assert measured.clocks - measured.waits == measured.scheduled


FAULTS: list[Fault] = [
    CorruptedTransfer(dma="tensor_dma", channel="mm2s", byte=30, bit=3),  # the header
    CorruptedTransfer(dma="tensor_dma", channel="mm2s", byte=700, bit=3),  # a tensor
    ShortPacket(stream=INPUT, beats=2),
    StuckStream(stream=INPUT, after_bytes=100),
    StuckStream(stream="tensor_dma/S_AXIS_S2MM", after_bytes=16),
    KernelNeverDone(kernel="accelerator", stage="end"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_a_start_that_failed_amid_a_program_leaves_a_board_that_gets_it_again(
    program: Program, board: tuple[BoardOverlay, StreamingDevice], device: StreamingDevice, fault: Fault
) -> None:
    overlay, faults = board[0], board[0].target.board.faults  # type: ignore[attr-defined]
    check(program, device, SAMPLES)
    faults.inject(fault)
    with pytest.raises(BoardError):
        device.run({"x": SAMPLES})
    assert faults.fired == (fault,)
    faults.clear()
    check_clean(overlay)
    _, first, second, *_ = check(program, device, SAMPLES)  # behind the start that brings weights again
    assert first - second == sent(program, device)


def test_a_run_that_is_interrupted_leaves_nothing_for_the_next_one(program: Program, device: StreamingDevice) -> None:
    check(program, device, SAMPLES)
    with pytest.raises(KeyboardInterrupt), patch.object(device.streaming, "finish", side_effect=KeyboardInterrupt):
        device.run({"x": SAMPLES})
    _, first, second, *_ = check(program, device, SAMPLES[::-1])
    assert first - second == sent(program, device)


def test_starts_of_single_operations_come_between(program: Program, device: StreamingDevice) -> None:
    """Traced runs send each operation by itself; what the memory holds stays."""
    before = check(program, device, SAMPLES)[-1]
    traced, expected = device.run({"x": SAMPLES[:2]}, trace=True), Emulator(program).run({"x": SAMPLES[:2]}, trace=True)
    for name, tensor in expected.tensors.items():
        np.testing.assert_array_equal(traced.tensors[name].mantissa, tensor.mantissa)
    assert check(program, device, SAMPLES)[-1] == before


def test_another_network_on_the_same_board_brings_its_own(
    program: Program, board: tuple[BoardOverlay, StreamingDevice], tmp_path: Path
) -> None:
    network = Network(3, 6, 6)
    network.conv(4, 3, 3)
    other = compiled(network, tmp_path, config=CONFIG)
    check(other, board[0].open(other), SAMPLES)
    check(program, board[0].open(program), SAMPLES)
