"""The AXI DMA in scatter-gather mode, rule by rule of PG021."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from virtual_designs import DMA, Design, Host, plus_one

HALTED, IDLE, INCLUDED = 1 << 0, 1 << 1, 1 << 3
INTERNAL, DECODE = 1 << 4, 1 << 6
SG_INTERNAL, SG_DECODE = 1 << 8, 1 << 10
COMPLETE, DELAY, ERROR = 1 << 12, 1 << 13, 1 << 14
START, END = 1 << 27, 1 << 26
COMPLETED = 1 << 31
S2MM = 0x30
DATA = bytes(range(256)) * 2


class Chain:
    """Descriptors in DDR, 64 bytes each, in a ring as drivers make it."""

    def __init__(self, host: Host, buffers: Sequence[tuple[int, int]]) -> None:
        self.host = host
        self.count = len(buffers)
        self.physical = host.buffer(64 * self.count)
        self.words = host.ddr(self.physical, 64 * self.count).view("<u4").reshape(-1, 16)
        for index, (address, control) in enumerate(buffers):
            self.words[index, 0] = self.at((index + 1) % self.count)
            self.words[index, 2] = address
            self.words[index, 6] = control

    def at(self, index: int) -> int:
        return self.physical + 64 * index

    def run(self, channel: int, tail: int | None = None, control: int = 1) -> None:
        self.host.write(DMA + channel + 0x08, self.physical)
        self.host.write(DMA + channel, control)
        self.host.write(DMA + channel + 0x10, self.at(self.count - 1 if tail is None else tail))

    @property
    def status(self) -> list[int]:
        return self.words[:, 7].tolist()


def scatter_gather(**dma: object) -> Host:
    return Host(Design(dma={"c_include_sg": 1} | dma))


def sending(host: Host, pieces: Sequence[int]) -> Chain:
    """DATA cut into pieces, one packet."""
    source, starts = host.buffer(DATA), np.concatenate([[0], np.cumsum(pieces)[:-1]])
    last = len(pieces) - 1
    return Chain(
        host,
        [
            (source + int(s), n | (START if not i else 0) | (END if i == last else 0))
            for i, (s, n) in enumerate(zip(starts, pieces, strict=True))
        ],
    )


def test_a_packet_in_several_descriptors_arrives_in_several() -> None:
    host = scatter_gather()
    target = host.buffer(512)
    receive = Chain(host, [(target, 100), (target + 100, 200), (target + 300, 212)])
    receive.run(S2MM)
    host.start_kernel(512)
    send = sending(host, [12, 400, 100])
    send.run(0)
    assert host.ddr(target, 512).tobytes() == plus_one(DATA)
    assert send.status == [COMPLETED | 12, COMPLETED | 400, COMPLETED | 100]
    assert receive.status == [COMPLETED | START | 100, COMPLETED | 200, COMPLETED | END | 212]
    assert host.mm2s & (IDLE | INCLUDED | COMPLETE) == IDLE | INCLUDED | COMPLETE
    assert host.s2mm & (IDLE | COMPLETE) == IDLE | COMPLETE


def test_a_short_packet_ends_its_descriptor() -> None:
    host = scatter_gather()
    target = host.buffer(1024)
    receive = Chain(host, [(target, 400), (target + 400, 400)])
    receive.run(S2MM)
    host.start_kernel(100)
    sending(host, [100]).run(0)
    assert receive.status == [COMPLETED | START | END | 100, 0]
    assert host.s2mm & IDLE == 0
    host.start_kernel(50)
    host.write(DMA, 0)
    sending(host, [50]).run(0)
    assert receive.status[1] == COMPLETED | START | END | 50
    assert host.s2mm & IDLE


def test_the_engine_pauses_at_the_tail_and_goes_on_when_it_moves() -> None:
    host = scatter_gather()
    host.start_kernel(36)
    send = sending(host, [12, 12, 12])
    send.run(0, tail=0)
    assert [bool(status) for status in send.status] == [True, False, False]
    assert host.mm2s & IDLE
    assert host.read(DMA + 0x08) == send.at(0)
    host.write(DMA + 0x10, send.at(2))
    assert all(send.status)
    assert host.read(DMA + 0x08) == send.at(2)


def test_reset_and_running_states() -> None:
    host = scatter_gather()
    assert host.mm2s & 0xFFFF == HALTED | INCLUDED
    host.write(DMA, 1)
    assert host.mm2s & 0xFFFF == IDLE | INCLUDED


def test_the_tail_does_not_start_a_halted_channel() -> None:
    host = scatter_gather()
    send = sending(host, [10])
    host.write(DMA + 0x08, send.physical)
    host.write(DMA + 0x10, send.physical)
    assert send.status == [0]
    assert host.read(DMA + 0x10) == send.physical


def test_the_current_descriptor_is_read_only_while_running() -> None:
    host = scatter_gather()
    host.write(DMA, 1)
    host.write(DMA + 0x08, 0x1000)
    assert host.read(DMA + 0x08) == 0


def test_descriptor_pointers_are_aligned() -> None:
    host = scatter_gather()
    host.write(DMA + 0x08, 0x1234567F)
    assert host.read(DMA + 0x08) == 0x12345640


def test_a_completed_descriptor_is_stale() -> None:
    host = scatter_gather()
    host.start_kernel(10)
    send = sending(host, [10])
    send.run(0)
    host.write(DMA, 0)
    send.run(0)
    assert host.mm2s & 0xFFFF == HALTED | INCLUDED | SG_INTERNAL | ERROR | COMPLETE
    assert "marked as completed already" in "".join(host.board.explain())
    assert host.read(DMA + 0x08) == send.at(0), "the descriptor of the error"


def test_a_descriptor_without_memory_is_a_decode_error() -> None:
    host = scatter_gather()
    host.write(DMA + 0x08, 0x80000000)
    host.write(DMA, 1)
    host.write(DMA + 0x10, 0x80000000)
    assert host.mm2s & SG_DECODE


def test_a_descriptor_of_length_zero_is_an_internal_error_and_says_so_itself() -> None:
    host = scatter_gather()
    send = sending(host, [0])
    send.run(0)
    assert host.mm2s & INTERNAL
    assert send.status == [1 << 28]


def test_a_buffer_without_memory_is_a_decode_error_and_says_so_itself() -> None:
    host = scatter_gather()
    send = Chain(host, [(0x80000000, 16 | START | END)])
    send.run(0)
    assert host.mm2s & DECODE
    assert send.status == [1 << 30]


def test_the_threshold_counts_packets() -> None:
    host = scatter_gather()
    host.start_kernel(30)
    source = host.buffer(DATA)
    send = Chain(host, [(source, 10 | START | END)] * 3)
    send.run(0, tail=1, control=1 | 3 << 16)
    assert host.mm2s & COMPLETE == 0
    assert host.mm2s >> 16 & 0xFF == 1, "packets to go"
    host.write(DMA + 0x10, send.at(2))
    assert host.mm2s & COMPLETE


def test_the_delay_fires_for_packets_below_the_threshold() -> None:
    host = scatter_gather()
    host.start_kernel(10)
    send = sending(host, [10])
    send.run(0, control=1 | 5 << 16 | 9 << 24)
    assert host.mm2s & (COMPLETE | DELAY) == DELAY
    assert host.mm2s >> 24 == 9
    host.write(DMA + 0x04, DELAY)
    assert host.mm2s & DELAY == 0


def test_64_bit_pointers_start_with_their_high_word() -> None:
    host = scatter_gather(c_addr_width=40)
    host.start_kernel(10)
    send = sending(host, [10])
    send.run(0)
    assert send.status == [0]
    host.write(DMA + 0x14, 0)
    assert send.status == [COMPLETED | 10]


def test_a_stop_ends_behind_the_current_descriptor() -> None:
    host = scatter_gather()
    target = host.buffer(1024)
    receive = Chain(host, [(target, 64), (target + 64, 64)])
    receive.run(S2MM)
    host.write(DMA + S2MM, 0)
    assert host.s2mm & HALTED == 0
    host.start_kernel(64)
    sending(host, [64]).run(0)
    assert host.s2mm & HALTED
    assert receive.status[1] == 0


def test_soft_reset_ends_a_chain() -> None:
    host = scatter_gather()
    target = host.buffer(64)
    Chain(host, [(target, 64)]).run(S2MM)
    host.write(DMA + S2MM, 4)
    assert host.s2mm & 0xFFFF == HALTED | INCLUDED
    assert host.read(DMA + S2MM + 0x08) == 0


def test_simple_registers_do_nothing() -> None:
    host = scatter_gather()
    host.run_channels()
    host.send(host.buffer(DATA), 16)
    assert host.board.explain() == ["Nothing is under way: no transfer, no kernel, no data in a stream."]


@pytest.mark.parametrize("control", [1, 0x11])
def test_the_cyclic_bit_is_not_there(control: int) -> None:
    host = scatter_gather()
    host.write(DMA, control)
    assert host.read(DMA) & 0x10 == 0
