"""Networks of several layers on a sparse cluster and on a tile: how they flow, what is left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest
from cluster_configs import CLUSTER, CLUSTER_FILE, TILE
from small_networks import Network, compiled, float_outputs

import bfpga
from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.contract.descriptor import COMPUTING, Operation
from bfpga.contract.program import ArrayNode, Program
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.program.choices import program_operations
from bfpga.program.file import load_program, save_program
from bfpga.vendor.overlay_files import write_overlay
from bfpga.verify.check import simulation


def separable(side: int = 12) -> Network:
    """A depthwise separable layer, ReLU, pooling, and a convolution of its result."""
    network = Network(4, side, side)
    network.conv(4, 4, 3, pads=[1, 1, 1, 1], group=4)
    network.conv(6, 4, 1)
    network.add("Relu")
    network.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    network.conv(4, 6, 3, pads=[1, 1, 1, 1])
    return network


def kinds(program: Program) -> list[Operation]:
    return [item.descriptor.operation for item in program_operations(program)]


def layers(program: Program) -> list[str]:
    """The layer of each operation that computes, several operations of a layer as one."""
    found = [item.layer for item in program_operations(program) if item.descriptor.operation in COMPUTING]
    return [name for number, name in enumerate(found) if found[number - 1 : number] != [name]]


def outputs_of(program: Program, samples: dict[str, np.ndarray]) -> list[np.ndarray]:
    return list(bfpga.run(program, samples, "emulator").outputs.values())


def assert_equal(found: Program, wanted: Program, samples: dict[str, np.ndarray]) -> None:
    for values, expected in zip(*(outputs_of(each, samples) for each in (found, wanted)), strict=True):
        np.testing.assert_array_equal(values, expected)


def assert_close(program: Program, network: Network) -> None:
    """To ONNX Runtime, as close as mantissas of 8 bits are."""
    samples = network.samples(5)
    for values, exact in zip(outputs_of(program, samples), float_outputs(network, samples), strict=True):
        assert np.abs(values - exact).max() < 0.05 * np.abs(exact).max()


def test_layers_follow_each_other_in_the_memory_of_the_chip(tmp_path: Path) -> None:
    """SC R63, R121, R123, R125, R126, R132, R134, R149, R151: maps are loaded once, cut for each
    layer when it is fed, stored once.

    Results go back to where the next layer is fed from, ReLU on the way; pooling is a block behind the cluster.
    """
    network = separable()
    program = compiled(network, tmp_path, CLUSTER)
    found = [kind for kind, before in zip(kinds(program), [None, *kinds(program)], strict=False) if kind != before]
    moving = [kind for kind in found if kind != Operation.WEIGHTS]
    assert moving == [
        Operation.LOAD, Operation.GEMM, Operation.MAX, Operation.GEMM, Operation.STORE,
    ]  # fmt: skip
    assert len([kind for kind in kinds(program) if kind == Operation.LOAD]) == 1
    assert_close(program, network)


def test_layers_on_a_tile_have_functions_and_pooling_behind_them(tmp_path: Path) -> None:
    """ZS R1, R4, R17-R19, R24, R25, R27, R54: tiles, images and groups of whole layers; ReLU, then pooling.

    A map of 20 x 20 needs several tiles of 12 x 15; six kernels are two groups of four. Values of ONNX Runtime show
    whether a function or a pooling is left out.
    """
    network = separable(20)
    program = compiled(network, tmp_path, TILE)
    first = next(node for node in program.nodes if isinstance(node, ArrayNode))
    products = [item for item in program_operations(program) if item.descriptor.operation == Operation.GEMM]
    assert len([item for item in products if item.layer == first.name]) > 1
    assert Operation.MAX in kinds(program)
    assert_close(program, network)


def test_the_schedule_is_made_once_and_kept_in_the_program_file(tmp_path: Path) -> None:
    """SC R8: what is loaded, computed and stored, in which order and where; a program that was read replays it"""
    network = separable()
    program = compiled(network, tmp_path, replace(CLUSTER, activation_words=48))
    save_program(program, tmp_path / "program.bfpga")
    again = load_program(tmp_path / "program.bfpga")
    before, behind = ([item.descriptor.to_words() for item in program_operations(each)] for each in (program, again))
    assert len(program.steps) > 1
    np.testing.assert_array_equal(before, behind)
    assert_equal(again, program, network.samples(5))


def test_intermediate_maps_may_go_to_memory(tmp_path: Path) -> None:
    """SC R66, R120, R136-R138, R140, R141: of a depthwise separable layer, where the chip has no room for two maps.

    They are requantized like every result; the bits stay.
    """
    network = separable()
    wide, narrow = (compiled(network, tmp_path, replace(CLUSTER, activation_words=size)) for size in (1024, 32))
    moved = [(item.layer, item.descriptor.operation) for item in program_operations(narrow)]
    assert moved.index(("Conv_0", Operation.STORE)) < moved.index(("Conv_1", Operation.LOAD))
    assert moved.index(("Conv_1", Operation.LOAD)) < moved.index(("Conv_1", Operation.GEMM))
    assert ("Conv_0", Operation.STORE) not in [(i.layer, i.descriptor.operation) for i in program_operations(wide)]
    assert_equal(narrow, wide, network.samples(5))


def test_functions_behind_a_cluster_are_those_of_the_output_stage(tmp_path: Path) -> None:
    """SC R122: behind the last channel, in the process that writes mantissas; of C++ the same bits."""
    network = Network(4, 7, 7)
    network.add("HardSwish", network.conv(6, 4, 3, pads=[1, 1, 1, 1]))
    functions = ("none", "relu", "sigmoid", "hard_sigmoid", "hard_swish")
    program = replace(compiled(network, tmp_path, replace(CLUSTER, functions=functions)), digest="0" * 64)
    assert layers(program) == ["Conv_0"]
    assert program.notes == []
    assert_close(program, network)
    samples = network.samples(3)
    found = simulation("csim")(program).run(samples).outputs.values()
    for values, wanted in zip(found, outputs_of(program, samples), strict=True):
        np.testing.assert_array_equal(values, wanted)


@dataclass(frozen=True)
class BoardCase:
    """A program of three layers on the cluster, the overlay that runs it, samples and what they give."""

    folder: Path
    program: Program
    samples: dict[str, np.ndarray]
    wanted: list[np.ndarray]

    def check(self, device: StreamingDevice) -> None:
        found = bfpga.run(self.program, self.samples, device).outputs
        for values, expected in zip(found.values(), self.wanted, strict=True):
            np.testing.assert_array_equal(values, expected)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> BoardCase:
    pytest.importorskip("pynq")
    folder = tmp_path_factory.mktemp("board")
    (folder / "accelerator.yaml").write_text(CLUSTER_FILE)
    accelerator = load_accelerator(folder / "accelerator.yaml")
    network = separable(8)
    (folder / "network.onnx").write_bytes(network.model().SerializeToString())
    program = compile_network(folder / "network.onnx", accelerator, network.samples(4))
    write_overlay(accelerator, folder / "overlay")
    samples = network.samples(1)
    return BoardCase(folder / "overlay", program, samples, outputs_of(program, samples))


def test_many_runs_leave_no_buffer(board: BoardCase) -> None:
    """SC R3, R20, R44, R57: the driver's buffers are used again, then freed; maps, kernels and results move by DMA."""
    with bfpga.load(board.folder, "virtual") as overlay:
        device = overlay.open(board.program)
        pool = overlay.hardware.pool
        held = set()
        for _ in range(8):
            board.check(device)
            held.add(pool.held_bytes)
    assert len(held) == 1
    assert held.pop() > 0
    assert pool.held_bytes == 0


@pytest.mark.parametrize("kernels_first", [False, True])
def test_maps_and_kernels_arrive_in_either_order(
    board: BoardCase, kernels_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SC R6: whichever the driver sends first, the other one well after it"""
    with bfpga.load(board.folder, "virtual") as overlay:
        device = overlay.open(board.program)
        hardware: Any = overlay.hardware
        send_maps, send_kernels = hardware.input.begin, hardware.weights.begin
        waiting: list[Callable[[], None]] = []
        order: list[str] = []

        def maps(*arguments: Any) -> None:
            order.append("maps")
            send_maps(*arguments)

        def begin_maps(*arguments: Any) -> None:
            if kernels_first:
                waiting.append(lambda: maps(*arguments))
            else:
                maps(*arguments)

        def begin_kernels(*arguments: Any) -> None:
            if not kernels_first:
                sleep(0.02)
            order.append("kernels")
            send_kernels(*arguments)
            while waiting:
                sleep(0.02)
                waiting.pop()()

        monkeypatch.setattr(hardware.input, "begin", begin_maps)
        monkeypatch.setattr(hardware.weights, "begin", begin_kernels)
        board.check(device)
    assert order[-2:] == (["kernels", "maps"] if kernels_first else ["maps", "kernels"])
