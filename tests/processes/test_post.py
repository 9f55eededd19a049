"""processes/post.hpp: starts of random commands; everything equals an output stage of all columns driven row by row.

The maxima and aligned sums of operations without weights are computed here. The output stage itself is compared with
the references in tests/hls/test_cpp_stage.py.
"""

from __future__ import annotations

import ctypes
import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from cpp_units import BUILDS, library

from bfpga.contract.descriptor import TELLS_STATISTICS, Descriptor, Flag, Function, LeadRule, Operation, Policy
from bfpga.devices.csim import Integers
from bfpga.engines.output.collector import told_words

Integer = npt.NDArray[np.int64]
TENSOR_SLOTS, POLICY_SLOTS, WIDE_WORDS = 4, 3, 256
#: What no mantissa is.
UNWRITTEN = 1 << 20


@dataclass(frozen=True)
class Build:
    """A configuration of tests/cpp/post_process.cpp."""

    mantissa_bits: int
    accumulator_bits: int
    columns: int
    rows: int
    lanes: int
    doubles: bool  # power-of-two weights make twice the rows
    shift_columns: int
    collects: bool
    bins: int = 32


#: The last two compute 2 of 6 columns at once, and a column at a time.
CONFIGURATIONS = (
    Build(8, 24, 5, 8, 4, False, 2, False), Build(16, 48, 3, 4, 2, True, 0, True),
    Build(8, 24, 6, 8, 4, False, 2, True), Build(16, 48, 5, 4, 2, True, 0, False),
)  # fmt: skip
BENCHES = [(integers, index) for integers in BUILDS for index in range(len(CONFIGURATIONS))]


class _Command(ctypes.Structure):
    _fields_ = (
        ("words", ctypes.c_void_p),
        ("exponent", ctypes.c_int32),
        ("rows", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("sum", "bias", "row_exponent")),
        ("beats", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("operand", "mine", "present", "fires", "mantissa", "expected")),
        ("exponent_sent", ctypes.c_int32),
        ("exponent_expected", ctypes.c_int32),
    )


class _Report(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("overflows", "underflows", "status"))


