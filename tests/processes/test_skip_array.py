"""processes/skip_array.hpp (issue 16, item 1): windows of all densities against integer sums, entries that come
irregularly, chunks that wait for room."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from cpp_units import library

from bfpga.devices.csim import Integers

Integer = npt.NDArray[np.int64]

#: The arrays of tests/cpp/skip_array.cpp: that of a PYNQ-Z2, which takes long with exact integers, and others.
PYNQ, SMALL = 0, (1, 2, 3)
CASES: list[tuple[int, Integers]] = [(PYNQ, "native"), *itertools.product(SMALL, ("native", "exact"))]


class _Layer(ctypes.Structure):
    _fields_ = (
        ("beats", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("operand", "mine", "control", "entry", "entries")),
        ("rarely", ctypes.c_int32),
        ("capacity", ctypes.c_int32),
        ("sum", ctypes.c_void_p),
        ("rows", ctypes.c_int32),
        ("credits", ctypes.c_int32),
        ("clocks", ctypes.c_int64),
        ("message", ctypes.c_char_p),
    )


@dataclass
class SkipArray:
    """What an array of the list is."""

    number: int
    integers: Integers
    groups: int
    halves: int
    columns: int
    lanes: int
    chunk: int
    mantissa_bits: int
    weight_bits: int

    @staticmethod
    def of(number: int, integers: Integers) -> SkipArray:
        numbers = np.zeros(7, np.int32)
        assert library("skip_array", integers).unit_skip_numbers(number, ctypes.c_void_p(numbers.ctypes.data)) == 0
        return SkipArray(number, integers, *numbers.tolist())

    @property
    def pixels(self) -> int:
        return self.halves * self.columns

    def run(self, operands: Operands, lists: list[list[Entry]], slots: int = 1, rarely: int = 0) -> Result:
        """One start. ``lists``: the entries of each group; ``rarely``: eighths of the clocks in which a stream that is
        asked has nothing."""
        beats = operands.beats(self, slots)
        entries = np.array([entry for group in lists for entry in group], np.int32).reshape(-1, 4)
        counts = np.array([len(group) for group in lists], np.int32)
        sums = np.zeros((operands.rows_at_most(self, lists), self.columns), np.int64)
        message = ctypes.create_string_buffer(256)
        job = _Layer(
            len(beats[0]), *(array.ctypes.data for array in (*beats, entries, counts)), rarely, len(sums),
            sums.ctypes.data, 0, 0, 0, ctypes.cast(message, ctypes.c_char_p),
        )  # fmt: skip
        result = library("skip_array", self.integers).unit_skip_run(self.number, ctypes.byref(job))
        assert result == 0, message.value.decode()
        return Result(sums[: job.rows], job.credits, job.clocks)


@dataclass
class Result:
    """Sums (rows, columns), credits for chunks, clocks (0 but with exact integers)."""

    sums: Integer
    credits: int
    clocks: int


#: Value, position in the chunk, ends the kernel, ends the chunk of the group.
Entry = tuple[int, int, bool, bool]


@dataclass
class Operands:
    """Windows of passes (passes, wide words, pixels) in chunks of so many wide words."""

    window: Integer
    chunk: int

    def chunks(self) -> list[slice]:
        """The words of each chunk of a window."""
        words = self.window.shape[1]
        return [slice(begin, min(begin + self.chunk, words)) for begin in range(0, words, self.chunk)]

    def rows_at_most(self, array: SkipArray, lists: list[list[Entry]]) -> int:
        return sum(entry[2] for group in lists for entry in group) * array.halves + 1

    def beats(self, array: SkipArray, slots: int) -> tuple[npt.NDArray[np.generic], ...]:
        """Operands, the columns they are for, and what the beats are: fires, first, last, begins a chunk.

        A column takes its word in one of the slots and finds others in the rest.
        """
        rng = np.random.default_rng(0)
        operand, mine, control = [], [], []
        for window, part in itertools.product(self.window, self.chunks()):
            words = window[part].reshape(-1, array.lanes, array.halves, array.columns)
            for step, half, slot in itertools.product(range(len(words)), range(array.halves), range(slots)):
                turn = np.arange(array.columns) % slots == slot
                word = words[step, :, half].T
                operand.append(np.where(turn[:, None], word, rng.permutation(word)))
                mine.append(turn)
                begins = step == half == slot == 0
                control.append([slot == slots - 1, step == 0, step == len(words) - 1, begins])
        return np.array(operand, np.int32), np.array(mine, np.uint8), np.array(control, np.uint8)


def entry_lists(array: SkipArray, weights: Integer, operands: Operands) -> list[list[Entry]]:
    """Entries of each group for all passes; kernels (kernels, wide words) are dealt to the groups in their order."""
    chunks = [part for _ in operands.window for part in operands.chunks()]
    return [
        [entry for part in chunks for entry in own_entries(array, weights[:, part], group)]
        for group in range(array.groups)
    ]


def own_entries(array: SkipArray, weights: Integer, group: int) -> list[Entry]:
    """Entries of one group for one chunk: of each of its kernels (kernels, words of the chunk)."""
    entries: list[Entry] = []
    for kernel in weights[group :: array.groups]:
        words = [(int(kernel[k]), int(k), False, False) for k in np.flatnonzero(kernel)] or [(0, 0, False, False)]
        entries += [*words[:-1], (*words[-1][:2], True, False)]
    last = entries.pop() if entries else (0, 0, False, False)
    return [*entries, (*last[:3], True)]


def expected(array: SkipArray, weights: Integer, operands: Operands) -> Integer:
    """Rows of sums: pass, chunk, kernel, half."""
    sums = [weights[:, part] @ window[part] for window in operands.window for part in operands.chunks()]
    return np.concatenate(sums).reshape(-1, array.columns)


def random_window(array: SkipArray, rng: np.random.Generator, passes: int, steps: int, chunk_steps: int) -> Operands:
    limit = 1 << (array.mantissa_bits - 1)
    shape = (passes, steps * array.lanes, array.pixels)
    extremes = rng.choice([-limit, -limit + 1, -1, 0, 1, limit - 1], shape)
    window = np.where(rng.random(shape) < 0.3, extremes, rng.integers(-limit, limit, shape))
    return Operands(window, chunk_steps * array.lanes)


def random_kernels(array: SkipArray, rng: np.random.Generator, kernels: int, words: int, density: float) -> Integer:
    """Each kernel has its own density around the mean; extremes are frequent."""
    limit = 1 << (array.weight_bits - 1)
    shape = (kernels, words)
    values = rng.choice([*range(1, limit), *range(-limit, 0), *[limit - 1, -limit] * limit], shape)
    own = np.clip(density + rng.normal(0, 0.1, (kernels, 1)) * (0 < density < 1), 0, 1)
    return np.where(rng.random(shape) < own, values, 0)


@pytest.mark.parametrize("density", [0.0, 0.05, 0.4, 1.0])
@pytest.mark.parametrize(("number", "integers"), CASES)
def test_sums_equal_integers_at_every_density(number: int, integers: Integers, density: float) -> None:
    """Fewer and more kernels than groups, one chunk and several of them full or short, words in one slot or two."""
    array = SkipArray.of(number, integers)
    rng = np.random.default_rng(int(100 * density))
    full = array.chunk // array.lanes
    for kernels, steps, chunk_steps, slots, rarely in (
        (1, 1, 1, 1, 0),
        (array.groups, 2, 2, 1, 0),
        (2 * array.groups + 1, full + 1, full, 2, 0),
        (array.groups + 2, 5, 2, 1, 5),
    ):
        operands = random_window(array, rng, 2, steps, chunk_steps)
        weights = random_kernels(array, rng, kernels, steps * array.lanes, density)
        result = array.run(operands, entry_lists(array, weights, operands), slots, rarely)
        assert np.array_equal(result.sums, expected(array, weights, operands))
        assert result.credits == len(operands.window) * len(operands.chunks())


@pytest.mark.parametrize("integers", ["native", "exact"])
def test_empty_kernels_and_empty_maps_give_zeros(integers: Integers) -> None:
    """Kernels without a value in some chunks or in all, between others; maps of zeros."""
    array = SkipArray.of(SMALL[0], integers)
    rng = np.random.default_rng(3)
    operands = random_window(array, rng, 3, 6, 2)
    operands.window[1] = 0
    weights = random_kernels(array, rng, 2 * array.groups, operands.window.shape[1], 0.5)
    weights[1] = weights[array.groups :: 2, operands.chunks()[1]] = 0
    sums = array.run(operands, entry_lists(array, weights, operands)).sums
    assert np.array_equal(sums, expected(array, weights, operands))
    by_pass = sums.reshape(3, 3, 2 * array.groups, -1)
    assert not by_pass[1].any()
    assert not by_pass[:, :, 1].any()
    assert by_pass[0].any()


@pytest.mark.parametrize("integers", ["native", "exact"])
def test_products_of_a_pair_are_exact_for_every_neighbour(integers: Integers) -> None:
    """All values of the low pixel with the extremes of the high one and of the weight: the fields come apart."""
    array = SkipArray.of(SMALL[0], integers)
    ends = np.array([-128, -127, -1, 0, 1, 127])
    low, high = (part.ravel() for part in np.meshgrid(np.arange(-128, 128), ends, indexing="ij"))
    pixels = np.stack([low, high], axis=1).reshape(-1, array.lanes, array.pixels)
    operands = Operands(pixels, array.lanes)
    weights = np.repeat(ends[ends != 0], 2).reshape(-1, 2) * np.array([1, 0])
    weights[1::2] = weights[1::2, ::-1]
    sums = array.run(operands, entry_lists(array, weights, operands)).sums
    assert np.array_equal(sums, expected(array, weights, operands))


def test_a_group_runs_ahead_of_a_slow_one() -> None:
    """Sums keep their order when the kernels of a group are much shorter than those of the one before it."""
    array = SkipArray.of(SMALL[0], "native")
    rng = np.random.default_rng(5)
    operands = random_window(array, rng, 2, 8, 4)
    weights = random_kernels(array, rng, 4 * array.groups, operands.window.shape[1], 1.0)
    weights[1 :: array.groups, 1:] = 0
    sums = array.run(operands, entry_lists(array, weights, operands), rarely=2).sums
    assert np.array_equal(sums, expected(array, weights, operands))


@pytest.mark.parametrize("integers", ["native", "exact"])
def test_each_chunk_may_have_kernels_of_its_own(integers: Integers) -> None:
    """A depthwise layer: a chunk for the kernels of its channels alone, fewer of them in the last."""
    array = SkipArray.of(SMALL[0], integers)
    rng = np.random.default_rng(6)
    operands = random_window(array, rng, 2, 7, 3)
    weights = random_kernels(array, rng, 4, operands.window.shape[1], 0.6)
    kernels = {part.start: weights[: 4 - index] for index, part in enumerate(operands.chunks())}
    parts = [(window, part) for window in operands.window for part in operands.chunks()]
    lists = [[entry for _, part in parts for entry in own_entries(array, kernels[part.start][:, part], group)]
             for group in range(array.groups)]  # fmt: skip
    sums = [(kernels[part.start][:, part] @ window[part]).reshape(-1, array.columns) for window, part in parts]
    assert np.array_equal(array.run(operands, lists, rarely=1).sums, np.concatenate(sums))


@pytest.mark.parametrize("density", [1.0, 0.6])
def test_zeros_take_no_time(density: float) -> None:
    """Clocks are those of the longest list, less than a tenth more, where kernels have more entries than sums that
    leave."""
    array = SkipArray.of(SMALL[2], "exact")
    rng = np.random.default_rng(8)
    operands = random_window(array, rng, 6, 16, 8)
    weights = random_kernels(array, rng, 12 * array.groups, operands.window.shape[1], density)
    lists = entry_lists(array, weights, operands)
    result = array.run(operands, lists)
    assert np.array_equal(result.sums, expected(array, weights, operands))
    dense = weights.size // array.groups * len(operands.window)
    assert max(map(len, lists)) <= result.clocks < 1.1 * max(map(len, lists)) + 80
    assert result.clocks < 1.2 * density * dense


def test_a_chunk_that_begins_in_the_middle_stops_the_simulation() -> None:
    array = SkipArray.of(SMALL[0], "native")
    operands = Operands(np.zeros((1, 3 * array.lanes, array.pixels), np.int64), array.chunk)
    lists = entry_lists(array, np.ones((1, 3 * array.lanes), np.int64), operands)
    broken = Operands(operands.window, array.chunk)
    beats = operands.beats(array, 1)
    beats[2][1, 1] = 1
    broken.beats = lambda *_: beats  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="a chunk of a window begins somewhere else"):
        array.run(broken, lists)
