"""Networks on boards through PYNQ's own classes: one driver on a virtual board in this process and behind gRPC."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

pytest.importorskip("pynq")

from board_fixtures import SAMPLES, compiled_program, expected, overlay_directory
from board_targets import TARGETS, check_clean, check_run, opened, require, same
from effort import each_once

import bfpga
from bfpga.board.buffers import BoardBuffer
from bfpga.board.dma import BoardChannel
from bfpga.board.load import BoardError, load
from bfpga.devices.kernel_start import KernelStart
from bfpga.errors import DeviceError, ProgramError

pytestmark = pytest.mark.board


@pytest.mark.parametrize(
    ("case", "target"),
    each_once(["lenet_tiny", "residual_pynq_z2"], TARGETS),
)
def test_a_network_gives_what_the_emulator_gives(case: str, target: str) -> None:
    with opened(case, target) as (overlay, device):
        reference = expected(case, 8)
        assert same(device.run(reference.inputs), reference)
        check_clean(overlay)


def test_a_hundred_samples_give_the_outputs_and_clocks_of_the_emulator() -> None:
    with opened("lenet_zcu104") as (_, device):
        reference = expected("lenet_zcu104")
        result = device.run(reference.inputs)
        assert result.samples == SAMPLES
        assert same(result, reference)
        assert result.cycles == reference.cycles


def test_policies_learn_on_a_board_as_in_the_emulator() -> None:
    with opened("digits_tiny_learning") as (_, device):
        check_run(device, "digits_tiny_learning", 20)
        check_run(device, "digits_tiny_learning", 20)


@pytest.mark.parametrize("case", ["lenet_tiny", "lenet_zcu104"])
def test_the_clock_is_the_manifests_and_the_one_that_pynq_reads(case: str) -> None:
    """R79: the clock."""
    import pynq

    with opened(case) as (overlay, _):
        assert overlay.clock_mhz == pytest.approx(overlay.manifest.clock.actual_mhz, rel=0.01)
        if hasattr(pynq.ps, "ON_TARGET"):  # PYNQ 3.0 asks the processor of this machine instead of the board's
            assert overlay.clock_mhz == pytest.approx(pynq.Clocks.fclk0_mhz, rel=1e-4)


def test_interrupts_serve_instead_of_polling() -> None:
    """R79: interrupts of the DMA when done."""
    with opened("lenet_tiny", wait="interrupt") as (overlay, device):
        check_run(device, "lenet_tiny", 4)
        check_clean(overlay)


def test_a_remote_board_has_no_interrupts() -> None:
    require("virtual:remote")
    with pytest.raises(BoardError, match=r"carries no interrupts; use wait=.poll"):
        load(overlay_directory("tiny"), "virtual:remote", wait="interrupt")


def test_an_unknown_way_to_wait_is_refused() -> None:
    with pytest.raises(BoardError, match="known are poll, interrupt"):
        load(overlay_directory("tiny"), "virtual", wait="hope")


# Weights, buffers, transfers


def test_resident_weights_stay_in_the_kernel_from_run_to_run() -> None:
    with opened("lenet_zcu104") as (_overlay, device):
        reference = expected("lenet_zcu104", 3)
        sent = Counter[str]()
        begin = BoardChannel.begin

        def counted(channel: BoardChannel, buffer: BoardBuffer, size: int, repeats: int = 1) -> None:
            sent[channel.name] += size * repeats
            begin(channel, buffer, size, repeats)

        with patch.object(BoardChannel, "begin", counted):
            device.run(reference.inputs)
            device.run(reference.inputs)
        assert sent["weight_dma MM2S"] == 0
        assert sent["tensor_dma MM2S"] > 0


def test_buffers_are_used_again() -> None:
    with opened("lenet_zcu104") as (overlay, device):
        memory = overlay.target.board.memory  # type: ignore[attr-defined]
        reference = expected("lenet_zcu104", 50)
        device.run(reference.inputs)
        buffers = memory.buffers
        device.run(reference.inputs)
        assert memory.buffers == buffers


def test_closing_frees_all_memory_of_the_board() -> None:
    with opened("lenet_tiny") as (overlay, device):
        memory = overlay.target.board.memory  # type: ignore[attr-defined]
        device.run(expected("lenet_tiny", 2).inputs)
        assert memory.buffers
    assert not memory.buffers


def test_results_do_not_change_when_buffers_are_used_again() -> None:
    with opened("lenet_zcu104") as (_, device):
        reference = expected("lenet_zcu104", 2)
        first = device.run(reference.inputs)
        device.run({name: value[::-1] for name, value in reference.inputs.items()})
        assert same(first, reference)


def test_streams_beyond_the_limit_of_the_dma_go_in_pieces() -> None:
    """R78: transfers in blocks of the DMA."""
    with opened("lenet_tiny") as (overlay, device):
        for channel in (overlay.hardware.input, overlay.hardware.weights):
            channel.limit = 4096
        check_run(device, "lenet_tiny")


def test_an_output_beyond_the_limit_of_the_dma_is_refused_before_anything_moves() -> None:
    with opened("lenet_tiny") as (overlay, device):
        limit, overlay.hardware.output.limit = overlay.hardware.output.limit, 1000
        with pytest.raises(BoardError, match=r"does not fit one transfer of tensor_dma S2MM, at most 1000 bytes"):
            device.run(expected("lenet_tiny", 1).inputs)
        check_clean(overlay)
        overlay.hardware.output.limit = limit
        check_run(device, "lenet_tiny")


def test_exhausted_memory_is_told_and_leaves_the_board_usable() -> None:
    with opened("lenet_tiny") as (overlay, device):
        memory = overlay.target.board.memory  # type: ignore[attr-defined]
        overlay.hardware.pool.trim()
        taken = memory.allocate(memory.free_bytes - (16 << 10))
        with pytest.raises(BoardError, match=r"contiguous bytes left .*cma="):
            device.run(expected("lenet_tiny", 1).inputs)
        memory.free(taken)
        check_run(device, "lenet_tiny")


def test_times_are_told_by_part() -> None:
    with opened("lenet_zcu104") as (overlay, device):
        result = device.run(expected("lenet_zcu104", 4).inputs)
        assert all(result.seconds[part] > 0 for part in ("pack", "transfer", "compute", "unpack"))
        assert result.measured is not None
        assert result.seconds["compute"] == pytest.approx(result.measured.clocks / (overlay.clock_mhz * 1e6))


# Starts


def probe(overlay: Any, output_bytes: int = 0) -> KernelStart:
    """A start that does nothing."""
    return KernelStart(descriptors=0, packet=b"", output_bytes=output_bytes)


def test_starts_are_finished_in_the_order_they_were_begun() -> None:
    """Each kernel start of a run is recorded and replayed two at a time."""
    with opened("lenet_zcu104") as (_overlay, device):
        starts, results = [], []
        kernel = device.streaming
        with patch.object(kernel, "begin", lambda start, begin=kernel.begin: (starts.append(start), begin(start))):
            for part in range(3):
                reference = expected("lenet_zcu104", part + 1)
                device.run({name: value[part:] for name, value in reference.inputs.items()})
        assert len(starts) == 3
        single = [kernel.run(start).output for start in starts]  # type: ignore[attr-defined]
        kernel.begin(starts[0])
        kernel.begin(starts[1])
        with pytest.raises(DeviceError, match="2 starts are in flight already"):
            kernel.begin(starts[2])
        results.append(kernel.finish().output)
        kernel.begin(starts[2])
        results += [kernel.finish().output, kernel.finish().output]
        assert results == single
        assert len(set(single)) == 3
        with pytest.raises(DeviceError, match="no start is in flight"):
            kernel.finish()


def test_the_next_start_is_launched_before_the_results_of_the_last_are_unpacked() -> None:
    with opened("lenet_zcu104") as (overlay, device):
        events: list[str] = []
        kernel = device.streaming
        launch, unpack = kernel._launch, kernel._unpack  # type: ignore[attr-defined]
        with (
            patch.object(kernel, "_launch", lambda slot: (events.append("launch"), launch(slot))),
            patch.object(kernel, "_unpack", lambda *args: (events.append("unpack"), unpack(*args))[1]),
        ):
            kernel.begin(probe(overlay))
            kernel.begin(probe(overlay))
            kernel.finish()
            kernel.finish()
        assert events == ["launch", "launch", "unpack", "unpack"]


def test_the_receiving_channel_is_armed_before_the_kernel_starts() -> None:
    with opened("lenet_zcu104") as (overlay, device):
        order: list[str] = []
        hardware = overlay.hardware
        begin, start = BoardChannel.begin, hardware.registers.start

        def armed(channel: BoardChannel, *args: Any) -> None:
            order.append(channel.name)
            begin(channel, *args)

        with (
            patch.object(BoardChannel, "begin", armed),
            patch.object(hardware.registers, "start", lambda arguments: (order.append("kernel"), start(arguments))),
        ):
            device.run(expected("lenet_zcu104", 1).inputs)
        assert order == ["tensor_dma S2MM", "kernel", "tensor_dma MM2S"]


@pytest.mark.parametrize(("packet", "weights", "what"), [(b"abc", b"", "packet"), (b"", b"abcde", "weights")])
def test_streams_that_are_no_whole_beats_are_refused(packet: bytes, weights: bytes, what: str) -> None:
    with opened("lenet_tiny") as (_overlay, device):
        with pytest.raises(BoardError, match=f"{what} of . bytes are no whole number of beats"):
            device.streaming.begin(KernelStart(descriptors=1, packet=packet, weights=weights))
        check_run(device, "lenet_tiny")


def test_arrays_serve_as_streams_and_may_change_afterwards() -> None:
    with opened("lenet_zcu104") as (_overlay, device):
        starts: list[KernelStart] = []
        kernel = device.streaming
        begin = kernel.begin
        with patch.object(kernel, "begin", lambda start: (starts.append(start), begin(start))):
            device.run(expected("lenet_zcu104", 1).inputs)
        packet = np.frombuffer(starts[-1].input(), np.uint8).copy()
        start = KernelStart(starts[-1].descriptors, packet, output_bytes=starts[-1].output_bytes)
        wanted = kernel.run(starts[-1]).output  # type: ignore[attr-defined]
        kernel.begin(start)
        packet[:] = 0
        assert kernel.finish().output == wanted


# Opening and closing


def test_another_program_closes_the_one_before() -> None:
    with opened("lenet_tiny") as (overlay, first):
        second = overlay.open(compiled_program("digits_tiny_learning"))
        check_run(second, "digits_tiny_learning")
        with pytest.raises(DeviceError, match="another program was opened on it"):
            first.run(expected("lenet_tiny", 1).inputs)
        check_run(overlay.open(compiled_program("lenet_tiny")), "lenet_tiny")


def test_a_program_of_another_accelerator_is_refused() -> None:
    with opened("lenet_tiny") as (overlay, device):
        with pytest.raises(ProgramError, match="compiled for accelerator zcu104_dense"):
            overlay.open(compiled_program("lenet_zcu104"))
        check_run(device, "lenet_tiny")


def test_a_closed_overlay_says_so() -> None:
    with opened("lenet_tiny") as (overlay, device):
        pass
    overlay.close()
    with pytest.raises(DeviceError, match="closed"):
        device.run(expected("lenet_tiny", 1).inputs)
    with pytest.raises(BoardError, match="load it again"):
        _ = overlay.hardware


@pytest.mark.parametrize("target", TARGETS)
def test_a_device_by_name_opens_the_overlay_of_its_program_and_closes_it(target: str) -> None:
    require(target)
    program, reference = compiled_program("lenet_tiny"), expected("lenet_tiny", 2)
    with patch("bfpga.board.overlay.overlay_for_program", _fixture_overlay):
        result = bfpga.run(program, reference.inputs, target)
    assert same(result, reference)


def _fixture_overlay(program: Any) -> Any:
    from bfpga.board.overlays import load_overlay

    return load_overlay(overlay_directory(program.accelerator))


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("BFPGA_CACHE", str(file))
    with pytest.raises(BoardError, match=r"cannot write there.*set BFPGA_CACHE"):
        load(overlay_directory("tiny"), "virtual")


def test_two_boards_in_one_process_do_not_disturb_each_other() -> None:
    with opened("lenet_tiny") as (_, first), opened("lenet_zcu104") as (_, second):
        check_run(first, "lenet_tiny")
        check_run(second, "lenet_zcu104")
        check_run(first, "lenet_tiny")
