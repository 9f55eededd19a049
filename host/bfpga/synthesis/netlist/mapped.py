"""A netlist of mapped cells, and how many of each kind it has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from typing import Any

#: A net of one bit: its number, or "0", "1", "x" or "z" for one that is constant.
Bit = int | str
#: Type and connections: port -> bits.
Cell = tuple[str, dict[str, list[Bit]]]


@dataclass(slots=True)
class MappedModule:
    """Cells of a module after mapping. ``names``: name in the Verilog and bit of what registers hold, by net."""

    ports: dict[str, list[Bit]]
    cells: list[Cell]
    names: dict[str, str]


@dataclass(frozen=True, slots=True)
class Counts:
    """Resources: look-up tables that compute (two functions in one where they share it), flip-flops, DSP blocks,
    look-up tables that store (memories and shift registers), block memories of 18 and 36 Kibit, UltraRAMs, and
    look-up tables' carry chains by four bits."""

    lut: int = 0
    ff: int = 0
    dsp: int = 0
    lut_memory: int = 0
    bram18: int = 0
    bram36: int = 0
    uram: int = 0
    carry4: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(self)))


def total(counts: Iterable[Counts]) -> Counts:
    """Sum of counts."""
    result = Counts()
    for each in counts:
        result += each
    return result


#: Look-up tables of a memory cell of distributed memory, by the beginning of its type.
_LUT_MEMORIES = {
    "RAM32X1S": 1, "RAM32X1D": 2, "RAM64X1S": 1, "RAM64X1D": 2, "RAM128X1S": 2, "RAM128X1D": 4, "RAM256X1S": 4,
    "RAM256X1D": 8, "RAM512X1S": 8, "RAM32M16": 8, "RAM64M8": 8, "RAM32M": 4, "RAM64M": 4, "SRL16E": 1, "SRLC32E": 1,
    "SRL16": 1, "SRLC16E": 1, "RAM32X16DR8": 8, "RAM64X8SW": 8,
}  # fmt: skip


def count(module: MappedModule) -> Counts:
    """Resources of a module."""
    found = Counter(kind for kind, _ in module.cells)
    values: Counter[str] = Counter()
    for kind, number in found.items():
        values.update({field: number * each for field, each in _resources(kind).items()})
    values["lut"] -= shared_tables(module)
    return Counts(**values)


#: Inputs of a look-up table that computes two functions at once (UG474, UG574: outputs O5 and O6).
SHARED_INPUTS = 5
#: Functions of one net that are tried as the second of a table: nets that everything reads find a partner early.
_TRIED = 200


def shared_tables(module: MappedModule) -> int:
    """Look-up tables that compute a second function: pairs with an input in common and five inputs together.

    Reports of utilization count such a pair once (AMD AR 63514), and the vendor's mapper forms it by default from
    functions that share inputs (UG1388, "LUT combining"). Tables of a carry chain stay alone.
    """
    in_chains = {bit for kind, nets in module.cells if kind.startswith("CARRY") for bit in nets.get("S", [])}
    tables = [
        frozenset(bit for bit in nets["A"] if isinstance(bit, int))
        for kind, nets in module.cells
        if kind == "$lut" and nets["Y"][0] not in in_chains
    ]
    readers: dict[Bit, list[int]] = {}
    for number, inputs in enumerate(tables):
        for bit in inputs if len(inputs) <= SHARED_INPUTS else ():
            readers.setdefault(bit, []).append(number)
    alone = {number for number, inputs in enumerate(tables) if 0 < len(inputs) <= SHARED_INPUTS}
    pairs = 0
    for number in sorted(alone, key=lambda number: (-len(tables[number]), number)):
        if number in alone:
            alone.remove(number)
            partner = _partner(tables, number, readers, alone)
            if partner is not None:
                alone.remove(partner)
                pairs += 1
    return pairs


def _partner(
    tables: Sequence[frozenset[int]], number: int, readers: Mapping[Bit, list[int]], alone: Set[int]
) -> int | None:
    """The largest function that fits together with one, the first of several; None without any."""
    own = tables[number]
    near = {other for bit in own for other in readers[bit][:_TRIED] if other in alone}
    fitting = [other for other in near if len(own | tables[other]) <= SHARED_INPUTS]
    return min(fitting, key=lambda other: (-len(tables[other]), other), default=None)


def _resources(kind: str) -> Mapping[str, int]:
    if kind == "$lut" or re.fullmatch(r"LUT\d", kind):
        return {"lut": 1}
    if kind in _LUT_MEMORIES:
        return {"lut_memory": _LUT_MEMORIES[kind]}
    if kind.startswith("CARRY"):
        return {"carry4": int(kind[5:]) // 4}
    for prefix, resource in _PREFIXES.items():
        if kind.startswith(prefix):
            return {resource: 1}
    return {}


_PREFIXES = {"FD": "ff", "DSP48": "dsp", "RAMB18": "bram18", "RAMB36": "bram36", "URAM288": "uram"}


#: What Yosys keeps of modules that it has flattened; no hardware.
_SCOPE = "$scopeinfo"
#: What registers are called in a part of a loop, and in an IP.
PART_NAMES, IP_NAMES = r"[sn]\d+(_[p\d]+)?$|(active|later|phase)$", r"[^$]"


def from_json(module: Mapping[str, Any], named: str = PART_NAMES) -> MappedModule:
    """A module as Yosys writes it. ``named``: how names of registers begin."""
    found = [(cell["type"], cell["connections"]) for cell in module["cells"].values()]
    cells: list[Cell] = [cell for cell in found if cell[0] != _SCOPE]
    held = {bit for kind, nets in cells if _is_register(kind) for port in ("Q", "P") for bit in nets.get(port, [])}
    names: dict[str, str] = {}
    for name, net in module["netnames"].items():
        if re.match(named, name):
            for place, bit in enumerate(net["bits"]):
                if bit in held:
                    names.setdefault(str(bit), f"{name}[{place}]")
    return MappedModule({name: port["bits"] for name, port in module["ports"].items()}, cells, names)


def to_plain(module: MappedModule) -> dict[str, Any]:
    """A module in the types of JSON."""
    return {"ports": module.ports, "cells": module.cells, "names": module.names}


def _is_register(kind: str) -> bool:
    return kind.startswith(("FD", "SRL", "DSP"))
