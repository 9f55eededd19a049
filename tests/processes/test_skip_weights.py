"""skip_array/entry_read.hpp (issue 16, item 1): stored entries reach their groups in every pass, zeros do not."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from cpp_units import library

from bfpga.contract.arrays.skip_array import SkipArray
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.streams import PARAMETER_ROW
from bfpga.devices.csim import Integers

Integer = npt.NDArray[np.int64]

#: The numbers of tests/cpp/skip_weights.cpp: fields of 16 bits, of which value and position use 9; one beat a word.
GROUPS, VALUE_BITS, POSITION_BITS, FIELD_BITS = 3, 4, 5, 16
#: Entries, or rows, of a start at most.
CAPACITY = 400


class _Start(ctypes.Structure):
    _fields_ = (
        ("commands", ctypes.c_int32),
        ("words", ctypes.c_void_p),
        ("beats", ctypes.c_int32),
        ("beat", ctypes.c_void_p),
        ("rarely", ctypes.c_int32),
        ("capacity", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("entry", "entries", "row")),
        ("rows", ctypes.c_int32),
        ("left", ctypes.c_int32),
        ("work", ctypes.c_uint32),
        ("message", ctypes.c_char_p),
    )


@dataclass
class Result:
    """Entries (entries, 4) of each group, rows of parameters (rows, 2), beats left, beats filled."""

    entries: list[Integer]
    rows: Integer
    left: int
    work: int


def run(descriptors: list[Descriptor], beats: Integer, integers: Integers = "native", rarely: int = 0) -> Result:
    words = np.array([descriptor.to_words() for descriptor in [*descriptors, Descriptor()]], np.int32)
    entry = np.zeros((GROUPS, CAPACITY, 4), np.int32)
    entries, row = np.zeros(GROUPS, np.int32), np.zeros((CAPACITY, 2), np.int32)
    message = ctypes.create_string_buffer(256)
    start = _Start(
        len(words), words.ctypes.data, len(beats), beats.ctypes.data, rarely, CAPACITY, entry.ctypes.data,
        entries.ctypes.data, row.ctypes.data, 0, 0, 0, ctypes.cast(message, ctypes.c_char_p),
    )  # fmt: skip
    failed = library("skip_weights", integers, SkipArray(GROUPS)).unit_skip_weights(ctypes.byref(start))
    assert not failed, message.value.decode()
    lists = [entry[group, : entries[group]].astype(np.int64) for group in range(GROUPS)]
    return Result(lists, row[: start.rows].astype(np.int64), start.left, start.work)


def slots(rng: np.random.Generator, words: int) -> Integer:
    """Entries (words, groups, 4), a third of them zero throughout."""
    low, high = [-(1 << (VALUE_BITS - 1)), 0, 0, 0], [1 << (VALUE_BITS - 1), 1 << POSITION_BITS, 2, 2]
    drawn = rng.integers(low, high, (words, GROUPS, 4))
    drawn[rng.random((words, GROUPS)) < 0.3] = 0
    return drawn


def word_beats(entries: Integer) -> Integer:
    """The beats of entry words: fields of all slots, then their marks."""
    value = entries[..., 0] & ((1 << VALUE_BITS) - 1) | entries[..., 1] << VALUE_BITS
    marks = entries[..., 2] | entries[..., 3] << 1
    group = np.arange(GROUPS)
    return (value << FIELD_BITS * group).sum(axis=1) | (marks << (FIELD_BITS * GROUPS + 2 * group)).sum(axis=1)


def row_beats(rows: Integer) -> Integer:
    beats = np.zeros((len(rows), 8), np.uint8)
    for number, name in enumerate(("bias", "exponent")):
        beats[:, PARAMETER_ROW[name].octets] = PARAMETER_ROW[name].packed(rows[:, number])
    return beats.view(np.int64)[:, 0]


def given(entries: Integer, passes: int) -> list[Integer]:
    """What each group hears of entry words that every pass reads."""
    return [np.tile(slot[slot.any(axis=1)], (passes, 1)) for slot in entries.swapaxes(0, 1)]


@pytest.mark.parametrize(("integers", "rarely"), [("native", 0), ("native", 6), ("exact", 5)])
def test_every_pass_reads_its_entries_and_the_parameters_of_each_half(integers: Integers, rarely: int) -> None:
    """From memory and from the stream; an odd group of pixels has no second half; a kept sum needs no entries."""
    rng = np.random.default_rng(rarely)
    kept = np.stack([rng.integers(-100_000, 100_000, 40), rng.integers(-30, 30, 40)], axis=1)
    first, second, streamed = slots(rng, 9), slots(rng, 24), slots(rng, 2)
    fill = Descriptor(operation=Operation.WEIGHTS, weight_words=9, parameter_rows=40)
    again = Descriptor(operation=Operation.WEIGHTS, weight_words=24, after_reads=1)
    gemm = Descriptor(
        operation=Operation.GEMM, groups=5, weight_base=2, entry_words=4, parameter_base=7, output_rows=6,
        after_fills=1,
    )  # fmt: skip
    even = Descriptor(operation=Operation.GEMM, groups=2, entry_words=24, output_rows=1, after_fills=2)
    stream = Descriptor(
        operation=Operation.GEMM, flags=Flag.STREAM_WEIGHTS, groups=3, entry_words=1, parameter_base=39, output_rows=1,
    )  # fmt: skip
    keeps = Descriptor(operation=Operation.GEMM, flags=Flag.KEPT, groups=3, parameter_base=1, output_rows=2)
    beats = np.concatenate([*map(word_beats, (first, second, streamed))])
    beats = np.concatenate([row_beats(kept), beats])
    result = run([fill, gemm, again, even, stream, keeps], beats, integers, rarely)
    parts = [given(first[2:6], 3), given(second, 1), given(streamed, 1)]
    for group in range(GROUPS):
        expected = np.concatenate([part[group] for part in parts])
        assert result.entries[group].tolist() == expected.tolist()
    taken = [(slice(7, 13), 5), (slice(1), 2), (slice(39, 40), 3), (slice(1, 3), 3)]
    rows = np.concatenate([np.tile(kept[part], (groups, 1)) for part, groups in taken])
    assert result.rows.tolist() == rows.tolist()
    assert (result.left, result.work) == (0, 40 + 9 + 24)


def test_a_gemm_without_entries_is_refused() -> None:
    words = np.array([Descriptor(operation=Operation.GEMM, groups=1, output_rows=1).to_words()], np.int32)
    with pytest.raises(AssertionError, match="has no words of entries"):
        run([Descriptor.from_words(words[0])], np.zeros(0, np.int64))
