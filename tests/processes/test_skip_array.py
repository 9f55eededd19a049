"""skip_array/skip_array.hpp (issue 16, item 1): windows of all densities against integer sums, rows dealt to groups in
any way, entries that come irregularly, chunks that wait for room, sums that nobody takes."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from cpp_units import library

from bfpga.devices.csim import Integers
from bfpga.engines.skip_array.cycles import pass_clocks
from bfpga.engines.skip_array.entries import entry_words
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.engines.skip_array.windows import chunk_kernels, piece_window

Integer = npt.NDArray[np.int64]

#: The arrays of tests/cpp/skip_array.cpp: that of a PYNQ-Z2, which takes long with exact integers, and others.
PYNQ, SMALL = 0, (1, 2, 3)
CASES: list[tuple[int, Integers]] = [(PYNQ, "native"), *itertools.product(SMALL, ("native", "exact"))]


class _Layer(ctypes.Structure):
    _fields_ = (
        ("beats", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("operand", "mine", "control", "entry", "entries")),
        ("chunks", ctypes.c_int32),
        ("rarely", ctypes.c_int32),
        ("room", ctypes.c_int32),
        ("late", ctypes.c_int32),
        ("starts", ctypes.c_int32),
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

    def run(
        self, operands: Operands, lists: list[list[Entry]], slots: int = 1, rarely: int = 0, *, room: int = 8,
        late: int = 0, chunks: int = 4, starts: int = 1,
    ) -> Result:  # fmt: skip
        """So many starts alike. ``lists``: the entries of each group; ``rarely``: eighths of the clocks in which a
        stream that is asked has nothing; ``room``: sums that their stream holds; ``late``: credits that come before
        one is taken; ``chunks``: most credits at the beginning."""
        beats = operands.beats(self, slots)
        entries = np.array([entry for group in lists for entry in group], np.int32).reshape(-1, 4)
        counts = np.array([len(group) for group in lists], np.int32)
        most = sum(entry[2] for entry in entries) * self.halves * starts
        sums = np.zeros((most + 1, self.columns), np.int64)
        message = ctypes.create_string_buffer(256)
        job = _Layer(
            len(beats[0]), *(array.ctypes.data for array in (*beats, entries, counts)),
            min(chunks, 2 * self.chunk // operands.places(self)), rarely, room, late, starts, len(sums),
            sums.ctypes.data, 0, 0, 0, ctypes.cast(message, ctypes.c_char_p),
        )  # fmt: skip
        result = library("skip_array", self.integers).unit_skip_run(self.number, ctypes.byref(job))
        assert result == 0, message.value.decode()
        return Result(sums[: job.rows], job.credits, job.clocks)


@dataclass
class Result:
    """Sums (rows, columns), credits for chunks, clocks."""

    sums: Integer
    credits: int
    clocks: int


#: Value, position in the chunk, ends the kernel, ends the chunk of the group.
Entry = tuple[int, int, bool, bool]
#: Rows of each group in their order.
Deal = list[list[int]]


@dataclass
class Operands:
    """Windows of passes (passes, wide words, pixels) in chunks of so many wide words.

    ``apart``: each chunk has rows of its own, so that it opens their sums; ``single``: passes with half 0 alone;
    ``kept``: words that the first chunk of a pass leaves to the next pass, whose own it has at its begin;
    ``lanes_apart``: a group gets the words of its lane alone.
    """

    window: Integer
    chunk: int
    apart: bool = False
    single: frozenset[int] = frozenset()
    kept: int = 0
    lanes_apart: bool = False

    def places(self, array: SkipArray) -> int:
        """Places of a chunk in the windows."""
        return self.chunk // (array.lanes if self.lanes_apart else 1)

    def chunks(self) -> list[slice]:
        """The words of each chunk of a window."""
        words = self.window.shape[1]
        return [slice(begin, min(begin + self.chunk, words)) for begin in range(0, words, self.chunk)]

    def halves(self, array: SkipArray, number: int) -> range:
        """Halves of a pass."""
        return range(1 if number in self.single else array.halves)

    def beats(self, array: SkipArray, slots: int) -> tuple[npt.NDArray[np.generic], ...]:
        """Operands, the columns they are for, and what the beats are: fires, first, last, opens, closes, single, begins
        a chunk, slides, has lanes apart.

        A column takes its word in one of the slots and finds others in the rest; what closes is said at the end alone.
        """
        rng = np.random.default_rng(0)
        operand, mine, control = [], [], []
        chunks = self.chunks()
        for number, (index, part) in itertools.product(range(len(self.window)), enumerate(chunks)):
            slides = self.kept > 0 and number > 0
            words = self.window[number, part][self.kept * slides :]
            words = words.reshape(-1, array.lanes, array.halves, array.columns)
            halves = self.halves(array, number)
            for step, half, slot in itertools.product(range(len(words)), halves, range(slots)):
                turn = np.arange(array.columns) % slots == slot
                word = words[step, :, half].T
                operand.append(np.where(turn[:, None], word, rng.permutation(word)))
                mine.append(turn)
                last = step == len(words) - 1
                closes = index == len(chunks) - 1 if last else rng.integers(2)
                of_pass = (self.apart or index == 0, closes, len(halves) < array.halves)
                begins = step == half == slot == 0
                control.append([slot == slots - 1, step == 0, last, *of_pass, begins, slides, self.lanes_apart])
        return np.array(operand, np.int32), np.array(mine, np.uint8), np.array(control, np.uint8)


def dealt(array: SkipArray, rows: int, rng: np.random.Generator | None = None) -> Deal:
    """Rows to the groups in turns, in their order or in any."""
    order = range(rows) if rng is None else rng.permutation(rows)
    return [[int(row) for row in order[group :: array.groups]] for group in range(array.groups)]


def entry_lists(array: SkipArray, weights: Integer, operands: Operands, deal: Deal | None = None) -> list[list[Entry]]:
    """Entries of each group for all passes; kernels: (kernels, wide words)."""
    deals = [deal or dealt(array, len(weights))] * len(operands.chunks())
    return lists_of(weights, operands, deals)


def lists_of(weights: Integer, operands: Operands, deals: list[Deal]) -> list[list[Entry]]:
    """Entries of each group for all passes, each chunk dealt by itself."""
    chunks = list(zip(operands.chunks(), deals, strict=True)) * len(operands.window)
    return [
        [entry for part, deal in chunks for entry in own_entries(weights[:, part], deal[group])]
        for group in range(len(deals[0]))
    ]


def own_entries(weights: Integer, rows: list[int]) -> list[Entry]:
    """Entries of one group for one chunk (kernels, words of the chunk): of each of its kernels."""
    entries: list[Entry] = []
    for row in rows:
        kernel = weights[row]
        words = [(int(kernel[k]), int(k), False, False) for k in np.flatnonzero(kernel)] or [(0, 0, False, False)]
        entries += [(0, row + 1, False, False), *words[:-1], (*words[-1][:2], True, False)]
    last = entries.pop() if entries else (0, 0, False, False)
    return [*entries, (*last[:3], True)]


def expected(array: SkipArray, weights: Integer, operands: Operands) -> Integer:
    """Rows of sums: pass, half, kernel."""
    sums = []
    for number, window in enumerate(operands.window):
        by_half = (weights @ window).reshape(len(weights), array.halves, array.columns).swapaxes(0, 1)
        sums += [by_half[half] for half in operands.halves(array, number)]
    return np.concatenate(sums)


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
    """ZS R1, R5, R27, R44: fewer and more kernels than groups, one chunk and several of them full or short, words in
    one slot or two, sums that are taken at once or rarely."""
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
        lists = entry_lists(array, weights, operands, dealt(array, kernels, rng))
        result = array.run(operands, lists, slots, rarely)
        assert np.array_equal(result.sums, expected(array, weights, operands))
        assert result.credits == len(operands.window) * len(operands.chunks())


@pytest.mark.parametrize("integers", ["native", "exact"])
def test_empty_kernels_and_empty_maps_give_zeros(integers: Integers) -> None:
    """ZS R7: kernels without a value in some chunks or in all, between others; maps of zeros."""
    array = SkipArray.of(SMALL[0], integers)
    rng = np.random.default_rng(3)
    operands = random_window(array, rng, 3, 6, 2)
    operands.window[1] = 0
    weights = random_kernels(array, rng, 2 * array.groups, operands.window.shape[1], 0.5)
    weights[1] = weights[array.groups :: 2, operands.chunks()[1]] = 0
    sums = array.run(operands, entry_lists(array, weights, operands)).sums
    assert np.array_equal(sums, expected(array, weights, operands))
    by_pass = sums.reshape(3, array.halves, 2 * array.groups, -1)
    assert not by_pass[1].any()
    assert not by_pass[:, :, 1].any()
    assert by_pass[0].any()


def pair_sums(integers: Integers, value: Integer, low: Integer, high: Integer) -> Integer:
    """Sums (kernels, 2) as one pair of lanes has them; values and pixels: (kernels, terms)."""
    given = [np.ascontiguousarray(np.broadcast_to(part, value.shape), np.int8) for part in (value, low, high)]
    sums = np.zeros((len(value), 2), np.int64)
    pointers = [ctypes.c_void_p(part.ctypes.data) for part in (*given, sums)]
    library("skip_array", integers).unit_pair_sums(*map(ctypes.c_int, value.shape), *pointers)
    return sums


@pytest.mark.parametrize("integers", ["native", "exact"])
def test_a_sum_goes_past_the_room_of_its_field_by_every_product(integers: Integers) -> None:
    """All products of 8 bits, added where a sum of low pixels stands at the border of a quarter of its 16 bits."""
    value, low = (part.ravel()[:, None] for part in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    for place in (-0x10000, -0x8001, -0x4000, -1, 0, 0x3FFF, 0x4000, 0x7FFF, 0xC000, 0xFFFF):
        # The place as 127 * 127 * a + 127 * b + c.
        steps, rest = divmod(place, 127)
        parts = [127] * (abs(steps) // 127) + [abs(steps) % 127]
        before = np.array([(part * (1 if steps > 0 else -1), 127) for part in parts] + [(1, rest)])
        values = np.hstack([np.broadcast_to(before[:, 0], (len(value), len(before))), value])
        lows = np.hstack([np.broadcast_to(before[:, 1], (len(value), len(before))), low])
        highs = np.full(values.shape, -128)
        expected = np.stack([(values * lows).sum(1), (values * highs).sum(1)], axis=1)
        assert np.array_equal(pair_sums(integers, values, lows, highs), expected)
        assert (expected[:, 0] - (value * low)[:, 0] == place).all()


@pytest.mark.parametrize("number", SMALL)
def test_chunks_that_follow_each_other_at_once_are_added(number: int) -> None:
    """Short chunks of few kernels, in each of them dealt anew: what left last comes first again, and no word is read
    before it is written."""
    array = SkipArray.of(number, "native")
    rng = np.random.default_rng(11)
    for kernels in (1, 2, 3):
        operands = random_window(array, rng, 3, 7, 1)
        weights = random_kernels(array, rng, kernels, operands.window.shape[1], 0.3)
        deals = [dealt(array, kernels, rng) for _ in operands.chunks()]
        result = array.run(operands, lists_of(weights, operands, deals))
        assert np.array_equal(result.sums, expected(array, weights, operands))


@pytest.mark.parametrize(("number", "integers"), CASES)
def test_groups_have_kernels_of_their_lane(number: int, integers: Integers) -> None:
    """A depthwise layer whose lanes stand apart: full and short chunks, an operation of the other kind behind it would
    find its words; passes with one half; a step in one slot or two."""
    array = SkipArray.of(number, integers)
    rng = np.random.default_rng(15)
    operands = random_window(array, rng, 4, 2 * array.chunk - 3, array.chunk)
    operands.lanes_apart, operands.single = True, frozenset((1, 3))
    weights = random_kernels(array, rng, 2 * array.groups, operands.window.shape[1], 0.3)
    kernel, word = np.indices(weights.shape)
    lane = kernel % array.groups % array.lanes
    weights[word % array.lanes != lane] = 0
    lists = [[(value, at if row else at // array.lanes, last, ends) for (value, at, last, ends), row in marked(own)]
             for own in entry_lists(array, weights, operands)]  # fmt: skip
    for slots, rarely in ((1, 0), (2, 3)):
        sums = array.run(operands, lists, slots, rarely).sums
        assert np.array_equal(sums, expected(array, weights, operands))


def marked(entries: list[Entry]) -> Iterator[tuple[Entry, bool]]:
    """Entries, each with whether its position is an output row and not a word of the chunk."""
    for entry in entries:
        yield entry, entry[0] == 0 and not entry[2] and not entry[3]


@pytest.mark.parametrize("integers", ["native", "exact"])
@pytest.mark.parametrize("number", SMALL)
def test_windows_keep_what_they_share_with_the_pass_before(number: int, integers: Integers) -> None:
    """Words come once for the passes that they belong to, and the ring turns while they stay; the last pass has one
    half, behind which the next operation begins with a whole window."""
    array = SkipArray.of(number, integers)
    rng, steps, kept = np.random.default_rng(15), array.chunk // array.lanes, array.chunk // array.lanes // 2
    for slots, rarely, chunks in ((1, 0, 2), (2, 3, 1)):
        operands = random_window(array, rng, 9, steps, steps)
        operands.kept = kept * array.lanes
        for number_of, window in enumerate(operands.window[1:]):
            window[: operands.kept] = operands.window[number_of][-operands.kept :]
        operands.single = frozenset((8,)) if array.halves > 1 else frozenset()
        weights = random_kernels(array, rng, 3, array.chunk, 0.3)
        result = array.run(operands, entry_lists(array, weights, operands), slots, rarely, chunks=chunks)
        assert np.array_equal(result.sums, expected(array, weights, operands))


@pytest.mark.parametrize("integers", ["native", "exact"])
def test_operands_are_taken_while_nobody_takes_sums(integers: Integers) -> None:
    """ZS R34, R42: two passes are computed before their first sum leaves; the next one waits and nothing is lost."""
    array = SkipArray.of(SMALL[2], integers)
    rng = np.random.default_rng(13)
    operands = random_window(array, rng, 5, 4, 2)
    weights = random_kernels(array, rng, 7, operands.window.shape[1], 0.5)
    lists = entry_lists(array, weights, operands)
    for late, rarely in ((4, 0), (0, 7)):
        result = array.run(operands, lists, room=1, rarely=rarely, late=late)
        assert np.array_equal(result.sums, expected(array, weights, operands))


@pytest.mark.parametrize(
    ("kernels", "steps", "density"),
    [(4, 12, 1.0), (4, 12, 0.2), (24, 4, 0.5), (25, 8, 0.4), (12, 20, 0.9), (20, 2, 0.3), (5, 4, 0.6), (28, 7, 1.0)],
)
def test_passes_take_the_clocks_that_the_host_counts(kernels: int, steps: int, density: float) -> None:
    """ZS R45: loads, products or sums that leave decide, in one chunk or several; entries as the host deals them."""
    array = SkipArray.of(SMALL[2], "native")
    rng, passes = np.random.default_rng(kernels * steps), 24
    size = array.groups, array.halves, array.columns, array.lanes, array.chunk
    shape = SkipShape(*size, weight_bits=array.weight_bits)
    weights = random_kernels(array, rng, kernels, steps * array.lanes, density)
    stored = weights.astype(np.int32)[:, None, None]
    window = piece_window(stored, 1, 0, kernels, shape)
    chunks = chunk_kernels(stored, 1, 0, kernels, window, shape)
    words = entry_words(chunks, shape)
    clocks = pass_clocks(chunks, words, shape)
    operands = random_window(array, rng, passes, steps, shape.chunk_steps(steps))
    few = random_window(array, rng, passes // 3, steps, shape.chunk_steps(steps))
    found, begun = (
        array.run(part, [host_list(codes, shape) * len(part.window) for codes in words.words.T]).clocks
        for part in (operands, few)
    )
    counted = passes * clocks.total + int(clocks.load[0])
    assert 0.96 * counted - 60 <= found <= 1.04 * counted + 60
    assert found - begun == pytest.approx((passes - passes // 3) * clocks.total, rel=0.04)


@pytest.mark.parametrize(("kernels", "fresh", "density"), [(4, 2, 0.2), (12, 4, 1.0), (20, 1, 0.1)])
def test_passes_whose_windows_slide_take_the_clocks_that_the_host_counts(
    kernels: int, fresh: int, density: float
) -> None:
    """Fewer words come, and loading no longer decides; where the products or the sums do, nothing changes."""
    array = SkipArray.of(SMALL[2], "native")
    rng, passes, steps = np.random.default_rng(kernels), 32, 8
    size = array.groups, array.halves, array.columns, array.lanes, array.chunk
    shape = SkipShape(*size, weight_bits=array.weight_bits)
    weights = random_kernels(array, rng, kernels, steps * array.lanes, density)
    stored = weights.astype(np.int32)[:, None, None]
    chunks = chunk_kernels(stored, 1, 0, kernels, piece_window(stored, 1, 0, kernels, shape), shape)
    words = entry_words(chunks, shape)
    clocks = pass_clocks(chunks, words, shape, slid=fresh)
    operands = random_window(array, rng, passes, steps, steps)
    operands.kept = (steps - fresh) * array.lanes
    for number, window in enumerate(operands.window[1:]):
        window[: operands.kept] = operands.window[number][-operands.kept :]
    lists = [host_list(codes, shape) * passes for codes in words.words.T]
    result = array.run(operands, lists, chunks=clocks.held)
    assert np.array_equal(result.sums, expected(array, weights, operands))
    whole = pass_clocks(chunks, words, shape)
    counted = (passes - 1) * clocks.total + whole.total + int(whole.load[0])
    assert 0.96 * counted - 60 <= result.clocks <= 1.04 * counted + 60
    assert clocks.total < whole.total or density == 1.0 or kernels == 20


def host_list(codes: Integer, shape: SkipShape) -> list[Entry]:
    """Entries of a group from their bits."""
    values, sign = codes & ((1 << shape.weight_bits) - 1), 1 << (shape.weight_bits - 1)
    positions = codes >> shape.weight_bits & ((1 << shape.position_bits) - 1)
    marks = codes >> shape.last_bit
    return [
        (int((value ^ sign) - sign), int(position), bool(mark & 1), bool(mark & 2))
        for value, position, mark, code in zip(values, positions, marks, codes, strict=True)
        if code
    ]


def test_a_chunk_that_begins_in_the_middle_stops_the_simulation() -> None:
    array = SkipArray.of(SMALL[0], "native")
    operands = Operands(np.zeros((1, 3 * array.lanes, array.pixels), np.int64), array.chunk)
    lists = entry_lists(array, np.ones((1, 3 * array.lanes), np.int64), operands)
    broken = Operands(operands.window, array.chunk)
    beats = operands.beats(array, 1)
    beats[2][array.halves, 1] = 1
    broken.beats = lambda *_: beats  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="a chunk of a window begins somewhere else"):
        array.run(broken, lists)
