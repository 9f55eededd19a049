"""Programs: what overlaps gives the bits of one operation after the other, and takes less."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_layers import PlainKernel
from memory_walk import MemoryWalk, check_coverage
from reference_array import ReferenceKernel
from small_networks import Network, attention_network, compiled, joined_network, residual_network
from watched_kernel import Watched

from bfpga.compiler.schedule.overlap import ahead, first_place, overlapped
from bfpga.compiler.schedule.weight_plan import plan_weights
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Operation
from bfpga.contract.program import ArrayNode, BlockTensor, KernelOperation, LaunchStep, MemoryUse, Program, Window
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice, make_available
from bfpga.devices.kernel_start import KernelResult
from bfpga.devices.values import Values
from bfpga.engines.kernel.cycles import operation_cycles
from bfpga.engines.kernel.order import SampleRow, in_stream
from bfpga.formats.block_format import BlockFormat
from bfpga.program.cycles import program_cycles
from bfpga.program.schedule import schedule

#: Memories so small that layers are cut into strips and their weights are loaded in pieces.
SMALL = KernelConfig(
    format=BlockFormat(mantissa_bits=8), columns=5, rows=8, lanes=2, activation_words=96, weight_words=100,
    parameter_rows=32, accumulator_bits=24,
)  # fmt: skip


class Overlapping(PlainKernel):
    """Runs each start in the order of the program, and again in the orders in which its schedule begins and ends them.

    Exponents are those of the program's order: one process keeps them.
    """

    def __init__(self, config: KernelConfig) -> None:
        super().__init__(config)
        self.kernel = Watched(config)
        self.others = [ReferenceKernel(config) for _ in range(2)]
        for other in self.others:
            other.memory = defaultdict(lambda: [0] * config.lanes)
        self.moved = 0

    def run_operations(
        self,
        operations: Sequence[KernelOperation],
        tensors: Mapping[str, BlockTensor],
        sample: int = 0,
        *rest: Any,
        **named: Any,
    ) -> KernelResult:
        given = {name: BlockTensor(value.mantissa.copy(), value.exponent.copy()) for name, value in tensors.items()}
        self.kernel.before.clear()
        result = super().run_operations(operations, tensors, sample, *rest, **named)
        times = schedule(self.config, operations).operations
        for other, key in zip(self.others, ("begin", "end"), strict=True):
            found = {name: BlockTensor(value.mantissa.copy(), value.exponent.copy()) for name, value in given.items()}
            order = sorted(range(len(times)), key=lambda index, key=key: (getattr(times[index], key), index))
            self.moved += order != sorted(order)
            for index in order:
                other.exponents = dict(self.kernel.before[index])
                other._execute(operations[index], found, sample)
            for name, value in found.items():
                np.testing.assert_array_equal(value.mantissa[sample], tensors[name].mantissa[sample], err_msg=name)
        return result


def loaded_network() -> Network:
    """A chain of layers whose weights do not fit together: 6 x 5 pixels."""
    network = Network(4, 6, 5)
    for inputs, outputs in ((4, 8), (8, 12), (12, 8)):
        network.add("Relu", network.conv(outputs, inputs, 3, pads=[1, 1, 1, 1]))
    network.add("Flatten", network.add("GlobalAveragePool"), axis=1)
    network.add("Gemm", network.last, network.weights(9, 8), network.weights(9), transB=1)
    return network


@pytest.mark.parametrize(
    ("build", "words", "moves"),
    [
        (residual_network, 400, True), (joined_network, 96, True), (loaded_network, 96, True),
        (loaded_network, 400, True), (attention_network, 96, False),
    ],
)  # fmt: skip
def test_what_overlaps_gives_the_bits_of_one_operation_after_the_other(
    build: Any, words: int, moves: bool, tmp_path: Path
) -> None:
    network, config = build(), replace(SMALL, activation_words=words)
    program = compiled(network, tmp_path, config)
    samples = {name: value[:1] for name, value in network.samples(2).items()}
    expected = Emulator(program, "numpy").run(samples)
    kernel = Overlapping(config)
    found = KernelDevice(program, kernel, "plain").run(samples)
    for name, value in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[name], value)
    assert found.cycles == expected.cycles
    assert bool(kernel.moved) == moves


@pytest.mark.parametrize("build", [joined_network, loaded_network])
def test_strips_beside_each_other_read_what_was_written_for_them(build: Any, tmp_path: Path) -> None:
    for words in (96, 60):
        program = compiled(build(), tmp_path, replace(SMALL, activation_words=words))
        MemoryWalk(program).run()
        check_coverage(program)


def starts(program: Program) -> list[list[KernelOperation]]:
    return [step.operations for step in program.steps if isinstance(step, LaunchStep)]


def test_a_strip_is_loaded_while_the_one_before_is_computed(tmp_path: Path) -> None:
    network = Network(16, 48, 20)
    network.conv(8, 16, 3, pads=[1, 1, 1, 1])
    program = compiled(network, tmp_path, replace(SMALL, activation_words=800))
    (operations,) = starts(program)
    kinds = [Operation(operation.descriptor.operation) for operation in operations]
    times = schedule(program.config, operations).operations
    loads = [time for time, kind in zip(times, kinds, strict=True) if kind == Operation.LOAD]
    products = [time for time, kind in zip(times, kinds, strict=True) if kind == Operation.GEMM]
    assert len(loads) > 2
    assert all(load.begin < product.end for load, product in zip(loads[1:], products, strict=False))
    single = schedule(program.config, [replace(operation, memory=None) for operation in operations])
    assert schedule(program.config, operations).clocks < single.clocks


def product(first: int, words: int, steps: int) -> KernelOperation:
    """A product of ``steps`` steps a pass that reads weights [first, first + words)."""
    descriptor = Descriptor(
        Operation.GEMM, output_pixels=100, output_rows=8, channel_words=words, weight_base=first, kernel_width=steps,
        groups=20, parameter_base=first,
    )  # fmt: skip
    return KernelOperation(f"product {first}", descriptor, memory=MemoryUse(((0, 4),), ((4, 8),)))


def fill(first: int, words: int) -> KernelOperation:
    descriptor = Descriptor(Operation.WEIGHTS, weight_base=first, weight_words=words)
    return KernelOperation(f"product {first}", descriptor)


def test_weights_move_forward_and_nothing_else_moves() -> None:
    """The third product's weights have the time of the first two; those of the last wait for its memory."""
    config = replace(SMALL, weight_words=1000)
    first, second, third, last = product(0, 10, 20), product(10, 2, 1), product(14, 600, 1), product(10, 3, 3)
    second_fill, third_fill, last_fill = fill(10, 2), fill(14, 600), fill(10, 3)
    behind = [fill(0, 10), first, second_fill, second, third_fill, third, last_fill, last]
    moved = overlapped(behind, config)
    assert [operation for operation in moved if operation in (first, second, third, last)] == [
        first, second, third, last,
    ]  # fmt: skip
    places = [moved.index(operation) for operation in (behind[0], second_fill, third_fill, last_fill)]
    assert places == sorted(places)
    assert moved.index(third_fill) < moved.index(second)
    assert moved.index(last_fill) > moved.index(second)
    clocks = [schedule(config, order, 2).clocks for order in (behind, moved)]
    assert clocks[1] < clocks[0]


