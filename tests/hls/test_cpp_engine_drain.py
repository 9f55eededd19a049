"""What all engines share in C++: the segment reader and the drain, against numpy (docs/engines.md, sections 2, 7)."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest
from cpp_units import BUILDS, library

from bfpga.contract.descriptor import Descriptor, Flag, Policy
from bfpga.devices.csim import Integers
from bfpga.formats.block_format import Status


@dataclass(frozen=True)
class Build:
    """The numbers of one build of tests/cpp/engine_drain.cpp, in the order in which the library tells them."""

    lanes: int
    columns: int
    banks: int
    words: int
    block_rows: int
    block_columns: int
    flight: int
    pixels: int

    def split(self, pixels: int, pixel_words: int) -> tuple[int, int]:
        """(word, bank) of a distance."""
        return pixels // self.banks * pixel_words, pixels % self.banks

    def walk(self, d: Descriptor, side: str, base: int, first: int, pitch: int, group: int, words: int) -> None:
        """Addresses of a tensor with rows of ``pitch`` pixels, from pixel ``first`` on."""
        setattr(d, f"{side}_pixel_words", words)
        for name, pixels in (("", first), ("_step", 1), ("_group", group), ("_wrap", pitch)):
            word, bank = self.split(pixels, words)
            setattr(d, f"{side}{name}_word", word + (0 if name else base))
            setattr(d, f"{side}{name}_bank", bank)


@functools.cache
def builds() -> list[Build]:
    found: list[Build] = []
    values = (ctypes.c_int32 * len(fields(Build)))()
    while library("engine_drain", "native").unit_engine_build(len(found), values) == 0:
        found.append(Build(*values))
    return found


class UnitError(AssertionError):
    """What a check of the simulation says."""


def call(integers: Integers, name: str, number: int, *arguments: Any) -> None:
    text = ctypes.create_string_buffer(200)
    pointers = [a.ctypes.data_as(ctypes.c_void_p) if isinstance(a, np.ndarray) else a for a in arguments]
    if getattr(library("engine_drain", integers), name)(number, *pointers, text):
        raise UnitError(text.value.decode())


NUMBERS = range(4)


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("size", [(3, 7), (1, 1), (4, 2), (2, 8)])
def test_segments_are_the_pixels_of_a_row_and_zeros_behind_it(
    number: int, integers: Integers, size: tuple[int, int]
) -> None:
    """Every channel word, in raster order; columns of the image behind the rectangle are not read."""
    check_walks(number, integers, size, [0])


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("bands", [[1, 2, 1], [4], [2, 2], [3, 1]])
def test_bands_follow_each_other_and_are_walked_again_for_every_word(number: int, bands: list[int]) -> None:
    """SC R36: rows of pieces are counted band by band, each one for several channel words."""
    check_walks(number, "native", (4, 5), bands)


def check_walks(number: int, integers: Integers, size: tuple[int, int], bands: list[int]) -> None:
    build, words, pitch, base, corner = builds()[number], 3, 9, 2, (1, 1)
    rng, (height, width) = np.random.default_rng(number), size
    memory = rng.integers(-127, 128, (build.banks, build.words, build.lanes)).astype(np.int32)
    d = Descriptor(input_height=height, input_width=width)
    first = corner[0] * pitch + corner[1]
    build.walk(d, "input", base, first, pitch, build.pixels, words)
    segments = -(-width // build.pixels)
    expected = []
    for start, rows in zip(np.cumsum([0, *bands]), bands, strict=False):
        for word in range(words):
            for row, segment in np.ndindex(rows or height, segments):
                cells = np.zeros((build.pixels, build.lanes), int)
                for i in range(min(build.pixels, width - segment * build.pixels)):
                    a = first + (start + row) * pitch + segment * build.pixels + i
                    cells[i] = memory[a % build.banks, base + a // build.banks * words + word]
                index = [start + row, segment, segment * build.pixels, segment == segments - 1]
                expected.append([*index, *cells.reshape(-1)])
    found = np.zeros((len(expected) + 1, 4 + build.pixels * build.lanes), np.int32)
    count = np.zeros(1, np.int32)
    call(
        integers, "unit_segments", number, d.to_words(), memory, np.array(bands, np.int32), len(bands), words, found,
        count,
    )  # fmt: skip
    assert count[0] == len(expected)
    np.testing.assert_array_equal(found[:-1], expected)


UNTOUCHED = -99


@dataclass
class Drained:
    """Mantissas (kernel, row, column) where they should lie, and everything else of the memory."""

    placement: int
    clocks: int
    overflow: int
    underflow: int
    bits: int
    exponent: int
    mantissa: np.ndarray
    expected: np.ndarray
    #: What else was written: 0.
    strangers: int


def drain(
    number: int, integers: Integers, kernels: int, size: tuple[int, int], sums: np.ndarray | None = None,
    exponent: int = 0, pitch: int | None = None, **fields: int,
) -> Drained:  # fmt: skip
    """The sums of a tile leave without a function; ``exponent``: of the results, in units of the sums."""
    build, (height, width) = builds()[number], size
    rng = np.random.default_rng(kernels)
    if sums is None:
        sums = rng.integers(-100, 101, (kernels, height, width))
    sums = np.ascontiguousarray(sums, np.int64)
    bias = rng.integers(-20, 21, 64).astype(np.int32)
    words, offset, first, base = -(-kernels // build.lanes) + 2, 1, 3, 1
    pitch = pitch or width + 2
    flags = Flag.BIAS | Flag.FIRST | Flag.LAST | fields.pop("flags", 0)
    d = Descriptor(group_rows=height, output_width=width, output_pixels=height * width, output_rows=kernels)
    d.flags, d.output_exponent, d.parameter_base = int(flags), exponent, 5
    d.write_slots = write_slots(build, pitch, height)
    for name, value in fields.items():
        setattr(d, name, value)
    build.walk(d, "output", base + offset, first, pitch, build.block_columns, words)
    memory = np.full((build.banks, build.words, build.lanes), UNTOUCHED, np.int32)
    results = np.zeros(6, np.int32)
    call(integers, "unit_engine_drain", number, d.to_words(), memory, sums.copy(), bias, results)
    biased = sums + bias[d.parameter_base : d.parameter_base + kernels, None, None]
    mantissa = np.zeros((-(-kernels // build.lanes) * build.lanes, height, width), int)
    for row, column in np.ndindex(height, width):
        a = first + row * pitch + column
        where = memory[a % build.banks, base + offset + a // build.banks * words :][: words - 2]
        mantissa[:, row, column] = where.reshape(-1)
        where[...] = UNTOUCHED
    expected = np.zeros_like(mantissa)
    expected[:kernels] = np.clip(biased, -127, 127)
    return Drained(*results.tolist(), mantissa, expected, int((memory != UNTOUCHED).sum()))


def write_slots(build: Build, pitch: int, height: int) -> int:
    """One clock if the pixels of a block lie in different banks, else one for each of its rows."""
    rows = min(build.block_rows, height)
    banks = {(row * pitch + column) % build.banks for row in range(rows) for column in range(build.block_columns)}
    return 1 if len(banks) == rows * build.block_columns else build.block_rows


def drain_clocks(build: Build, kernels: int, size: tuple[int, int], slots: int) -> int:
    """Section 8."""
    window = max(build.lanes, slots)
    blocks = -(-size[0] // build.block_rows) * -(-size[1] // build.block_columns)
    groups = [min(build.flight, kernels - first) for first in range(0, kernels, build.flight)]
    return sum(blocks * -(-group // build.lanes) * window + window for group in groups)


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(("kernels", "size"), [(1, (1, 1)), (5, (3, 4)), (11, (4, 7)), (8, (3, 3)), (2, (1, 5))])
def test_sums_leave_as_words_at_their_pixels(
    number: int, integers: Integers, kernels: int, size: tuple[int, int]
) -> None:
    """Ragged blocks, words that end with zeros, several groups; nothing else is written; section 8's clocks."""
    build, found = builds()[number], drain(number, integers, kernels, size)
    np.testing.assert_array_equal(found.mantissa, found.expected)
    assert found.strangers == 0
    assert found.placement == max(build.columns, build.pixels)
    assert found.clocks == drain_clocks(build, kernels, size, write_slots(build, size[1] + 2, size[0]))


