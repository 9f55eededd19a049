"""Weights of a skip array that stay for the strips that read them (issue 16, item 1): places by start, and plans."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.schedule.held_weights import SharedMemory, held_weights
from bfpga.compiler.schedule.plan_choice import KINDS, choose_plan
from bfpga.compiler.schedule.weight_plan import NodeWeights, setup_launch, shared_memory
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.program import ArrayNode, KernelOperation, LaunchStep, Window

SHARED = SharedMemory(10, 4, 110, 60)
SKIPPING = load_accelerator("pynq_z2_zero_skip").config


def pieces(sizes: Sequence[tuple[int, int]], order: Sequence[int]) -> list[KernelOperation]:
    """A start in which every GEMM brings its piece, all to the begin of the memory. sizes: words and rows of each."""
    result = []
    for number in order:
        words, rows = sizes[number]
        brings = Descriptor(
            Operation.WEIGHTS, weight_base=10, weight_words=words, parameter_base=4, parameter_rows=rows
        )
        flags = int(Flag.NONE if words else Flag.STREAM_WEIGHTS)
        reads = Descriptor(
            Operation.GEMM, flags, weight_base=10, entry_words=words, parameter_base=4, output_rows=rows
        )
        result.append(KernelOperation(f"layer {number}", brings, weights=bytes([number])))
        result.append(KernelOperation(f"layer {number}", reads))
    return result


def brought(operations: Sequence[KernelOperation]) -> list[str]:
    return [item.layer for item in operations if item.descriptor.operation == Operation.WEIGHTS]


def check(operations: Sequence[KernelOperation], found: Sequence[KernelOperation]) -> None:
    """Whether every GEMM is there in its place of the order and finds all of its words and rows."""
    words, rows = np.full(SHARED.words, -1), np.full(SHARED.rows, -1)
    gemms = [[item for item in order if item.descriptor.operation == Operation.GEMM] for order in (operations, found)]
    assert [item.layer for item in gemms[0]] == [item.layer for item in gemms[1]]
    for item in found:
        d, piece = item.descriptor, int(item.layer.split()[1])
        size = d.weight_words if d.operation == Operation.WEIGHTS else d.entry_words
        count = d.parameter_rows if d.operation == Operation.WEIGHTS else d.output_rows
        parts = words[d.weight_base : d.weight_base + size], rows[d.parameter_base : d.parameter_base + count]
        assert (len(parts[0]), len(parts[1])) == (size, count)
        assert d.weight_base >= SHARED.word or not size
        assert d.parameter_base >= SHARED.row
        for part in parts:
            if d.operation == Operation.WEIGHTS:
                part[:] = piece
            assert (part == piece).all()


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), min_size=1, max_size=5),
    st.lists(st.integers(0, 100), min_size=1, max_size=20),
)
def test_every_operation_finds_its_weights_and_none_is_brought_more_often(
    sizes: list[tuple[int, int]], drawn: list[int]
) -> None:
    """Pieces of any sizes, also of parameters alone, in any order."""
    operations = pieces(sizes, [number % len(sizes) for number in drawn])
    for found in held_weights(operations, SHARED):
        check(operations, found)
        assert len(brought(found)) <= len(brought(operations))


def test_pieces_that_fit_are_brought_once() -> None:
    """Three layers of a chain, strip after strip; a fourth that does not fit takes the place of one of them alone."""
    operations = pieces([(30, 8)] * 3, [0, 1, 2] * 4)
    for found in held_weights(operations, SHARED):
        assert brought(found) == ["layer 0", "layer 1", "layer 2"]
    operations = pieces([(30, 8)] * 4, [0, 1, 2, 3] * 4)
    counts = [len(brought(found)) for found in held_weights(operations, SHARED)]
    assert min(counts) <= 4 + 3 * 2
    assert len(set(counts)) > 1  # room for what comes next costs a piece that would have stayed


def test_weights_that_not_every_sample_brings_stay_as_they_are() -> None:
    operations = pieces([(30, 8)], [0, 0])
    operations[0].first_only = True
    assert not list(held_weights(operations, SHARED))
    assert not list(held_weights(pieces([(30, 8)], [0, 0])[1::2], SHARED))


def layers(count: int) -> list[ArrayNode]:
    """Layers of 3 x 3 x 32 -> 64: 1,156 entry words each."""
    rng = np.random.default_rng(0)
    window = Window(3, 3, output_height=8, output_width=8)
    return [
        ArrayNode(f"layer {n}", "gemm", ("x",), "y", 64, window,
                  weights=rng.integers(1, 9, (64, 3, 3, 32)).astype(np.int32))
        for n in range(count)
    ]  # fmt: skip


def test_the_plan_is_the_one_whose_starts_take_fewest_clocks() -> None:
    """All plans are tried where not all entries fit; one stays where they do, and on arrays with plain weights."""
    nodes, clocks = layers(5), (3000, 2000, 1000)
    tried: list[dict[str, NodeWeights]] = []

    def starts(plans: dict[str, NodeWeights]) -> list[LaunchStep]:
        tried.append(plans)
        descriptor = Descriptor(Operation.WEIGHTS, weight_words=clocks[len(tried) - 1])
        return [LaunchStep([KernelOperation("layer 0", descriptor)])]

    assert choose_plan(nodes, SKIPPING, (0, 0), starts) is tried[2]
    assert len(tried) == len(KINDS)
    assert any(plan.mode == "resident" for plan in tried[0].values())
    assert all(plan.mode == "load" for plan in tried[2].values())
    shared = shared_memory(tried[0], SKIPPING)
    stays = setup_launch(nodes, tried[0], SKIPPING).operations
    assert shared is not None
    assert shared.word == sum(item.descriptor.weight_words for item in stays) > 0
    tried.clear()
    choose_plan(layers(1), SKIPPING, (0, 0), starts)
    dense = load_accelerator("pynq_z2_dense").config
    assert shared_memory(choose_plan(nodes, dense, (0, 0), starts), dense) is None
    assert not tried
