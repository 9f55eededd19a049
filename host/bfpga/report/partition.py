"""How units that skip zeros share a layer's input: in pieces of equal size, and in pieces of equal work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.compiler.dispatch.engine_clocks import engine_operations
from bfpga.contract.program import ArrayNode, BlockTensor, Program, TensorSpec
from bfpga.devices.emulator import Emulator
from bfpga.engines.beside.embedded_kernels import embedded_weights
from bfpga.engines.beside.engine import UnitShares
from bfpga.engines.beside.tiles import input_rectangle
from bfpga.engines.registry import depends_on_inputs, operation_engine
from bfpga.formats.arrays import IntArray
from bfpga.program.layout import encode_tensor

#: Layers whose pieces are shown at most.
MOST_LAYERS = 12


@dataclass(frozen=True)
class LayerPartition:
    """The first strip of a layer on one sample.

    counts: (rows, columns) non-zero elements of all channels; taken: whether the layer's pieces have equal work.
    """

    layer: str
    counts: npt.NDArray[np.int64]
    equal: UnitShares
    balanced: UnitShares
    taken: bool


def partitions(program: Program, inputs: Mapping[str, npt.NDArray[np.floating[Any]]]) -> list[LayerPartition]:
    """Layers of ``program`` whose cycles depend on zeros of their input; inputs: samples by name, one is looked at.

    inputs are those of the program: samples that travel side by side are one.
    """
    nodes = [node for node in program.nodes if isinstance(node, ArrayNode)]
    if not any(depends_on_inputs(node.engine) for node in nodes):
        return []
    sample = {name: values[:1] for name, values in inputs.items()}
    traced = Emulator(program).run(sample, trace=True).tensors
    found: dict[str, LayerPartition] = {}
    for operation, node, tile in engine_operations(program.steps, nodes):
        engine = operation_engine(operation)
        if engine is None or engine.by_inputs is None or node.name in found:
            continue
        spec = program.tensors[node.inputs[0]]
        x = _mantissas(node.inputs[0], spec, traced, sample, program)
        if x is None:
            continue
        part = input_rectangle(node.window, spec, tile)
        x = x[:, part.y0 : part.y1, part.x0 : part.x1]
        weights = embedded_weights(node, spec, tile.m0, tile.m1)
        equal, balanced = engine.by_inputs.shares(program.config, operation.descriptor, weights, x)
        counts = np.count_nonzero(x[0], axis=2).astype(np.int64)
        found[node.name] = LayerPartition(node.name, counts, equal, balanced, bool(operation.descriptor.count_step))
        if len(found) == MOST_LAYERS:
            break
    return list(found.values())


def _mantissas(
    name: str,
    spec: TensorSpec,
    traced: Mapping[str, BlockTensor],
    sample: Mapping[str, npt.NDArray[np.floating[Any]]],
    program: Program,
) -> IntArray | None:
    """A layer's input, (1, height, width, channels); None for what the host computes between layers."""
    if name in traced:
        return traced[name].mantissa
    if name not in sample:
        return None
    return encode_tensor(sample[name].astype(np.float32), spec, program.config.format).mantissa
