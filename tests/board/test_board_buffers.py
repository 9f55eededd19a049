"""The pool of buffers: sizes, reuse, flushes, and what is said when a board's memory runs out."""

from __future__ import annotations

import numpy as np
import pytest
from board_doubles import StandInAllocator
from hypothesis import given
from hypothesis import strategies as st

from bfpga.board.buffers import MINIMUM_BYTES, BufferPool, size_class
from bfpga.board.errors import BoardError


@given(size=st.integers(1, 1 << 28))
def test_a_size_class_holds_its_sizes_and_wastes_a_quarter_at_most(size: int) -> None:
    given_bytes = size_class(size)
    assert given_bytes >= max(size, MINIMUM_BYTES)
    assert given_bytes == MINIMUM_BYTES or given_bytes <= 1.25 * size
    assert given_bytes % 1024 == 0
    assert size_class(given_bytes) == given_bytes


def test_a_buffer_that_was_given_back_is_used_again() -> None:
    allocator = StandInAllocator()
    pool = BufferPool(allocator, 8)
    first = pool.take(10_000)
    pool.give(first)
    assert pool.take(9_000) is first
    assert pool.take(9_000) is not first
    assert len(allocator.given) == 2


def test_small_buffers_have_the_size_that_a_dma_with_32_address_bits_reaches() -> None:
    assert BufferPool(StandInAllocator(), 8).take(1).size == 8192


def test_content_is_copied_out() -> None:
    buffer = BufferPool(StandInAllocator(), 8).take(100)
    buffer.fill(b"abcd")
    kept = buffer.content(4)
    buffer.fill(np.frombuffer(b"efgh", np.uint8))
    assert kept == b"abcd"
    assert buffer.content(4) == b"efgh"


class Written:
    """An input stream that notes whether it was written whole."""

    def __init__(self, template: bytes, tensor: int) -> None:
        self.template, self.tensor = np.frombuffer(template, np.uint8), tensor
        self.whole: list[bool] = []

    def __len__(self) -> int:
        return len(self.template)

    def write(self, memory: np.ndarray, has_template: bool) -> None:
        self.whole.append(not has_template)
        memory[:] = self.template if not has_template else memory
        memory[1] = self.tensor


def again(stream: Written, tensor: int) -> Written:
    """Another stream of the same template."""
    other = Written(b"", tensor)
    other.template = stream.template
    return other


def test_a_stream_of_a_known_template_is_written_in_part() -> None:
    buffer = BufferPool(StandInAllocator(), 8).take(100)
    first = Written(b"a.cd", 66)
    second = again(first, 67)
    assert buffer.write(first).tobytes() == b"aBcd"  # type: ignore[arg-type]
    buffer.changed = False
    assert buffer.write(second).tobytes() == b"aCcd"  # type: ignore[arg-type]
    assert (first.whole, second.whole) == ([True], [False])
    assert buffer.changed


def test_what_was_written_or_received_in_between_leaves_nothing_of_a_template() -> None:
    pool = BufferPool(StandInAllocator(), 8)
    first = Written(b"a.cd", 66)
    pool.take(100).write(first)  # type: ignore[arg-type]
    pool.reclaim()

    def filled() -> None:
        pool.take(100).fill(b"wxyz")

    def received() -> None:
        pool.take(100, receives=True).bytes[:4] = 0

    def interrupted() -> None:
        broken = again(first, 67)
        broken.write = lambda memory, has_template: 1 // 0  # type: ignore[method-assign,assignment]
        with pytest.raises(ZeroDivisionError):
            pool.take(100).write(broken)  # type: ignore[arg-type]

    for disturb in (filled, received, interrupted):
        disturb()
        pool.reclaim()
        later = again(first, 67)
        assert pool.take(100, template=later.template).write(later).tobytes() == b"aCcd"  # type: ignore[arg-type]
        assert later.whole == [True]
        pool.reclaim()


def test_the_buffer_with_the_template_is_taken() -> None:
    pool = BufferPool(StandInAllocator(), 8)
    buffers = [pool.take(100) for _ in range(3)]
    streams = [Written(b"a.cd", 66), Written(b"e.gh", 66)]
    for buffer, stream in zip(buffers, streams, strict=False):
        buffer.write(stream)  # type: ignore[arg-type]
    pool.reclaim()
    assert pool.take(100, template=streams[0].template) is buffers[0]
    assert pool.take(100) is buffers[2], "the one that holds nothing"
    assert pool.take(100, template=streams[1].template) is buffers[1]


def test_a_buffer_that_receives_is_flushed_first() -> None:
    pool = BufferPool(StandInAllocator(), 8)
    assert pool.take(100).array.flushes == 0
    assert pool.take(100, receives=True).array.flushes == 1


def test_closing_frees_every_buffer_once() -> None:
    allocator = StandInAllocator()
    pool = BufferPool(allocator, 8)
    pool.take(100)
    pool.give(pool.take(20_000))
    pool.close()
    pool.close()
    assert allocator.held == pool.held_bytes == 0


def test_unused_buffers_make_room_before_memory_is_called_exhausted() -> None:
    allocator = StandInAllocator(capacity=41_000)
    pool = BufferPool(allocator, 8)
    pool.give(pool.take(30_000))
    assert pool.take(33_000).size == 40_960


def test_exhausted_memory_says_how_much_was_asked_for_and_held() -> None:
    pool = BufferPool(StandInAllocator(capacity=20_000), 8)
    pool.take(8192)
    with pytest.raises(BoardError, match=r"no 16384 contiguous bytes left .* holds 8192 bytes in 1 buffers.*cma="):
        pool.take(16_000)
    assert pool.held_bytes == 8192


@pytest.mark.parametrize("address", [0x1000_0004, 0xFFFF_F000])
def test_memory_that_the_dma_cannot_use_is_refused_and_freed(address: int) -> None:
    allocator = StandInAllocator(address=address)
    with pytest.raises(BoardError, match=f"{address:#x}.*multiple of 8 bytes"):
        BufferPool(allocator, 8).take(8192)
    assert allocator.held == 0


def test_buffers_of_a_lost_board_are_forgotten() -> None:
    allocator = StandInAllocator()
    pool = BufferPool(allocator, 8)
    pool.take(100)
    pool.abandon()
    assert pool.held_bytes == 0
    assert not allocator.given[0].freed


def test_forgotten_starts_give_their_buffers_back() -> None:
    allocator = StandInAllocator()
    pool = BufferPool(allocator, 8)
    taken = {id(pool.take(100)), id(pool.take(100))}
    pool.reclaim()
    assert {id(pool.take(100)), id(pool.take(100))} == taken
