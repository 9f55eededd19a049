"""How long each operation of a loop body takes on a part: the table ``delays.yaml`` and its look-ups.

The table holds what the vendor's scheduler assumes (its public reports), since that decides stages and intervals; a
routed path is the netlist's business. Delays in ns, latencies in cycles.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from bfpga.errors import ConfigurationError
from bfpga.synthesis.body import LoopBody, Memory, Opcode, Operation
from bfpga.synthesis.grouping import SUMMED_TERMS, Groups, group_operations
from bfpga.synthesis.schedule_types import DIGIT_BITS, DIGIT_REGISTERS

#: Points (width in bits or kibibits, ns) of a function, in order.
Points = Annotated[list[tuple[float, float]], Field(min_length=1)]
#: Which part of the period the tools keep free by default (UG1399 and UG902, "create_clock").
DEFAULT_UNCERTAINTY = {"vitis_hls": 0.27, "vivado_hls": 0.125}

#: Bits of a word of one block memory (UG473, UG573).
BLOCK_BITS = 36

#: DSP slices of which a product may come in a clock or two (40 x 40 bits); one of more always has registers between.
_SUMMED_SLICES = 6

_WIRES = {
    Opcode.CONSTANT,
    Opcode.INVARIANT,
    Opcode.STATE,
    Opcode.ZEXT,
    Opcode.SEXT,
    Opcode.SLICE,
    Opcode.CONCAT,
    Opcode.CALL,
}
_SHIFTS = {Opcode.SHL, Opcode.LSHR, Opcode.ASHR}
_COMPARES = {Opcode.EQ, Opcode.NE, Opcode.ULT, Opcode.ULE, Opcode.SLT, Opcode.SLE}
_DIVISIONS = {Opcode.UDIV, Opcode.SDIV, Opcode.UREM, Opcode.SREM}
_LOGIC = {Opcode.AND, Opcode.OR, Opcode.XOR}
_COUNTS = {Opcode.POPCOUNT, Opcode.CLZ, Opcode.CTZ}


@dataclass(frozen=True, slots=True)
class Timing:
    """``latency`` cycles; ns in the first cycle after the operands, in the last, and in each of those between.

    With latency 0 there is one cycle: ``first`` is its delay, ``last`` the same.
    """

    latency: int
    first: float
    last: float
    between: float = 0.0

    @property
    def longest(self) -> float:
        """ns of the longest of the operation's cycles."""
        return max(self.first, self.last, self.between)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PipelinedUnit(_Table):
    """A unit with registers inside: ns of its first, middle and last cycle at its latency."""

    latency: int = Field(ge=0)
    first: float = Field(ge=0)
    last: float = Field(ge=0)
    between: float = Field(default=0.0, ge=0)

    def timing(self) -> Timing:
        """The unit as a timing."""
        return Timing(self.latency, self.first, self.last, self.between)


class MemoryDelays(_Table):
    """A memory: ns from address to the clock edge, ns from the clock edge to the word by its size in kibibits.

    ``data_wide``: of words beyond the width of a block, the same where it is left out. ``cascade``: at least, by its
    words, whatever their width: those of one block pass the outputs of others in series.
    """

    address: float
    data: Points
    data_wide: Points | None = None
    cascade: Points | None = None
    latency: int = Field(ge=0, le=3)


