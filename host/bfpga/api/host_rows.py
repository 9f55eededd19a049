"""The operators of a host node, each kind with its work and what it takes on a core of the board."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx

from bfpga.accelerator.boards import ArmCores
from bfpga.compiler.lower.operations import count_operations
from bfpga.contract.program import HostNode


@dataclass
class OperatorWork:
    """Operators of one kind in a host node, for one sample. board_seconds: estimated; None of boards without cores."""

    operator: str
    count: int
    operations: int
    board_seconds: float | None


def operator_rows(node: HostNode, cores: ArmCores | None) -> list[OperatorWork]:
    """The kinds of operators of a node in their order; the whole node as one where its model cannot be counted."""
    try:
        counted = list(_counted(node))
    except Exception:  # of a program file, whose model was not read here
        counted = [(", ".join(dict.fromkeys(node.operators)), node.flops)]
    kinds: dict[str, OperatorWork] = {}
    for kind, operations in counted:
        row = kinds.setdefault(kind, OperatorWork(kind, 0, 0, None))
        row.count += 1
        row.operations += operations
        row.board_seconds = None if cores is None else cores.seconds(row.operations, row.count)
    return list(kinds.values())


def _counted(node: HostNode) -> Iterator[tuple[str, int]]:
    """Operators with their operations; views and rounding that the compiler put before one count with it."""
    model = onnx.load_from_string(node.model)
    work, inner = count_operations(model), iter(model.graph.node)
    for kind in node.operators:
        operations = 0
        for one in inner:
            operations += work[next(filter(None, one.output))]
            if one.op_type == kind:
                break
        yield kind, operations
