"""Zeros of what layers read, for an array that takes no time for them: their clocks are those of the samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bfpga.compiler.numbers.sampled_inputs import count_zeros
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import ArrayNode, TensorSpec
from bfpga.engines.array.descriptors import blocks_of
from bfpga.engines.array.streams import input_window
from bfpga.engines.skip_array.input_share import input_share
from bfpga.formats.arrays import IntArray
from bfpga.program.layout import fold_columns


def measure_zeros(
    nodes: Iterable[ArrayNode],
    tensors: Mapping[str, TensorSpec],
    config: SystolicConfig,
    inputs: Mapping[str, IntArray],
) -> None:
    """Give every layer of products the density of its input and the share of its products that are made.

    inputs: mantissas (samples, height, width, channels) by tensor name; layers without any keep what is theirs. Nothing
    on arrays that multiply by every activation.
    """
    if not config.skips_activations:
        return
    for node in nodes:
        mantissas, spec = inputs.get(node.inputs[0]), tensors[node.inputs[0]]
        if node.kind != "gemm" or node.weights is None or mantissas is None:
            continue
        node.input_density = count_zeros(mantissas).density
        used = mantissas != 0
        if spec.folded is not None:
            used = fold_columns(used, spec)
        if used.shape[1:] == (spec.height, spec.width, spec.channels):
            node.input_share = input_share(node, words_read(node, config), used, config)


def words_read(node: ArrayNode, config: SystolicConfig) -> list[range]:
    """Words of channels that each block of output channels reads at a tap; one range if all read the same."""
    window = input_window(node, config, 0, node.channels)
    blocks = blocks_of(node, config, node.channels) if window.block_step else 1
    firsts = [window.first_word + block * window.block_step for block in range(blocks)]
    return [range(first, first + window.channel_words) for first in firsts]
