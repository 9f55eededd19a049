"""skip_array/slice_read.hpp: words of a block once for all passes of a run, with the ends of their chunks, and its
parameters for each group of the run."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from cpp_units import library

from bfpga.contract.arrays.skip_array import SparseArray
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.streams import PARAMETER_ROW
from bfpga.devices.csim import Integers

Integer = npt.NDArray[np.int64]

#: The numbers of tests/cpp/slice_weights.cpp.
ROWS, LANES, RUN, GROUPS = 6, 2, 4, 8
WEIGHTS = ROWS * LANES
#: Words, or rows, of a start at most.
CAPACITY = 2000


class _Start(ctypes.Structure):
    _fields_ = (
        ("commands", ctypes.c_int32),
        ("words", ctypes.c_void_p),
        ("beats", ctypes.c_int32),
        ("beat", ctypes.c_void_p),
        ("rarely", ctypes.c_int32),
        ("weight", ctypes.c_void_p),
        ("sent", ctypes.c_int32),
        ("row", ctypes.c_void_p),
        ("rows", ctypes.c_int32),
        ("left", ctypes.c_int32),
        ("work", ctypes.c_uint32),
        ("message", ctypes.c_char_p),
    )


@dataclass
class Result:
    """Words (words, weights of a word), whether each ends a chunk, parameters (rows, 2), beats left, beats filled."""

    weights: Integer
    ends: Integer
    rows: Integer
    left: int
    work: int


def run(descriptors: list[Descriptor], beats: Integer, integers: Integers = "native", rarely: int = 0) -> Result:
    words = np.array([descriptor.to_words() for descriptor in [*descriptors, Descriptor()]], np.int32)
    weight, row = np.zeros((CAPACITY, WEIGHTS + 1), np.int32), np.zeros((CAPACITY, 2), np.int32)
    message = ctypes.create_string_buffer(256)
    start = _Start(
        len(words), words.ctypes.data, len(beats), beats.ctypes.data, rarely, weight.ctypes.data, 0, row.ctypes.data,
        0, 0, 0, ctypes.cast(message, ctypes.c_char_p),
    )  # fmt: skip
    unit = library("slice_weights", integers, SparseArray())
    assert not unit.unit_slice_weights(ctypes.byref(start)), message.value.decode()
    sent = weight[: start.sent].astype(np.int64)
    return Result(sent[:, :WEIGHTS], sent[:, WEIGHTS], row[: start.rows].astype(np.int64), start.left, start.work)


def word_beats(weights: Integer) -> Integer:
    """Two beats of eight bytes of each word (words, weights)."""
    padded = np.zeros((len(weights), 16), np.int8)
    padded[:, :WEIGHTS] = weights
    return padded.reshape(-1, 8).view(np.int64)[:, 0]


def row_beats(rows: Integer) -> Integer:
    beats = np.zeros((len(rows), 8), np.uint8)
    for number, name in enumerate(("bias", "exponent")):
        beats[:, PARAMETER_ROW[name].octets] = PARAMETER_ROW[name].packed(rows[:, number])
    return beats.view(np.int64)[:, 0]


def gemm(groups: int, blocks: int, window: tuple[int, int, int], chunk: int, **fields: int) -> Descriptor:
    """window: kernel height, kernel width, words of channels."""
    height, width, words = window
    usual = {"weight_tap_step": words, "weight_block_step": height * width * words, "output_rows": blocks * ROWS}
    return Descriptor(
        operation=Operation.GEMM, groups=groups, blocks=blocks, kernel_height=height, kernel_width=width,
        channel_words=words, chunk_steps=chunk, **usual | fields,
    )  # fmt: skip


def steps(d: Descriptor) -> int:
    return d.kernel_height * d.kernel_width * d.channel_words


def runs(d: Descriptor) -> list[int]:
    """Groups of each run."""
    return [min(RUN, d.groups - first) for first in range(0, d.groups, RUN)]


def expected_words(d: Descriptor) -> list[int]:
    """Places of the words that go, in their order."""
    places = np.ndindex(d.blocks, d.kernel_height, d.kernel_width, d.channel_words)
    of_run = [
        d.weight_base + block * d.weight_block_step + (ky * d.kernel_width + kx) * d.weight_tap_step + word
        for block, ky, kx, word in places
    ]
    return of_run * len(runs(d))


def expected_ends(d: Descriptor) -> list[int]:
    of_block = [int((step + 1) % d.chunk_steps == 0 or step + 1 == steps(d)) for step in range(steps(d))]
    return of_block * d.blocks * len(runs(d))


def expected_rows(d: Descriptor) -> list[int]:
    found = []
    for groups in runs(d):
        for block in range(d.blocks):
            there = range(block * ROWS, min((block + 1) * ROWS, d.output_rows))
            found += [d.parameter_base + row for row in there] * groups
    return found


OPERATIONS = [
    gemm(9, 3, (2, 1, 4), 3, parameter_base=7, output_rows=14, weight_base=5),
    gemm(4, 1, (1, 1, 1), 1, output_rows=1),
    gemm(1, 2, (1, 3, 1), 16, output_rows=12, parameter_base=20),
    gemm(8, 4, (1, 1, 2), 2, output_rows=24),
    gemm(5, 2, (3, 3, 1), 4, output_rows=9, weight_block_step=0, weight_tap_step=0),
    gemm(1, 2, (2, 2, 2), 3, output_rows=12, weight_block_step=13),
]


@pytest.mark.parametrize(("integers", "rarely"), [("native", 0), ("native", 6), ("exact", 5)])
def test_words_go_once_a_run_and_parameters_for_each_of_its_groups(integers: Integers, rarely: int) -> None:
    """Whole runs, a last one with fewer groups, one alone; rows that the last block lacks; uniform weights."""
    rng = np.random.default_rng(rarely)
    rows = np.stack([rng.integers(-100_000, 100_000, 40), rng.integers(-30, 30, 40)], axis=1)
    words = rng.integers(-8, 8, (48, WEIGHTS))
    fill = Descriptor(operation=Operation.WEIGHTS, weight_words=48, parameter_rows=40)
    for operation in OPERATIONS:
        operation.after_fills = 1
    result = run([fill, *OPERATIONS], np.concatenate([row_beats(rows), word_beats(words)]), integers, rarely)
    places = [place for operation in OPERATIONS for place in expected_words(operation)]
    assert result.weights.tolist() == words[places].tolist()
    assert result.ends.tolist() == [end for operation in OPERATIONS for end in expected_ends(operation)]
    assert result.rows.tolist() == rows[[row for item in OPERATIONS for row in expected_rows(item)]].tolist()
    assert (result.left, result.work) == (0, 40 + 2 * 48)


@pytest.mark.parametrize("rarely", [0, 6])
def test_streamed_words_come_once_a_run_and_kept_sums_need_none(rarely: int) -> None:
    rng = np.random.default_rng(rarely)
    rows = np.stack([rng.integers(-9, 9, 40), rng.integers(-3, 3, 40)], axis=1)
    stream = gemm(6, 2, (1, 2, 3), 4, flags=Flag.STREAM_WEIGHTS, output_rows=8)
    words = rng.integers(-8, 8, (24, WEIGHTS))
    kept = gemm(5, 1, (1, 1, 1), 0, flags=Flag.KEPT, output_rows=4, parameter_base=3)
    fill = Descriptor(operation=Operation.WEIGHTS, parameter_rows=40)
    stream.after_fills = kept.after_fills = 1
    beats = np.concatenate([row_beats(rows), word_beats(words)])
    result = run([fill, stream, kept], beats, rarely=rarely)
    assert result.weights.tolist() == words.tolist()
    assert result.ends.tolist() == [0, 0, 0, 1, 0, 1] * 4
    assert result.rows.tolist() == rows[[*expected_rows(stream), *expected_rows(kept)]].tolist()
    assert result.left == 0


def test_a_window_without_chunks_is_refused() -> None:
    with pytest.raises(AssertionError, match="has no steps of a chunk"):
        run([gemm(1, 1, (1, 1, 1), 0)], np.zeros(0, np.int64))


@pytest.mark.parametrize(
    ("count", "needed"),
    [(0, 0), (0, 1), (7, 7), (7, 8), (7, 9), (65_535, 65_536), (65_536, 65_535), (65_540, 65_541), (70_000, 65_530)],
)
def test_operations_are_counted_beyond_the_bits_of_their_counters(count: int, needed: int) -> None:
    """Modulo 2**16: a start of many operations goes on when the counters of those that have ended begin anew."""
    unit = library("slice_weights", "native", SparseArray())
    assert unit.unit_reached(count, needed) == (3 if count >= needed else 0) | (4 if count + 1 >= needed else 0)