def wide_network() -> Network:
    """The load takes longer than a layer: 40 x 20 pixels, of which every fourth is used."""
    network = Network(4, 40, 20)
    network.conv(6, 4, 1, strides=[4, 4])
    network.conv(8, 6, 3)
    network.conv(4, 8, 1)
    return network


@pytest.mark.parametrize("build", [loaded_network, wide_network])
def test_a_sample_is_loaded_while_the_one_before_is_computed(build: Any, tmp_path: Path) -> None:
    network, config = build(), replace(SMALL, activation_words=1000, weight_words=1000, parameter_rows=200)
    program, samples = compiled(network, tmp_path, config), 3
    (step,) = (step for step in program.steps if isinstance(step, LaunchStep))
    if build is wide_network:
        assert step.ahead > 0
        lists = [in_stream(step.operations, samples, ahead) for ahead in (0, step.ahead)]
        assert schedule(config, lists[1]).clocks < schedule(config, lists[0]).clocks
    given = {name: value[:samples] for name, value in network.samples(samples).items()}
    values = Values(program, given)
    make_available(step.operations, values)
    kernel, row = Watched(config), SampleRow.of(step.operations, first_place(step.operations, 1))
    kernel.run(program.setup.operations, {})
    previous = range(len(row.order))[row.previous]
    assert len(previous) > 1
    for number, place in row.walk(samples):
        kernel._execute(step.operations[row.order[place]], values.array, number - (place in previous))
    expected = Emulator(program, "numpy").run(given)
    for name, value in values.outputs().items():
        np.testing.assert_array_equal(value, expected.outputs[name])


