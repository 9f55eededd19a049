"""The AXI DMA in simple mode, rule by rule of PG021."""

from __future__ import annotations

import numpy as np
import pytest
from virtual_designs import DMA, KERNEL, Design, Host, plus_one

from bfpga.board.virtual.bus import BusError
from bfpga.errors import DeviceError

HALTED, IDLE = 1 << 0, 1 << 1
INTERNAL, SLAVE, DECODE = 1 << 4, 1 << 5, 1 << 6
COMPLETE, ERROR_INTERRUPT = 1 << 12, 1 << 14
DMACR, DMASR, SA, SA_MSB, LENGTH = 0x00, 0x04, 0x18, 0x1C, 0x28
S2MM = 0x30
DATA = bytes(range(256)) * 4


@pytest.mark.parametrize("family", ["zynq7", "zynqmp"])
def test_a_round_trip(family: str) -> None:
    assert Host(Design(family)).add_one(DATA) == plus_one(DATA)


def test_reset_state() -> None:
    host = Host()
    for channel in (0, S2MM):
        assert host.read(DMA + channel + DMACR) == 0x10002
        assert host.read(DMA + channel + DMASR) == HALTED
        assert host.read(DMA + channel + LENGTH) == 0


def test_running_is_neither_halted_nor_idle_before_the_first_transfer() -> None:
    host = Host()
    host.run_channels()
    assert host.mm2s & (HALTED | IDLE) == 0


def test_idle_after_a_transfer_and_not_when_halted() -> None:
    host = Host()
    host.add_one(DATA)
    assert host.mm2s & (HALTED | IDLE) == IDLE
    host.write(DMA + DMACR, 0)
    assert host.mm2s & (HALTED | IDLE) == HALTED


def test_control_keeps_enables_and_threshold_but_not_reserved_bits() -> None:
    host = Host()
    host.write(DMA + DMACR, 0x7005 & ~4 | 0x07FF8F00)
    assert host.read(DMA + DMACR) == 0x07FF7003 & ~0x8F00 | 0x7000
    host.write(DMA + DMACR, 0x00000001)
    assert host.read(DMA + DMACR) >> 16 & 0xFF == 0xFF, "a threshold of zero has no effect"


def test_mm2s_completes_only_when_the_stream_accepted_everything() -> None:
    host = Host()
    host.run_channels()
    host.send(host.buffer(DATA), len(DATA))
    assert host.mm2s & IDLE == 0
    host.receive(host.buffer(len(DATA)), len(DATA))
    host.start_kernel(len(DATA))
    assert host.mm2s & (IDLE | COMPLETE) == IDLE | COMPLETE


def test_mm2s_ends_its_packet_with_the_final_byte() -> None:
    host = Host(stream_bytes=64)
    host.run_channels()
    host.send(host.buffer(DATA), 100)
    stream = host.board.fabric.dmas[0].channels["mm2s"].mover.stream
    assert stream is not None
    assert stream.pop(64)[1] is False
    host.board.run()
    assert (len(stream.pop(30)[0]), stream.has_packet_end) == (30, True)
    assert stream.pop(64)[1] is True


def test_s2mm_writes_ddr_as_data_arrive_and_completes_at_the_packet_end() -> None:
    host = Host()
    target, source = host.buffer(len(DATA)), host.buffer(DATA)
    host.run_channels()
    host.receive(target, len(DATA))
    host.start_kernel(len(DATA))
    host.send(source, 128)
    assert host.ddr(target, 128).tobytes() == plus_one(DATA[:128])
    assert host.s2mm & IDLE == 0
    host.send(source + 128, len(DATA) - 128)
    assert host.s2mm & IDLE
    assert host.ddr(target, len(DATA)).tobytes() == plus_one(DATA)


def test_length_reads_back_the_received_bytes() -> None:
    host = Host()
    host.run_channels()
    host.receive(host.buffer(4096), 4096)
    host.start_kernel(100)
    host.send(host.buffer(DATA), 100)
    assert host.read(DMA + S2MM + LENGTH) == 100
    assert host.read(DMA + LENGTH) == 100


