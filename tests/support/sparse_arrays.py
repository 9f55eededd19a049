"""Arrays that skip zeros of activations as tests/cpp/sparse_array.cpp runs them: operands and weights in the order of
their chunks, and what the sums must be."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from cpp_units import library

from bfpga.devices.csim import Integers

Integer = npt.NDArray[np.int64]
#: Groups of pixels of a pass.
HALVES = 2


class _Layer(ctypes.Structure):
    _fields_ = (
        ("beats", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("operand", "mine", "control")),
        ("words", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("weight", "ends", "apart")),
        *((name, ctypes.c_int32) for name in ("segments", "rarely", "late", "room", "held", "starts", "capacity")),
        ("sum", ctypes.c_void_p),
        ("rows", ctypes.c_int32),
        ("credits", ctypes.c_int32),
        ("clocks", ctypes.c_int64),
        ("message", ctypes.c_char_p),
    )


@dataclass
class Operation:
    """A product: windows of groups of pixels (groups, columns, steps, lanes) of each slice, and its weights.

    windows: (slices, groups, columns, steps, lanes), or one for all slices; weights: (slices, rows, steps, lanes).
    lanes_apart: of one pixel, in the first column, whose lanes have a group each.
    """

    windows: Integer
    weights: Integer
    chunk_steps: int
    lanes_apart: bool = False

    @property
    def steps(self) -> int:
        return self.windows.shape[3]

    def window(self, number: int) -> Integer:
        """The window of a slice: (groups, columns, steps, lanes)."""
        window: Integer = self.windows[number if len(self.windows) > 1 else 0]
        return window

    def chunks(self) -> list[range]:
        """Steps of each chunk."""
        steps = range(self.steps)
        return [steps[begin : begin + self.chunk_steps] for begin in range(0, self.steps, self.chunk_steps)]


@dataclass
class Result:
    """Sums (rows, columns), credits for segments, clocks."""

    sums: Integer
    credits: int
    clocks: int


@dataclass
class SparseArray:
    """What an array of the list is."""

    number: int
    integers: Integers
    columns: int
    lanes: int
    rows: int
    chunk: int
    queue: int
    passes: int
    weight_bits: int
    mantissa_bits: int
    segments: int

    @staticmethod
    def of(number: int, integers: Integers) -> SparseArray:
        numbers = np.zeros(9, np.int32)
        assert library("sparse_array", integers).unit_sparse_numbers(number, ctypes.c_void_p(numbers.ctypes.data)) == 0
        return SparseArray(number, integers, *numbers.tolist())

    @property
    def segment_steps(self) -> int:
        return self.queue // self.segments

    def runs(self, groups: int) -> list[range]:
        """Groups of pixels of each run."""
        most = HALVES * self.passes
        return [range(first, min(first + most, groups)) for first in range(0, groups, most)]

    def run(
        self, operations: list[Operation], slots: int = 1, rarely: int = 0, late: int = 0, *, room: int = 8,
        held: int = 0, segments: int | None = None, starts: int = 1,
    ) -> Result:  # fmt: skip
        """So many starts alike. ``rarely``, ``late``: eighths of the clocks in which operands and sums, or weights, do
        not move; ``room``: sums that their stream holds; ``held``: credits that come before one is taken; ``segments``:
        that have room."""
        beats = [beat for operation in operations for beat in self._beats(operation, slots)]
        operand, mine, control = (np.array(part) for part in zip(*beats, strict=True))
        words = [word for operation in operations for word in self._weights(operation)]
        weight, ends, apart = (np.array(part) for part in zip(*words, strict=True))
        given = [np.ascontiguousarray(operand, np.int32), *(np.array(part, np.uint8) for part in (mine, control))]
        weights = [np.ascontiguousarray(weight, np.int32), *(np.array(part, np.uint8) for part in (ends, apart))]
        capacity = sum(len(operation.weights) * operation.windows.shape[1] for operation in operations) * self.rows
        sums = np.zeros((capacity * starts + 1, self.columns), np.int64)
        message = ctypes.create_string_buffer(256)
        layer = _Layer(
            len(operand), *(part.ctypes.data for part in given), len(weight), *(part.ctypes.data for part in weights),
            segments or self.segments, rarely, late, room, held, starts, len(sums), sums.ctypes.data, 0, 0, 0,
            ctypes.cast(message, ctypes.c_char_p),
        )  # fmt: skip
        failed = library("sparse_array", self.integers).unit_sparse_run(self.number, ctypes.byref(layer))
        assert not failed, message.value.decode()
        return Result(self._with_pixels(sums[: layer.rows], operations * starts), layer.credits, layer.clocks)

    def _with_pixels(self, sums: Integer, operations: list[Operation]) -> Integer:
        """Sums of columns that have a pixel; the other columns of operations of one pixel hold anything."""
        rows = [operation.lanes_apart for operation in operations for _ in self.expected([operation])]
        return np.where(np.array(rows)[: len(sums), None] & (np.arange(self.columns) > 0), 0, sums)

    def _beats(self, operation: Operation, slots: int) -> Iterator[tuple[Integer, Integer, list[bool]]]:
        """Operands, the columns they are for, and what the beats are: fires, first, last, opens, closes, single,
        leaves, apart, begins a segment. A column takes its word in one of the slots and finds others in the rest."""
        rng = np.random.default_rng(0)
        chunks = operation.chunks()
        groups = operation.windows.shape[1]
        for run, number, chunk in itertools.product(self.runs(groups), range(len(operation.weights)), chunks):
            window = operation.window(number)
            for first in run[::HALVES]:
                pair = range(first, min(first + HALVES, run.stop))
                for step, group, slot in itertools.product(chunk, pair, range(slots)):
                    turn = np.arange(self.columns) % slots == slot
                    if operation.lanes_apart:  # columns without a pixel read something or nothing, and have zeros
                        turn[1:] &= rng.random(self.columns - 1) < 0.5
                    word = window[group, :, step]
                    last = step == chunk[-1]
                    begins = (step - chunk[0]) % self.segment_steps == 0 and group == pair[0] and slot == 0
                    marks = [slot == slots - 1, step == chunk[0], last]
                    marks += [chunk == chunks[0], chunk == chunks[-1], len(pair) == 1, pair[-1] == run[-1]]
                    marks += [operation.lanes_apart, begins]
                    yield np.where(turn[:, None], word, rng.permutation(word)), turn, marks

    def _weights(self, operation: Operation) -> Iterator[tuple[Integer, bool, bool]]:
        """Words of weights (rows, lanes), whether each is the last one of its chunk, whether its lanes are apart."""
        runs = self.runs(operation.windows.shape[1])
        for _, weights, chunk in itertools.product(runs, operation.weights, operation.chunks()):
            for step in chunk:
                yield weights[:, step], step == chunk[-1], operation.lanes_apart

    def expected(self, operations: list[Operation]) -> Integer:
        """Rows of sums: run, slice, group of pixels, row."""
        sums = []
        for operation in operations:
            for run, number in itertools.product(
                self.runs(operation.windows.shape[1]), range(len(operation.weights))
            ):
                window, weights = operation.window(number)[run.start : run.stop], operation.weights[number]
                sums.append(np.einsum("gcsl,rsl->grc", window, weights).reshape(-1, self.columns))
        return np.concatenate(sums)

    def credits(self, operations: list[Operation]) -> int:
        """Segments of all passes."""
        count = 0
        for operation in operations:
            passes = -(-operation.windows.shape[1] // HALVES) * len(operation.weights)
            count += passes * sum(-(-len(chunk) // self.segment_steps) for chunk in operation.chunks())
        return count

    def random(
        self, rng: np.random.Generator, density: float, groups: int, slices: int, steps: int, chunk_steps: int,
        apart: bool = False, lanes_apart: bool = False,
    ) -> Operation:  # fmt: skip
        """An operation whose activations have a density; ``apart``: each slice has windows of its own;
        ``lanes_apart``: it has one pixel, if it has one group."""
        limit, most = 1 << (self.mantissa_bits - 1), 1 << (self.weight_bits - 1)
        shape = (slices if apart else 1, groups, self.columns, steps, self.lanes)
        extremes = rng.choice([-limit, -1, 1, limit - 1], shape)
        values = np.where(rng.random(shape) < 0.5, extremes, rng.integers(-limit, limit, shape))
        weights = rng.integers(-most, most, (slices, self.rows, steps, self.lanes))
        weights = np.where(rng.random(weights.shape) < 0.3, rng.choice([-most, most - 1], weights.shape), weights)
        values = values * (rng.random(shape) < density)
        lanes_apart = lanes_apart and groups == 1 and 1 < self.lanes <= self.columns
        if lanes_apart:
            values[:, :, 1:] = 0
        return Operation(values, weights, chunk_steps, lanes_apart)
