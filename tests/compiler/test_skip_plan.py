"""Networks for a kernel that multiplies by stored non-zero weights (issue 16, item 1)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_networks import Network, attention_network, compiled, nodes_of, residual_network, small_network

from bfpga.accelerator.loader import load_accelerator
from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.schedule.weight_plan import plan_weights
from bfpga.contract.arrays.skip_array import SkipArray
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.program import ArrayNode, HostNode, LaunchStep, MatMulNode, Program, Window
from bfpga.devices.emulator import Emulator
from bfpga.engines.kernel.cycles import occupied_cycles, operation_cycles
from bfpga.engines.kernel.streams import pack_parameters, pack_weights
from bfpga.estimate.program import estimate_program
from bfpga.program.listing import listing

CONFIG = KernelConfig(
    columns=4, rows=32, lanes=4, multiplier="dsp_packed", accumulator_bits=24, weight_words=64, parameter_rows=128,
    array=SkipArray(4, chunk=64, queue=16),
)  # fmt: skip


def layer(channels: int, inner: int, density: float, groups: int = 1) -> ArrayNode:
    rng = np.random.default_rng(0)
    weights = rng.integers(-9, 10, (channels, 3, 3, inner)).astype(np.int32)
    weights[rng.random(weights.shape) >= density] = 0
    return ArrayNode("layer", "gemm", ("x",), "y", channels, Window(3, 3, output_height=6, output_width=6),
                     groups=groups, weights=weights)  # fmt: skip


@pytest.mark.parametrize(("channels", "inner", "density"), [(90, 4, 0.4), (70, 20, 0.03), (40, 6, 0.9), (6, 8, 0.0)])
def test_pieces_fit_the_memory_by_the_words_of_their_entries(channels: int, inner: int, density: float) -> None:
    """At most a pass's channels, every piece with as many words as its weights make, whole words of parameters."""
    node = layer(channels, inner, density)
    plan = plan_weights([node], CONFIG)["layer"]
    assert [tile.m0 for tile in plan.tiles[1:]] == [tile.m1 for tile in plan.tiles[:-1]]
    assert (plan.tiles[0].m0, plan.tiles[-1].m1) == (0, channels)
    for tile in plan.tiles:
        assert tile.m1 - tile.m0 <= CONFIG.rows
        assert tile.weight_base + tile.words <= CONFIG.weight_words
        assert tile.rows == -(-(tile.m1 - tile.m0) // 4) * 4
        assert len(pack_parameters(node, CONFIG, tile.m0, tile.m1)) == 8 * tile.rows
        if plan.mode != "stream":
            beats = CONFIG.beats_per_weight_word
            assert len(pack_weights(node, CONFIG, tile.m0, tile.m1)) == 8 * beats * tile.words > 0


def test_zeros_decide_whether_weights_stay() -> None:
    """1440 weights in 64 words of 4 entries: with a tenth of them they stay, with all they are brought again."""
    assert plan_weights([layer(20, 8, 0.1)], CONFIG)["layer"].mode == "resident"
    assert plan_weights([layer(20, 8, 1.0)], CONFIG)["layer"].mode != "resident"


DENSE, SKIPPING = (load_accelerator(name).config for name in ("pynq_z2_dense", "pynq_z2_zero_skip"))


def gemms(program: Program) -> list[Descriptor]:
    steps = [step for step in program.steps if isinstance(step, LaunchStep)]
    found = (item.descriptor for step in steps for item in step.operations)
    return [descriptor for descriptor in found if descriptor.operation == Operation.GEMM]


@pytest.mark.parametrize("network", [residual_network(), small_network()], ids=["residual", "small"])
def test_a_network_gives_the_bits_of_any_array_with_its_formats(network: Network, tmp_path: Path) -> None:
    """Strides, padding, 1x1, depthwise, pooling, products; what is stored are other bytes, values are the same."""
    options, samples = CompileOptions(remainders="never"), network.samples(4)
    alone = replace(DENSE, residual_adds=False)  # one rounding less is another value
    programs = [compiled(network, tmp_path, config, options) for config in (alone, SKIPPING)]
    expected, found = (list(Emulator(program).run(samples).outputs.values()) for program in programs)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert all(isinstance(node, ArrayNode) for node in programs[1].nodes)


def test_work_is_what_is_read_and_clocks_are_those_of_a_pass(tmp_path: Path) -> None:
    program = compiled(residual_network(), tmp_path, SKIPPING)
    for descriptor in gemms(program):
        steps = descriptor.kernel_height * descriptor.kernel_width * descriptor.channel_words * descriptor.blocks
        assert operation_cycles(SKIPPING, descriptor) == descriptor.groups * steps * descriptor.read_slots
        passes = -(-descriptor.groups // 2)
        apart = bool(descriptor.flags & Flag.LANES_APART)
        # Of a word a lane is written in a clock, or a half of all lanes.
        step = min(2, descriptor.groups) if apart else 4
        assert occupied_cycles(SKIPPING, descriptor) == passes * descriptor.steps + step * descriptor.chunk_steps
        assert descriptor.steps >= max(step * steps, descriptor.output_rows)
        assert descriptor.chunk_steps * (1 if apart else 4) <= SKIPPING.array.chunk_words(SKIPPING)
    depthwise = [descriptor for descriptor in gemms(program) if descriptor.flags & Flag.LANES_APART]
    assert depthwise
    for d in depthwise:
        assert d.block_step == (d.channel_words if d.blocks > 1 else 0)
        assert d.chunk_steps == d.kernel_height * d.kernel_width * d.channel_words
    estimate = estimate_program(accelerator_around(SKIPPING), program)
    assert "windows" in {layer.limit for layer in estimate.layers}


def test_the_listing_tells_what_entries_take(tmp_path: Path) -> None:
    """18 bits for a weight, its place and the begin of each kernel; here all weights are there."""
    program = compiled(small_network(), tmp_path, SKIPPING)
    text = listing(program)
    stored = sum(len(operation.weights) for operation in program.setup.operations)
    stored -= 8 * sum(operation.descriptor.parameter_rows for operation in program.setup.operations)
    weights = sum(node.weights.size for node in nodes_of(program) if node.weights is not None)
    assert f"entries of non-zero weights: {stored:,} bytes; {weights:,} with zeros" in text
    assert ", entries " in text


def test_products_of_two_activations_are_left_to_the_host_with_the_reason(tmp_path: Path) -> None:
    """Weights made at run time are no stored entries."""
    program = compiled(attention_network(), tmp_path, SKIPPING)
    kinds = [operator for node in program.nodes if isinstance(node, HostNode) for operator in node.operators]
    assert kinds.count("MatMul") == 2
    assert any("a skip array multiplies by weights that the compiler has stored" in note for note in program.notes)
    assert not any(isinstance(node, MatMulNode) for node in program.nodes)