@pytest.mark.parametrize("number", [number for number in NUMBERS if number != 0])
@pytest.mark.parametrize("offset", [0, 1])
def test_rows_whose_pixels_meet_in_a_bank_are_written_one_after_the_other(number: int, offset: int) -> None:
    """A pitch of whole banks: pixels below each other lie in one bank, so each row of a block has a slot."""
    build = builds()[number]
    pitch = build.banks + offset
    slots = write_slots(build, pitch, 4)
    assert slots == build.block_rows
    found = drain(number, "native", 5, (4, 4), pitch=pitch)
    np.testing.assert_array_equal(found.mantissa, found.expected)
    assert found.clocks == drain_clocks(build, 5, (4, 4), slots)
    with pytest.raises(UnitError, match="needs different words of bank"):
        drain(number, "native", 5, (4, 4), pitch=pitch, write_slots=1)


@pytest.mark.parametrize("number", NUMBERS)
def test_results_that_saturate_or_vanish_are_counted_once(number: int) -> None:
    """Kernels and pixels that a block or a word lacks are not counted (docs/systolic-array.md, section 5)."""
    sums = np.zeros((5, 3, 4), int)
    sums[:, 1, 2], sums[4, 2, 3] = 1000, -1000
    found = drain(number, "native", 5, (3, 4), sums)
    assert found.overflow == 6
    assert found.bits & Status.OVERFLOW
    np.testing.assert_array_equal(found.mantissa, found.expected)
    found = drain(number, "native", 5, (3, 4), exponent=20)
    assert found.overflow == 0
    assert not found.mantissa.any()
    assert 0 < found.underflow <= 60


@pytest.mark.parametrize("number", NUMBERS)
def test_a_measurement_writes_nothing_and_finds_the_largest_result(number: int) -> None:
    """The same clocks; the exponent is that of the leading position (BFP R24)."""
    sums = np.zeros((5, 3, 4), int)
    sums[4, 2, 3] = 3 << 19
    found = drain(number, "native", 5, (3, 4), sums, flags=int(Flag.MEASURE), policy=int(Policy.MAX))
    assert (found.mantissa == UNTOUCHED).all()
    assert found.strangers == 0
    assert found.exponent == 20 - 6
    assert found.clocks == drain(number, "native", 5, (3, 4)).clocks


def test_a_tile_whose_numbers_contradict_each_other_stops() -> None:
    with pytest.raises(UnitError, match="has other outputs than its rows times its columns: 11"):
        drain(0, "native", 5, (3, 4), output_pixels=11)
