"""Roofline and per-layer estimates: known figures, and sums that must hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.program import ArrayNode, HostNode, HostStep, KernelOperation, LaunchStep, Program
from bfpga.engines.kernel.cycles import operation_cycles, pass_steps
from bfpga.estimate.program import estimate_program, operation_limits
from bfpga.estimate.roofline import estimate_roofline
from bfpga.program.groups import stream_bytes


@pytest.fixture
def accelerator() -> Accelerator:
    """A full array: 12 columns x 16 rows x 2 lanes."""
    return load_accelerator(Path(__file__).parents[1] / "data" / "dense.yaml")


def convolution(accelerator: Accelerator, **changes: int) -> Descriptor:
    """A 3x3 convolution of 16 to 16 channels on 32 x 32 pixels."""
    descriptor = Descriptor(
        operation=Operation.GEMM,
        output_pixels=1024,
        output_width=32,
        kernel_height=3,
        kernel_width=3,
        channel_words=8,
        output_rows=16,
    )
    descriptor = replace(descriptor, **changes)
    return replace(descriptor, steps=pass_steps(accelerator.config, descriptor))


def program_of(accelerator: Accelerator, operations: list[KernelOperation]) -> Program:
    nodes = [
        ArrayNode("conv", "gemm", ("x",), "y", 16, macs=1024 * 16 * 16 * 9),
        HostNode("softmax", b"", ("y",), ("z",), ("Softmax",)),
    ]
    setup = LaunchStep([KernelOperation("conv", Descriptor(operation=Operation.WEIGHTS, weight_words=72))])
    steps = [LaunchStep(operations), HostStep(1)]
    return Program(
        "p", accelerator.name, accelerator.digest, accelerator.config, accelerator.clock_mhz, {}, list(nodes), setup,
        list(steps), {}, {},
    )  # fmt: skip


def test_roofline_of_a_full_array(accelerator: Accelerator) -> None:
    """384 MAC a clock at 142 MHz; 32 weights and 24 activations of one byte a clock; streams of 8 bytes."""
    roofline = estimate_roofline(accelerator)
    assert roofline.macs_per_clock == 384
    assert roofline.gmac_s == pytest.approx(54.528)
    assert (roofline.weight_need, roofline.weight_stream) == (32, 8)
    assert (roofline.activation_need, roofline.activation_stream) == (24, 8)
    assert roofline.weight_stream_gb_s == pytest.approx(8 * 0.142)
    assert roofline.ridge_macs_per_byte == pytest.approx(54.528 / 1.136)


def test_streams_are_no_faster_than_the_memory_port(accelerator: Accelerator) -> None:
    wide = replace(accelerator, config=replace(accelerator.config, stream_bits=512, weight_stream_bits=512))
    assert estimate_roofline(wide).weight_stream_gb_s == pytest.approx(8 * 0.142)


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({}, "array"),
        ({"read_slots": 4}, "activation memory"),
        ({"kernel_height": 1, "kernel_width": 1, "channel_words": 1}, "output stage"),
        ({"operation": Operation.MAX, "kernel_height": 1, "output_rows": 2}, "addresses"),
    ],
)
def test_limit_names_what_most_clocks_are_spent_on(
    accelerator: Accelerator, changes: dict[str, int], limit: str
) -> None:
    descriptor = convolution(accelerator, **changes)
    cycles = operation_cycles(accelerator.config, descriptor)
    shares = operation_limits(accelerator.config, descriptor, cycles)
    assert sum(shares.values()) == cycles
    assert max(shares, key=lambda name: shares[name]) == limit


def test_streamed_bytes_are_headers_elements_and_weights(accelerator: Accelerator) -> None:
    config = accelerator.config
    load = Descriptor(operation=Operation.LOAD, output_pixels=100, output_width=100, output_pixel_words=2)
    assert stream_bytes(config, load) == 320 + 8 + 100 * 2 * 2
    weights = Descriptor(operation=Operation.WEIGHTS, weight_words=72, parameter_rows=16)
    assert stream_bytes(config, weights) == 320 + 16 * 8 + 72 * 32
    streamed = convolution(accelerator, flags=int(Flag.STREAM_WEIGHTS))
    assert stream_bytes(config, streamed) == 320 + 86 * 72 * 32


def test_program_estimate_adds_up_and_leaves_first_sample_passes_out(accelerator: Accelerator) -> None:
    descriptor = convolution(accelerator)
    load = KernelOperation("x", Descriptor(operation=Operation.LOAD, output_pixels=1024, output_pixel_words=8))
    operations = [load, KernelOperation("conv", descriptor, first_only=True), KernelOperation("conv", descriptor)]
    estimate = estimate_program(accelerator, program_of(accelerator, operations))
    layers = {layer.name: layer for layer in estimate.layers}
    assert layers["conv"].cycles == operation_cycles(accelerator.config, descriptor)
    assert layers["conv"].limit == "array"
    assert layers["softmax"].engine == "host"
    assert layers["softmax"].limit == "host"
    assert layers["x"].limit == "transfer"
    assert estimate.cycles.compute_bound == layers["conv"].cycles
    assert estimate.cycles.dma_inclusive == layers["conv"].cycles + 8192
    assert sum(layer.cycles + layer.transfer_cycles for layer in estimate.layers) == estimate.cycles.dma_inclusive
    assert estimate.seconds >= estimate.cycles.latency_s() > estimate.compute_seconds
    assert estimate.cycles.setup.total == 72 * 4


def test_slow_memory_stretches_what_it_must_deliver(accelerator: Accelerator) -> None:
    """Weights of 86 passes; descriptors come on a stream of their own."""
    streamed = [KernelOperation("conv", convolution(accelerator, flags=int(Flag.STREAM_WEIGHTS)))]
    slow = replace(accelerator, board=replace(accelerator.board, assumed_gb_s=0.1))
    estimate = estimate_program(slow, program_of(slow, streamed))
    weights = 86 * 72 * 32 / 0.1e9
    assert weights < estimate.seconds < 1.001 * weights
