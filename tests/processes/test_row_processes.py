"""processes/rows: starts of random operations; all results are those of numpy, bit by bit."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass, field

import numpy as np
import pytest
from cpp_units import library
from effort import drawn, each_once
from row_cases import KINDS, TOP, drawn_rows

from bfpga.contract.rows import GAIN_BITS, LARGEST_ROW, RowOperation
from bfpga.devices.csim import Integers
from bfpga.engines.rows.arithmetic import normalized, products, softmax
from bfpga.engines.rows.settings import Gains, RowSettings
from bfpga.formats.arrays import Int64Array

#: Columns and lanes of the builds of tests/cpp/row_processes.cpp.
BUILDS = [(12, 4), (1, 1), (5, 2), (2, 1), (3, 4)]
OPERATIONS = [operation for operation in RowOperation if operation]
#: Of the loops' pipelines: none, as many as a synthesis finds, a number for each loop by chance.
STAGES = [0, 13, -1]
KINDS_OF_INTEGERS: list[Integers] = ["native", "ap_int", "exact"]


class StoppedError(AssertionError):
    """What stopped the processes."""


class _Operation(ctypes.Structure):
    _fields_ = (
        ("row", ctypes.c_int32 * 4), ("factor", ctypes.c_int32 * 7), ("exponent", ctypes.c_int32),
        ("x", ctypes.c_void_p), ("second", ctypes.c_void_p), ("gain", ctypes.c_void_p), ("passes", ctypes.c_int32),
        ("beyond", ctypes.c_int32), ("result", ctypes.c_void_p),
    )  # fmt: skip


class _Start(ctypes.Structure):
    _fields_ = (
        ("operation", ctypes.c_void_p), ("operations", ctypes.c_int32), ("depth", ctypes.c_int32),
        ("seed", ctypes.c_uint64), ("stages", ctypes.c_int32), ("left", ctypes.c_int32), ("message", ctypes.c_char_p),
    )  # fmt: skip


@dataclass
class Operation:
    """An operation over rows (groups * columns, channels), with what it needs."""

    settings: RowSettings
    x: Int64Array
    exponent: int = 0
    second: Int64Array | None = None
    gains: Gains | None = None
    beyond: int = 77  # what lanes behind the channels hold
    kept: list[np.ndarray] = field(default_factory=list)

    def expected(self) -> Int64Array:
        operation = self.settings.operation
        if operation == RowOperation.SOFTMAX:
            return softmax(self.x, self.exponent).accumulators
        if operation == RowOperation.PRODUCT:
            assert self.second is not None
            return products(self.x, self.second, 0).accumulators
        assert self.gains is not None
        return normalized(self.x, self.exponent, self.settings, self.gains).accumulators

    def structure(self, columns: int, lanes: int) -> _Operation:
        """The C structure; its arrays are kept, that of the results last."""
        own, words = self.settings, -(-self.settings.channels // lanes)
        groups = len(self.x) // columns
        gain = None if self.gains is None else self.gains.mantissa
        parts = [None if each is None else np.ascontiguousarray(each, np.int32) for each in (self.x, self.second, gain)]
        result = np.zeros((groups, words * lanes, columns), np.int64)
        self.kept = [part for part in (*parts, result) if part is not None]
        code = int(own.operation)
        return _Operation(
            (ctypes.c_int32 * 4)(code, own.channels, words, groups),
            (ctypes.c_int32 * 7)(code, own.channels, groups, own.inverse, own.magnitude, *own.epsilon),
            self.exponent, *(None if part is None else part.ctypes.data for part in parts), own.operation.passes,
            self.beyond, result.ctypes.data,
        )  # fmt: skip

    def found(self, columns: int) -> Int64Array:
        """The results that came: (groups * columns, channels)."""
        result: Int64Array = self.kept[-1].transpose(0, 2, 1).reshape(len(self.x), -1)
        return result[:, : self.settings.channels]


def random_operation(rng: np.random.Generator, columns: int, kind: RowOperation) -> Operation:
    """Of any length, distribution, exponent and epsilon."""
    channels = int(rng.choice([1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 100, 127, int(rng.integers(1, 300))]))
    rows = columns * int(rng.integers(1, 4))
    kinds = sorted(KINDS)
    x = np.concatenate([drawn_rows(kinds[int(rng.integers(len(kinds)))], rng, 1, channels) for _ in range(rows)])
    result = Operation(
        RowSettings.of(kind, channels, float(rng.choice([0.0, 1e-12, 1e-6, 1e-5, 1e-3, 1.0]))), x,
        exponent=int(rng.integers(-24, 12)), beyond=int(rng.choice([-TOP, 0, 77, TOP])),
    )  # fmt: skip
    if kind == RowOperation.PRODUCT:
        result.second = drawn_rows("uniform", rng, rows, channels)
    elif kind.normalizes:
        largest = (1 << (GAIN_BITS - 1)) - 1
        any_gains = rng.integers(-largest, largest + 1, channels)
        result.gains = Gains.of(rng.normal(1, 0.3, channels)) if rng.random() < 0.7 else Gains(any_gains, 0)
    return result


def run(
    integers: Integers, build: int, starts: list[list[Operation]], depth: int = 16, seed: int = 0, stages: int = 0
) -> None:
    """Runs the starts, one after the other; all results are those of numpy, and no word is left."""
    columns, lanes = BUILDS[build]
    messages = [ctypes.create_string_buffer(256) for _ in starts]
    arrays = [(_Operation * len(start))(*(each.structure(columns, lanes) for each in start)) for start in starts]
    given = (_Start * len(starts))(*(
        _Start(ctypes.addressof(array), len(array), depth, seed, stages, 0, ctypes.cast(message, ctypes.c_char_p))
        for array, message in zip(arrays, messages, strict=True)
    ))  # fmt: skip
    if library("row_processes", integers).row_run(build, given, len(starts)):
        raise StoppedError(b"".join(message.value for message in messages).decode())
    assert [start.left for start in given] == [0] * len(starts)
    for operation in itertools.chain(*starts):
        np.testing.assert_array_equal(operation.found(columns), operation.expected(), str(operation.settings))


@pytest.mark.parametrize(("build", "integers"), each_once(range(len(BUILDS)), KINDS_OF_INTEGERS))
def test_builds_are_those_of_the_library(build: int, integers: Integers) -> None:
    values = (ctypes.c_int32 * 2)()
    assert library("row_processes", integers).row_numbers(build, values) == 0
    assert tuple(values) == BUILDS[build]


@pytest.mark.parametrize(("build", "integers"), each_once(range(len(BUILDS)), KINDS_OF_INTEGERS))
def test_operations_give_what_numpy_gives(build: int, integers: Integers) -> None:
    """All operations behind each other, in two starts, in any order of the processes and with pauses of streams."""
    for seed in range(drawn(12)):
        rng = np.random.default_rng(100 * build + seed)
        kinds = [OPERATIONS[int(n)] for n in rng.integers(0, len(OPERATIONS), 8)]
        operations = [random_operation(rng, BUILDS[build][0], kind) for kind in kinds]
        run(integers, build, [operations[:5], operations[5:]], BUILDS[build][0], seed, STAGES[seed % len(STAGES)])


@pytest.mark.parametrize("integers", KINDS_OF_INTEGERS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_longest_rows_of_the_largest_numbers_fit(operation: RowOperation, integers: Integers) -> None:
    """Sums of 1,024 equal and of 1,024 alternating largest numbers, at both ends of exponents and of gains."""
    columns, _ = BUILDS[0]
    x = np.full((columns, LARGEST_ROW), TOP)
    x[columns // 3 :] *= -1
    x[2 * columns // 3 :, ::2] *= -1
    most = (1 << (GAIN_BITS - 1)) - 1
    gains = Gains(np.where(np.arange(LARGEST_ROW) % 3, most, -most), 0)
    operations = [
        Operation(
            RowSettings.of(operation, LARGEST_ROW, epsilon), x, exponent,
            second=x[::-1] if operation == RowOperation.PRODUCT else None,
            gains=gains if operation.normalizes else None,
        )
        for exponent, epsilon in itertools.product((-60, -24, 0, 24), (0.0, 1e-5, 1e3))
    ]  # fmt: skip
    run(integers, 0, [operations], columns)


def test_streams_between_the_loops_need_a_word_for_each_column() -> None:
    """With so many no order and no pause stops the processes; with half of them they wait for each other."""
    columns, stopped = BUILDS[0][0], 0
    for seed in range(drawn(30)):
        rng = np.random.default_rng(seed)
        operations = [random_operation(rng, columns, OPERATIONS[int(n)]) for n in rng.integers(0, 4, 4)]
        run("native", 0, [operations], columns, seed)
        try:
            run("native", 0, [operations], columns // 2, seed)
        except StoppedError as error:
            stopped += "wait for each other" in str(error)
    assert stopped > 5
