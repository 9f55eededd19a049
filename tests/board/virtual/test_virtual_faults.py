"""Injected faults: each shows up the way the hardware would show it, once, and a reset ends it."""

from __future__ import annotations

import numpy as np
import pytest
from virtual_designs import CONTROLLER, DMA, KERNEL, Design, Host, plus_one

from bfpga.board.virtual.board import BoardStall
from bfpga.board.virtual.faults import (
    CorruptedMemory,
    CorruptedTransfer,
    DmaError,
    DroppedInterrupt,
    Fault,
    Faults,
    KernelNeverDone,
    LostFlush,
    MissingLast,
    ShortPacket,
    StuckStream,
    WrongClock,
)
from bfpga.errors import DeviceError

HALTED, IDLE, ERROR = 1 << 0, 1 << 1, 1 << 14
DATA = bytes(range(256)) * 2
BITS = {"internal": 1 << 4, "slave": 1 << 5, "decode": 1 << 6}


@pytest.fixture
def host() -> Host:
    return Host()


def launch(host: Host, data: bytes = DATA) -> int:
    """A run as a driver begins it; the address of its output buffer."""
    target = host.buffer(len(data))
    host.run_channels()
    host.receive(target, len(data))
    host.start_kernel(len(data))
    host.send(host.buffer(data), len(data))
    return target


def recovers(host: Host) -> bool:
    host.board.reset_fabric()
    return host.add_one(DATA) == plus_one(DATA) and host.s2mm & IDLE == IDLE


@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize(("channel", "offset"), [("mm2s", 0x04), ("s2mm", 0x34)])
def test_dma_errors_halt_their_channel(host: Host, kind: str, channel: str, offset: int) -> None:
    fault = DmaError(dma="dma", channel=channel, kind=kind, at_byte=100)  # type: ignore[arg-type]
    host.board.faults.inject(fault)
    launch(host)
    assert host.read(DMA + offset) == HALTED | BITS[kind] | ERROR
    assert host.read(DMA + 0x38 - offset) & BITS[kind] == 0, "the other channel has no error"
    assert host.board.faults.fired == (fault,)
    assert host.board.faults.pending == ()
    assert recovers(host)


def test_a_dma_error_may_come_late_and_in_the_middle(host: Host) -> None:
    host.board.faults.inject(DmaError(dma="dma", channel="s2mm", kind="slave", after=1, at_byte=100))
    assert host.add_one(DATA) == plus_one(DATA)
    target = launch(host)
    assert host.s2mm & BITS["slave"]
    assert host.ddr(target, 100).tobytes() == plus_one(DATA[:100])
    assert not host.ddr(target + 100, 100).any()


@pytest.mark.parametrize(("channel", "offset"), [("mm2s", 0x04), ("s2mm", 0x34)])
def test_a_dma_error_beyond_the_packet_comes_at_its_end(host: Host, channel: str, offset: int) -> None:
    host.board.faults.inject(DmaError(dma="dma", channel=channel, kind="decode", at_byte=10_000))  # type: ignore[arg-type]
    target = launch(host)
    assert host.read(DMA + offset) & BITS["decode"]
    assert host.ddr(target, len(DATA)).tobytes() == plus_one(DATA)


def test_a_short_packet_is_seen_in_the_length(host: Host) -> None:
    host.board.faults.inject(ShortPacket(stream="adder/output_stream", beats=3))
    target = launch(host)
    assert host.s2mm & (IDLE | HALTED) == IDLE
    assert host.read(DMA + 0x58) == len(DATA) - 12
    assert host.ddr(target, len(DATA) - 12).tobytes() == plus_one(DATA)[:-12]
    assert host.read(KERNEL) & 2, "the kernel does not know"
    assert recovers(host)


@pytest.mark.parametrize("size", [4, 8, 20])
def test_a_short_packet_keeps_one_beat(host: Host, size: int) -> None:
    host.board.faults.inject(ShortPacket(stream="dma/S_AXIS_S2MM", beats=100))
    target = launch(host, DATA[:size])
    assert host.read(DMA + 0x58) == 4
    assert host.ddr(target, 4).tobytes() == plus_one(DATA[:4])


def test_a_missing_packet_end_keeps_the_receiver_waiting(host: Host) -> None:
    host.board.faults.inject(MissingLast(stream="adder/output_stream"))
    launch(host)
    assert host.mm2s & IDLE
    assert host.s2mm & (IDLE | HALTED) == 0
    assert (
        "`dma S2MM` has received all 512 bytes of its LENGTH and still waits for TLAST from "
        "`adder/output_stream -> dma/S_AXIS_S2MM`." in host.board.explain()
    )
    assert recovers(host)


