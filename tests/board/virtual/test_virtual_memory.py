"""DDR pool and cache: what a program may rely on, and what it must not."""

from __future__ import annotations

import random

import numpy as np
import pytest
from effort import drawn
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from bfpga.board.virtual.memory import LINE_BYTES, PAGE_BYTES, CachedView, Memory
from bfpga.errors import DeviceError

BASE = 0x10000000
PAGES = 16


@pytest.fixture
def memory() -> Memory:
    return Memory(BASE, PAGES * PAGE_BYTES)


def test_buffers_are_page_aligned_and_apart(memory: Memory) -> None:
    first, second = memory.allocate(1), memory.allocate(PAGE_BYTES + 1)
    assert (first, second) == (BASE, BASE + PAGE_BYTES)
    assert memory.buffers == {first: PAGE_BYTES, second: 2 * PAGE_BYTES}


def test_a_reused_buffer_is_zeroed(memory: Memory) -> None:
    physical = memory.allocate(100)
    memory.view(physical, 100)[:] = 255  # type: ignore[index]
    memory.free(physical)
    assert not memory.view(memory.allocate(100), 100).any()  # type: ignore[union-attr]


def test_a_buffer_is_zeroed_after_stray_writes_of_a_master(memory: Memory) -> None:
    memory.view(BASE + 5 * PAGE_BYTES, 4)[:] = 9  # type: ignore[index]
    physical = memory.allocate(8 * PAGE_BYTES)
    assert not memory.view(physical, 8 * PAGE_BYTES).any()  # type: ignore[union-attr]


def test_first_fit_and_joining_of_free_pieces(memory: Memory) -> None:
    a, b, c, d = (memory.allocate(4 * PAGE_BYTES) for _ in range(4))
    memory.free(b)
    memory.free(d)
    assert memory.allocate(PAGE_BYTES) == b
    memory.free(b)
    memory.free(c)
    memory.free(a)
    assert memory.allocate(PAGES * PAGE_BYTES) == BASE


def test_exhaustion_says_what_is_free(memory: Memory) -> None:
    memory.allocate(10 * PAGE_BYTES)
    with pytest.raises(DeviceError, match=r"no room for a buffer of 28,672 bytes.*the largest piece has 24,576"):
        memory.allocate(7 * PAGE_BYTES)


def test_double_free_is_refused(memory: Memory) -> None:
    physical = memory.allocate(1)
    memory.free(physical)
    with pytest.raises(DeviceError, match="freed twice"):
        memory.free(physical)


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (PAGES * PAGE_BYTES, 1), (0, PAGES * PAGE_BYTES + 1), (0, -1)])
def test_outside_the_pool_nothing_answers(memory: Memory, offset: int, size: int) -> None:
    assert memory.view(BASE + offset, size) is None


def test_owner_of_a_range(memory: Memory) -> None:
    first, second = memory.allocate(PAGE_BYTES), memory.allocate(PAGE_BYTES)
    assert memory.owner(second + 10, 20) == second
    assert memory.owner(first + 10, PAGE_BYTES) is None
    assert memory.owner(second + PAGE_BYTES, 1) is None
    assert memory.owner(BASE - 1, 1) is None


@pytest.mark.parametrize(("base", "size"), [(1, PAGE_BYTES), (0, PAGE_BYTES + 1), (0, 0)])
def test_a_pool_is_whole_pages(base: int, size: int) -> None:
    with pytest.raises(DeviceError, match="whole pages"):
        Memory(base, size)


def cached(memory: Memory, size: int = 4 * LINE_BYTES) -> tuple[CachedView, np.ndarray]:
    physical = memory.allocate(size)
    ddr = memory.view(physical, size)
    assert ddr is not None
    return memory.cached_view(physical, size), ddr


def test_a_missing_flush_is_visible(memory: Memory) -> None:
    view, ddr = cached(memory)
    view.data[:] = 1
    assert not ddr.any()
    view.flush()
    assert ddr.all()


def test_a_missing_invalidate_is_visible(memory: Memory) -> None:
    view, ddr = cached(memory)
    ddr[:] = 1
    assert not view.data.any()
    view.invalidate()
    assert view.data.all()


def test_ranges_are_rounded_to_lines(memory: Memory) -> None:
    view, ddr = cached(memory)
    view.data[:] = 1
    view.flush(LINE_BYTES + 1, 1)
    assert np.flatnonzero(ddr).tolist() == list(range(LINE_BYTES, 2 * LINE_BYTES))
    view.flush(LINE_BYTES - 1, 2)
    assert np.flatnonzero(ddr).tolist() == list(range(2 * LINE_BYTES))


