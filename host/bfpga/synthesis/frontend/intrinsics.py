"""LLVM's functions as operations of a graph."""

from __future__ import annotations

import re

from bfpga.errors import ToolError
from bfpga.synthesis.body import Opcode, Operation
from bfpga.synthesis.frontend.ir import integer_width
from bfpga.synthesis.graph import Graph


class UntranslatedError(ToolError):
    """An instruction in a pipelined loop that has no place in hardware, or none here."""


def intrinsic(graph: Graph, name: str, kind: str, operands: list[int]) -> int:
    """Value of a call of LLVM's function ``name``, of type ``kind``, in a graph.

    Raises:
        UntranslatedError: it has no translation.
    """
    stem = re.sub(r"(\.i\d+)+$", "", name.removeprefix("llvm."))
    if stem in ("umin", "umax", "smin", "smax"):
        order = Opcode.ULT if stem[0] == "u" else Opcode.SLT
        less = graph.compare(order, operands[0], operands[1])
        smaller, larger = (0, 1) if stem.endswith("min") else (1, 0)
        return graph.select(less, operands[smaller], operands[larger])
    if stem == "abs":
        width = graph.width(operands[0])
        negative = graph.slice(operands[0], width - 1, 1)
        return graph.select(
            negative, graph.arithmetic(Opcode.SUB, graph.constant(0, width), operands[0]), operands[0]
        )
    if stem in ("fshl", "fshr"):
        return _funnel(graph, stem, operands)
    if stem in ("usub.sat", "uadd.sat"):
        return _saturated(graph, stem, operands)
    if stem in ("ucmp", "scmp"):
        order = Opcode.ULT if stem == "ucmp" else Opcode.SLT
        width = integer_width(kind)
        one, other = operands
        below, above = graph.compare(order, one, other), graph.compare(order, other, one)
        return graph.concat([graph.logic(Opcode.OR, below, above), graph.extend(Opcode.SEXT, below, width - 1)])
    counters = {"ctpop": Opcode.POPCOUNT, "ctlz": Opcode.CLZ, "cttz": Opcode.CTZ}
    if stem in counters:
        return graph.add(Operation(counters[stem], graph.width(operands[0]), (operands[0],)))
    if stem == "bswap":
        width = graph.width(operands[0])
        return graph.concat([graph.slice(operands[0], low, 8) for low in range(width - 8, -1, -8)])
    if stem == "bitreverse":
        return graph.concat(
            [graph.slice(operands[0], low, 1) for low in range(graph.width(operands[0]) - 1, -1, -1)]
        )
    raise UntranslatedError(f"intrinsic {name}")


def _funnel(graph: Graph, stem: str, operands: list[int]) -> int:
    high, low, amount = operands
    width = graph.width(high)
    count = graph.constant_of(amount)
    if count is None:
        raise UntranslatedError(f"{stem} by a variable amount")
    left = count % width if stem == "fshl" else (width - count % width) % width
    both = graph.concat([low, high])
    return graph.slice(both, width - left, width) if left or stem == "fshl" else graph.slice(both, 0, width)


def _saturated(graph: Graph, stem: str, operands: list[int]) -> int:
    one, other = operands
    width = graph.width(one)
    if stem == "usub.sat":
        below = graph.compare(Opcode.ULT, one, other)
        return graph.select(below, graph.constant(0, width), graph.arithmetic(Opcode.SUB, one, other))
    total = graph.arithmetic(
        Opcode.ADD, graph.extend(Opcode.ZEXT, one, width + 1), graph.extend(Opcode.ZEXT, other, width + 1)
    )
    over = graph.slice(total, width, 1)
    return graph.select(over, graph.constant(-1, width), graph.slice(total, 0, width))
