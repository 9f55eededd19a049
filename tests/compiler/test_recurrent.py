"""RNN, GRU and LSTM step by step: products and gates on the array, and the batch in front of everything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from effort import each_once
from onnx import helper
from small_networks import WIDE, Network, compiled, largest_error, recurrent_network

from bfpga.compiler.lower import recurrent
from bfpga.compiler.options import CompileOptions
from bfpga.contract.program import ArrayNode, HostNode, MatMulNode, Program
from bfpga.program.host import host_share

#: Tables of sigmoid and tanh err by 6.7e-4, and states collect the errors of the steps.
CLOSE = 2e-2


def host_types(program: Program) -> set[str]:
    return {kind for node in program.nodes if isinstance(node, HostNode) for kind in node.operators}


def cell(kind: str, steps: int, directions: int = 1, outputs: str = "last", **attributes: object) -> Network:
    """Vectors over time, one recurrent operator, and a layer behind its states or behind the last one."""
    gates, hidden = recurrent.GATES[kind], 6
    network = Network(steps, 4)
    x = network.add("Transpose", perm=[1, 0, 2])
    tensors = [network.weights(directions, gates * hidden, 4), network.weights(directions, gates * hidden, hidden)]
    tensors.append(network.weights(directions, 2 * gates * hidden))
    names = ["states" if outputs == "all" else "", "last_state"]
    way = attributes.pop("direction", "bidirectional" if directions == 2 else "forward")
    network.nodes.append(helper.make_node(kind, [x, *tensors], names, name=kind, hidden_size=hidden, direction=way,
                                          **attributes))  # fmt: skip
    if outputs == "all":
        # As PyTorch exports a recurrent layer.
        turned = network.add("Transpose", "states", perm=[0, 2, 1, 3])
        shape = network.constant(np.array([0, 0, -1], np.int64))
        network.add("Transpose", network.add("Reshape", turned, shape), perm=[1, 0, 2])
        network.add("MatMul", network.last, network.weights(hidden * directions, 3))
        return network
    network.add("Flatten", network.add("Transpose", "last_state", perm=[1, 0, 2]))
    network.add("Gemm", network.last, network.weights(hidden * directions, 3))
    return network


@pytest.mark.parametrize(("kind", "outputs", "directions"), each_once(["RNN", "GRU", "LSTM"], ["last", "all"], [2, 1]))
def test_products_and_gates_are_layers_of_every_step(
    kind: str, outputs: str, directions: int, tmp_path: Path
) -> None:
    network = cell(kind, 4, directions, outputs)
    program = compiled(network, tmp_path)
    assert host_types(program) == set()
    assert largest_error(network, program) < CLOSE
    # Gates become weights: a start ends where they are computed, once a step.
    assert len(program.steps) <= 1 + (0 if kind == "RNN" else 4)


@pytest.mark.parametrize("attributes", [{"direction": "reverse"}, {"linear_before_reset": 1}])
def test_gates_in_other_orders(attributes: dict[str, object], tmp_path: Path) -> None:
    network = cell("GRU", 4, outputs="all", **attributes)
    program = compiled(network, tmp_path)
    assert "GRU" not in host_types(program)
    assert largest_error(network, program) < CLOSE


def test_a_convolution_in_front_needs_one_rearrangement(tmp_path: Path) -> None:
    """Steps are rows of an image: the batch is moved behind them, and back."""
    network = Network(1, 6, 4)
    network.add("Relu", network.conv(3, 1, 3, pads=[1, 1, 1, 1]))
    moved = network.add("Transpose", perm=[2, 0, 1, 3])
    rows = network.add("Reshape", moved, network.constant(np.array([6, -1, 12], np.int64)))
    weights = [network.weights(1, 5, 12), network.weights(1, 5, 5)]
    network.nodes.append(helper.make_node("RNN", [rows, *weights], ["", "state"], name="RNN", hidden_size=5))
    network.add("Squeeze", "state", network.constant(np.array([0], np.int64)))
    network.add("Gemm", network.last, network.weights(5, 3))
    program = compiled(network, tmp_path)
    assert host_types(program) <= {"Transpose", "Reshape"}
    assert largest_error(network, program) < CLOSE


def test_what_steps_are_not_written_for_stays_whole_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = compiled(cell("LSTM", 3, clip=4.0), tmp_path)
    assert "LSTM" in host_types(program)
    assert any("clipped" in note for note in program.notes)
    monkeypatch.setattr(recurrent, "MOST_STEPS", 2)
    program = compiled(cell("LSTM", 3), tmp_path)
    assert any("3 steps, 2 are written out" in note for note in program.notes)


def test_a_recipe_leaves_them_to_the_host(tmp_path: Path) -> None:
    network = recurrent_network("GRU", 8)
    assert host_share(compiled(network, tmp_path, WIDE, CompileOptions(recurrent="host"))) > 0.9
    program = compiled(network, tmp_path)
    assert host_share(program) < 0.15
    assert sum(isinstance(node, ArrayNode | MatMulNode) for node in program.nodes) > 28 * 3