def test_an_empty_range_does_nothing(memory: Memory) -> None:
    view, ddr = cached(memory)
    view.data[:] = 1
    view.flush(0, 0)
    assert not ddr.any()


def test_clean_lines_are_not_written_back(memory: Memory) -> None:
    """A flush must not undo what a DMA wrote to lines that the processor did not touch."""
    view, ddr = cached(memory)
    ddr[:] = 7
    view.data[0] = 1
    view.flush()
    assert ddr[0] == 1
    assert not ddr[1:LINE_BYTES].any(), "the rest of a dirty line is written too"
    assert (ddr[LINE_BYTES:] == 7).all()


def test_invalidate_drops_what_was_not_flushed(memory: Memory) -> None:
    view, _ = cached(memory)
    view.data[:] = 1
    view.invalidate(0, 1)
    assert not view.data[:LINE_BYTES].any()
    assert view.data[LINE_BYTES:].all()


def test_eviction_writes_dirty_lines_at_any_time(memory: Memory) -> None:
    view, ddr = cached(memory)
    view.data[:] = 1
    memory.evict(random.Random(0), lines=1)
    assert np.count_nonzero(ddr) == LINE_BYTES


def test_eviction_leaves_freed_buffers_alone(memory: Memory) -> None:
    view, _ = cached(memory)
    view.data[:] = 1
    memory.free(view.physical)
    physical = memory.allocate(4 * LINE_BYTES)
    memory.evict(random.Random(0))
    assert not memory.view(physical, 4 * LINE_BYTES).any()  # type: ignore[union-attr]


def test_a_view_that_starts_within_a_line(memory: Memory) -> None:
    physical = memory.allocate(4 * LINE_BYTES)
    view = memory.cached_view(physical + 10, 100)
    view.data[:] = range(100)
    view.flush(60, 1)
    ddr = memory.view(physical, 4 * LINE_BYTES)
    assert ddr is not None
    assert ddr.tolist()[LINE_BYTES:110] == list(range(54, 100))
    assert not ddr[:LINE_BYTES].any()


def test_cache_ranges_outside_are_refused(memory: Memory) -> None:
    view, _ = cached(memory)
    with pytest.raises(DeviceError, match="outside the buffer"):
        view.flush(0, 5 * LINE_BYTES)
    with pytest.raises(DeviceError, match="outside the DDR pool"):
        memory.cached_view(BASE - 64, 64)


class PoolModel(RuleBasedStateMachine):
    """Against a list of pages and their owners."""

    buffers = Bundle("buffers")

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory(BASE, PAGES * PAGE_BYTES)
        self.pages = [0] * PAGES
        self.mark = 0

    @rule(target=buffers, pages=st.integers(1, 6), size=st.integers(-PAGE_BYTES + 1, 0))
    def allocate(self, pages: int, size: int) -> tuple[int, int, int]:
        starts = [n for n in range(PAGES - pages + 1) if not any(self.pages[n : n + pages])]
        if not starts:
            with pytest.raises(DeviceError, match="no room"):
                self.memory.allocate(pages * PAGE_BYTES + size)
            return 0, 0, 0
        physical = self.memory.allocate(pages * PAGE_BYTES + size)
        assert physical == BASE + starts[0] * PAGE_BYTES
        view = self.memory.view(physical, pages * PAGE_BYTES)
        assert view is not None
        assert not view.any()
        self.mark = self.mark % 255 + 1
        view[:] = self.mark
        self.pages[starts[0] : starts[0] + pages] = [self.mark] * pages
        return physical, pages, self.mark

    @rule(buffer=consumes(buffers))
    def free(self, buffer: tuple[int, int, int]) -> None:
        physical, pages, mark = buffer
        if not pages:
            return
        view = self.memory.view(physical, pages * PAGE_BYTES)
        assert view is not None
        assert (view == mark).all()
        self.memory.free(physical)
        first = (physical - BASE) // PAGE_BYTES
        self.pages[first : first + pages] = [0] * pages

    @invariant()
    def the_rest_is_free(self) -> None:
        assert self.memory.free_bytes == self.pages.count(0) * PAGE_BYTES


PoolModel.TestCase.settings = settings(max_examples=drawn(40), stateful_step_count=30, deadline=None)
TestPoolModel = PoolModel.TestCase
