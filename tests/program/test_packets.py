"""Streams of many samples at once are the streams of single samples, one after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from array_programs import Program, empty, mixed_program, random_tensor
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_pairs import SMALL

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.program import BlockTensor, KernelOperation, TensorSpec
from bfpga.devices.csim import CSimulation
from bfpga.engines.kernel import streams
from bfpga.engines.kernel.order import COUNT_WORDS, SampleRow, in_stream, start_counts, wrapped
from bfpga.errors import DataError
from bfpga.formats.block_format import BlockFormat
from bfpga.program.host_order import SampleEncoder
from bfpga.program.layout import encode_tensor
from bfpga.program.packets import SamplePackets


def samples_of(name: str, tensor: BlockTensor, count: int, seed: int) -> BlockTensor:
    """The tensor's shape with ``count`` random samples."""
    rng = np.random.default_rng([seed, len(name)])
    shape = (count, *tensor.mantissa.shape[1:])
    return BlockTensor(rng.integers(-7, 8, shape, np.int32), rng.integers(-9, 9, count, np.int32))


def without_end(operations: list[KernelOperation]) -> list[KernelOperation]:
    flags = ~int(Flag.END_PACKET)
    return [
        replace(op, descriptor=replace(op.descriptor, flags=op.descriptor.flags & flags))
        if op.descriptor.operation == Operation.STORE
        else op
        for op in operations
    ]


def one_after_the_other(
    operations: list[KernelOperation], config: KernelConfig, tensors: dict[str, BlockTensor], samples: int,
    ahead: int = 0,
) -> bytes:  # fmt: skip
    """The stream of a start from those of single operations, each with what it waits for among all of the start."""
    listed, parts = in_stream(operations, samples, ahead), []
    counts = wrapped(start_counts(listed, config)[0])
    sent = SampleRow.of(operations, ahead).sent(samples)
    for operation, needed, (_, sample) in zip(listed, counts, sent, strict=True):
        part = [operation] if sample == samples - 1 else without_end([operation])
        words = np.frombuffer(streams.input_packet(part, config, tensors, sample), "<i4").copy()
        words[COUNT_WORDS] = needed
        parts.append(words.tobytes())
    return b"".join(parts)


@settings(max_examples=drawn(60), deadline=None)
@given(
    st.sampled_from([4, 8, 16]), st.sampled_from([1, 2]), st.sampled_from([1, 2, 5]), st.sampled_from([32, 64]),
    st.integers(1, 4), st.integers(1, 5), st.integers(1, 5), st.integers(1, 4),
)  # fmt: skip
def test_packed_samples_are_single_packets_in_a_row(
    bits: int, lanes: int, columns: int, beat: int, samples: int, height: int, width: int, channels: int
) -> None:
    config = KernelConfig(BlockFormat(mantissa_bits=bits), columns, 4, lanes, stream_bits=beat)
    program = Program(config)
    x = program.tensor(height, width, channels)
    program.load("x", x)
    program.store("y", x)
    tensors = {"x": samples_of("x", random_tensor(np.random.default_rng(0), x, config), samples, 1)}
    packets = SamplePackets(program.operations, config)
    packed = packets.pack(tensors, 0, samples).tobytes()
    assert packed == one_after_the_other(program.operations, config, tensors, samples)
    assert packets.output_bytes == streams.output_bytes(program.operations, config)
    # A store sends what a load took: header and elements of the same form.
    size = len(packed) // samples
    start = size - packets.output_bytes - len(streams.input_packet(program.operations[1:], config, {}))
    sent = b"".join(packed[n * size + start :][: packets.output_bytes] for n in range(samples))
    got = {"y": BlockTensor(np.zeros_like(tensors["x"].mantissa), np.zeros(samples, np.int32))}
    packets.unpack(sent, got, 0, samples)
    np.testing.assert_array_equal(got["y"].mantissa, tensors["x"].mantissa)
    np.testing.assert_array_equal(got["y"].exponent, tensors["x"].exponent)


