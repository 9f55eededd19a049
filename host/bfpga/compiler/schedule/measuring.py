"""What the operation that precedes a layer measures and keeps, part by part (docs/kernel-positions.md, section 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Policy
from bfpga.contract.flows import Sample, everything, samples_of
from bfpga.contract.functions import ACTIVATION_EXPONENT
from bfpga.contract.program import ArrayNode, PolicySpec, Tile
from bfpga.contract.rows import RESULT_BITS
from bfpga.engines.kernel.streams import block_rows
from bfpga.engines.output.exponents import LEARNING

SAMPLED = ("two_pass_sampled", "keep_sampled")
KEEPING = ("keep", "keep_sampled")


def keeps(node: ArrayNode) -> bool:
    """Whether the layer's accumulators may be kept: those of products of weights."""
    return node.kind == "gemm"


def measures(policy: PolicySpec) -> bool:
    """Whether an operation measures results before the layer: always, or before the first sample."""
    predicted = policy.policy in LEARNING and not policy.preset
    return not policy.inherit and (policy.policy == Policy.MAX or predicted)


def histogram_base(node: ArrayNode, config: KernelConfig) -> int:
    """Bin 0 of the collector for a layer, from the exponent of its accumulators: its largest sum reaches the last bin.

    A bias may add to it, and then counts in the last bin.
    """
    largest = mantissa = config.format.mantissa_max + 1
    row = 0
    if node.function.row.unit == "table":
        return 1 - config.position_bins - ACTIVATION_EXPONENT
    if node.rows is not None:
        return RESULT_BITS - config.position_bins
    if node.operand is not None:
        return product_base(node.operand.terms, config)
    if node.kind == "sum":
        largest *= len(node.inputs)
    elif node.weights is not None:
        sums = np.abs(node.weights.astype(np.int64)).reshape(len(node.weights), -1).sum(axis=1)
        bits = [int(total * mantissa).bit_length() for total in sums]
        rows = [0] * len(bits) if node.weight_exponents is None else node.weight_exponents.tolist()
        largest, row = 0, max(bit + exponent for bit, exponent in zip(bits, rows, strict=True))
    return largest.bit_length() + row + 1 - config.position_bins


def product_base(inner: int, config: KernelConfig) -> int:
    """The same for sums of ``inner`` products of activations, from the sum of the operands' exponents.

    The second operand's exponent is that of the rows: packing its mantissas adds it to the field.
    """
    largest = inner * config.format.mantissa_max * (config.format.mantissa_max + 1)
    return largest.bit_length() + 1 - config.position_bins


def scaled_base(node: ArrayNode, config: KernelConfig) -> int:
    """The same for a product with factors, from the sum of both exponents; results of tables have one of their own."""
    return histogram_base(node, config) if node.function.row.unit == "table" else product_base(1, config)


def node_samples(node: ArrayNode, streamed: bool, config: KernelConfig) -> list[Sample]:
    """The outputs of a node that are measured, with the ways to measure them.

    streamed: its weights come with every operation, in an order that leaves no block out; entries of a skip array do.
    """
    policy = node.policy
    if policy.flow not in SAMPLED or node.kind == "rows":  # rows are read side by side
        return [everything(node.channels)]
    by_blocks = node.kind == "gemm" and node.groups == 1 and not streamed and not config.array.stores_entries
    rows = block_rows(node, config) if by_blocks else 0
    return samples_of(node.window.output_height, node.channels, rows, policy.sample_period, policy.sample_offset)


def sampled_parts(sample: Sample, part: Tile) -> list[Tile]:
    """The parts of ``part`` that are in the sample, each of one descriptor."""
    rows = _sampled_rows(sample, part)
    if not rows:
        return []
    ranges = [(y, y + 1, 1) for y in rows] if sample.apart else [(rows[0], part.y1, sample.step)]
    channels = [(max(part.m0, m0), min(part.m1, m1)) for m0, m1 in sample.blocks]
    return [Tile(y0, y1, m0, m1, step=step) for y0, y1, step in ranges for m0, m1 in channels if m0 < m1]


def other_parts(sample: Sample, part: Tile) -> list[Tile]:
    """The parts of ``part`` that are not in the sample, in as few descriptors as possible."""
    if sample.step == 1:
        return [Tile(part.y0, part.y1, m0, m1) for m0, m1 in _gaps(sample.blocks, part.m0, part.m1)]
    rows = [(y, y + 1) for y in _sampled_rows(sample, part)]
    between = [Tile(y0, y1, part.m0, part.m1) for y0, y1 in _gaps(rows, part.y0, part.y1)]
    steps = [(part.y0 + n) for n in range(sample.step) if (part.y0 + n - sample.offset) % sample.step]
    stepped = [Tile(y, part.y1, part.m0, part.m1, step=sample.step) for y in steps if y < part.y1]
    return min(between, stepped, key=len)


def _sampled_rows(sample: Sample, part: Tile) -> range:
    return range(part.y0 + (sample.offset - part.y0) % sample.step, part.y1, sample.step)


def _gaps(taken: Sequence[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int]]:
    """What the ascending ranges leave of [start, end)."""
    for first, last in taken:
        if start < min(first, end):
            yield start, min(first, end)
        start = max(start, last)
    if start < end:
        yield start, end
