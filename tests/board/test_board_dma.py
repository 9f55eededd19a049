"""The driver's channel on a DMA that the test plays: pieces, limits, status in words, waits and resets that end."""

from __future__ import annotations

from time import monotonic

import pytest
from board_doubles import JumpingClock, StandInAllocator, StandInDma, stand_in_channel
from hypothesis import given
from hypothesis import strategies as st

from bfpga.board.buffers import BoardBuffer, BufferPool
from bfpga.board.dma import (
    CONTROL,
    MM2S,
    S2MM,
    ChannelError,
    ChannelState,
    Control,
    Status,
    reset_dma,
    starts,
)
from bfpga.board.errors import BoardError
from bfpga.board.wait import SLEEP_SECONDS, Backoff, Deadline, wait_until
from bfpga.board.waiters import PollingWaiter, WaitLimitError


def buffer(size: int = 1 << 16) -> BoardBuffer:
    return BufferPool(StandInAllocator(), 8).take(size)


@given(limit=st.integers(8, 100), size=st.integers(1, 400), repeats=st.integers(1, 3))
def test_a_long_transfer_goes_in_aligned_pieces_that_make_the_whole(limit: int, size: int, repeats: int) -> None:
    channel, inner = stand_in_channel(limit=limit)
    memory = buffer()
    channel.begin(memory, size, repeats)
    while not channel.advance():
        inner.finish()
    pieces = [(address - memory.address, count) for address, count in inner.dma.lengths]
    assert all(start % 8 == 0 and count <= limit for start, count in pieces)
    assert sum(count for _, count in pieces) == channel.transferred == channel.expected == size * repeats
    covered = [byte for start, count in pieces for byte in range(start, start + count)]
    assert covered == list(range(size)) * repeats


def test_a_packet_that_is_received_is_never_cut() -> None:
    channel, inner = stand_in_channel(limit=1000, offset=S2MM)
    assert channel.limit == 1000
    with pytest.raises(BoardError, match=r"tensor_dma S2MM: an output packet of 1001 bytes .* at most 1000"):
        channel.begin(buffer(), 1001)
    assert inner.transfers == []


def test_pynq_flushes_a_buffer_once_however_often_it_is_sent() -> None:
    channel, inner = stand_in_channel(limit=64)
    memory = buffer()
    for content in (b"first", None, b"second"):
        if content:
            memory.fill(content)
        channel.begin(memory, 200, repeats=3)
        while not channel.advance():
            inner.finish()
    assert len(inner.dma.lengths) == 36
    assert len(inner.transfers) == 2


def test_the_limit_is_rounded_down_to_the_alignment() -> None:
    channel, _ = stand_in_channel(limit=(1 << 26) - 1, alignment=16)
    assert channel.limit == (1 << 26) - 16


def test_nothing_is_finished_before_the_engine_is_idle() -> None:
    channel, inner = stand_in_channel()
    channel.begin(buffer(), 64)
    assert not channel.advance()
    assert channel.busy
    inner.finish()
    assert channel.advance()
    assert not channel.busy


def test_a_channel_without_work_is_done_without_a_look_at_the_hardware() -> None:
    channel, inner = stand_in_channel()
    inner.dma.set_status(Status.HALTED)
    assert channel.advance()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status.INTERNAL_ERROR | Status.HALTED, "internal error"),
        (Status.SLAVE_ERROR | Status.HALTED, "the memory refused the access"),
        (Status.DECODE_ERROR | Status.HALTED, "no memory answers at the address"),
        (Status.HALTED, "halted without an error bit"),
        # The engine may still look idle: PYNQ tests that first and would call it a success.
        (Status.SLAVE_ERROR | Status.IDLE, "the memory refused the access"),
    ],
)
def test_an_error_of_the_engine_is_told_in_words(status: Status, words: str) -> None:
    channel, inner = stand_in_channel()
    channel.begin(buffer(), 64)
    inner.dma.set_status(status)
    with pytest.raises(ChannelError, match=words) as failure:
        channel.advance()
    assert failure.value.state.failed
    assert f"DMASR {int(status):#x}" in str(failure.value)


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("weight_dma MM2S", Status.INTERNAL_ERROR, "the length is 0"),
        ("tensor_dma S2MM", Status.INTERNAL_ERROR, "the packet is longer than the buffer"),
        ("tensor_dma MM2S", Status.IDLE, "idle after 96 bytes"),
        ("tensor_dma MM2S", Status(0), "transfer not finished"),
    ],
)
def test_states_are_told_in_words(name: str, status: Status, words: str) -> None:
    assert words in ChannelState(name, Control.RUN, status, 96).sentence()


@given(value=st.integers(0, 0xFFFFFFFF))
def test_any_content_of_the_registers_has_a_sentence(value: int) -> None:
    assert "DMASR" in ChannelState("tensor_dma S2MM", Control(value), Status(value), value).sentence()


def test_waiting_ends_at_the_deadline() -> None:
    channel, _ = stand_in_channel()
    channel.begin(buffer(), 64)
    begun = monotonic()
    with pytest.raises(WaitLimitError):
        PollingWaiter().wait([channel], lambda: True, Deadline(0.05))
    assert 0.05 <= monotonic() - begun < 1.0


def test_waiting_looks_at_the_kernel_when_all_has_moved() -> None:
    channel, inner = stand_in_channel()
    channel.begin(buffer(), 64)
    inner.finish()
    looks = iter([False, False, True])
    PollingWaiter().wait([channel], lambda: next(looks), Deadline(5))
    assert next(looks, "all used") == "all used"


def test_pauses_grow_from_none_to_two_milliseconds() -> None:
    clock = JumpingClock()
    backoff = Backoff(clock, clock.sleep)
    backoff.pause()
    assert clock.sleeps == []
    clock.now = 1.0
    for _ in range(10):
        backoff.pause()
    assert clock.sleeps[0] == SLEEP_SECONDS[0]
    assert clock.sleeps == sorted(clock.sleeps)
    assert clock.sleeps[-1] == SLEEP_SECONDS[1]


def test_a_condition_is_looked_at_once_even_without_time() -> None:
    assert wait_until(lambda: True, 0)
    assert not wait_until(lambda: False, 0)


def test_a_deadline_does_not_go_below_zero() -> None:
    clock = JumpingClock()
    deadline = Deadline(1.0, clock)
    clock.now = 3.0
    assert deadline.expired
    assert deadline.left == 0.0


def test_a_soft_reset_ends_or_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bfpga.board.dma.RESET_SECONDS", 0.02)
    assert reset_dma(StandInDma(), MM2S)
    assert not reset_dma(StandInDma(reset_ends=False), MM2S)


def test_a_channel_that_stays_halted_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bfpga.board.dma.RESET_SECONDS", 0.02)
    dma = StandInDma()
    assert starts(dma, S2MM)
    assert dma.values[S2MM + CONTROL] == Control.RUN
    dma.set_status(Status.HALTED, S2MM)
    assert not starts(dma, S2MM)