@dataclass
class Command:
    """A descriptor with what comes with it; arrays as in tests/cpp/post_process.cpp."""

    descriptor: Descriptor
    exponent: int = 0
    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    def structure(self, build: Build) -> tuple[_Command, tuple[npt.NDArray[Any], ...]]:
        """The C structure, and the arrays that it points to, mantissas of the process and of the stage last."""
        d = self.descriptor
        words = d.groups * -(-d.output_rows // build.lanes)
        results = [np.full((words, build.columns, build.lanes), UNWRITTEN, np.int32) for _ in range(2)]
        arrays = (
            d.to_words(),
            np.ascontiguousarray(self.arrays.get("sum", np.zeros(0)), np.int64),
            *(np.ascontiguousarray(self.arrays.get(name, np.zeros(0)), np.int32) for name in ("bias", "exponents")),
            np.ascontiguousarray(self.arrays.get("operand", np.zeros(0)), np.int32),
            *(np.ascontiguousarray(self.arrays.get(name, np.zeros(0)), np.uint8) for name in ("mine", "present")),
            np.ascontiguousarray(self.arrays.get("fires", np.zeros(0)), np.uint8),
            *results,
        )
        pointer = [array.ctypes.data for array in arrays]
        rows = self.arrays["sum"].shape[1] if "sum" in self.arrays else 0
        beats = len(self.arrays.get("fires", ()))
        return _Command(pointer[0], self.exponent, rows, *pointer[1:4], beats, *pointer[4:], 0, 0), arrays


@contextmanager
def bench(integers: Integers, index: int) -> Iterator[Any]:
    functions = library("post_process", integers)
    functions.unit_bench.restype = ctypes.c_void_p
    handle = functions.unit_bench(index)
    assert handle
    try:
        yield lambda *arguments: functions.unit_run(ctypes.c_void_p(handle), *arguments)
    finally:
        functions.unit_free(ctypes.c_void_p(handle))


def check(run: Any, build: Build, commands: list[Command], clear: bool, rarely: int) -> int:
    """One start: mantissas, exponents and report are those of the stage; returns its status bits."""
    pairs = [command.structure(build) for command in commands]
    structures = (_Command * len(commands))(*(structure for structure, _ in pairs))
    reports, left = (_Report * 2)(), ctypes.c_int32()
    run(len(commands), structures, int(clear), rarely, reports, ctypes.byref(left))
    assert left.value == 0
    for command, structure, (_, arrays) in zip(commands, structures, pairs, strict=True):
        d = command.descriptor
        assert structure.exponent_sent == structure.exponent_expected
        if d.operation in (Operation.GEMM, Operation.MAX, Operation.SUM) and not d.flags & Flag.MEASURE:
            mantissa, expected = arrays[-2:]
            assert (expected != UNWRITTEN).sum() == d.output_pixels * d.output_rows
            columns = (expected != UNWRITTEN).any(axis=2)
            # Words end with zeros where there are no rows.
            assert np.array_equal(mantissa[columns], np.where(expected == UNWRITTEN, 0, expected)[columns])
    shown = [[getattr(report, name) for name, _ in _Report._fields_] for report in reports]
    assert shown[0] == shown[1]
    return int(shown[0][2])


class Cases:
    """Random commands of a build."""

    def __init__(self, build: Build, seed: int) -> None:
        self.build, self.rng, self.numbers = build, random.Random(seed), np.random.default_rng(seed)
        self.exponents = [0] * TENSOR_SLOTS

    def load(self, slot: int) -> Command:
        self.exponents[slot] = self.rng.randint(-6, 6)
        return Command(Descriptor(Operation.LOAD, output_slot=slot), self.exponents[slot])

    def store(self, slot: int) -> Command:
        return Command(Descriptor(Operation.STORE, input_slot=slot))

    def told(self) -> list[Command]:
        """STOREs of all that the collector holds, of a build that has one."""
        words = range(told_words(self.build.bins) if self.build.collects else 0)
        return [Command(Descriptor(Operation.STORE, int(TELLS_STATISTICS), input_slot=word)) for word in words]

    def layer(self, **fields: Any) -> dict[str, Any]:
        """Fields that all computing operations may have; slots 2 and 3 take results, the others keep their LOADs."""
        rng = self.rng
        policy = rng.choice(list(Policy))
        window = {Policy.STATISTICS: rng.randint(0, 3), Policy.ROLLING_MAX: rng.randint(1, 8)}.get(policy, 0)
        return {
            "flags": int(rng.choice((Flag.NONE, Flag.FIRST | Flag.LAST, Flag.FIRST, Flag.LAST, Flag.PRESET))),
            "input_slot": 0, "second_slot": 1, "output_slot": rng.choice((2, 3)),
            "output_rows": rng.randint(1, 2 * self.build.rows + 1), "output_pixels": rng.randint(1, 12),
            "function": int(rng.choice((Function.NONE, *Function))), "function_argument": rng.choice((1, 3, 90)),
            "function_exponent": rng.randint(-3, 3), "output_exponent": rng.randint(-4, 12), "policy": int(policy),
            "policy_slot": rng.randrange(POLICY_SLOTS), "policy_window": window,
            "policy_factor": rng.choice((0, 2, 12)), "lead_rule": int(rng.choice(list(LeadRule)) * self.build.collects),
            "position_rate": rng.randint(0, 6), "position_margin": rng.randint(-1, 1),
            "position_base": rng.randint(-4, 4),
        } | fields  # fmt: skip

    def flagged(self, fields: dict[str, Any], *flags: Flag) -> None:
        for flag in flags:
            fields["flags"] |= int(flag) if self.rng.random() < 0.4 else 0

    def values(self, bits: int, shape: tuple[int, ...]) -> Integer:
        """Numbers of all magnitudes, zeros and extremes."""
        limit = 1 << (bits - 1)
        numbers = self.numbers
        wide = numbers.integers(-limit, limit, shape) >> numbers.integers(0, bits, shape)
        return np.where(numbers.random(shape) < 0.8, wide, numbers.choice([0, -limit, limit - 1], shape))

    def gemm(self, **fields: Any) -> Command:
        build = self.build
        fields = self.layer(operation=Operation.GEMM, **fields)
        self.flagged(fields, Flag.BIAS, Flag.ROW_EXPONENTS, Flag.FUNCTION_FIRST, Flag.MEASURE)
        self.flagged(fields, *([Flag.POWER_OF_TWO] * build.doubles), *([Flag.TWO_HOT] * (build.shift_columns > 0)))
        flags = Flag(fields["flags"])
        block_rows = build.rows * (2 if build.doubles and flags & Flag.POWER_OF_TWO else 1)
        columns = build.columns - (0 if flags & Flag.TWO_HOT else build.shift_columns)
        d = Descriptor(
            **fields, bias_exponent=self.rng.randint(-4, 4), blocks=-(-fields["output_rows"] // block_rows),
            groups=-(-fields["output_pixels"] // columns),
        )  # fmt: skip
        rows = self.values(18, (d.output_rows,)), self.numbers.integers(-4, 5, d.output_rows)
        sums = self.values(build.accumulator_bits, (d.groups, d.blocks * block_rows, build.columns))
        return Command(d, 0, {"sum": sums, "bias": rows[0], "exponents": rows[1]})

    def kept(self) -> list[Command]:
        """A measurement that keeps its sums, and the operation that takes them."""
        build = self.build
        rows, pixels = self.rng.randint(1, build.rows + 2), self.rng.randint(1, 3 * build.columns)
        place = {"output_rows": rows, "output_pixels": pixels, "wide_word": self.rng.randint(0, 40)}
        keep = self.gemm(flags=int(Flag.FIRST | Flag.MEASURE | Flag.KEEP), **place)
        d = Descriptor(**vars(keep.descriptor))
        d.flags = int((Flag(d.flags) & ~(Flag.KEEP | Flag.MEASURE)) | Flag.FIRST | Flag.LAST | Flag.KEPT)
        # What the array would have computed is not looked at.
        return [keep, Command(d, 0, keep.arrays | {"sum": np.zeros_like(keep.arrays["sum"])})]

    def combined(self, operation: Operation, **fields: Any) -> Command:
        """MAX over a window, or a SUM of one or two operands, which are columns of taps."""
        build, rng = self.build, self.rng
        maximum = operation == Operation.MAX
        height, width = (3, 3) if maximum else (1, 2)
        window = {"kernel_height": rng.randint(1, height), "kernel_width": rng.randint(1, width)}
        fields = self.layer(operation=operation, **window, **fields)
        self.flagged(fields, Flag.MEASURE, Flag.COPY_EXPONENT, Flag.NEGATE_SECOND)
        d = Descriptor(**fields, blocks=99, groups=-(-fields["output_pixels"] // build.columns))
        words, slots = -(-d.output_rows // build.lanes), rng.randint(1, 3)
        shape = (d.groups, words, d.kernel_height, d.kernel_width, build.columns)
        x = self.values(build.mantissa_bits, (*shape, build.lanes))
        present = self.numbers.random(shape) < 0.7
        rows = self.maxima(x, present) if maximum else self.sums(x, d)
        beats = self.beats(x, present, slots)
        none = np.zeros(d.output_rows)
        return Command(d, 0, {"sum": rows, "bias": none, "exponents": none} | beats)

    def maxima(self, x: Integer, present: npt.NDArray[np.bool_]) -> Integer:
        """(groups, rows, columns)"""
        smallest = -(1 << (self.build.mantissa_bits - 1))
        most = np.where(present[..., None], x, smallest).max(axis=(2, 3))
        return most.swapaxes(2, 3).reshape(len(x), -1, self.build.columns)

    def sums(self, x: Integer, d: Descriptor) -> Integer:
        """(groups, rows, columns), in the unit of the larger exponent, rounded to nearest, ties to even."""
        exponents = self.exponents[: d.kernel_width]
        total = np.zeros((*x.shape[:2], *x.shape[4:]), np.int64)
        for ky, kx in itertools.product(range(d.kernel_height), range(d.kernel_width)):
            unit = 1 << (max(exponents) - exponents[kx])
            term = np.vectorize(lambda value, unit=unit: round(Fraction(int(value), unit)))(x[:, :, ky, kx])
            total += -term if kx > 0 and d.flags & Flag.NEGATE_SECOND else term
        return total.swapaxes(2, 3).reshape(len(x), -1, self.build.columns)

    def beats(self, x: Integer, present: npt.NDArray[np.bool_], slots: int) -> dict[str, npt.NDArray[Any]]:
        """Each tap in so many beats; a column takes its word in one of them and finds other numbers in the rest."""
        columns = self.build.columns
        operand, inside = x.reshape(-1, 1, columns, self.build.lanes), present.reshape(-1, 1, columns)
        turn = np.arange(columns) % slots == np.arange(slots)[:, None]
        noise = self.values(self.build.mantissa_bits, (len(operand), slots, *operand.shape[2:]))
        return {
            "operand": np.where(turn[None, :, :, None], operand, noise),
            "mine": np.broadcast_to(turn, (len(operand), *turn.shape)),
            "present": np.where(turn[None], inside, self.numbers.random((len(operand), slots, columns)) < 0.5),
            "fires": np.broadcast_to(np.arange(slots) == slots - 1, (len(operand), slots)).reshape(-1),
        }

    def start(self) -> list[Command]:
        """All operations, in an order of chance."""
        makers = [self.gemm, self.gemm, lambda: self.combined(Operation.MAX), lambda: self.combined(Operation.SUM)]
        layers = [[self.rng.choice(makers)(), *self.told()] for _ in range(6)] + [self.kept()]
        self.rng.shuffle(layers)
        return [*itertools.chain.from_iterable(layers), self.store(2), self.store(3)]


@pytest.mark.parametrize("rarely", [0, 4])
@pytest.mark.parametrize(("integers", "index"), BENCHES)
def test_starts_equal_the_output_stage(integers: Integers, index: int, rarely: int) -> None:
    """Values, exponents, policies from start to start, counters, status bits; also with beats that come late.

    FP R49: what the collector holds behind any operation too.
    """
    cases, status = Cases(CONFIGURATIONS[index], 10 * index + rarely), 0
    with bench(integers, index) as run:
        for start in range(12):
            loads = [cases.load(slot) for slot in range(TENSOR_SLOTS)]
            status |= check(run, CONFIGURATIONS[index], loads + cases.start(), start % 5 == 0, rarely)
    assert status