class Multipliers(_Table):
    """Multipliers; a DSP slice takes ``a`` x ``b`` bits signed. ``logic``: in LUTs, by the sum of the widths.

    ``registered``: with registers in one slice; ``registered_wide``: of up to six; ``registered_widest``: of more.
    """

    a: int
    b: int
    combinational: Points
    logic: Points
    multiply_add: PipelinedUnit
    accumulate: float
    registered: list[PipelinedUnit] = Field(min_length=1)
    registered_wide: list[PipelinedUnit] = Field(min_length=1)
    registered_widest: list[PipelinedUnit] = Field(min_length=1)

    def slices(self, narrow: int, wide: int) -> int:
        """DSP slices of a product of signed operands of so many bits; all but the first take them unsigned."""
        return max(1, -(-(narrow - 1) // (self.b - 1))) * max(1, -(-(wide - 1) // (self.a - 1)))


class Division(_Table):
    """An iterative divider: a bit of the quotient a cycle and ``clocks`` more, each ``delay`` ns."""

    clocks: int
    delay: float


class Technology(_Table):
    """Delays of one family at one speed grade, and where each comes from."""

    sources: dict[str, str]
    adder: Points
    ternary: Points
    compare: Points
    logic: Points
    select: Points
    shift: Points
    count: Points
    state: float
    lut_inputs: int = Field(ge=4, le=8)
    memories: dict[str, MemoryDelays]
    lutram_bits: int
    stream: float
    multipliers: Multipliers
    division: Division
    floats: dict[str, list[PipelinedUnit]]

    @model_validator(mode="after")
    def _check(self) -> Technology:
        for name in ("adder", "ternary", "compare", "logic", "select", "shift", "count"):
            widths = [width for width, _ in getattr(self, name)]
            if widths != sorted(set(widths)):
                raise ValueError(f"{name}: the widths are not in order")
        if missing := {"bram", "bram_registered", "lutram", "uram"} - set(self.memories):
            raise ValueError(f"memories: {', '.join(sorted(missing))} missing")
        timed = set(type(self).model_fields) - {"sources", "lut_inputs", "lutram_bits", "stream"}
        if missing := timed - set(self.sources):
            raise ValueError(f"sources: {', '.join(sorted(missing))} missing")
        return self


class Derived(_Table):
    """A technology whose delays are those of another times ``factor``."""

    of: str
    factor: float = Field(gt=0)
    source: str


class DelayFile(_Table):
    """``delays.yaml``: technologies by name, and parts by the beginning of their name and their speed grade."""

    technologies: dict[str, Technology]
    derived: dict[str, Derived]
    parts: dict[str, str]

    @model_validator(mode="after")
    def _check(self) -> DelayFile:
        for name, derived in self.derived.items():
            if derived.of not in self.technologies:
                raise ValueError(f"derived.{name}: no technology {derived.of}")
        if unknown := set(self.parts.values()) - set(self.technologies) - set(self.derived):
            raise ValueError(f"parts: no technology {', '.join(sorted(unknown))}")
        return self


@cache
def delay_file() -> DelayFile:
    """The table of the package."""
    text = files("bfpga.synthesis").joinpath("delays.yaml").read_text(encoding="utf-8")
    return DelayFile.model_validate(yaml.safe_load(text))


@cache
def technology_of(part: str) -> Technology:
    """Delays of a part like ``xczu7ev-ffvc1156-2-e``; ``ConfigurationError`` where the table has none."""
    table = delay_file()
    for entry, name in table.parts.items():
        family, grade = entry.split()
        if part.startswith(family) and grade in _grades_of(part):
            return table.technologies[name] if name in table.technologies else _derive(table, name)
    known = ", ".join(table.parts)
    raise ConfigurationError(f"no delays of part '{part}' are known; the table has {known}")


def _grades_of(part: str) -> set[str]:
    """Fields of a part's name that may be its speed grade, and their digit alone: -2LV is also a -2."""
    fields = [field for field in part.split("-")[1:] if field[:1].isdigit()]
    return {f"-{field}" for field in fields} | {f"-{field[0]}" for field in fields if not field.endswith("LV")}


def _derive(table: DelayFile, name: str) -> Technology:
    derived = table.derived[name]
    origin = table.technologies[derived.of]
    scaled = {
        field: _scaled(value, derived.factor) if field not in ("sources", "lut_inputs", "lutram_bits") else value
        for field, value in origin.model_dump().items()
    }
    return Technology.model_validate(scaled)


def _scaled(value: Any, factor: float) -> Any:
    """Each delay in a dumped table times ``factor``: second numbers of points, and numbers that are no counts."""
    if value is None:
        return None
    if isinstance(value, dict):
        counts = {"latency", "clocks", "a", "b"}
        return {key: each if key in counts else _scaled(each, factor) for key, each in value.items()}
    if isinstance(value, list):
        return [_scaled(each, factor) for each in value]
    if isinstance(value, tuple):
        return value[0], value[1] * factor
    return value * factor


def interpolate(points: Points, at: float) -> float:
    """The piecewise linear function at ``at``: level before its first point, as its last piece goes on beyond it."""
    places = [place for place, _ in points]
    if at <= places[0] or len(points) == 1:
        return points[0][1]
    right = min(bisect_right(places, at), len(points) - 1)
    (low, start), (high, end) = points[right - 1], points[right]
    return start + (end - start) * (at - low) / (high - low)


def step(points: Points, at: float) -> float:
    """The step function at ``at``: the value of the first point that is no smaller, of the last beyond it."""
    return points[min(bisect_left([place for place, _ in points], at), len(points) - 1)][1]


class Delays:
    """Timings of the operations of a body on a part at a usable period (period less uncertainty, ns).

    ``is_once``: the body is executed once. A product that takes several DSP blocks then has time for one row of them,
    which multiplies the wider factor by a digit of the narrower one in each cycle.
    """

    def __init__(self, body: LoopBody, technology: Technology, usable: float, is_once: bool = False) -> None:
        self._body, self._is_once = body, is_once
        self.technology = technology
        self._usable = usable
        multipliers = technology.multipliers
        self.groups: Groups = group_operations(body, technology.lut_inputs, (multipliers.a, multipliers.b))

    def timings(self) -> list[Timing]:
        """Timing of each operation of the body, in order."""
        return [self.timing(index) for index in range(len(self._body.operations))]

    def timing(self, index: int) -> Timing:
        """Timing of operation ``index``; ``ConfigurationError`` for a floating-point operation without a delay."""
        operation = self._body.operations[index]
        opcode = operation.opcode
        technology = self.technology
        if opcode in _WIRES:
            return _combinational(0.0)
        if opcode is Opcode.MUL:
            return self._multiplication(index)
        if opcode in (Opcode.ADD, Opcode.SUB):
            return _combinational(self._sum(index))
        if opcode in _LOGIC:
            delay = 0.0 if self.groups.is_inverter(index) else interpolate(technology.logic, operation.width)
            return _combinational(delay)
        if opcode is Opcode.SELECT:
            return _combinational(interpolate(technology.select, operation.width))
        if opcode in _COMPARES:
            return _combinational(interpolate(technology.compare, self._operand_width(operation)))
        if opcode in _SHIFTS:
            by_constant = self._body.operations[operation.operands[1]].opcode is Opcode.CONSTANT
            return _combinational(0.0 if by_constant else interpolate(technology.shift, operation.width))
        if opcode in _COUNTS:
            return _combinational(interpolate(technology.count, self._operand_width(operation)))
        if opcode in _DIVISIONS:
            divider = technology.division
            return Timing(operation.width + divider.clocks, divider.delay, divider.delay, divider.delay)
        if opcode is Opcode.FLOAT:
            return self._float(operation)
        return self._access(operation)

    def _operand_width(self, operation: Operation) -> int:
        return self._body.operations[operation.operands[0]].width

    def _sum(self, index: int) -> float:
        operation = self._body.operations[index]
        if index in self.groups.accumulates:
            return self.technology.multipliers.accumulate
        if index in self.groups.ternary:
            return interpolate(self.technology.ternary, operation.width)
        return interpolate(self.technology.adder, operation.width)

    def _access(self, operation: Operation) -> Timing:
        if operation.memory < 0:
            return _combinational(self.technology.stream)
        memory = self._body.memories[operation.memory]
        delays = self.technology.memories[implementation_of(memory, self.technology)]
        if operation.opcode is Opcode.MEMORY_WRITE:
            return _combinational(delays.address)
        points = delays.data_wide if delays.data_wide and memory.width > BLOCK_BITS else delays.data
        data = step(points, memory.words * memory.width / 1024)
        if delays.cascade:
            data = max(data, step(delays.cascade, memory.words))
        return Timing(delays.latency, delays.address, data) if delays.latency else _combinational(data)

    def _multiplication(self, index: int) -> Timing:
        """A product: in one cycle where it fits, with as many registers as it needs where not."""
        operation = self._body.operations[index]
        table = self.technology.multipliers
        widths = sorted(self.groups.significant_bits(operand) for operand in operation.operands)
        if 0 < (terms := self.groups.terms_of_product(index)) <= SUMMED_TERMS:
            return _combinational(interpolate(self.technology.adder, operation.width) if terms > 1 else 0.0)
        if operation.binding == "fabric":
            return self._spread(interpolate(table.logic, sum(widths)))
        if digits := self.digits(index):
            # From the registers of a row of products along all of its sums.
            cycle = -(-(widths[-1] - 1) // DIGIT_BITS) * table.accumulate
            return Timing(digits + DIGIT_REGISTERS, 0.0, 0.0, cycle)
        if index in self.groups.multiplies:
            return table.multiply_add.timing()
        slices = table.slices(*widths)
        if slices > _SUMMED_SLICES:
            return self._fitting(table.registered_widest)
        delay = interpolate(table.combinational, max(widths))
        if delay <= self._usable:
            return _combinational(delay)
        return self._fitting(table.registered if slices == 1 else table.registered_wide)

    def digits(self, index: int) -> int:
        """Digits of the narrower factor of a product that is made digit by digit, 0 for any other operation."""
        operation = self._body.operations[index]
        if not self._is_once or operation.opcode is not Opcode.MUL or operation.binding == "fabric":
            return 0
        widths = sorted(self.groups.significant_bits(operand) for operand in operation.operands)
        if 0 < self.groups.terms_of_product(index) <= SUMMED_TERMS or self.technology.multipliers.slices(*widths) == 1:
            return 0
        return -(-(widths[0] - 1) // DIGIT_BITS)

    def _spread(self, delay: float) -> Timing:
        """Logic that registers may cut into equal cycles."""
        latency = max(-int(-delay // self._usable) - 1, 0)
        each = delay / (latency + 1)
        return Timing(latency, each, each, each if latency > 1 else 0.0)

    def _float(self, operation: Operation) -> Timing:
        widths = [self._body.operations[operand].width for operand in operation.operands]
        name = operation.name.split(".")[0]
        double = "d" + name[1:] if 64 in (operation.width, *widths) else name
        units = self.technology.floats.get(double) or self.technology.floats.get(name)
        if units is None:
            known = ", ".join(self.technology.floats)
            raise ConfigurationError(f"no delay of the floating-point operation '{operation.name}' is known: {known}")
        return self._fitting(units)

    def _fitting(self, units: list[PipelinedUnit]) -> Timing:
        """The unit with the least latency whose cycles fit; the fastest where none does."""
        timings = [unit.timing() for unit in units]
        fitting = [timing for timing in timings if timing.longest <= self._usable]
        return min(fitting, key=lambda timing: timing.latency, default=timings[-1])


def implementation_of(memory: Memory, technology: Technology) -> str:
    """The memory that the vendor's tool takes: what the binding says, else LUTs for small ones, block memory beyond."""
    if memory.implementation != "auto":
        return memory.implementation
    return "lutram" if memory.words * memory.width <= technology.lutram_bits else "bram"


def _combinational(delay: float) -> Timing:
    return Timing(0, delay, delay)
