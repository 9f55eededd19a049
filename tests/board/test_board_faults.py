"""Faults of the hardware: each ends in one error that says what happened, a clean board and a right next run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import monotonic
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("pynq")

from board_fixtures import CASES, compiled_program, expected, overlay_directory
from board_targets import TARGETS, check_clean, check_run, open_case, opened, same, target_of

from bfpga.board.load import BoardError, BoardOverlay
from bfpga.board.overlays import load_overlay
from bfpga.board.virtual.faults import (
    CorruptedTransfer,
    DmaError,
    DroppedInterrupt,
    Fault,
    KernelNeverDone,
    LostFlush,
    MissingLast,
    ShortPacket,
    StuckStream,
    WrongClock,
)
from bfpga.board.waiters import WaitLimitError
from bfpga.errors import DeviceError

pytestmark = pytest.mark.board

#: A program that sends tensors and weights in every run.
CASE = "lenet_tiny"
#: Ends of the streams at the DMA engines, which are alike for all forms of kernels.
INPUT, WEIGHTS, OUTPUT = "tensor_dma/M_AXIS_MM2S", "weight_dma/M_AXIS_MM2S", "tensor_dma/S_AXIS_S2MM"

#: What goes wrong, and what the user reads.
FAULTS: list[tuple[Fault, str]] = [
    (DmaError(dma="tensor_dma", channel="mm2s", kind="internal"), r"tensor_dma MM2S: halted by an internal error"),
    (DmaError(dma="tensor_dma", channel="mm2s", kind="slave", at_byte=64), r"memory refused the access"),
    (DmaError(dma="weight_dma", channel="mm2s", kind="decode", at_byte=512), r"weight_dma MM2S: halted by a decode"),
    (DmaError(dma="tensor_dma", channel="s2mm", kind="internal"), r"more bytes than the program's stores say"),
    (DmaError(dma="tensor_dma", channel="s2mm", kind="slave", at_byte=8), r"tensor_dma S2MM: halted by a slave error"),
    (DmaError(dma="tensor_dma", channel="s2mm", kind="decode"), r"address without memory"),
    (CorruptedTransfer(dma="weight_dma", channel="mm2s", byte=77, bit=3), r"the checksum of `weights` is 0x"),
    (CorruptedTransfer(dma="tensor_dma", channel="mm2s", byte=400, bit=3), r"the checksum of `input` is 0x"),
    (CorruptedTransfer(dma="tensor_dma", channel="s2mm", byte=20, bit=1), r"the checksum of `output` is 0x"),
    (LostFlush(), r"nothing on the board can move|checksum"),
    (ShortPacket(stream=OUTPUT, beats=2), r"tensor_dma S2MM moved \d+ of \d+ bytes(.|\n)*TLAST came too early"),
    (ShortPacket(stream=INPUT, beats=2), r"never finished although all its data was sent: beats were lost"),
    (ShortPacket(stream=WEIGHTS), r"never finished although all its data was sent: beats were lost"),
    (MissingLast(stream=OUTPUT), r"the kernel has finished but the DMA still waits(.|\n)*TLAST is missing"),
    (StuckStream(stream=INPUT, after_bytes=100), r"stream `input` is stuck"),
    (StuckStream(stream=WEIGHTS, after_bytes=1000), r"stream `weights` is stuck"),
    (StuckStream(stream=OUTPUT, after_bytes=16), r"its output is not taken"),
    (KernelNeverDone(kernel="accelerator", stage="end"), r"never says that it is done"),
    (KernelNeverDone(kernel="accelerator", stage="start"), r"accelerator: running"),
]


def name(value: Any) -> str:
    return type(value).__name__ if isinstance(value, Fault) else value if value in TARGETS else ""


#: Behind PYNQ's client all faults of a kind look alike, so these are tried there; all of them are in this process.
REMOTE = (0, 6, 13, 17)
ON_TARGETS = [
    pytest.param(target, *case, marks=() if target == "virtual" or number in REMOTE else pytest.mark.slow)
    for target in TARGETS
    for number, case in enumerate(FAULTS)
]


@pytest.fixture(scope="module", params=TARGETS)
def board(request: pytest.FixtureRequest) -> Iterator[tuple[BoardOverlay, Any]]:
    """One board for all faults: that it goes on working is what is tested."""
    with opened(CASE, request.param) as (overlay, device):
        yield overlay, device


def faults_of(overlay: BoardOverlay) -> Any:
    return overlay.target.board.faults  # type: ignore[attr-defined]


@pytest.mark.parametrize(("board", "fault", "words"), ON_TARGETS, indirect=["board"], ids=name)
def test_a_fault_is_told_and_the_next_run_is_right(board: tuple[BoardOverlay, Any], fault: Fault, words: str) -> None:
    overlay, device = board
    faults_of(overlay).inject(fault)
    with pytest.raises(BoardError, match=words) as failure:
        device.run(expected(CASE, 1).inputs)
    assert faults_of(overlay).fired == (fault,)
    faults_of(overlay).clear()
    assert failure.value.diagnosis is not None
    assert failure.value.diagnosis.explanation
    assert len(failure.value.diagnosis.hardware) == 4
    assert "the board is ready" in failure.value.diagnosis.aftermath
    check_clean(overlay)
    check_run(device, CASE)


def test_where_packets_of_the_input_end_does_not_matter(board: tuple[BoardOverlay, Any]) -> None:
    overlay, device = board
    faults_of(overlay).inject(MissingLast(stream=INPUT))
    check_run(device, CASE)
    assert faults_of(overlay).fired
    faults_of(overlay).clear()


@pytest.mark.parametrize(("fault", "words"), [FAULTS[6], FAULTS[14]], ids=name)
def test_a_fault_while_weights_are_loaded_is_told_too(fault: Fault, words: str) -> None:
    """The first start of a program, when it is opened."""
    program = compiled_program("digits_tiny_learning")
    with open_case(CASE, "virtual") as overlay:
        faults_of(overlay).inject(fault)
        with pytest.raises(BoardError, match=words):
            overlay.open(program)
        faults_of(overlay).clear()
        check_clean(overlay)
        check_run(overlay.open(program), "digits_tiny_learning")


def test_both_starts_in_flight_are_lost_with_a_failure() -> None:
    with opened("lenet_zcu104") as (overlay, device):
        reference = expected("lenet_zcu104", 50)
        faults_of(overlay).inject(DmaError(dma="tensor_dma", channel="s2mm", kind="slave", after=1))
        with pytest.raises(BoardError):
            device.run(reference.inputs)
        with pytest.raises(DeviceError, match="no start is in flight"):
            device.streaming.finish()
        assert same(device.run(reference.inputs), reference)


def test_policies_that_had_learned_start_afresh_after_a_failure() -> None:
    with opened("digits_tiny_learning") as (overlay, device):
        reference = expected("digits_tiny_learning", 20)
        device.run(reference.inputs)
        faults_of(overlay).inject(MissingLast(stream=OUTPUT))
        with pytest.raises(BoardError):
            device.run(reference.inputs)
        assert same(device.run(reference.inputs), reference)


# A board that really waits


def test_a_stall_ends_at_the_time_limit_where_nobody_explains_it() -> None:
    files = load_overlay(overlay_directory("tiny"))
    target = target_of("virtual", "zynq7", threaded=True, latency=0.0002)
    with BoardOverlay(files, target, timeout=0.2) as overlay, patch.object(target, "stalled", lambda error: False):
        device = overlay.open(compiled_program(CASE))
        check_run(device, CASE)
        faults_of(overlay).inject(StuckStream(stream=INPUT))
        with (
            patch("bfpga.board.virtual.board.VirtualBoard._count_poll", lambda *_: None),
            pytest.raises(BoardError, match=r"did not end within 0\.\d s(.|\n)*stream `input` is stuck") as failure,
        ):
            device.run(expected(CASE, 1).inputs)
        assert isinstance(failure.value.__cause__, WaitLimitError)
        check_run(device, CASE)


def test_a_limit_is_longer_for_starts_that_move_more() -> None:
    with opened(CASE) as (overlay, device):
        small, large = (device.streaming._limit(_start(size)) for size in (0, 1 << 26))
        assert small == overlay.minimum_seconds
        assert large > small + 1
        computing = device.streaming._limit(replace(_start(0), predicted_cycles=100_000_000))
        assert computing >= small + 1.0  # 1 s at 100 MHz


def _start(size: int) -> Any:
    from bfpga.devices.kernel_start import KernelStart

    return KernelStart(0, bytes(size))


# Interrupts


@pytest.mark.parametrize("source", ["tensor_dma/mm2s_introut", "weight_dma/mm2s_introut"])
def test_a_dropped_interrupt_is_told_apart_from_a_stuck_transfer(source: str) -> None:
    program = compiled_program("digits_tiny_learning")
    with open_case(CASE, "virtual", wait="interrupt", timeout=60.0) as overlay:
        faults_of(overlay).inject(DroppedInterrupt(source=source))
        begun = monotonic()
        with pytest.raises(BoardError, match=r"the interrupt of a finished transfer was lost(.|\n)*it never arrived"):
            overlay.open(program)
        assert monotonic() - begun < 30  # the time-out was not waited for
        faults_of(overlay).clear()
        check_run(overlay.open(program), "digits_tiny_learning")


@pytest.mark.parametrize(("fault", "words"), [FAULTS[4], FAULTS[13]], ids=name)
def test_a_fault_is_told_with_interrupts_too(fault: Fault, words: str) -> None:
    with opened(CASE, wait="interrupt", timeout=0.2) as (overlay, device):
        faults_of(overlay).inject(fault)
        with pytest.raises(BoardError, match=words):
            device.run(expected(CASE, 1).inputs)
        faults_of(overlay).clear()
        check_clean(overlay)
        check_run(device, CASE)


# The keyboard


@pytest.mark.parametrize("step", ["_launch", "_complete", "_unpack"])
def test_a_run_that_is_interrupted_by_the_user_leaves_a_usable_board(step: str) -> None:
    with opened(CASE) as (_, device):
        with (
            pytest.raises(KeyboardInterrupt),
            patch.object(device.streaming, step, side_effect=KeyboardInterrupt),
        ):
            device.run(expected(CASE, 1).inputs)
        check_run(device, CASE)


# The network


def test_a_lost_connection_is_told_and_the_next_run_connects_again() -> None:
    with opened(CASE, "virtual:remote") as (overlay, device):
        server = overlay.target.server  # type: ignore[attr-defined]
        check_run(device, CASE)
        buffers = len(server.board.memory.buffers)
        server.drop_connections()
        for _ in range(2):
            with pytest.raises(BoardError, match=r"gRPC connection to the board is lost|no board answers") as failure:
                device.run(expected(CASE, 1).inputs)
        assert "no board answers" in str(failure.value)
        server.resume()
        check_run(device, CASE)
        check_clean(overlay)
        assert len(server.board.memory.buffers) <= buffers


def test_a_connection_that_is_lost_in_the_middle_of_a_start_is_told() -> None:
    with opened(CASE, "virtual:remote") as (overlay, device):
        server = overlay.target.server  # type: ignore[attr-defined]
        start = overlay.hardware.registers.start
        with (
            patch.object(overlay.hardware.registers, "start", lambda arguments: (start(arguments), _drop(server))),
            pytest.raises(BoardError, match=r"gRPC connection to the board is lost(.|\n)*next run connects again"),
        ):
            device.run(expected(CASE, 1).inputs)
        server.resume()
        check_run(device, CASE)


def _drop(server: Any) -> None:
    server.drop_connections()


# Loading


@pytest.mark.parametrize("target", TARGETS)
def test_a_wrong_clock_is_refused(target: str) -> None:
    files = load_overlay(overlay_directory("tiny"))
    opened_target = target_of(target, "zynq7")
    opened_target.board.faults.inject(WrongClock(sticky=True))  # type: ignore[attr-defined]
    with pytest.raises(BoardError, match=r"clock of the logic: expected 100.000 MHz, found \d+.\d+ MHz(.|\n)*PLL"):
        BoardOverlay(files, opened_target)


def test_a_clock_that_can_be_set_right_is_set_right() -> None:
    files = load_overlay(overlay_directory("tiny"))
    target = target_of("virtual", "zynq7")
    set_clocks = target.board.clocks.configure  # type: ignore[attr-defined]

    def left_alone(clocks: Any) -> None:
        set_clocks(clocks)
        word = target.board.read(0xF8000170)  # type: ignore[attr-defined]
        changed = int.from_bytes(word, "little") & ~(0x3F << 8) | 20 << 8
        target.board.write(0xF8000170, changed.to_bytes(4, "little"))  # type: ignore[attr-defined]

    with (
        patch.object(target.board.clocks, "configure", left_alone),  # type: ignore[attr-defined]
        BoardOverlay(files, target) as overlay,
    ):
        assert overlay.clock_mhz == pytest.approx(100.0, rel=0.01)


@pytest.mark.parametrize("target", TARGETS)
def test_a_handoff_that_is_not_the_manifests_is_refused_before_any_register_is_written(target: str) -> None:
    files = load_overlay(overlay_directory("tiny"))
    cells = dict(files.manifest.cells)
    cells["accelerator"] = replace(cells["accelerator"], base=0x40000000)
    cells["weight_dma"] = replace(cells["weight_dma"], vlnv="xilinx.com:ip:axi_dma:6.0")
    changed = replace(files, manifest=replace(files.manifest, cells=cells))
    opened_target = target_of(target, "zynq7", trace=1000)
    board = opened_target.board  # type: ignore[attr-defined]
    with pytest.raises(BoardError, match="is not what its manifest says") as failure:
        BoardOverlay(changed, opened_target)
    assert "accelerator: address: expected 0x40000000, found 0x43c00000" in str(failure.value)
    assert "weight_dma: type: expected xilinx.com:ip:axi_dma:6.0" in str(failure.value)
    assert "another overlay was loaded under the same name" in str(failure.value)
    assert not [access for access in board.trace if access.kind == "write"]


def test_a_bitstream_with_another_kernel_is_refused() -> None:
    files = load_overlay(overlay_directory("tiny"))
    from bfpga.board.overlay import staged_files

    accelerator = replace(files.manifest.accelerator, digest="f" * 64)
    other = replace(files, manifest=replace(files.manifest, accelerator=accelerator))
    with (
        patch("bfpga.board.overlay.staged_files", lambda _, *place: staged_files(files, *place)),
        pytest.raises(
            BoardError, match=r"identification of the kernel: expected 0xffffffff(.|\n)*\.hwh does not belong"
        ),
    ):
        BoardOverlay(other, target_of("virtual", "zynq7"))


def test_a_kernel_that_does_not_answer_is_refused() -> None:
    files = load_overlay(overlay_directory("tiny"))
    target = target_of("virtual", "zynq7")
    target.board.faults.inject(KernelNeverDone(kernel="accelerator", sticky=True))  # type: ignore[attr-defined]
    with pytest.raises(BoardError, match=r"start without work: expected ends at once, found no end"):
        BoardOverlay(files, target)


def test_an_overlay_that_somebody_else_loaded_meanwhile_is_noticed() -> None:
    """A second program on the same board, with the same design around another kernel."""
    from bfpga.board.virtual.compiled_kernel import CompiledKernel

    class Other(CompiledKernel):
        def results(self) -> dict[str, int]:
            return super().results() | {"identification": 0x01234567}

    with opened(CASE) as (overlay, device):
        manifest = overlay.manifest
        handoff = load_overlay(overlay_directory(CASES[CASE].accelerator)).handoff.read_text()
        other = Other(manifest.config, manifest.accelerator.name, manifest.accelerator.digest)
        overlay.target.board.configure(handoff, {"accelerator": other})  # type: ignore[attr-defined]
        for channel in overlay.hardware.channels:
            channel.channel.start()
        with pytest.raises(BoardError, match=r"the kernel says 0x01234567(.|\n)*another overlay was loaded"):
            device.run(expected(CASE, 1).inputs)
        check_run(device, CASE)


def test_an_overlay_that_this_program_replaced_is_told_without_an_access_to_its_registers() -> None:
    """On a board, an access to an address without a slave freezes the processor."""
    import pynq

    with opened(CASE, "virtual") as (overlay, device):
        target, bitfile = overlay.target, overlay._bitfile
        check_run(device, CASE)
        pynq.Overlay(str(bitfile), device=target.device)
        model = target.board  # type: ignore[attr-defined]
        with (
            patch.object(model, "read", side_effect=AssertionError("a register was read")),
            patch.object(model, "write", side_effect=AssertionError("a register was written")),
            pytest.raises(BoardError, match="is no longer on the board"),
        ):
            device.run(expected(CASE, 1).inputs)
        check_run(device, CASE)
        check_clean(overlay)


def test_an_overlay_that_was_reset_meanwhile_is_noticed() -> None:
    with opened(CASE) as (overlay, device):
        overlay.target.board.reset_fabric()  # type: ignore[attr-defined]
        with pytest.raises(BoardError):
            device.run(expected(CASE, 1).inputs)
        check_run(device, CASE)
