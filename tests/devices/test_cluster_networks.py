"""Networks of several layers on the engines beside the array: how they flow, what is left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest
from engine_files import FILE
from small_networks import Network, compiled, float_outputs

import bfpga
from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import ArrayNode, LaunchStep, Program
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.program.file import load_program, save_program
from bfpga.vendor.overlay_files import write_overlay

CONFIG = SystolicConfig(
    columns=9, rows=4, lanes=2, stream_bits=64, activation_words=4096,
    beside=(ClusterNumbers(2, 2, kernel=3, kernels_in_flight=4, load_pixels=4),),
)  # fmt: skip
ON_CLUSTER = CompileOptions(engine="sparse_cluster")


def separable(side: int = 12) -> Network:
    """A depthwise separable layer, ReLU, pooling, and a convolution of its result."""
    network = Network(4, side, side)
    network.conv(4, 4, 3, pads=[1, 1, 1, 1], group=4)
    network.conv(6, 4, 1)
    network.add("Relu")
    network.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    network.conv(4, 6, 3, pads=[1, 1, 1, 1])
    return network


def operations(program: Program) -> list[Operation]:
    return [o.descriptor.operation for s in program.steps if isinstance(s, LaunchStep) for o in s.operations]


def engines(program: Program) -> list[str]:
    return [node.engine for node in program.nodes if isinstance(node, ArrayNode) and node.engine != "systolic_array"]


def outputs_of(program: Program, samples: dict[str, np.ndarray]) -> list[np.ndarray]:
    return list(bfpga.run(program, samples, "emulator").outputs.values())


def test_layers_follow_each_other_in_the_memory_of_the_chip(tmp_path: Path) -> None:
    """SC R63, R125, R126, R134, R149, R151: maps are loaded once, cut for each layer when it is fed, stored once.

    Results go back to where the next layer is fed from, ReLU on the way; pooling is a block behind the cluster.
    """
    network = separable()
    program = compiled(network, tmp_path, CONFIG, ON_CLUSTER)
    assert engines(program) == ["sparse_cluster"] * 3
    sparse = Operation.SPARSE
    assert operations(program) == [Operation.LOAD, sparse, sparse, Operation.MAX, sparse, Operation.STORE]
    array = compiled(network, tmp_path, CONFIG, CompileOptions(engine="systolic_array"))
    for found, wanted in zip(*(outputs_of(each, network.samples(5)) for each in (program, array)), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_layers_of_the_zero_skip_engine_have_functions_and_pooling_behind_them(tmp_path: Path) -> None:
    """ZS R1, R4, R17-R19, R24, R25, R27, R54: tiles, images and groups of whole layers; ReLU, then pooling.

    Tiles of 4 x 5 outputs and groups of 4 kernels, so every layer has several of each. The array has the same output
    stage, so values of ONNX Runtime show whether a function or a pooling is left out.
    """
    network = separable()
    build = ZeroSkipNumbers(4, 5, lanes=9, kernels_in_flight=4, load_pixels=4)
    config = replace(CONFIG, beside=(build,))
    program = compiled(network, tmp_path, config, CompileOptions(engine="zero_skip"))
    assert engines(program) == ["zero_skip"] * 3
    kinds = operations(program)
    assert kinds.count(Operation.ZERO_SKIP) > 3
    assert Operation.MAX in kinds
    wanted_values = float_outputs(network, network.samples(5))
    for values, exact in zip(outputs_of(program, network.samples(5)), wanted_values, strict=True):
        assert np.abs(values - exact).max() < 0.05 * np.abs(exact).max()
    array = compiled(network, tmp_path, config, CompileOptions(engine="systolic_array"))
    for found, wanted in zip(*(outputs_of(each, network.samples(5)) for each in (program, array)), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_the_schedule_is_made_once_and_kept_in_the_program_file(tmp_path: Path) -> None:
    """SC R8: what is loaded, computed and stored, in which order and where; a program that was read replays it"""
    network = separable()
    program = compiled(network, tmp_path, replace(CONFIG, activation_words=120), ON_CLUSTER)
    save_program(program, tmp_path / "program.bfpga")
    again = load_program(tmp_path / "program.bfpga")
    for before, behind in zip(program.steps, again.steps, strict=True):
        if isinstance(before, LaunchStep):
            assert isinstance(behind, LaunchStep)
            assert [each.descriptor for each in before.operations] == [each.descriptor for each in behind.operations]
    for found, wanted in zip(*(outputs_of(each, network.samples(5)) for each in (again, program)), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_intermediate_maps_may_go_to_memory(tmp_path: Path) -> None:
    """SC R66, R136-R138, R140, R141: of a depthwise separable layer, where the chip has no room for two maps.

    They are requantized like every result; the bits stay.
    """
    network = separable()
    wide = compiled(network, tmp_path, CONFIG, ON_CLUSTER)
    narrow = compiled(network, tmp_path, replace(CONFIG, activation_words=120), ON_CLUSTER)
    assert engines(narrow) == ["sparse_cluster"] * 3
    kinds = operations(narrow)
    first, second = (number for number, kind in enumerate(kinds) if kind == Operation.SPARSE and number < 5)
    assert kinds[first + 1 : second] == [Operation.STORE, Operation.LOAD]
    for found, wanted in zip(*(outputs_of(each, network.samples(5)) for each in (narrow, wide)), strict=True):
        np.testing.assert_array_equal(found, wanted)


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
    (folder / "accelerator.yaml").write_text(FILE)
    accelerator = load_accelerator(folder / "accelerator.yaml")
    network = separable(8)
    (folder / "network.onnx").write_bytes(network.model().SerializeToString())
    program = compile_network(folder / "network.onnx", accelerator, network.samples(4), ON_CLUSTER)
    assert engines(program) == ["sparse_cluster"] * 3
    write_overlay(accelerator, folder / "overlay")
    samples = network.samples(1)
    return BoardCase(folder / "overlay", program, samples, outputs_of(program, samples))


def test_a_hundred_runs_leave_no_buffer(board: BoardCase) -> None:
    """SC R3, R20, R44, R57: the driver's buffers are used again, then freed; maps, kernels and results move by DMA."""
    with bfpga.load(board.folder, "virtual") as overlay:
        device = overlay.open(board.program)
        pool = overlay._hardware.pool  # type: ignore[union-attr]
        held = set()
        for _ in range(100):
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
        hardware: Any = overlay._hardware
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