@pytest.mark.parametrize("bits", [8, 14, 26])
def test_length_has_the_width_of_the_core(bits: int) -> None:
    host = Host(Design(dma={"c_sg_length_width": bits}))
    host.run_channels()
    host.receive(host.buffer(4096), (1 << bits) + 200)
    assert host.read(DMA + S2MM + LENGTH) == 200


def test_zero_length_is_an_internal_error() -> None:
    host = Host()
    host.run_channels()
    host.send(host.buffer(4), 0)
    assert host.mm2s == HALTED | INTERNAL | ERROR_INTERRUPT
    assert "the length is zero" in host.board.explain()[0]


def test_a_length_that_the_register_cuts_to_zero_is_an_internal_error() -> None:
    host = Host()
    host.run_channels()
    host.send(host.buffer(4), 1 << 14)
    assert host.mm2s & INTERNAL


def test_length_is_ignored_while_halted() -> None:
    host = Host()
    host.send(host.buffer(DATA), 16)
    assert host.mm2s == HALTED
    assert any("halted and ignored a LENGTH of 16 bytes" in line for line in host.board.explain())
    host.run_channels()
    assert host.board.explain() == ["Nothing is under way: no transfer, no kernel, no data in a stream."]


def test_length_is_ignored_while_a_transfer_is_under_way() -> None:
    host = Host()
    host.run_channels()
    target = host.buffer(4096)
    host.receive(target, 256)
    host.receive(target + 1024, 512)
    host.start_kernel(256)
    host.send(host.buffer(DATA), 256)
    assert host.ddr(target, 256).tobytes() == plus_one(DATA[:256])
    assert not host.ddr(target + 1024, 256).any()


def test_a_packet_longer_than_length_is_an_internal_error_and_halts() -> None:
    host = Host()
    target = host.buffer(4096)
    host.run_channels()
    host.receive(target, 64)
    host.start_kernel(256)
    host.send(host.buffer(DATA), 256)
    assert host.s2mm == HALTED | INTERNAL | ERROR_INTERRUPT
    assert host.ddr(target, 64).tobytes() == plus_one(DATA[:64])
    assert not host.ddr(target + 64, 64).any()


def test_a_packet_as_long_as_length_is_none() -> None:
    host = Host()
    assert host.add_one(DATA[:64]) == plus_one(DATA[:64])
    assert host.s2mm & IDLE


@pytest.mark.parametrize(("realignment", "expected"), [(0, INTERNAL), (1, 0)])
def test_an_unaligned_address_needs_the_realignment_engine(realignment: int, expected: int) -> None:
    host = Host(Design(dma={"c_include_mm2s_dre": realignment, "c_m_axi_mm2s_data_width": 64}))
    host.run_channels()
    host.send(host.buffer(DATA) + 4, 16)
    assert host.mm2s & INTERNAL == expected
    if expected:
        assert "not a multiple of 8 bytes" in host.board.explain()[0]


def test_an_address_without_memory_is_a_decode_error() -> None:
    host = Host()
    host.run_channels()
    host.send(0x80000000, 16)
    assert host.mm2s == HALTED | DECODE | ERROR_INTERRUPT


def test_an_address_that_the_interconnect_does_not_decode_is_a_decode_error() -> None:
    host = Host(Design(memory_end=0xFFFF))
    host.run_channels()
    host.send(host.buffer(DATA), 16)
    assert host.mm2s & DECODE


def test_s2mm_to_an_address_without_memory_fails_when_data_arrive() -> None:
    host = Host()
    host.run_channels()
    host.receive(0x80000000, 64)
    assert host.s2mm & DECODE == 0
    host.start_kernel(64)
    host.send(host.buffer(DATA), 64)
    assert host.s2mm & DECODE


def test_after_an_error_only_a_reset_helps() -> None:
    host = Host()
    host.run_channels()
    host.send(host.buffer(4), 0)
    host.write(DMA + DMASR, 0x7000)
    host.run_channels()
    assert host.mm2s == HALTED | INTERNAL
    host.write(DMA + DMACR, 4)
    assert host.mm2s == HALTED
    assert host.add_one(DATA) == plus_one(DATA)


