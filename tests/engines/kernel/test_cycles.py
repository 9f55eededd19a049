"""Clocks of operations and programs against the throughput model of the specification (section 6, R71)."""

from __future__ import annotations

import numpy as np
import pytest
from array_layers import WIDE, chain, vector
from reference import load_vectors

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.program import KernelOperation, MatMulNode, MatMulStep
from bfpga.engines.kernel.cycles import drain_cycles, operation_cycles, pass_steps, passes
from bfpga.program.cycles import program_cycles

GEMMS = load_vectors("bfp_systolic.json")["gemm"]


def product_descriptor(config: KernelConfig, rows: int, inner: int, pixels: int) -> Descriptor:
    descriptor = Descriptor(
        Operation.GEMM, output_pixels=pixels, blocks=-(-rows // config.rows), channel_words=-(-inner // config.lanes)
    )
    descriptor.steps = pass_steps(config, descriptor)
    return descriptor


@pytest.mark.parametrize("case", GEMMS, ids=lambda case: f"{case['M']}x{case['K']}x{case['N']}on{case['cols']}")
def test_products_take_the_passes_and_cycles_of_the_model(case: dict[str, int]) -> None:
    """R57, R61, R71: every pass counts max(Kc, drain): a weight word every clock.

    The model adds what fills the array once, and what empties it; here other operations work meanwhile.
    """
    config = KernelConfig(columns=case["cols"], rows=16, lanes=2)
    descriptor = product_descriptor(config, case["M"], case["K"], case["N"])
    assert passes(config, descriptor) == case["passes"]
    drain, fill = drain_cycles(config, descriptor), config.rows + config.columns - 1
    work = operation_cycles(config, descriptor)
    assert work == case["passes"] * max(-(-case["K"] // 2), drain)
    assert case["cycles"] == fill + work + drain


def test_a_pass_is_never_shorter_than_its_drain() -> None:
    """R64: sixteen rows leave through one output stage a column."""
    config = KernelConfig(columns=2, rows=16, lanes=2)
    assert pass_steps(config, product_descriptor(config, 16, 4, 2)) == 16
    assert pass_steps(config, product_descriptor(config, 16, 64, 2)) == 32


@pytest.mark.parametrize(("columns", "stream_bits", "pixels"), [(1, 64, 1), (2, 64, 4), (2, 128, 4), (12, 128, 8)])
def test_transfers_move_a_word_of_every_bank_that_a_beat_has_words_for(
    columns: int, stream_bits: int, pixels: int
) -> None:
    config = KernelConfig(columns=columns, stream_bits=stream_bits)
    assert config.transfer_pixels == pixels
    row = Descriptor(Operation.LOAD, output_pixels=16, output_width=16, output_pixel_words=3)
    assert operation_cycles(config, row) == 16 // pixels * 3


SMALL = KernelConfig(columns=5, rows=8, lanes=2)


def steps_of_the_scratchpad(config: KernelConfig, d: Descriptor) -> int:
    """Of a computing operation, one after the other (docs/kernel.md)."""
    single = d.operation != Operation.GEMM
    blocks = -(-d.output_rows // config.lanes) if single else d.blocks
    rows = config.lanes if single else config.block_rows("power_of_two" if d.flags & Flag.POWER_OF_TWO else "linear")
    work = pixel = 0
    while pixel < d.output_pixels:
        group = 0
        for _ in range(blocks):
            words = d.kernel_height * d.kernel_width * (1 if single else d.channel_words)
            clocks = sum(d.read_slots for _ in range(words))
            written = sum(max(config.lanes, d.write_slots) for _ in range(rows // config.lanes))
            group += max(clocks, written)
        work += max(group, config.columns)
        pixel += config.columns
    return work


@pytest.mark.parametrize("operation", [Operation.GEMM, Operation.MAX, Operation.SUM])
@pytest.mark.parametrize("seed", range(6))
def test_the_work_is_the_steps_without_what_fills_and_empties_the_processes(
    operation: Operation, seed: int
) -> None:
    rng = np.random.default_rng([14, seed])
    numbers = {
        name: int(rng.integers(low, high))
        for name, (low, high) in {
            "output_pixels": (1, 40), "kernel_height": (1, 4), "kernel_width": (1, 4), "channel_words": (1, 6),
            "blocks": (1, 4), "read_slots": (1, 4), "write_slots": (1, 5), "output_rows": (1, 20),
        }.items()
    }  # fmt: skip
    flags = int(Flag.STREAM_WEIGHTS) if seed % 2 else 0  # what it waits for the stream is not its work
    descriptor = Descriptor(operation, flags, **numbers)
    assert operation_cycles(SMALL, descriptor) == steps_of_the_scratchpad(SMALL, descriptor)


def test_the_work_of_transfers_is_what_they_move() -> None:
    """A row takes whole groups of pixels, a weight word its beats."""
    assert SMALL.transfer_pixels == 4
    load = Descriptor(Operation.LOAD, output_pixels=10, output_width=5, output_pixel_words=3)
    assert operation_cycles(SMALL, load) == 2 * 2 * 3
    store = Descriptor(Operation.STORE, output_pixels=10, output_width=10, input_pixel_words=2)
    assert operation_cycles(SMALL, store) == 3 * 2
    weights = Descriptor(Operation.WEIGHTS, parameter_rows=16, weight_words=5)
    assert operation_cycles(SMALL, weights) == 16 + 5 * SMALL.beats_per_weight_word
    assert operation_cycles(SMALL, Descriptor(Operation.NONE)) == 0


def test_products_of_activations_repeat_for_every_matrix() -> None:
    node = MatMulNode("product", ("x", "x"), "y", batch=3, rows=1, inner=4, columns=1)
    program = chain(WIDE, [vector("x", 4), vector("y", 1)], [])
    program.nodes.append(node)
    descriptor = product_descriptor(WIDE, 1, 4, 1)
    first = KernelOperation("product", Descriptor(Operation.GEMM, steps=7, output_pixels=1), first_only=True)
    program.steps.append(MatMulStep(0, [KernelOperation("product", descriptor), first]))
    cycles = program_cycles(program)
    assert cycles.layers["product"].compute == 3 * operation_cycles(WIDE, descriptor)
    assert cycles.first_sample["product"].compute == operation_cycles(WIDE, first.descriptor)
