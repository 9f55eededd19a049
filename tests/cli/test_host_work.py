"""Every report tells the host's share, its time here and on the board, and whether a latency includes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_networks import Network, recurrent_network

from bfpga.api import figures
from bfpga.api.host_rows import operator_rows
from bfpga.cli import main
from bfpga.contract.program import HostNode
from bfpga.devices.host_time import cpu_name
from bfpga.errors import ProgramError

ROOT = Path(__file__).parents[2]
ACCELERATOR = ROOT / "configs/accelerators/tiny.yaml"
KEYS = {
    "host_share", "host_operations", "host_seconds", "host_cpu", "host_library", "host_board_seconds",
    "host_board_cpu", "host_nodes", "driver_board_seconds", "driver_samples_per_second", "driver_seconds", "driver_cpu",
    "latency_s", "latency_array_s", "latency_includes_host", "images_per_second",
}  # fmt: skip


def commands(model: Path, accelerator: str, data: Path, folder: Path) -> dict[str, list[str]]:
    """The four commands that tell a latency."""
    return {
        "estimate": ["estimate", accelerator, str(model)],
        "compile": ["compile", str(model), "-a", accelerator, "-o", str(folder / "net.bfpga")],
        "run": ["run", str(model), "-a", accelerator, "-d", str(data)],
        "evaluate": ["evaluate", str(model), "-a", accelerator, "-d", str(data)],
    }


def report(command: list[str], folder: Path) -> dict[str, Any]:
    target = folder / "report.json"
    assert main([*command, "--json", str(target)]) == 0
    content = dict(json.loads(target.read_text()))
    return dict(content["program"]) if command[0] == "estimate" else content


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A recurrent network and samples for it."""
    model, data = tmp_path / "rows.onnx", tmp_path / "rows.npz"
    network = recurrent_network("GRU", 128, clip=100.0)
    model.write_bytes(network.model().SerializeToString())
    np.savez(data, x=network.samples(4)["x"], y=np.arange(4))
    return model, data


