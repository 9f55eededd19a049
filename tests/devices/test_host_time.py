"""How long this machine takes for the operators of the host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from small_networks import WIDE, Network, attention_network, compiled

from bfpga.compiler.options import CompileOptions
from bfpga.contract.program import HostNode, Program
from bfpga.devices import host_time
from bfpga.devices.host import HostArray, HostFunction, host_function
from bfpga.devices.host_time import measure_host
from bfpga.errors import ProgramError
from bfpga.program.host import host_nodes


def with_elu(folder: Path, options: CompileOptions | None = None) -> Program:
    network = Network(16)
    network.add("Gemm", "x", network.weights(16, 16), transB=1)
    network.add("Elu")
    network.add("Gemm", network.last, network.weights(4, 16), transB=1)
    return compiled(network, folder, WIDE, options)


def test_every_host_node_is_measured_with_values_of_its_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Networks with the host before, between and behind products of activations and layers of the array."""
    shapes: dict[str, tuple[int, ...]] = {}

    def noting(node: HostNode) -> HostFunction:
        function = host_function(node)

        def run(values: Mapping[str, HostArray]) -> dict[str, HostArray]:
            shapes.update({name: value.shape for name, value in values.items()})
            return function(values)

        return run

    monkeypatch.setattr(host_time, "host_function", noting)
    program = compiled(attention_network(), tmp_path)
    measured = measure_host(program)
    assert list(measured.nodes) == [node.name for node in host_nodes(program)] != []
    assert all(0 < seconds < 1 for seconds in measured.nodes.values())
    assert measured.seconds == sum(measured.nodes.values())
    for node in host_nodes(program):
        for name in node.inputs:
            assert shapes[name] == (1, *(program.tensors[name].onnx_shape or ())), name


def test_what_cannot_be_run_here_is_a_program_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = with_elu(tmp_path)
    monkeypatch.setattr("bfpga.devices.host.onnx_runtime_installed", lambda: False)
    with pytest.raises(ProgramError, match="Elu"):
        measure_host(program)
    monkeypatch.undo()
    host_nodes(program)[0].flops = host_time.LARGEST + 1
    with pytest.raises(ProgramError, match="takes 100,000,000,001 operations a sample"):
        measure_host(program)
    host_nodes(program)[0].flops = host_time.LARGEST
    host_nodes(program)[0].model = b"\x08nonsense"
    with pytest.raises(ProgramError, match=r"host_0 .*cannot be computed on the host"):
        measure_host(program)
