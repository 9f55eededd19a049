"""Residual connections in the layers before them: what is fused and what is not, its bits, its values, its places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from effort import drawn, each_once
from kernel_pairs import small
from memory_walk import MemoryWalk, check_coverage
from small_networks import WIDE, Network, compiled, largest_error

from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.options import CompileOptions
from bfpga.contract.descriptor import Function, Policy
from bfpga.contract.program import ArrayNode, PolicySpec, Program
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.devices.native.library import NUMPY
from bfpga.errors import ModelError
from bfpga.program.cycles import program_cycles
from bfpga.program.listing import listing
from bfpga.verify.random_network import NetworkBuilder, schedule

PLAIN = replace(load_accelerator("pynq_z2_dense").config, residual_adds=False)
ADDING = replace(PLAIN, residual_adds=True)
#: Memories that hold no whole map of the networks here.
LITTLE = small(residual_adds=True, activation_words=160, weight_words=2000, parameter_rows=200)


def identity(relu: bool = True, turned: bool = False) -> Network:
    """A block whose input is added to the results of its second convolution: 12 x 10 pixels."""
    network = Network(3, 12, 10)
    first = network.add("Relu", network.conv(8, 3, 3, pads=[1, 1, 1, 1]))
    network.add("Relu", network.conv(8, 8, 3, pads=[1, 1, 1, 1]))
    second = network.conv(8, 8, 3, pads=[1, 1, 1, 1])
    network.add("Add", *((first, second) if turned else (second, first)))
    if relu:
        network.add("Relu")
    network.conv(5, 8, 3)
    return network


def projection() -> Network:
    """A block of half the size whose shortcut is a convolution, which comes last."""
    network = Network(3, 12, 10)
    first = network.add("Relu", network.conv(8, 3, 3, pads=[1, 1, 1, 1]))
    network.add("Relu", network.conv(12, 8, 3, strides=[2, 2], pads=[0, 0, 1, 1]))
    second = network.conv(12, 12, 3, pads=[1, 1, 1, 1])
    network.add("Relu", network.add("Add", second, network.conv(12, 8, 1, source=first, strides=[2, 2])))
    network.conv(5, 12, 3)
    return network


def of_an_input() -> Network:
    """What enters is added."""
    network = Network(6, 7, 5)
    network.add("Add", network.conv(6, 6, 3, pads=[1, 1, 1, 1]), "x")
    return network


def made_later() -> Network:
    """What is added is made by pooling after the convolution."""
    network = Network(6, 7, 5)
    first = network.add("Relu", network.conv(6, 6, 1))
    second = network.conv(6, 6, 3, source=first, pads=[1, 1, 1, 1])
    network.add("Add", second, network.add("MaxPool", first, kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
    return network


def depthwise() -> Network:
    """Channel by channel, and what it adds is its own input, of a width that is no multiple of anything."""
    network = Network(4, 13, 11)
    first = network.conv(9, 4, 3, pads=[1, 1, 1, 1])
    network.add("Relu", network.add("Add", network.conv(9, 9, 3, pads=[1, 1, 1, 1], group=9), first))
    network.conv(3, 9, 1)
    return network


def overlapping() -> Network:
    """What is added is read by a window, a row of it twice if it comes in strips."""
    network = Network(3, 12, 10)
    first = network.add("Relu", network.conv(8, 3, 1))
    network.add("Relu", network.add("Add", network.conv(8, 8, 2, pads=[0, 0, 1, 1]), first))
    network.conv(5, 8, 1)
    return network


def apart() -> Network:
    """Rows of what is added would be apart in memory, for the windows of another layer."""
    network = Network(3, 12, 5)
    first = network.add("Relu", network.conv(8, 3, 3, pads=[1, 1, 1, 1]))
    second = network.conv(8, 8, 3, pads=[1, 1, 1, 1])
    network.conv(5, 8, 3, source=network.add("Add", second, first), strides=[2, 2])
    network.add("Concat", network.last, network.conv(5, 8, 3, source=first, strides=[2, 2]), axis=1)
    return network


def dense() -> Network:
    """A fully connected layer with its input added."""
    network = Network(12)
    first = network.add("Relu", network.add("Gemm", "x", network.weights(20, 12), network.weights(20), transB=1))
    second = network.add("Gemm", first, network.weights(20, 20), network.weights(20), transB=1)
    network.add("Add", first, second)
    return network


BLOCKS = {
    "identity": identity(), "without a function": identity(relu=False), "the other way round": identity(turned=True),
    "projection": projection(), "an input": of_an_input(), "made later": made_later(), "depthwise": depthwise(),
    "overlapping": overlapping(), "apart": apart(), "fully connected": dense(),
}  # fmt: skip


def adding(program: Program) -> list[ArrayNode]:
    return [node for node in program.nodes if isinstance(node, ArrayNode) and node.adds_second]


def clocks(program: Program) -> int:
    cycles = program_cycles(program)
    return cycles.scheduled() or cycles.dma_inclusive


def sums(program: Program) -> int:
    return sum(isinstance(node, ArrayNode) and node.kind == "sum" for node in program.nodes)


def same_bits(program: Program, network: Network) -> None:
    """Engines in numpy and compiled layers agree on every tensor and counter."""
    samples = network.samples(16)
    expected = Emulator(program, NUMPY).run(samples, trace=True)
    emulator = Emulator(program, probe=False)
    assert emulator.native is not None
    assert not emulator.native.reasons
    found = emulator.run(samples, trace=True)
    assert first_mismatch(program, expected, found) is None


@pytest.mark.parametrize("name", BLOCKS)
def test_an_addition_goes_into_the_product_before_it(name: str, tmp_path: Path) -> None:
    network = BLOCKS[name]
    plain, program = (compiled(network, tmp_path, config) for config in (PLAIN, ADDING))
    assert (sums(plain), sums(program)) == (1, 0)
    (node,) = adding(program)
    assert not adding(plain)
    assert len(program.nodes) == len(plain.nodes) - 1
    assert len(program.tensors) == len(plain.tensors) - 1
    made = [*program.inputs, *(other.output for other in program.nodes if isinstance(other, ArrayNode))]
    assert made.index(node.inputs[1]) < made.index(node.output)
    MemoryWalk(program).run()
    check_coverage(program)
    same_bits(program, network)
    assert clocks(program) < clocks(plain)
    # A rounding less. Wide mantissas show that the sums are right, usual ones that none is lost.
    assert largest_error(network, compiled(network, tmp_path, replace(WIDE, residual_adds=True))) < 1e-3
    assert largest_error(network, program) <= 1.1 * largest_error(network, plain)


def test_the_function_and_the_exponent_are_those_of_the_addition(tmp_path: Path) -> None:
    plain, program = (compiled(identity(), tmp_path, config) for config in (PLAIN, ADDING))
    (node,), layer = adding(program), next(node for node in plain.nodes if getattr(node, "kind", "") == "sum")
    assert isinstance(layer, ArrayNode)
    assert (node.function, node.output) == (Function.RELU, layer.output)
    assert (node.policy.policy, node.policy.exponent) == (Policy.STATIC, layer.policy.exponent)
    assert "convolution 3x3 + add + relu" in listing(program, 300)


def test_the_later_of_two_products_adds_the_other(tmp_path: Path) -> None:
    program = compiled(projection(), tmp_path, ADDING)
    (node,) = adding(program)
    products = [other for other in program.nodes if isinstance(other, ArrayNode) and other.kind == "gemm"]
    names = [other.output for other in products]
    assert names.index(node.inputs[1]) == names.index(node.output) - 1
    assert node.weights is not None
    assert node.weights.shape[1:3] == (1, 1)


def read_twice() -> Network:
    network = identity()
    summed = next(node for node in network.nodes if node.op_type == "Add")
    network.add("Concat", network.last, network.conv(5, 8, 3, source=summed.input[0]), axis=1)
    return network


def twice_the_same() -> Network:
    network = Network(3, 6, 6)
    network.conv(8, 3, 3)
    network.add("Add", network.last, network.last)
    return network


def subtracted() -> Network:
    network = Network(6, 7, 5)
    network.add("Sub", network.conv(6, 6, 3, pads=[1, 1, 1, 1]), "x")
    return network


def with_a_function() -> Network:
    network = Network(6, 7, 5)
    network.add("Add", network.add("Relu", network.conv(6, 6, 3, pads=[1, 1, 1, 1])), "x")
    return network


def of_maxima() -> Network:
    network = Network(6, 7, 5)
    network.add("Add", network.add("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), "x")
    return network


def averaged() -> Network:
    network = Network(6, 7, 5)
    network.add("Add", network.add("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), "x")
    return network


def unaligned() -> Network:
    """The second operand is so much larger that its mantissas leave no room in the accumulators."""
    network = Network(6, 7, 5)
    tiny = network.add("Conv", "x", network.weights(6, 6, 3, 3, scale=2.0**-24), pads=[1, 1, 1, 1])
    network.add("Add", tiny, "x")
    return network


@pytest.mark.parametrize(
    "network", [read_twice(), twice_the_same(), subtracted(), with_a_function(), of_maxima(), averaged(), unaligned()],
    ids=["read twice", "twice the same", "subtracted", "with a function", "of maxima", "averaged", "unaligned"],
)  # fmt: skip
def test_what_no_product_can_add_stays_a_layer(network: Network, tmp_path: Path) -> None:
    program = compiled(network, tmp_path, ADDING)
    assert not adding(program)
    assert sums(program) >= 1


def test_results_that_leave_the_array_stay(tmp_path: Path) -> None:
    network = identity()
    summed = next(node for node in network.nodes if node.op_type == "Add")
    program = compiled(network, tmp_path, ADDING, outputs=(network.last, summed.input[0]))
    assert not adding(program)
    assert sums(program) == 1


def test_exponents_that_are_measured_need_the_layer(tmp_path: Path) -> None:
    assert not adding(compiled(identity(), tmp_path, ADDING, calibrate=False))
    assert not adding(compiled(identity(), tmp_path, ADDING, CompileOptions(policy="max")))
    (node,) = adding(compiled(identity(), tmp_path, ADDING))
    options = CompileOptions(layers={node.output: {"policy": "max"}})
    assert not adding(compiled(identity(), tmp_path, ADDING, options))


@pytest.mark.parametrize(("words", "name"), each_once([80, 100, 160, 240], list(BLOCKS)))
def test_maps_that_do_not_fit_are_added_in_strips(words: int, name: str, tmp_path: Path) -> None:
    """Strips alone and of chains of layers: every word is where it should be, each result is computed once."""
    network, config = BLOCKS[name], replace(LITTLE, activation_words=words)
    program = compiled(network, tmp_path, config)
    assert adding(program)
    MemoryWalk(program).run()
    check_coverage(program)
    same_bits(program, network)


@pytest.mark.parametrize("columns", [3, 5])
def test_random_layers_that_add_read_what_they_should(columns: int) -> None:
    """In memories that hold whole maps, strips of them, or one of the operands as a whole."""
    seen = 0
    for seed in range(drawn(180)):
        rng = np.random.default_rng([columns, seed])
        config = replace(LITTLE, columns=columns, activation_words=int(rng.integers(20, 120)))
        builder = NetworkBuilder(rng, config)
        last = builder.residual(builder.tensor(*(int(size) for size in rng.integers(3, 14, 3)), -3))
        for node in builder.nodes:
            node.policy = PolicySpec()
        try:
            program = schedule(builder, last)
        except ModelError:
            continue
        MemoryWalk(program).run()
        check_coverage(program)
        seen += len(adding(program)[0].tiles) > 1
    assert seen > 9


def test_a_layer_that_memory_does_not_hold_with_what_it_adds_is_compiled_without(tmp_path: Path) -> None:
    """Two rows and one of results take all words, as three rows of an addition would."""
    network = Network(3, 6, 7)
    first = network.add("Relu", network.conv(8, 3, 1))
    second = network.conv(8, 8, 2, source=network.add("Relu", network.conv(8, 8, 1)), pads=[0, 0, 1, 1])
    network.add("Add", first, second)
    program = compiled(network, tmp_path, replace(LITTLE, activation_words=24))
    (note,) = program.notes
    assert note.endswith(f"do not hold a row of {first}, which it adds, beside the others: compiled as without "
                         "residual_adds")  # fmt: skip
    assert (sums(program), adding(program)) == (1, [])
    assert program.config.residual_adds
    MemoryWalk(program).run()