@pytest.mark.parametrize("stage", ["start", "end"])
def test_a_kernel_that_is_never_done(host: Host, stage: str) -> None:
    host.board.faults.inject(KernelNeverDone(kernel="adder", stage=stage))  # type: ignore[arg-type]
    launch(host)
    assert host.read(KERNEL) & 0b111 == 0b001, "started, not done, not idle"
    assert bool(host.s2mm & IDLE) == (stage == "end")
    assert any("was started and does not finish" in line for line in host.board.explain())
    with pytest.raises(BoardStall, match="does not finish"):
        host.poll(KERNEL)
    assert recovers(host)


def test_a_stuck_stream_moves_no_more_until_it_is_reset(host: Host) -> None:
    host.board.faults.inject(StuckStream(stream="dma/M_AXIS_MM2S", after_bytes=100))
    target = launch(host)
    assert host.ddr(target, 100).tobytes() == plus_one(DATA[:100])
    assert not host.ddr(target + 100, 100).any()
    assert host.mm2s & IDLE == host.s2mm & IDLE == 0
    assert any("has stopped: it accepts no more data" in line for line in host.board.explain())
    assert recovers(host)


def test_corrupted_memory_is_read_by_the_dma_and_not_by_the_cache(host: Host) -> None:
    physical = host.board.memory.allocate(len(DATA))
    view = host.board.memory.cached_view(physical, len(DATA))
    view.data[:] = np.frombuffer(DATA, np.uint8)
    host.board.faults.inject(CorruptedMemory(physical=physical + 7, bit=3))
    view.flush()
    assert host.ddr(physical, len(DATA)).tobytes() == DATA, "not before the DMA reads it"
    target = host.buffer(len(DATA))
    host.run_channels()
    host.receive(target, len(DATA))
    host.start_kernel(len(DATA))
    host.send(physical, len(DATA))
    expected = bytearray(DATA)
    expected[7] ^= 8
    assert host.ddr(target, len(DATA)).tobytes() == plus_one(bytes(expected))
    assert view.data.tobytes() == DATA


@pytest.mark.parametrize(("channel", "byte"), [("mm2s", 7), ("mm2s", 7 + 512), ("s2mm", 7)])
def test_corrupted_transfers_by_their_position(host: Host, channel: str, byte: int) -> None:
    host.board.faults.inject(CorruptedTransfer(dma="dma", channel=channel, byte=byte, bit=0))  # type: ignore[arg-type]
    target = launch(host)
    result = host.ddr(target, len(DATA))
    wrong = np.flatnonzero(result != np.frombuffer(plus_one(DATA), np.uint8))
    assert wrong.tolist() == [7]
    assert host.s2mm & IDLE, "nothing else shows it"


def test_a_dropped_interrupt_is_not_pending_and_the_next_one_is(host: Host) -> None:
    host.board.faults.inject(DroppedInterrupt(source="dma/s2mm_introut"))
    host.write(CONTROLLER + 0x1C, 3)
    host.write(CONTROLLER + 0x08, 7)
    host.run_channels(interrupts=0x1000)
    for expected in (0b01, 0b11):
        target = host.buffer(4)
        host.receive(target, 4)
        host.start_kernel(4)
        host.send(host.buffer(DATA), 4)
        assert host.read(CONTROLLER + 0x04) == expected
        host.write(DMA + 0x04, 0x1000)
        host.write(DMA + 0x34, 0x1000)
        host.write(CONTROLLER + 0x0C, 7)
        assert host.read(CONTROLLER + 0x04) == 0


@pytest.mark.parametrize("family", ["zynq7", "zynqmp"])
def test_a_wrong_clock_is_read_back_until_it_is_set_again(family: str) -> None:
    host = Host(Design(family))
    clocks = host.board.clocks
    right = clocks.frequency_mhz(0)
    host.board.faults.inject(WrongClock(clock=0, divisor_change=1))
    host.board.configure(host.design.text(), {"adder": host.kernel})
    assert clocks.frequency_mhz(0) < right
    host.board.configure(host.design.text(), {"adder": host.kernel})
    assert clocks.frequency_mhz(0) == pytest.approx(right)


