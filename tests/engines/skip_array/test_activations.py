"""Operations of a skip array that multiplies by activations: their windows, chunks, weights and kept accumulators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from activation_arrays import ACTIVATIONS

from bfpga.compiler.schedule.weight_plan import plan_weights
from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.commands import commands
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation, Policy
from bfpga.contract.processes import process_streams
from bfpga.contract.program import ArrayNode, KernelOperation, LaunchStep, PolicySpec, Window
from bfpga.engines.kernel.cycles import drain_cycles, kernel_steps, operation_cycles, weight_reads
from bfpga.engines.kernel.descriptors import channel_runs, weight_words
from bfpga.engines.kernel.streams import input_window, pack_parameters, pack_weights
from bfpga.engines.skip_array.passes import runs
from bfpga.verify.random_network import NetworkBuilder, schedule

#: A systolic array with the same weight words.
DENSE = replace(ACTIVATIONS, array=SystolicArray())


def layer(channels: int, inner: int, groups: int = 1, kernel: int = 3, policy: PolicySpec | None = None) -> ArrayNode:
    rng = np.random.default_rng(0)
    weights = rng.integers(-9, 10, (channels, kernel, kernel, inner // groups)).astype(np.int32)
    window = Window(kernel, kernel, pad_top=kernel // 2, pad_left=kernel // 2, output_height=7, output_width=5)
    exponents = np.full(channels, -4, np.int32)
    return ArrayNode("layer", "gemm", ("t0",), "t1", channels, window, groups=groups, weights=weights,
                     weight_exponents=exponents, policy=policy or PolicySpec())  # fmt: skip


def computed(node: ArrayNode, inner: int, config: KernelConfig = ACTIVATIONS) -> list[KernelOperation]:
    """The GEMMs of a network of one layer."""
    builder = NetworkBuilder(np.random.default_rng(0), config)
    for channels, exponent in ((inner, -3), (node.channels, None)):
        builder.tensor(7, 5, channels, exponent)
    builder.nodes.append(node)
    steps = [step for step in schedule(builder, "t1").steps if isinstance(step, LaunchStep)]
    operations = [operation for step in steps for operation in step.operations]
    return [operation for operation in operations if operation.descriptor.operation == Operation.GEMM]


def only(node: ArrayNode, inner: int, config: KernelConfig = ACTIVATIONS) -> Descriptor:
    (operation,) = computed(node, inner, config)
    return operation.descriptor


@pytest.mark.parametrize(("channels", "inner", "groups"), [(20, 6, 1), (16, 16, 2), (12, 12, 12), (18, 6, 6)])
def test_weights_are_those_of_a_systolic_array(channels: int, inner: int, groups: int) -> None:
    """Zeros too: word for word, in the same pieces, with windows of blocks as many words apart."""
    node = layer(channels, inner, groups)
    node.weights[:, 0] = 0  # type: ignore[index]
    assert channel_runs(node, ACTIVATIONS) == channel_runs(node, DENSE)
    for m0, m1 in channel_runs(node, ACTIVATIONS):
        assert input_window(node, ACTIVATIONS, m0, m1) == input_window(node, DENSE, m0, m1)
        assert pack_weights(node, ACTIVATIONS, m0, m1) == pack_weights(node, DENSE, m0, m1)
        assert pack_parameters(node, ACTIVATIONS, m0, m1) == pack_parameters(node, DENSE, m0, m1)
        assert weight_words(node, ACTIVATIONS, m0, m1) == weight_words(node, DENSE, m0, m1)


@pytest.mark.parametrize(
    ("inner", "kernel", "chunk"),
    [(6, 1, 3), (6, 3, 7), (2, 3, 5), (1, 2, 4), (17, 1, 5)],
)  # fmt: skip
def test_windows_come_in_chunks_of_about_equal_size(inner: int, kernel: int, chunk: int) -> None:
    """At most 8 steps of two channels: 27 steps are 7, 7, 7 and 6."""
    descriptor = only(layer(20, inner, kernel=kernel), inner)
    steps = kernel * kernel * -(-inner // 2)
    assert (descriptor.chunk_steps, descriptor.chunk_buffers) == (chunk, -(-steps // chunk))
    assert descriptor.chunk_steps * ACTIVATIONS.lanes <= ACTIVATIONS.array.chunk_words(ACTIVATIONS)
    assert descriptor.chunk_buffers == -(-steps * ACTIVATIONS.lanes // ACTIVATIONS.array.chunk_words(ACTIVATIONS))
    assert not descriptor.flags & (Flag.SLIDES | Flag.LANES_APART)


def test_work_is_what_is_read_for_each_block_and_weights_come_once_a_run() -> None:
    """35 pixels are 12 groups of 3, 6 passes, 3 runs of 2; 20 channels are 3 blocks."""
    node = layer(20, 6)
    descriptor = only(node, 6)
    assert (descriptor.groups, descriptor.blocks, descriptor.group_columns) == (12, 3, 3)
    assert kernel_steps(ACTIVATIONS, descriptor) == 3 * 27
    assert operation_cycles(ACTIVATIONS, descriptor) == 12 * 3 * 27 * descriptor.read_slots
    assert runs(ACTIVATIONS, descriptor) == 3
    assert weight_reads(ACTIVATIONS, descriptor) == 3 * 3 * 27
    assert drain_cycles(ACTIVATIONS, descriptor) == 3 * 8
    assert (descriptor.weight_tap_step, descriptor.weight_block_step) == (3, 27)


def test_streamed_weights_are_sent_once_for_each_run() -> None:
    small = replace(ACTIVATIONS, weight_words=16, weight_stream_bits=128)
    node = layer(20, 6)
    assert plan_weights([node], small)["layer"].mode == "stream"
    for operation in computed(node, 6, small):
        descriptor = operation.descriptor
        assert descriptor.flags & Flag.STREAM_WEIGHTS
        words = len(operation.weights) // (small.beats_per_weight_word * small.weight_stream_bits // 8)
        assert words == weight_reads(small, descriptor) == runs(small, descriptor) * kernel_steps(small, descriptor)


def test_kept_accumulators_are_those_of_one_block() -> None:
    """Sums leave run by run and block by block, kept ones group by group: with one block that is the same order."""
    policy = PolicySpec(Policy.MAX, flow="keep")
    found = [operation.descriptor for operation in computed(layer(20, 6, policy=policy), 6)]
    keep = [item for item in found if item.flags & Flag.KEEP]
    kept = [item for item in found if item.flags & Flag.KEPT]
    assert [item.output_rows for item in keep] == [item.output_rows for item in kept] == [8, 8, 4]
    assert [item.wide_word for item in keep] == [item.wide_word for item in kept] == [0, 12 * 8, 24 * 8]
    assert {item.blocks for item in found} == {1}
    assert {item.chunk_steps for item in kept} == {0}
    assert {weight_reads(ACTIVATIONS, item) for item in kept} == {0}
    assert len(computed(layer(20, 6, policy=policy), 6, DENSE)) == 2


def test_streams_and_commands_are_those_of_weights_and_of_windows() -> None:
    names = {stream.name for stream in process_streams(ACTIVATIONS)}
    assert {"weight_words", "windows", "parameters"} <= names
    assert not any(name.startswith("entries") for name in names)
    heard = {command.process: command.fields for command in commands(ACTIVATIONS)}
    plain = {command.process: command.fields for command in commands(DENSE)}
    assert {*heard["scratchpad"]} - {*plain["scratchpad"]} == {"chunk_steps", "chunk_buffers"}
    assert {*heard["weights"]} - {*plain["weights"]} == {"chunk_steps"}