def test_a_sample_is_not_loaded_over_what_the_one_before_reads() -> None:
    """Neither words nor exponent registers; with both apart it is sent behind the longest product, which hides it."""
    config = replace(SMALL, weight_words=1000)

    def start(read: tuple[int, int], slot: int) -> list[KernelOperation]:
        load = Descriptor(Operation.LOAD, output_slot=5, output_pixels=40000, output_width=40000)
        store = Descriptor(Operation.STORE, input_slot=2, output_pixels=10, output_width=10)
        products = [product(0, 10, 200 if index == 1 else 20) for index in range(6)]
        for index, item in enumerate(products):
            item.descriptor.input_slot, item.descriptor.output_slot = 5 if index == 0 else 3, 2
            item.memory = MemoryUse(((10, 20) if index == 0 else (0, 4),), ((0, 4),))
        products[3].memory, products[3].descriptor.input_slot = MemoryUse((read,), ((4, 8),)), slot
        return [
            KernelOperation("x", load, memory=MemoryUse((), ((10, 20),))), *products,
            KernelOperation("y", store, memory=MemoryUse(((4, 8),), ())),
        ]  # fmt: skip

    assert ahead(start((0, 4), 3), config) == 3  # the first product reads what was loaded
    for read, slot in (((19, 21), 3), ((0, 4), 5)):
        operations = start(read, slot)
        assert ahead(operations, config) in (0, 5, 6, 7)
        assert ahead([replace(item, memory=None) for item in operations], config) == 0


@pytest.mark.parametrize("words", [24, 40, 64, 100])
def test_pieces_of_weights_lie_beside_each_other(words: int) -> None:
    config = replace(SMALL, weight_words=words, parameter_rows=64, activation_words=4096)
    weights = np.ones((40, 1, 1, 12), np.int32)
    nodes = [
        ArrayNode(name, "gemm", ("x",), "y", 40, Window(output_height=6), weights=weights) for name in ("a", "b", "c")
    ]
    plans = plan_weights(nodes, config)
    tiles = [tile for node in nodes if plans[node.name].mode == "load" for tile in plans[node.name].tiles]
    assert len(tiles) > 2
    for tile in tiles:
        assert tile.weight_base + tile.words <= words
        assert tile.parameter_base + tile.rows <= config.parameter_rows
        assert tile.words > 0
    for first, second in pairwise(tiles):
        apart = first.weight_base + first.words <= second.weight_base
        assert apart or second.weight_base + second.words <= first.weight_base


def test_cycles_of_a_program_are_work_and_schedule(tmp_path: Path) -> None:
    program = compiled(residual_network(), tmp_path, replace(SMALL, activation_words=1000, weight_words=1000))
    (operations,) = starts(program)
    cycles = program_cycles(program)
    assert cycles.dma_inclusive == sum(operation_cycles(program.config, item.descriptor) for item in operations)
    assert cycles.schedule == schedule(program.config, operations).clocks
    # What a sample loads is sent while the one before it is computed.
    assert 0 < cycles.scheduled(5) <= schedule(program.config, operations, 5).clocks
    assert cycles.latency_s() == pytest.approx(cycles.schedule / (program.clock_mhz * 1e6))