@pytest.mark.parametrize("command", ["estimate", "compile", "run", "evaluate"])
def test_the_hosts_work_is_in_every_report(
    command: str, files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A network that is 99.9 % the host's was promised the array's images a second."""
    content = report(commands(files[0], "tiny", files[1], tmp_path)[command], tmp_path)
    assert set(content) >= KEYS
    assert content["host_share"] > 0.99
    assert content["host_operations"] > 3_000_000
    assert content["host_seconds"] > 0
    assert content["host_cpu"] == cpu_name()
    assert content["host_board_cpu"] == "Cortex-A9 at 650 MHz"
    assert content["host_board_seconds"] > content["host_operations"] / 1e9
    assert content["latency_includes_host"] is True
    assert content["latency_s"] == pytest.approx(content["latency_array_s"] + content["host_board_seconds"])
    assert content["images_per_second"] == pytest.approx(1 / content["latency_s"])
    node = next(node for node in content["host_nodes"] if "GRU" in node["operators"])
    assert 0.99 * content["host_operations"] < node["operations"] <= content["host_operations"]
    assert 0 < node["seconds"] <= content["host_seconds"]
    assert 0 < node["board_seconds"] <= content["host_board_seconds"]
    text = capsys.readouterr().out
    assert f"host: {100 * content['host_share']:.2f} % of the operations ({content['host_operations']:,})" in text
    assert f"on {cpu_name()} with ONNX Runtime (measured)" in text
    assert "on one Cortex-A9 at 650 MHz (estimated)" in text
    for line in text.splitlines():
        if "images/s" in line or ("cycles" in line and " ms" in line):
            assert "array and host" in line or "the array alone" in line


@pytest.mark.parametrize("command", ["estimate", "compile", "run", "evaluate"])
def test_each_operator_of_the_host_has_its_time(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gate that a dense accelerator does not know, between convolutions, and a Softmax at the end."""
    network = Network(3, 8, 8)
    network.add("Mul", network.add("Tanh", network.conv(4, 3, 3)), network.add("Tanh", "v1"))
    network.conv(5, 4, 3)
    network.add("Softmax", network.add("Flatten", network.last), axis=1)
    model, data = tmp_path / "net.onnx", tmp_path / "net.npz"
    model.write_bytes(network.model().SerializeToString())
    np.savez(data, x=network.samples(4)["x"], y=np.arange(4))
    content = report(commands(model, "pynq_z2_mixed", data, tmp_path)[command], tmp_path)
    nodes = content["host_nodes"]
    each = [(row["operator"], row["count"], row["operations"]) for node in nodes for row in node["each"]]
    elements = 4 * 6 * 6
    assert each[:2] == [("Tanh", 2, 2 * 24 * elements), ("Mul", 1, elements)]
    assert each[-1][:2] == ("Softmax", 1)
    for node in nodes:
        assert sum(row["operations"] for row in node["each"]) == node["operations"]
        assert sum(row["board_seconds"] for row in node["each"]) == pytest.approx(node["board_seconds"])
    text = capsys.readouterr().out
    assert "Left to the host, one sample" in text
    line = next(line for line in text.splitlines() if "2 Tanh" in line)
    assert f"{1e6 * nodes[0]['each'][0]['board_seconds']:.1f}" in line
    assert f"{1e6 * nodes[0]['seconds']:.1f}" in line


def test_a_host_node_that_cannot_be_counted_has_one_line() -> None:
    """The model of a program file may be any bytes."""
    node = HostNode("host_0", b"\x08nonsense", ("x",), ("y",), ("Mul", "Mul", "Erf"), 700)
    assert [(row.operator, row.operations) for row in operator_rows(node, None)] == [("Mul, Erf", 700)]


@pytest.mark.parametrize("command", ["estimate", "compile", "run", "evaluate"])
def test_networks_of_the_array_alone_say_nothing_of_a_host(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = ROOT / "examples/models/mlp_digits.onnx", ROOT / "examples/models/digits_test.npz"
    content = report(commands(model, "tiny", data, tmp_path)[command], tmp_path)
    assert (content["host_share"], content["host_seconds"], content["host_board_seconds"]) == (0, 0, 0)
    assert content["host_nodes"] == []
    assert content["latency_s"] == content["latency_array_s"] > 0
    assert content["latency_includes_host"] is True
    text = capsys.readouterr().out
    assert "host:" not in text.replace("host: 0.00 % of operations", "")
    assert "array alone" not in text


def test_a_board_without_figures_of_its_cores_leaves_the_latency_open(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (ROOT / "configs/boards/pynq_z2.yaml").read_text().replace("name: pynq_z2", "name: own").splitlines()
    start = lines.index("arm_cores:")
    end = next(index for index in range(start + 1, len(lines)) if not lines[index].startswith(" "))
    (tmp_path / "own.yaml").write_text("\n".join(lines[:start] + lines[end:]) + "\n")
    (tmp_path / "mine.yaml").write_text(ACCELERATOR.read_text().replace("board: pynq_z2", "board: own.yaml"))
    content = report(["estimate", str(tmp_path / "mine.yaml"), str(files[0])], tmp_path)
    assert content["latency_includes_host"] is False
    assert content["host_board_seconds"] is None
    assert content["host_board_cpu"] is None
    assert content["images_per_second"] is None
    assert content["latency_s"] == content["latency_array_s"]
    assert content["host_seconds"] > 0
    assert "the board's file has no `arm_cores`" in capsys.readouterr().out


def test_a_host_that_cannot_be_measured_ends_no_command(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(program: object) -> None:
        raise ProgramError("host node host_0 needs the operator GRU")

    monkeypatch.setattr(figures, "measure_host", refuse)
    content = report(["estimate", "tiny", str(files[0])], tmp_path)
    assert content["host_seconds"] is None
    assert content["host_cpu"] is None
    assert content["host_board_seconds"] > 0
    said = capsys.readouterr()
    assert "not measured: host node host_0 needs the operator GRU" in said.err
    assert "(measured)" not in said.out


def test_a_program_file_holds_no_measured_time(tmp_path: Path) -> None:
    """The same network gives the same file, however long the host took meanwhile."""
    network = Network(8)
    network.add("Gemm", "x", network.weights(8, 8), transB=1)
    network.add("Elu")
    model = tmp_path / "net.onnx"
    model.write_bytes(network.model().SerializeToString())
    programs = [tmp_path / "first.bfpga", tmp_path / "second.bfpga"]
    for program in programs:
        assert main(["compile", str(model), "-a", "tiny", "-o", str(program)]) == 0
    assert programs[0].read_bytes() == programs[1].read_bytes()