def test_a_wrong_clock_set_by_registers_outlives_the_download() -> None:
    """PYNQ sets the clocks first and downloads then; the first write differs in one divisor only."""
    host = Host()
    control = 0xF8000170
    host.board.faults.inject(WrongClock(clock=0))

    def set_divisors(first: int, second: int) -> None:
        for shift, value in ((8, first), (20, second)):
            word = int.from_bytes(host.board.read(control), "little") & ~(0x3F << shift) | value << shift
            host.board.write(control, word.to_bytes(4, "little"))

    set_divisors(5, 2)
    host.board.configure(host.design.text(), {"adder": host.kernel})
    assert host.board.clocks.frequency_mhz(0) == pytest.approx(1000 / 6 / 2)
    set_divisors(10, 1)
    assert host.board.clocks.frequency_mhz(0) == pytest.approx(100)
    host.board.configure(host.design.text(), {"adder": host.kernel})
    assert host.board.clocks.frequency_mhz(0) == pytest.approx(1000 / 7), "set again, the clock is the design's"


def test_a_write_that_changes_no_divisor_sets_no_clock() -> None:
    host = Host(Design("zynqmp"))
    host.board.faults.inject(WrongClock(clock=0))
    control = int.from_bytes(host.board.read(0xFF5E00C0), "little")
    host.board.write(0xFF5E00C0, (control & ~(1 << 24)).to_bytes(4, "little"))
    assert len(host.board.faults.pending) == 1


@pytest.mark.parametrize("physical", [None, 2 * 64 + 5])
def test_a_lost_flush_leaves_one_line_behind(host: Host, physical: int | None) -> None:
    base = host.board.memory.allocate(256)
    view = host.board.memory.cached_view(base, 256)
    view.data[:] = 1
    host.board.faults.inject(LostFlush(physical=None if physical is None else base + physical))
    view.flush()
    lost = 0 if physical is None else 128
    assert np.flatnonzero(host.ddr(base, 256) == 0).tolist() == list(range(lost, lost + 64))
    view.flush()
    assert np.count_nonzero(host.ddr(base, 256)) == 192, "the cache believes that the line is written"


def test_a_lost_flush_elsewhere_waits(host: Host) -> None:
    base = host.board.memory.allocate(64)
    view = host.board.memory.cached_view(base, 64)
    view.data[:] = 1
    host.board.faults.inject(LostFlush(physical=base + 4096))
    view.flush()
    assert host.ddr(base, 64).all()
    assert len(host.board.faults.pending) == 1


def test_a_sticky_fault_stays(host: Host) -> None:
    host.board.faults.inject(DmaError(dma="dma", channel="mm2s", kind="slave", sticky=True))
    for _ in range(3):
        launch(host)
        assert host.mm2s & BITS["slave"]
        host.board.reset_fabric()
    assert len(host.board.faults.fired) == 3
    host.board.faults.clear()
    assert host.board.faults.pending == host.board.faults.fired == ()
    assert recovers(host)


def test_faults_wait_in_order_and_for_their_turn() -> None:
    faults = Faults()
    first, second = MissingLast(stream="a/b"), MissingLast(stream="a/b", after=1)
    faults.inject(first, second)
    taken = [faults.take(MissingLast, lambda fault: fault.stream == "a/b") for _ in range(3)]
    assert taken == [first, None, second]
    assert faults.take(ShortPacket, lambda _: True) is None


def test_numbers_that_mean_nothing_are_refused() -> None:
    with pytest.raises(DeviceError, match="CorruptedMemory: bit is 8; a byte has bits 0 to 7"):
        CorruptedMemory(physical=0, bit=8)
    with pytest.raises(DeviceError, match="ShortPacket: beats is -1; it cannot be negative"):
        ShortPacket(stream="a/b", beats=-1)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            DmaError(dma="tensor_dma", channel="mm2s", kind="slave"),
            "`tensor_dma` is no DMA of the design; there are: dma",
        ),
        (CorruptedTransfer(dma="dma", channel="up"), "no channel of dma"),  # type: ignore[arg-type]
        (ShortPacket(stream="adder"), "no end of a stream of the design; there are: "),
        (KernelNeverDone(kernel="dma"), "no kernel of the design; there are: adder"),
        (DroppedInterrupt(source="adder/irq"), "no source of an interrupt controller"),
        (WrongClock(clock=4), "no clock of the logic"),
    ],
)
def test_faults_that_name_nothing_are_refused(host: Host, fault: Fault, message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        host.board.faults.inject(fault)
    assert host.board.faults.pending == ()
