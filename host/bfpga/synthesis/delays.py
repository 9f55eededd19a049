"""How long each operation of a loop body takes on a part: the table ``delays.yaml`` read and asked.

The table holds what the vendor's scheduler assumes (its public reports), since that decides stages and intervals; a
routed path is the netlist's business. Delays in ns, latencies in clocks.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from bfpga.errors import ConfigurationError
from bfpga.synthesis.body import LoopBody, Memory, Opcode, Operation

#: Points (width in bits or number, ns) of a piecewise linear function, in order.
Points = Annotated[list[tuple[float, float]], Field(min_length=1)]
#: What the tool keeps free of the period unless told otherwise (UG1399 and UG902, "create_clock").
DEFAULT_UNCERTAINTY = {"vitis_hls": 0.27, "vivado_hls": 0.125}

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
#: Operations of which several fit one LUT.
LOGIC = {Opcode.AND, Opcode.OR, Opcode.XOR}


@dataclass(frozen=True, slots=True)
class Timing:
    """``latency`` clocks; ns in the first clock after the operands, in the last, and in each of those between.

    With latency 0 there is one clock: ``first`` is its delay, ``last`` the same.
    """

    latency: int
    first: float
    last: float
    between: float = 0.0

    @property
    def longest(self) -> float:
        """ns of the longest of the operation's clocks."""
        return max(self.first, self.last, self.between)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PipelinedUnit(_Table):
    """A unit with registers inside: ns of its first, middle and last clock at each latency."""

    latency: int = Field(ge=0)
    first: float = Field(ge=0)
    last: float = Field(ge=0)
    between: float = Field(default=0.0, ge=0)


class MemoryDelays(_Table):
    """A memory: ns from address to the clock edge, ns from the clock edge to the word."""

    address: float
    data: float
    latency: int = Field(ge=0, le=3)


class Multipliers(_Table):
    """Multipliers by the product of the operand widths that DSP slices hold: ``a`` x ``b`` bits signed a slice."""

    a: int
    b: int
    combinational: Points
    logic: Points
    multiply_add: PipelinedUnit
    accumulate: float
    registered: list[PipelinedUnit]


class Technology(_Table):
    """Delays of one family at one speed grade, and where each comes from."""

    sources: dict[str, str]
    adder: Points
    compare: Points
    logic: Points
    select: Points
    shift: Points
    count: Points
    state: float
    lut_inputs: int = Field(ge=4, le=8)
    memories: dict[str, MemoryDelays]
    stream: float
    multipliers: Multipliers
    division_bits_a_clock: int = 1
    division: float
    floats: dict[str, list[PipelinedUnit]]

    @model_validator(mode="after")
    def _check(self) -> Technology:
        for name in ("adder", "compare", "logic", "select", "shift", "count"):
            widths = [width for width, _ in getattr(self, name)]
            if widths != sorted(set(widths)):
                raise ValueError(f"{name}: the widths are not in order")
        if missing := {"bram", "bram_registered", "lutram", "uram"} - set(self.memories):
            raise ValueError(f"memories: {', '.join(sorted(missing))} missing")
        return self


class DelayFile(_Table):
    """``delays.yaml``: technologies by name, and parts by the beginning of their name and their speed grade."""

    technologies: dict[str, Technology]
    parts: dict[str, str]

    @model_validator(mode="after")
    def _check(self) -> DelayFile:
        if unknown := set(self.parts.values()) - set(self.technologies):
            raise ValueError(f"parts: no technology {', '.join(sorted(unknown))}")
        return self


@cache
def delay_file() -> DelayFile:
    """The table of the package."""
    text = files("bfpga.synthesis").joinpath("delays.yaml").read_text(encoding="utf-8")
    return DelayFile.model_validate(yaml.safe_load(text))


def technology_of(part: str) -> Technology:
    """Delays of a part like ``xczu7ev-ffvc1156-2-e``; ``ConfigurationError`` where the table has none."""
    table = delay_file()
    for entry, technology in table.parts.items():
        family, grade = entry.split()
        if part.startswith(family) and grade in _grade_of(part):
            return table.technologies[technology]
    known = ", ".join(table.parts)
    raise ConfigurationError(f"no delays of part '{part}' are known; the table has {known}")


