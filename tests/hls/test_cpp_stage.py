"""output_stage.hpp, activation_unit.hpp and exponent_selector.hpp: layers on one policy slot, value by value.

Values are checked against the exact reference, exponents and status bits against the policy registers of the emulator.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from cpp_units import BUILDS, library
from effort import drawn
from reference import (
    leading_position,
    load_vectors,
    reference_magnitude,
    reference_mantissa,
    reference_value,
)

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Function, Policy
from bfpga.devices.csim import Integers
from bfpga.engines.output.exponents import PolicyRegisters
from bfpga.engines.output.stage import evaluate
from bfpga.formats.block_format import BlockFormat, Status

#: The configurations of tests/cpp/stage.cpp.
CONFIGS = [
    KernelConfig(format=BlockFormat(8), accumulator_bits=32, bias_bits=18),
    KernelConfig(format=BlockFormat(16), accumulator_bits=48, bias_bits=32),
    KernelConfig(format=BlockFormat(16, 8, "trunc"), accumulator_bits=48, bias_bits=18),
    KernelConfig(format=BlockFormat(16, 8, "half_up"), accumulator_bits=48, bias_bits=18),
    KernelConfig(format=BlockFormat(4, 8, "half_away", "wrap", "ceil"), accumulator_bits=16, bias_bits=16),
    KernelConfig(format=BlockFormat(18, 8, "tozero", "full", "ceil"), accumulator_bits=58, bias_bits=32),
    KernelConfig(format=BlockFormat(16, 5), accumulator_bits=48, bias_bits=32),
]
BUILT: dict[Integers, range] = {"native": range(7), "ap_int": range(2)}
BENCHES = [(integers, index) for integers in BUILDS for index in BUILT[integers]]
#: The first of each width of accumulators: nothing else of a configuration is met before results become narrow.
WIDTHS = [cfg.accumulator_bits for cfg in CONFIGS]
OF_EACH_WIDTH = [(integers, index) for integers, index in BENCHES if WIDTHS[index] not in WIDTHS[:index]]


class _Layer(ctypes.Structure):
    _fields_ = (
        ("words", ctypes.c_void_p),
        ("accumulator_exponent", ctypes.c_int32),
        ("rows", ctypes.c_int32),
        ("columns", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("accumulator", "bias", "row_exponent", "value", "exponent", "mantissa")),
        ("output_exponent", ctypes.c_int32),
        ("overflows", ctypes.c_uint32),
        ("underflows", ctypes.c_uint32),
        ("status", ctypes.c_int32),
    )


@dataclass
class Results:
    """What a layer gave: value, exponent and mantissa (rows, columns), output exponent, counters, status bits."""

    value: list[list[int]]
    exponent: list[list[int]]
    mantissa: list[list[int]]
    output_exponent: int
    overflows: int
    underflows: int
    status: int


@dataclass
class Case:
    """One layer: accumulators (rows, columns), their exponent, bias and exponent of each row."""

    descriptor: Descriptor
    accumulators: list[list[int]]
    exponent: int
    bias: list[int]
    row_exponents: list[int]


class Bench:
    """A policy slot and an output stage in C++."""

    def __init__(self, functions: ctypes.CDLL, handle: int) -> None:
        self.functions, self.handle = functions, handle

    def run(self, case: Case) -> Results:
        accumulators = np.array(case.accumulators, np.int64)
        inputs = [np.array(case.bias, np.int32), np.array(case.row_exponents, np.int32)]
        value = np.zeros_like(accumulators)
        exponent, mantissa = np.zeros((2, *value.shape), np.int32)
        words = case.descriptor.to_words()
        arrays = (accumulators, *inputs, value, exponent, mantissa)
        layer = _Layer(words.ctypes.data, case.exponent, *value.shape, *(array.ctypes.data for array in arrays))
        self.functions.unit_run(ctypes.c_void_p(self.handle), ctypes.byref(layer))
        tensors = (array.tolist() for array in (value, exponent, mantissa))
        return Results(*tensors, layer.output_exponent, layer.overflows, layer.underflows, layer.status)


@contextmanager
def bench(integers: Integers, index: int) -> Iterator[Bench]:
    functions = library("stage", integers)
    functions.unit_bench.restype = ctypes.c_void_p
    handle = functions.unit_bench(index)
    assert handle
    try:
        yield Bench(functions, handle)
    finally:
        functions.unit_free(ctypes.c_void_p(handle))


def signed(rng: random.Random, bits: int) -> int:
    """A signed integer of up to ``bits`` bits; all magnitudes are as likely, and so are zero and the extremes."""
    largest = (1 << (bits - 1)) - 1
    number = rng.choice((0, largest, -largest - 1, *(rng.getrandbits(rng.randrange(1, bits)) for _ in range(9))))
    return max(-largest - 1, min(largest, rng.choice((1, -1)) * number))


def random_case(rng: random.Random, cfg: KernelConfig, **fields: Any) -> Case:
    rows, columns = rng.randint(1, 4), rng.randint(1, 3)
    small, near = (lambda: rng.randint(-40, 40)), rng.randint(-60, 40)
    flags = fields.pop("flags", Flag.NONE)
    for flag in (Flag.BIAS, Flag.ROW_EXPONENTS, Flag.FUNCTION_FIRST):
        flags |= flag if rng.random() < 0.6 else 0
    descriptor = Descriptor(
        flags=int(flags),
        bias_exponent=near + rng.choice((small(), rng.randint(-5, 5))),
        function=int(rng.choice(list(Function))),
        function_argument=rng.choice((rng.randint(0, 70), signed(rng, 31) & 0xFFFFFF)),
        function_exponent=near + small(),
        output_exponent=near + rng.randint(0, cfg.accumulator_bits),
    )
    if descriptor.function == Function.LEAKY_RELU:
        descriptor.function_argument %= 70
    return Case(
        replace(descriptor, **fields),
        [[signed(rng, cfg.accumulator_bits) for _ in range(columns)] for _ in range(rows)],
        near,
        [signed(rng, cfg.bias_bits) for _ in range(rows)],
        [small() for _ in range(rows)],
    )


def exact_value(case: Case, cfg: KernelConfig, row: int, column: int) -> tuple[int, int, int]:
    d = case.descriptor
    return reference_value(
        case.accumulators[row][column],
        case.exponent,
        cfg,
        row_exponent=case.row_exponents[row] if d.flags & Flag.ROW_EXPONENTS else 0,
        bias=case.bias[row] if d.flags & Flag.BIAS else None,
        bias_exponent=d.bias_exponent,
        function=d.function,
        function_argument=d.function_argument,
        function_exponent=d.function_exponent,
        function_first=bool(d.flags & Flag.FUNCTION_FIRST),
    )


class ExactLayer:
    """The same layer from the references: values, status bits, lead, and what a slot learns from them."""

    def __init__(self, case: Case, cfg: KernelConfig) -> None:
        self.fmt, self.descriptor = cfg.format, case.descriptor
        rows, columns = len(case.accumulators), len(case.accumulators[0])
        self.values = [[exact_value(case, cfg, r, i) for i in range(columns)] for r in range(rows)]
        self.flat = [value for row in self.values for value in row]
        self.status = 0
        for _, _, status in self.flat:
            self.status |= status
        leads = [leading_position(Fraction(abs(v)), self.fmt.log) + e3 for v, e3, _ in self.flat if v]
        self.lead = max(leads, default=None)

    def mantissas(self, e4: int) -> list[tuple[int, bool, bool]]:
        """Mantissa, overflow and underflow of every value."""
        return [reference_mantissa(Fraction(v) * Fraction(2) ** e3, e4, self.fmt) for v, e3, _ in self.flat]

    def learn(self, registers: PolicyRegisters, e4: int, overflows: int) -> int:
        d = self.descriptor
        drained = [reference_magnitude(row[0][0], row[0][1], e4, self.fmt) for row in self.values]
        return registers.learn(
            d.policy, 0, e4, window=d.policy_window, factor=d.policy_factor, lead=self.lead, overflows=overflows,
            drained=np.array(drained, np.int64),
        )  # fmt: skip


def check(result: Results, case: Case, cfg: KernelConfig, registers: PolicyRegisters) -> None:
    """Everything one layer shows equals the references."""
    exact, d = ExactLayer(case, cfg), case.descriptor
    shown = [pair for rows in zip(result.value, result.exponent, strict=True) for pair in zip(*rows, strict=True)]
    assert shown == [(v, e3) for v, e3, _ in exact.flat]
    e4, chosen = registers.choose(d.policy, 0, d.output_exponent, bool(d.flags & Flag.PRESET), exact.lead)
    assert result.output_exponent == e4
    mantissas = exact.mantissas(e4)
    overflows, underflows = (sum(item[k] for item in mantissas) for k in (1, 2))
    assert [m for row in result.mantissa for m in row] == [m for m, _, _ in mantissas]
    assert (result.overflows, result.underflows) == (overflows, underflows)
    status = exact.status | chosen | exact.learn(registers, e4, overflows)
    status |= (Status.OVERFLOW if overflows else 0) | (Status.UNDERFLOW if underflows else 0)
    assert result.status == status


@pytest.mark.parametrize(("integers", "index"), BENCHES)
def test_values_equal_the_exact_reference(integers: Integers, index: int) -> None:
    """R5, R7-R18, R22-R24: bias, functions in both orders, measured and given exponents, counters, status bits"""
    rng, cfg = random.Random(index), CONFIGS[index]
    with bench(integers, index) as unit:
        for _ in range(250):
            policy = rng.choice((Policy.STATIC, Policy.MAX))
            flags = Flag.MEASURE if policy == Policy.MAX else Flag.NONE
            case = random_case(rng, cfg, flags=flags, policy=int(policy))
            check(unit.run(case), case, cfg, PolicyRegisters(1, cfg.format))


@pytest.mark.parametrize("policy", [Policy.STATISTICS, Policy.ROLLING_MAX, Policy.FEEDBACK])
@pytest.mark.parametrize(("integers", "index"), BENCHES)
def test_policies_learn_like_the_emulator(integers: Integers, index: int, policy: Policy) -> None:
    """R26-R29, R31, R33, R37, R38: a slot over many layers, from a preset or a measurement"""
    rng, cfg = random.Random(index), CONFIGS[index]
    window, factor = {
        Policy.STATISTICS: (2, 12), Policy.ROLLING_MAX: (3, 0), Policy.FEEDBACK: (0, 1),
    }[policy]  # fmt: skip
    for start in (Flag.PRESET, Flag.MEASURE):
        registers = PolicyRegisters(1, cfg.format)
        with bench(integers, index) as unit:
            for _ in range(25):
                settings = {"policy": int(policy), "policy_window": window, "policy_factor": factor}
                case = random_case(rng, cfg, flags=start, **settings)
                check(unit.run(case), case, cfg, registers)


@pytest.mark.parametrize("function", Function, ids=lambda function: function.key)
@pytest.mark.parametrize(("integers", "index"), OF_EACH_WIDTH)
def test_functions_equal_numpy_for_every_argument(integers: Integers, index: int, function: Function) -> None:
    """R11: all arguments around the limits of all tables, and random ones with exponents of their own in each row."""
    rng, cfg = np.random.default_rng(int(function)), CONFIGS[index]
    largest = (1 << (cfg.accumulator_bits - 1)) - 1
    grid = np.clip(np.arange(-17 << 10, (17 << 10) + 2), -largest - 1, largest).reshape(-1, 3)
    shape = (drawn(6000), 3)
    others = rng.integers(-largest - 1, largest + 1, shape) >> rng.integers(0, cfg.accumulator_bits, shape)
    acc = np.concatenate([grid, others])
    rows = np.concatenate([np.zeros(len(grid), np.int64), rng.integers(-70, 70, len(others))])
    argument = 3 if function == Function.LEAKY_RELU else 11
    descriptor = Descriptor(
        flags=int(Flag.ROW_EXPONENTS), function=int(function), function_argument=argument, function_exponent=-2
    )
    with bench(integers, index) as unit:
        found = unit.run(Case(descriptor, acc, -10, [0] * len(acc), rows))
    stage = evaluate(
        acc.T[None], [-10], cfg, row_exponents=rows, function=function, function_argument=argument, function_exponent=-2
    )
    assert np.array_equal(found.value, stage.v[0].T)
    assert np.array_equal(found.exponent, np.broadcast_to(stage.e3, stage.v.shape)[0].T)


@pytest.mark.parametrize("integers", BUILDS)
@pytest.mark.parametrize("case", load_vectors("bfp_statistics.json")["cases"], ids=lambda case: case["id"])
def test_statistics_vectors(case: dict[str, Any], integers: Integers) -> None:
    """R26-R28"""
    window, unit_exponent = case["window"], case["unit_exp"]
    descriptor = Descriptor(
        flags=int(Flag.PRESET), policy=int(Policy.STATISTICS), output_exponent=unit_exponent,
        policy_window=len(window).bit_length() - 1, policy_factor=case["k_quarters"],
    )  # fmt: skip
    layer = Case(descriptor, [[value] for value in window], unit_exponent, [0] * len(window), [0] * len(window))
    with bench(integers, 1) as unit:
        unit.run(layer)
        learned = unit.run(layer)
    if case["lead"] is None:
        assert learned.output_exponent == -128
    else:
        assert learned.output_exponent == case["e_mw16"]
