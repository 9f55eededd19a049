"""Layers computed depth first, and layers in two parts: same bits, no row twice, nothing moved that is used at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_pairs import small
from memory_walk import MemoryWalk, check_coverage
from small_networks import Network, compiled, largest_error

from bfpga.compiler.schedule import chain_choice
from bfpga.compiler.schedule import schedule as schedule_module
from bfpga.compiler.schedule.depth_first import Chain, Heights, rows_of_strips
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, KernelOperation, LaunchStep, Program, TensorSpec, Window
from bfpga.devices.csim import CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.engines.kernel.regions import Region
from bfpga.program.cycles import program_cycles

#: The kernel of other tests: none is compiled for these.
KERNEL = small(position_bins=16, wide_words=256)


def fire_network() -> Network:
    """A layer and pooling that overlaps, then squeezed and expanded maps twice, with pooling behind: 41 x 35 pixels."""
    network = Network(3, 41, 35)
    network.conv(8, 3, 3, strides=[2, 2], pads=[1, 1, 1, 1])
    squeezed, channels = network.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1]), 8
    for narrow, wide in ((4, 12), (4, 16)):
        squeezed = network.conv(narrow, channels, 1, source=squeezed)
        parts = network.conv(wide, narrow, 1, source=squeezed), network.conv(
            wide, narrow, 3, source=squeezed, pads=[1, 1, 1, 1]
        )
        squeezed, channels = network.add("Concat", *parts, axis=1), 2 * wide
    network.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2])
    network.conv(5, channels, 1)
    return network


def operations(program: Program) -> Iterator[KernelOperation]:
    for step in program.steps:
        if isinstance(step, LaunchStep):
            yield from step.operations


def clocks(program: Program) -> int:
    cycles = program_cycles(program)
    return cycles.scheduled() or cycles.dma_inclusive


@pytest.fixture(scope="module")
def fire(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The network whose maps do not fit."""
    return compiled(fire_network(), tmp_path_factory.mktemp("fire"), KERNEL)


def test_maps_between_layers_computed_depth_first_never_leave_the_chip(fire: Program) -> None:
    """Every word is read where it was written; every row is computed once, by strips that turn round too."""
    MemoryWalk(fire).run()
    check_coverage(fire)
    assert largest_error(fire_network(), fire) < 0.35
    moved = {item.transfer.tensor for item in operations(fire) if item.transfer is not None}
    made = {node.output: node for node in fire.nodes if isinstance(node, ArrayNode)}
    inside = [name for name in made if name not in moved]
    room = fire.config.activation_words * fire.config.banks * fire.config.lanes
    sizes = [fire.tensors[name].height * fire.tensors[name].width * fire.tensors[name].channels for name in inside]
    assert max(sizes) > room, "a map that is larger than the memory"
    assert any(item.descriptor.tap_y_word < 0 for item in operations(fire)), "no strip that goes back"


def test_depth_first_saves_clocks(fire: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_module, "best_chain", lambda *_: None)
    apart = compiled(fire_network(), tmp_path, fire.config)
    assert clocks(fire) < 0.9 * clocks(apart)


def test_chains_that_promise_too_little_are_left_out_unseen(
    fire: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The choice is that of all candidates: what a start takes at least is never more than what it takes."""
    seen: list[int] = []

    def counted(config: KernelConfig, starts: Sequence[list[KernelOperation]]) -> int:
        found = clocks_of(config, starts)
        assert least_clocks(config, starts) <= found
        seen.append(found)
        return found

    clocks_of, least_clocks = chain_choice._clocks, chain_choice._least_clocks
    monkeypatch.setattr(chain_choice, "_clocks", counted)
    compiled(fire_network(), tmp_path, fire.config)
    bounded = len(seen)
    monkeypatch.setattr(chain_choice, "_least_clocks", lambda *_: 0)
    every = compiled(fire_network(), tmp_path, fire.config)
    assert bounded < len(seen) - bounded
    assert [item.descriptor for item in operations(every)] == [item.descriptor for item in operations(fire)]


@pytest.mark.parametrize("integers", ["native", "exact"])
def test_depth_first_gives_the_bits_of_the_emulator(fire: Program, integers: Any) -> None:
    """Exact integers stop at a read that comes too early."""
    check(fire, fire_network(), integers)


def check(program: Program, network: Network, integers: Any) -> None:
    samples = network.samples(3)
    expected = Emulator(program).run(samples)
    found = StreamingDevice(program, CSimulation(program.config, integers), "csim").run(samples)
    for name, value in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[name], value)
    assert found.cycles == expected.cycles


def test_a_part_uses_the_words_of_its_rows_alone() -> None:
    config = KernelConfig(columns=3, rows=4, lanes=2)
    region = Region("x", 10, 100, 7, 5, 6, 3, 0, 2, 12)
    banks = config.banks
    for first, last in ((2, 4), (5, 6), (3, 12)):
        words = {10 + (((y - 2) * 7 + x) // banks) * 3 for y in range(first, last) for x in range(5)}
        assert region.words_of(config, first, last, read=False) == (min(words), max(words) + 3)
        behind = region.words_of(config, first, last, read=True)[1] - max(words) - 3
        assert behind == 1, "the last block of four rows reaches a word behind the pixel"
    back = replace(region, pitch=-7, origin=63)
    assert back.words_of(config, 2, 3, read=False) == region.words_of(config, 11, 12, read=False)
    assert region.words_of(config, 2, 12, read=True) == (10, 110)


def layer(name: str, source: str, height: int, kernel: int = 1, stride: int = 1, pad: int = 0) -> ArrayNode:
    window = Window(kernel, kernel, stride, stride, pad, pad, output_height=height, output_width=4)
    return ArrayNode(name, "max", (source,), f"{name}_out", 4, window)


def test_strips_of_a_chain_compute_every_row_once_and_share_one_at_most() -> None:
    tensors = {name: TensorSpec(name, height, 4, 4, None) for name, height in
               (("x", 23), ("a_out", 23), ("b_out", 11), ("c_out", 11))}  # fmt: skip
    pooled = [layer("a", "x", 23, 3, 1, 1), layer("b", "a_out", 11, 3, 2), layer("c", "b_out", 11)]
    chain = Chain(pooled, ("a_out", "b_out"), ("x",))
    strips = rows_of_strips(chain, tensors, Heights(4, 4))
    assert strips is not None
    assert [(s["a_out"].first, s["a_out"].start, s["a_out"].end) for s in strips] == [
        (0, 0, 9), (8, 9, 17), (16, 17, 23),
    ]  # fmt: skip
    assert [(s["x"].first, s["x"].end) for s in strips] == [(0, 10), (8, 18), (16, 23)]
    # A first strip that is lower needs no more rows than the others, which find the last one of it there.
    lower = rows_of_strips(chain, tensors, Heights(3, 4))
    assert lower is not None
    assert [s["a_out"].end - s["a_out"].start for s in lower] == [7, 8, 8]
    assert [(s["c_out"].start, s["c_out"].end) for s in lower] == [(0, 3), (3, 7), (7, 11)]
    wide = [layer("a", "x", 23), layer("b", "a_out", 23, 3, 1, 1)]
    tensors["b_out"] = replace(tensors["a_out"], name="b_out")
    overlapping = Chain(wide, ("a_out",), ("x",))
    assert rows_of_strips(overlapping, tensors, Heights(4, 4)) is None, "two rows would be used twice"


