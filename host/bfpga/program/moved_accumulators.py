"""Accumulators of a program in the host's memory: which tensors hold them, and as which words (FP R39, R43).

A word of the activation memory has the bits of an accumulator over the mantissas of its lanes, lowest first
(docs/kernel-positions.md, WIDE). Kernels of other lanes have other words: from one to another they go as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag
from bfpga.contract.program import ArrayNode, BlockTensor, KernelOperation, LaunchStep, Program, Tile
from bfpga.engines.kernel.cycles import ARRAY_OPERATIONS
from bfpga.formats.arrays import Int64Array, IntArray

#: Tensors of the host by name, each with the part of a layer's results whose accumulators it holds.
Parts = Mapping[str, Tile]


def parts_by_host(program: Program) -> list[Parts]:
    """Of every layer on the array the accumulators that the host has; none where they stay on the kernel."""
    operations: dict[str, list[KernelOperation]] = {}
    for step in program.steps:
        for operation in step.operations if isinstance(step, LaunchStep) else ():
            operations.setdefault(operation.layer, []).append(operation)
    return [_parts(node, operations.get(node.name, [])) for node in program.nodes if isinstance(node, ArrayNode)]


def _parts(node: ArrayNode, operations: list[KernelOperation]) -> Parts:
    transfers = dict.fromkeys(item.transfer.tensor for item in operations if item.transfer is not None)
    moved = [name for name in transfers if name not in (*node.inputs, node.output)]
    if not moved:
        return {}
    computing = [
        item.descriptor
        for item in operations
        if item.descriptor.operation in ARRAY_OPERATIONS and not item.descriptor.flags & Flag.MEASURE
    ]
    taken = [tile for made, tile in zip(computing, node.tiles, strict=True) if made.flags & Flag.KEPT]
    return dict(zip(moved, taken, strict=True))


def moved_rows(program: Program) -> list[int]:
    """Of every layer on the array how many rows of its results, the last ones, the host has the accumulators of."""
    return [_last(parts) - _first(parts) for parts in parts_by_host(program)]


def _first(parts: Parts) -> int:
    return min((tile.y0 for tile in parts.values()), default=0)


def _last(parts: Parts) -> int:
    return max((tile.y1 for tile in parts.values()), default=0)


def word_tensors(accumulators: Int64Array, parts: Parts, config: KernelConfig) -> dict[str, BlockTensor]:
    """The host's tensors of accumulators (rows, width, channels)."""
    none, first = np.zeros(1, np.int32), _first(parts)
    return {
        name: BlockTensor(to_words(_of(accumulators, tile, first)[None], config), none) for name, tile in parts.items()
    }


def _of(accumulators: Int64Array, tile: Tile, first: int) -> Int64Array:
    """Those of a part; first: their first row."""
    return accumulators[tile.y0 - first : tile.y1 - first, :, tile.m0 : tile.m1]


def of_word_tensors(
    tensors: Mapping[str, BlockTensor], node: ArrayNode, parts: Parts, config: KernelConfig
) -> Int64Array:
    """Accumulators (rows, width, channels) of a layer from the host's tensors; inverse of ``word_tensors``."""
    first = _first(parts)
    result = np.zeros((_last(parts) - first, node.window.output_width, node.channels), np.int64)
    for name, tile in parts.items():
        _of(result, tile, first)[:] = of_words(tensors[name].mantissa[0], config)
    return result


def to_words(accumulators: IntArray, config: KernelConfig) -> IntArray:
    """Mantissas (..., channels * lanes) of words that hold accumulators (..., channels), with the sign to the end."""
    bits, half = config.format.mantissa_bits, 1 << (config.format.mantissa_bits - 1)
    shifted = np.asarray(accumulators, np.int64)[..., None] >> (np.arange(config.lanes) * bits)
    lanes = ((shifted + half) & (2 * half - 1)) - half
    return lanes.reshape(*accumulators.shape[:-1], -1).astype(np.int32)


def of_words(mantissas: IntArray, config: KernelConfig) -> Int64Array:
    """Accumulators (..., channels) of mantissas (..., channels * lanes); inverse of ``to_words``."""
    bits, unused = config.format.mantissa_bits, 64 - config.accumulator_bits
    lanes = np.asarray(mantissas, np.int64).reshape(*mantissas.shape[:-1], -1, config.lanes) & ((1 << bits) - 1)
    joined = np.bitwise_or.reduce(lanes << (np.arange(config.lanes) * bits), axis=-1)
    result: Int64Array = joined << unused >> unused
    return result