def _grade_of(part: str) -> str:
    """The tail of a part's name that holds its speed grade, from its first digit after a minus."""
    fields = part.split("-")[1:]
    return "-" + "-".join(field for field in fields if field[:1].isdigit())


def interpolate(points: Points, at: float) -> float:
    """The piecewise linear function at ``at``; beyond its last point with the slope of its last piece."""
    places = [place for place, _ in points]
    right = min(max(bisect_right(places, at), 1), len(points) - 1)
    if at <= places[0] or len(points) == 1:
        return points[0][1]
    (low, start), (high, end) = points[right - 1], points[right]
    return start + (end - start) * (at - low) / (high - low)


class Delays:
    """Timings of the operations of a body on a part at a usable period (period less uncertainty, ns)."""

    def __init__(self, body: LoopBody, technology: Technology, usable: float) -> None:
        self._body = body
        self._technology = technology
        self._usable = usable
        self._uses = [0] * len(body.operations)
        for operation in body.operations:
            for operand in operation.operands:
                self._uses[operand] += 1
        for register in body.registers:
            self._uses[register.next] += 1
        self._fused = self._multiply_adds()

    @property
    def technology(self) -> Technology:
        """The table that the timings come from."""
        return self._technology

    def timings(self) -> list[Timing]:
        """Timing of each operation of the body, in order."""
        return [self.timing(index) for index in range(len(self._body.operations))]

    def timing(self, index: int) -> Timing:
        """Timing of operation ``index``."""
        operation = self._body.operations[index]
        opcode = operation.opcode
        technology = self._technology
        if opcode in _WIRES:
            return _combinational(0.0)
        if opcode is Opcode.MUL:
            return self._multiplication(index)
        if opcode in (Opcode.ADD, Opcode.SUB):
            if index in self._fused:
                return _combinational(technology.multipliers.accumulate)
            return _combinational(interpolate(technology.adder, operation.width))
        if opcode in LOGIC:
            return _combinational(0.0 if self._is_inverter(operation) else interpolate(technology.logic, operation.width))
        if opcode is Opcode.SELECT:
            return _combinational(interpolate(technology.select, operation.width))
        if opcode in _COMPARES:
            width = self._body.operations[operation.operands[0]].width
            return _combinational(interpolate(technology.compare, width))
        if opcode in _SHIFTS:
            by_constant = self._body.operations[operation.operands[1]].opcode is Opcode.CONSTANT
            return _combinational(0.0 if by_constant else interpolate(technology.shift, operation.width))
        if opcode in (Opcode.POPCOUNT, Opcode.CLZ, Opcode.CTZ):
            width = self._body.operations[operation.operands[0]].width
            return _combinational(interpolate(technology.count, width))
        if opcode in _DIVISIONS:
            return self._division(operation)
        if opcode is Opcode.FLOAT:
            return self._float(operation)
        return self._access(operation)

    def is_registered_product(self, index: int) -> bool:
        """True if operation ``index`` is a product whose adder is in the same DSP slice."""
        return self._body.operations[index].opcode is Opcode.MUL and index in self._fused

    def _is_inverter(self, operation: Operation) -> bool:
        """An exclusive or with ones is part of whatever uses it."""
        if operation.opcode is not Opcode.XOR:
            return False
        ones = (1 << operation.width) - 1
        operands = (self._body.operations[operand] for operand in operation.operands)
        return any(operand.opcode is Opcode.CONSTANT and operand.value == ones for operand in operands)

    def _access(self, operation: Operation) -> Timing:
        if operation.memory < 0:
            return _combinational(self._technology.stream)
        memory = self._technology.memories[implementation_of(self._body.memories[operation.memory])]
        if operation.opcode is Opcode.MEMORY_WRITE:
            return _combinational(memory.address)
        if memory.latency == 0:
            return _combinational(memory.data)
        return Timing(memory.latency, memory.address, memory.data)

    def _multiplication(self, index: int) -> Timing:
        """A product: in one clock where it fits, with as many registers as it needs where not."""
        operation = self._body.operations[index]
        table = self._technology.multipliers
        widths = sorted(self.significant_bits(operand) for operand in operation.operands)
        if operation.binding == "fabric":
            return self._spread(interpolate(table.logic, sum(widths)))
        if index in self._fused:
            return _unit(table.multiply_add)
        delay = interpolate(table.combinational, max(widths))
        if delay <= self._usable:
            return _combinational(delay)
        fitting = [unit for unit in table.registered if max(unit.first, unit.last, unit.between) <= self._usable]
        return _unit(min(fitting, key=lambda unit: unit.latency, default=table.registered[-1]))

    def _spread(self, delay: float) -> Timing:
        """Logic that may be cut anywhere by registers."""
        latency = max(-(-int(delay * 1000) // int(self._usable * 1000)) - 1, 0)
        return Timing(latency, delay / (latency + 1), delay / (latency + 1), delay / (latency + 1))

    def _division(self, operation: Operation) -> Timing:
        """An iterative divider: some bits of the quotient a clock, and a clock each to take and to give."""
        technology = self._technology
        latency = -(-operation.width // technology.division_bits_a_clock) + 3
        return Timing(latency, technology.division, technology.division, technology.division)

    def _float(self, operation: Operation) -> Timing:
        units = self._technology.floats.get(operation.name)
        if units is None:
            known = ", ".join(self._technology.floats)
            raise ConfigurationError(f"no delay of the floating-point operation '{operation.name}' is known: {known}")
        fitting = [unit for unit in units if max(unit.first, unit.last, unit.between) <= self._usable]
        return _unit(min(fitting, key=lambda unit: unit.latency, default=units[-1]))

    def significant_bits(self, index: int) -> int:
        """Bits of an operand that a signed multiplier needs."""
        operation = self._body.operations[index]
        if operation.opcode is Opcode.ZEXT:
            return min(self.significant_bits(operation.operands[0]) + 1, operation.width)
        if operation.opcode is Opcode.SEXT:
            return min(self.significant_bits(operation.operands[0]), operation.width)
        if operation.opcode is Opcode.CONSTANT:
            value = operation.value - (operation.value >> (operation.width - 1) << operation.width)
            return (value if value >= 0 else ~value).bit_length() + 1
        return operation.width

    def _multiply_adds(self) -> set[int]:
        """Products and sums that share a DSP slice: a product of a slice's widths whose only use is one sum."""
        table = self._technology.multipliers
        fused: set[int] = set()
        for index, operation in enumerate(self._body.operations):
            if operation.opcode not in (Opcode.ADD, Opcode.SUB) or operation.width > 48:
                continue
            for operand in operation.operands:
                product = self._through_extension(operand)
                if product is None or product in fused:
                    continue
                bits = sorted(self.significant_bits(factor) for factor in self._body.operations[product].operands)
                if bits[0] <= table.b and bits[1] <= table.a:
                    fused.update((index, product))
                    break
        return fused

    def _through_extension(self, index: int) -> int | None:
        """The product behind ``index``, past extensions, if nothing else uses it and no binding keeps it apart."""
        operation = self._body.operations[index]
        while operation.opcode in (Opcode.SEXT, Opcode.ZEXT) and self._uses[index] == 1:
            index = operation.operands[0]
            operation = self._body.operations[index]
        if operation.opcode is not Opcode.MUL or self._uses[index] != 1 or operation.binding == "fabric":
            return None
        return index


def implementation_of(memory: Memory) -> str:
    """Which memory the vendor takes: what the binding says, else LUTs for up to 1,024 bits, block memory beyond."""
    if memory.implementation != "auto":
        return memory.implementation
    return "lutram" if memory.words * memory.width <= 1024 else "bram"


def _combinational(delay: float) -> Timing:
    return Timing(0, delay, delay)


def _unit(unit: PipelinedUnit) -> Timing:
    return Timing(unit.latency, unit.first, unit.last, unit.between)
