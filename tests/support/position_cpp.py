"""Runs the C++ of fixed-point positions (tests/cpp/positions.cpp)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from cpp_units import library

from bfpga.devices.csim import Integers
from bfpga.formats.block_format import Rounding, Saturation
from bfpga.formats.fixed_point import FixedPointFormat
from bfpga.formats.position_rules import PositionRule, Rule
from bfpga.formats.wide_statistics import LsbKind, NsbKind, StatisticsKind, WideStatistics

#: Values of the enumerations of position_types.hpp and numeric.hpp, in their order.
NSB: tuple[NsbKind, ...] = ("maximum", "coarse", "histogram")
LSB: tuple[LsbKind, ...] = get_args(LsbKind)
#: Builds of the library.
BUILD_COUNTS: dict[Integers, int] = {"native": 9, "ap_int": 7}


class SimulationError(AssertionError):
    """What a check of the simulation says."""


class _Rule(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int32) for name in ("rule", "rate_log2", "margin", "shift_min", "shift_max"))


@dataclass(frozen=True)
class Build:
    """The numbers of a build of the library."""

    number: int
    lanes: int
    kind: StatisticsKind
    format: FixedPointFormat

    def serves(self, rule: Rule) -> bool:
        """Whether the statistics hold what a rule looks at."""
        return self.kind.nsb != "maximum" if rule == "rate" else rule == "max" or self.kind.lsb != "none"


@functools.cache
def build(integers: Integers, number: int) -> Build:
    numbers = (ctypes.c_int32 * 7)()
    assert library("positions", integers).unit_position_build(number, numbers) == 0
    acc, out, lanes, nsb, lsb, rounding, saturation = numbers
    fmt = FixedPointFormat(out, acc, get_args(Rounding)[rounding], get_args(Saturation)[saturation])
    return Build(number, lanes, StatisticsKind(acc, NSB[nsb], LSB[lsb]), fmt)


def find(integers: Integers, **wanted: Any) -> Build:
    """The first build with these numbers of its format or its statistics."""
    for number in range(BUILD_COUNTS[integers]):
        found = build(integers, number)
        if all(getattr(found.format, name, getattr(found.kind, name, None)) == value for name, value in wanted.items()):
            return found
    raise AssertionError(f"tests/cpp/positions.cpp has no build with {wanted}")


def _pointers(*arrays: np.ndarray) -> list[ctypes.c_void_p]:
    return [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]


def _rule(rule: PositionRule) -> Any:
    number = get_args(Rule).index(rule.rule)
    return ctypes.byref(_Rule(number, rule.rate_log2, rule.margin, rule.shift_min, rule.shift_max))


def _checked(result: int, text: Any) -> None:
    if result:
        raise SimulationError(text.value.decode())


def bits(integers: Integers, which: Build, values: Sequence[int]) -> tuple[list[int], list[int]]:
    """nsb and lsb of values."""
    value, (nsb, lsb) = np.array(values, np.int64), np.empty((2, len(values)), np.int32)
    pointer, *results = _pointers(value, nsb, lsb)
    assert library("positions", integers).unit_position_bits(which.number, pointer, len(values), *results) == 0
    return nsb.tolist(), lsb.tolist()


def statistics(
    integers: Integers, which: Build, values: Sequence[int], cuts: tuple[int, int], rule: PositionRule
) -> tuple[WideStatistics, int]:
    """What three merged units know of values that are cut in three parts, and the shift that is selected."""
    value, edges = np.array(values, np.int64), np.array([0, *sorted(cuts), len(values)], np.int32)
    bins = which.kind.bins
    state, text = np.empty(4 + 2 * bins, np.int64), ctypes.create_string_buffer(200)
    first, second, result = _pointers(value, edges, state)
    call = library("positions", integers).unit_position_statistics
    _checked(call(which.number, first, second, _rule(rule), result, text), text)
    count, nsb_max, lsb_min = (np.asarray(number) for number in state[:3])
    known = WideStatistics(which.kind, count, nsb_max, lsb_min, state[4 : 4 + bins], state[4 + bins :])
    return known, int(state[3])


def convert(
    integers: Integers, which: Build, values: Sequence[int], shifts: Sequence[int]
) -> tuple[list[int], list[bool]]:
    """Narrow results, each with its own shift, and which of them saturation has changed."""
    arrays = np.array(values, np.int64), np.array(shifts, np.int32)
    narrow, saturated = np.empty(len(values), np.int32), np.empty(len(values), np.uint8)
    first, second, *results = _pointers(*arrays, narrow, saturated)
    call = library("positions", integers).unit_position_convert
    assert call(which.number, first, second, len(values), *results) == 0
    return narrow.tolist(), (saturated != 0).tolist()


@dataclass(frozen=True)
class LayerRun:
    """Registers of a layer after a run: FP R49."""

    shift: int
    saturated: int
    computed_rows: int
    written_rows: int
    read_rows: int
    seen: int


def run_network(
    integers: Integers,
    which: Build,
    flow: int,
    x: np.ndarray,
    weights: Sequence[np.ndarray],
    sampled: np.ndarray,
    rule: PositionRule,
    initial_shift: int = 0,
) -> tuple[np.ndarray, list[LayerRun]]:
    """A network of fully connected layers under a flow of the specification. sampled: mark of each item."""
    shapes = np.array([[len(x), *weight.shape] for weight in weights], np.int32)
    flat = np.concatenate([np.asarray(weight, np.int32).ravel() for weight in weights])
    state = np.full((len(weights), 6), [initial_shift, 0, 0, 0, 0, 0], np.int32)
    output, text = np.empty((len(x), shapes[-1, 2]), np.int32), ctypes.create_string_buffer(200)
    arrays = (shapes, flat, np.ascontiguousarray(x, np.int32), np.ascontiguousarray(sampled, np.uint8))
    call = library("positions", integers).unit_position_network
    numbers = which.number, flow, len(weights)
    _checked(call(*numbers, *_pointers(*arrays), _rule(rule), *_pointers(state, output), text), text)
    return output, [LayerRun(*row) for row in state.tolist()]