@pytest.mark.parametrize("channel", [0, S2MM])
def test_soft_reset_through_either_channel_resets_the_whole_engine(channel: int) -> None:
    host = Host()
    host.run_channels()
    host.receive(host.buffer(64), 64)
    host.send(host.buffer(DATA), len(DATA))
    host.write(DMA + channel + DMACR, 4)
    assert host.read(DMA + DMACR) == host.read(DMA + S2MM + DMACR) == 0x10002
    assert host.mm2s == host.s2mm == HALTED
    assert host.read(DMA + SA) == host.read(DMA + S2MM + LENGTH) == 0
    assert all(stream.level == 0 for stream in host.board.fabric.streams)
    assert host.add_one(DATA) == plus_one(DATA)


def test_a_stop_takes_effect_when_the_transfer_has_ended() -> None:
    host = Host()
    host.run_channels()
    host.receive(host.buffer(64), 64)
    host.write(DMA + S2MM + DMACR, 0)
    assert host.s2mm & HALTED == 0
    assert any("is stopping" in line for line in host.board.explain())
    host.start_kernel(64)
    host.send(host.buffer(DATA), 64)
    assert host.s2mm == HALTED | COMPLETE


def test_interrupt_bits_are_cleared_by_writing_one() -> None:
    host = Host()
    host.add_one(DATA)
    host.write(DMA + DMASR, 0x6000)
    assert host.mm2s & COMPLETE
    host.write(DMA + DMASR, COMPLETE)
    assert host.mm2s == IDLE


def test_the_interrupt_pin_needs_its_enable() -> None:
    host = Host()
    host.add_one(DATA)
    dma = host.board.fabric.dmas[0]
    assert not dma.interrupt("mm2s_introut")
    host.write(DMA + DMACR, 0x1001)
    assert dma.interrupt("mm2s_introut")
    assert not dma.interrupt("s2mm_introut")
    host.write(DMA + DMASR, COMPLETE)
    assert not dma.interrupt("mm2s_introut")


def test_an_error_raises_the_pin_when_enabled() -> None:
    host = Host()
    host.run_channels(interrupts=0x4000)
    host.send(0, 0)
    assert host.board.fabric.dmas[0].interrupt("mm2s_introut")


@pytest.mark.parametrize(("bits", "high"), [(32, 0), (40, 0x12)])
def test_high_address_registers_exist_beyond_32_bits(bits: int, high: int) -> None:
    host = Host(Design(dma={"c_addr_width": bits}))
    host.write(DMA + SA_MSB, 0x12)
    assert host.read(DMA + SA_MSB) == high


def test_high_address_bits_reach_no_memory_here() -> None:
    host = Host(Design(dma={"c_addr_width": 64}))
    host.run_channels()
    host.write(DMA + SA_MSB, 1)
    host.send(host.buffer(DATA), 16)
    assert host.mm2s & DECODE


def test_an_absent_channel_reads_as_zero() -> None:
    host = Host(Design(dma={"c_include_s2mm": 0}))
    host.write(DMA + S2MM + DMACR, 1)
    assert [host.read(DMA + S2MM + offset) for offset in (DMACR, DMASR, SA, LENGTH)] == [0] * 4


def test_reserved_registers_read_as_zero() -> None:
    host = Host()
    host.write(DMA + 0x2C, 0xFFFFFFFF)
    host.write(DMA + 0x100, 1)
    assert host.read(DMA + 0x2C) == host.read(DMA + 0x100) == host.read(DMA + 0x08) == 0


def test_part_words_are_refused() -> None:
    host = Host()
    with pytest.raises(BusError, match="ignores byte strobes"):
        host.board.write(0x43C10000, b"\1")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"c_sg_length_width": 27}, "PG021 allows 8 to 26"), ({"c_include_sg": "yes"}, "a number is needed")],
)
def test_parameters_that_the_core_does_not_have(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        Host(Design(dma=parameters))


def test_a_large_transfer_through_a_small_stream() -> None:
    data = np.random.default_rng(1).integers(0, 256, 1 << 18, np.uint8).tobytes()
    host = Host(Design(dma={"c_sg_length_width": 26}))
    assert host.add_one(data) == plus_one(data)
    assert host.read(KERNEL + 0x20) == sum(data)