@settings(max_examples=drawn(60), deadline=None)
@given(st.sampled_from([4, 8, 16]), st.sampled_from([1, 2]), st.sampled_from([32, 64]), *[st.integers(1, 5)] * 4)
def test_samples_in_the_hosts_order_are_packed_as_the_tensor_that_they_become(
    bits: int, lanes: int, beat: int, samples: int, height: int, width: int, channels: int
) -> None:
    config = KernelConfig(BlockFormat(mantissa_bits=bits), 2, 4, lanes, stream_bits=beat)
    program = Program(config)
    x = program.tensor(height, width, channels)
    program.load("x", x)
    program.store("y", x)
    packets = SamplePackets(program.operations, config)
    spec = TensorSpec("x", height, width, channels, onnx_shape=(channels, height, width))
    for seed in (1, 2):  # nothing is left of the samples before
        values = np.random.default_rng(seed).normal(size=(samples, channels, height, width)).astype(np.float32)
        encoded = SampleEncoder(spec, config.format).encode(values)
        expected = encode_tensor(values, spec, config.format)
        assert packets.pack({"x": encoded}, 0, samples).tobytes() == one_after_the_other(
            program.operations, config, {"x": expected}, samples
        )


def test_samples_wait_for_those_before_them() -> None:
    program, tensors = mixed_program(SMALL)
    many = {name: samples_of(name, tensor, 5, 3) for name, tensor in tensors.items()}
    start = SamplePackets(program.operations, SMALL).pack(many, 0, 5).tobytes()
    assert start == one_after_the_other(program.operations, SMALL, many, 5)
    counts = start_counts(program.operations, SMALL, 5)
    assert counts[0].tolist() != counts[1].tolist()


@pytest.mark.parametrize("samples", [1, 2, 5])
@pytest.mark.parametrize("ahead", [3, 4, 5])
def test_samples_that_begin_ahead_are_packed_in_the_order_of_the_stream(samples: int, ahead: int) -> None:
    program, tensors = mixed_program(SMALL)
    operations = program.operations
    operations[-2].descriptor.flags &= ~int(Flag.END_PACKET)
    many = {name: samples_of(name, tensor, samples, 3) for name, tensor in tensors.items()}
    packets = SamplePackets(operations, SMALL, ahead)
    packed = packets.pack(many, 0, samples).tobytes()
    assert packed == one_after_the_other(operations, SMALL, many, samples, ahead)
    assert [operations[index] for index in packets.sent(samples)] == in_stream(operations, samples, ahead)
    assert packets.sent(samples) != SamplePackets(operations, SMALL).sent(samples) or samples == 1
    assert packets.output_bytes == SamplePackets(operations, SMALL).output_bytes


def test_samples_in_one_start_compute_what_single_starts_compute() -> None:
    program, tensors = mixed_program(SMALL)
    program.operations[-2].descriptor.flags &= ~int(Flag.END_PACKET)
    kernel, count = CSimulation(SMALL), 5
    many = {name: samples_of(name, tensor, count, 3) for name, tensor in tensors.items()}
    expected = {name: BlockTensor(t.mantissa.copy(), t.exponent.copy()) for name, t in many.items()}
    for sample in range(count):
        kernel.run_operations(program.operations, expected, sample)
    packets = SamplePackets(program.operations, SMALL)
    weights = np.tile(np.frombuffer(packets.weights, np.uint8), count)
    result = kernel.run_packet(
        count * len(program.operations), packets.pack(many, 0, count), weights, count * packets.output_bytes
    )
    packets.unpack(result.output, many, 0, count)
    assert result.packets == 1
    assert result.operation_cycles == packets.cycles * count
    for name in ("hidden", "y"):
        np.testing.assert_array_equal(many[name].mantissa, expected[name].mantissa)
        np.testing.assert_array_equal(many[name].exponent, expected[name].exponent)


def test_output_of_another_length_is_refused() -> None:
    program, tensors = mixed_program(SMALL)
    packets = SamplePackets(program.operations, SMALL)
    with pytest.raises(DataError, match=r"the kernel sent 8 bytes; its stores send \d+ for each of 1 samples"):
        packets.unpack(bytes(8), tensors, 0, 1)
    with pytest.raises(DataError, match="tensor x has no data to load"):
        packets.pack({"hidden": empty(Program(SMALL).tensor(1, 1, 1))}, 0, 1)
