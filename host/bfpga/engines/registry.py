"""The engines that there are, in their order: whoever has to tell them apart asks their records."""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.engine_numbers import EngineName
from bfpga.contract.program import ArrayNode, KernelOperation
from bfpga.engines.array.cycles import ARRAY_OPERATIONS
from bfpga.engines.array.engine import SYSTOLIC_ARRAY
from bfpga.engines.beside.engine import BesideEngine
from bfpga.engines.interface.engine import Engine
from bfpga.engines.sparse_cluster.engine import SPARSE_CLUSTER
from bfpga.engines.zero_skip.engine import ZERO_SKIP

#: Engines that may stand beside the array. The order is that of tables, of equal clocks and of ``SystolicConfig``.
BESIDE: tuple[BesideEngine, ...] = (ZERO_SKIP, SPARSE_CLUSTER)
ENGINES: tuple[Engine, ...] = (SYSTOLIC_ARRAY, *BESIDE)
#: Operations of the engines beside the array; their clocks depend on weights (docs/engines.md, section 8).
BESIDE_OPERATIONS = tuple(operation for engine in BESIDE for operation in engine.operations)
#: Operations that compute; the others only move data.
COMPUTE = (*ARRAY_OPERATIONS, *BESIDE_OPERATIONS)

_BY_NAME = {engine.name: engine for engine in ENGINES}
_BESIDE_BY_NAME = {engine.name: engine for engine in BESIDE}
_BY_OPERATION = {operation: engine for engine in BESIDE for operation in engine.operations}


def engine_named(name: EngineName) -> Engine:
    """The engine of a name; KeyError if there is none."""
    return _BY_NAME[name]


def engine_beside(node: ArrayNode) -> BesideEngine | None:
    """The engine beside the array that computes a node; None for the array itself."""
    return None if node.on_array else _BESIDE_BY_NAME[node.engine]


def engines_beside(config: SystolicConfig) -> list[BesideEngine]:
    """The engines beside the array of a kernel."""
    return [_BESIDE_BY_NAME[numbers.engine] for numbers in config.beside]


def operation_engine(operation: KernelOperation) -> BesideEngine | None:
    """The engine beside the array that executes an operation; None for all else."""
    return _BY_OPERATION.get(operation.descriptor.operation)  # type: ignore[call-overload, no-any-return]


def depends_on_inputs(name: str) -> bool:
    """Whether the clocks of an engine are known only with the data; false for the host."""
    return name in _BESIDE_BY_NAME and _BESIDE_BY_NAME[name].by_inputs is not None
