"""An AXI4-Stream link: bytes and packet ends in order, never more than it holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bfpga.board.virtual.stream import Stream


def test_bytes_come_out_in_order() -> None:
    stream = Stream("link", 16)
    assert stream.push(b"abc", False) == 3
    assert stream.push(np.frombuffer(b"defg", np.uint8), False) == 4
    data, last = stream.pop(5)
    assert (data.tobytes(), last) == (b"abcde", False)
    assert stream.level == 2


def test_pop_stops_behind_a_packet_end() -> None:
    stream = Stream("link", 16)
    stream.push(b"one", True)
    stream.push(b"two", True)
    assert stream.pop(16)[0].tobytes() == b"one"
    assert stream.pop(16) == (pytest.approx(np.frombuffer(b"two", np.uint8)), True)


def test_packet_end_is_not_seen_before_its_byte() -> None:
    stream = Stream("link", 16)
    stream.push(b"abcd", True)
    assert stream.pop(3)[1] is False
    assert stream.pop(1)[1] is True


def test_back_pressure_accepts_what_fits() -> None:
    stream = Stream("link", 4)
    assert stream.push(b"abcdef", True) == 4
    assert stream.space == 0
    assert not stream.has_packet_end
    assert stream.push(b"ef", True) == 0
    stream.pop(2)
    assert stream.push(b"ef", True) == 2
    assert stream.has_packet_end


def test_what_was_pushed_does_not_change_with_its_source() -> None:
    source = np.zeros(4, np.uint8)
    stream = Stream("link", 4)
    stream.push(source, False)
    source[:] = 7
    assert stream.pop(4)[0].tobytes() == bytes(4)


def test_words_are_pushed_as_their_bytes() -> None:
    stream = Stream("link", 16)
    assert stream.push(np.array([[1, 2]], "<u4"), False) == 8  # type: ignore[arg-type]
    assert stream.pop(8)[0].tobytes() == bytes([1, 0, 0, 0, 2, 0, 0, 0])


def test_clear_forgets_data_but_not_the_counts() -> None:
    stream = Stream("link", 8)
    stream.push(b"abcd", True)
    stream.clear()
    assert (stream.level, stream.accepted, stream.delivered) == (0, 4, 0)
    assert len(stream.pop(8)[0]) == 0


def test_a_link_that_holds_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="holds nothing"):
        Stream("link", 0)


class StreamModel(RuleBasedStateMachine):
    """Against a list of (byte, is last)."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = Stream("link", 32)
        self.expected: list[tuple[int, bool]] = []

    @rule(data=st.binary(max_size=40), last=st.booleans())
    def push(self, data: bytes, last: bool) -> None:
        accepted = self.stream.push(data, last)
        assert accepted == min(len(data), 32 - len(self.expected))
        self.expected += [(byte, last and n == len(data) - 1) for n, byte in enumerate(data[:accepted])]

    @rule(limit=st.integers(0, 40))
    def pop(self, limit: int) -> None:
        end = next((n + 1 for n, (_, last) in enumerate(self.expected) if last), len(self.expected))
        count = min(limit, end)
        taken, self.expected = self.expected[:count], self.expected[count:]
        data, last = self.stream.pop(limit)
        assert data.tolist() == [byte for byte, _ in taken]
        assert last == (bool(taken) and taken[-1][1])

    @rule()
    def clear(self) -> None:
        self.stream.clear()
        self.expected.clear()

    @invariant()
    def levels_agree(self) -> None:
        assert self.stream.level == len(self.expected) == 32 - self.stream.space
        assert self.stream.has_packet_end == any(last for _, last in self.expected)


TestStreamModel = StreamModel.TestCase
