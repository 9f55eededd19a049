"""What recurrent operators take on the host: as a whole, and what the array leaves of their steps.

Each operator takes a call there, so functions and products of gates that the array lacks may cost more, step by step,
than everything at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from bfpga.accelerator.boards import ArmCores
from bfpga.compiler.lower.layers import Lowered
from bfpga.compiler.lower.operations import count_operations
from bfpga.compiler.lower.recurrent import GATES
from bfpga.compiler.read.importer import Graph, Operator


def time_of_whole(graph: Graph, cores: ArmCores) -> float:
    """Seconds of the recurrent operators of a network on one core, for one sample."""
    return _seconds(graph, [operator for operator in graph.operators if operator.type in GATES], cores)


def time_of_steps(graph: Graph, steps: Graph, lowered: Lowered, cores: ArmCores) -> float:
    """Seconds of what the host keeps of the operators that ``steps``, with steps written out, has beyond ``graph``."""
    others = {operator.outputs for operator in graph.operators}
    return _seconds(steps, [operator for operator in lowered.host if operator.outputs not in others], cores)


def _seconds(graph: Graph, operators: Sequence[Operator], cores: ArmCores) -> float:
    work = count_operations(graph.model)
    counted = sum(work.get(next(filter(None, operator.outputs)), 0) for operator in operators)
    return cores.seconds(counted, len(operators))
