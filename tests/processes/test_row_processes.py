"""processes/rows: starts of random operations; all results are those of numpy, bit by bit."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from cpp_units import library
from effort import drawn, each_once
from row_cases import TOP
from row_operations import OPERATIONS, RowCase, random_case

from bfpga.contract.rows import GAIN_BITS, LARGEST_ROW, RowOperation
from bfpga.devices.csim import Integers
from bfpga.engines.rows.cycles import EXCHANGE_STAGES, group_cycles
from bfpga.engines.rows.settings import Gains, RowSettings

#: Columns and lanes of the builds of tests/cpp/row_processes.cpp.
BUILDS = [(12, 4), (1, 1), (5, 2), (2, 1), (3, 4)]
#: Of the loops' pipelines: none, as many as a synthesis finds, a number for each loop by chance.
STAGES = [0, 13, -1]
KINDS_OF_INTEGERS: list[Integers] = ["native", "ap_int", "exact"]


class StoppedError(AssertionError):
    """What stopped the processes."""


class _Operation(ctypes.Structure):
    _fields_ = (
        ("row", ctypes.c_int32 * 4), ("factor", ctypes.c_int32 * 8), ("exponent", ctypes.c_int32),
        ("x", ctypes.c_void_p), ("second", ctypes.c_void_p), ("gain", ctypes.c_void_p), ("passes", ctypes.c_int32),
        ("beyond", ctypes.c_int32), ("result", ctypes.c_void_p),
    )  # fmt: skip


class _Start(ctypes.Structure):
    _fields_ = (
        ("operation", ctypes.c_void_p), ("operations", ctypes.c_int32), ("depth", ctypes.c_int32),
        ("seed", ctypes.c_uint64), ("stages", ctypes.c_int32), ("clocks", ctypes.c_int64), ("left", ctypes.c_int32),
        ("message", ctypes.c_char_p),
    )  # fmt: skip


class _Given:
    """An operation as C has it, and the arrays that it points to."""

    def __init__(self, case: RowCase, columns: int, lanes: int) -> None:
        self.case = case
        gain = None if case.gains is None else case.gains.mantissa
        self.parts = [
            None if each is None else np.ascontiguousarray(each, np.int32) for each in (case.x, case.second, gain)
        ]
        self.results = np.zeros((len(case.x) // columns, case.words(lanes) * lanes, columns), np.int64)
        self.structure = _Operation(
            (ctypes.c_int32 * 4)(*case.row_command(columns)),
            (ctypes.c_int32 * 8)(*case.factor_command(columns)), case.exponent,
            *(None if part is None else part.ctypes.data for part in self.parts), case.settings.operation.passes,
            case.beyond, self.results.ctypes.data,
        )  # fmt: skip

    def check(self) -> None:
        """The results that came, of lanes of channels, are those of numpy."""
        found = self.results.transpose(0, 2, 1).reshape(len(self.case.x), -1)[:, : self.case.settings.channels]
        np.testing.assert_array_equal(found, self.case.expected(), str(self.case.settings))


def run(
    integers: Integers, build: int, starts: Sequence[Sequence[RowCase]], depth: int, seed: int = 0, stages: int = 0
) -> list[int]:
    """Runs the starts, one after the other; all results are those of numpy, and no word is left. The clocks of each,
    of native integers in the usual order."""
    messages = [ctypes.create_string_buffer(256) for _ in starts]
    given = [[_Given(case, *BUILDS[build]) for case in start] for start in starts]
    arrays = [(_Operation * len(start))(*(each.structure for each in start)) for start in given]
    structures = (_Start * len(starts))(*(
        _Start(ctypes.addressof(array), len(array), depth, seed, stages, 0, 0, ctypes.cast(message, ctypes.c_char_p))
        for array, message in zip(arrays, messages, strict=True)
    ))  # fmt: skip
    if library("row_processes", integers).row_run(build, structures, len(starts)):
        raise StoppedError(b"".join(message.value for message in messages).decode())
    assert [start.left for start in structures] == [0] * len(starts)
    for each in itertools.chain(*given):
        each.check()
    return [start.clocks for start in structures]


@pytest.mark.parametrize(("build", "integers"), each_once(range(len(BUILDS)), KINDS_OF_INTEGERS))
def test_operations_give_what_numpy_gives(build: int, integers: Integers) -> None:
    """All operations behind each other, in two starts, in any order of the processes and with pauses of streams."""
    for seed in range(drawn(12)):
        rng = np.random.default_rng(100 * build + seed)
        kinds = [OPERATIONS[int(n)] for n in rng.integers(0, len(OPERATIONS), 8)]
        operations = [random_case(rng, BUILDS[build][0], kind) for kind in kinds]
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
        RowCase(
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
    for seed in range(drawn(60)):
        rng = np.random.default_rng(seed)
        operations = [random_case(rng, columns, OPERATIONS[int(n)]) for n in rng.integers(0, 4, 4)]
        run("native", 0, [operations], columns, seed)
        try:
            run("native", 0, [operations], columns // 2, seed)
        except StoppedError as error:
            stopped += "wait for each other" in str(error)
    assert stopped > 5


@pytest.mark.parametrize("build", range(len(BUILDS)))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_group_takes_the_clocks_that_are_said(operation: RowOperation, build: int) -> None:
    """Rows of any length, by two starts of which one has a group more; with the stages of a synthesis."""
    rng = np.random.default_rng(build)
    columns, lanes = BUILDS[build]
    for channels in (1, 5, 32, 99):
        cases = []
        for groups in (8, 9):
            x, y = rng.integers(-TOP, TOP + 1, (2, groups * columns, channels))
            gains = Gains.of(np.ones(channels)) if operation.normalizes else None
            second = y if operation == RowOperation.PRODUCT else None
            cases.append(RowCase(RowSettings.of(operation, channels, 1e-5), x, -4, second, gains))
        fewer, more = (run("native", build, [[case]], columns, 0, EXCHANGE_STAGES // 2)[0] for case in cases)
        assert more - fewer == group_cycles(operation, channels, columns, lanes)
