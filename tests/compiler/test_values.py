"""Values of the float network: captured in one pass over the calibration samples, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_networks import Network, float_outputs

from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.numbers import measurements, values
from bfpga.compiler.numbers.measurements import Measurements
from bfpga.compiler.read.importer import Graph
from bfpga.compiler.read.network import read_network


@dataclass
class Kept:
    """A reduction that keeps what it is given."""

    names: list[str]
    samples: int
    parts: list[dict[str, np.ndarray]] = field(default_factory=list)

    def add(self, values: Mapping[str, np.ndarray]) -> None:
        self.parts.append(dict(values))

    def whole(self, name: str) -> np.ndarray:
        return np.concatenate([part[name] for part in self.parts])


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """For each session of ONNX Runtime that captures values: how many samples each run of it took."""
    found: list[list[int]] = []
    real = values.session

    class Counted:
        def __init__(self, model: onnx.ModelProto) -> None:
            self.session, self.taken = real(model), []
            found.append(self.taken)

        def run(self, names: list[str], inputs: Mapping[str, np.ndarray]) -> Any:
            self.taken.append(len(next(iter(inputs.values()))))
            return self.session.run(names, inputs)

    monkeypatch.setattr(values, "session", Counted)
    return found


def three_layers() -> Network:
    network = Network(4, 8, 8)
    for _ in range(2):
        network.add("Relu", network.conv(4, 4, 3, pads=[1, 1, 1, 1]))
    network.add("AveragePool", kernel_shape=[8, 8])
    network.conv(3, 4, 1)
    return network


def graph_of(network: Network, folder: Path) -> Graph:
    path = folder / "small.onnx"
    path.write_bytes(network.model().SerializeToString())
    return read_network(path).graph()


def test_every_reduction_gets_its_values_of_its_first_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: list[list[int]]
) -> None:
    network = three_layers()
    samples = network.samples(11)
    first, second = Kept(["x", "v0"], 3), Kept(["v1", "v4"], 9)
    monkeypatch.setattr(values, "CAPTURED_VALUES", 5 * (3 * 256 + 4))
    values.capture(graph_of(network, tmp_path), samples, [first, second])
    assert runs == [[1, 5, 3]]
    assert [len(part["v4"]) for part in second.parts] == [1, 5, 3]
    np.testing.assert_array_equal(first.whole("x"), samples["x"][:3])
    for kept, name in ((first, "v0"), (second, "v1"), (second, "v4")):
        (expected,) = float_outputs(network, {"x": samples["x"][: kept.samples]}, (name,))
        np.testing.assert_allclose(kept.whole(name), expected, atol=1e-5)


def test_what_nobody_wants_is_not_run(tmp_path: Path, runs: list[list[int]]) -> None:
    values.capture(graph_of(three_layers(), tmp_path), three_layers().samples(4), [Kept([], 4)])
    assert runs == []


def test_a_network_is_compiled_with_one_pass_over_its_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: list[list[int]]
) -> None:
    """Narrow mantissas, and an array that skips zeros of activations: every stage wants something of the values."""
    found: list[Measurements] = []
    real = measurements.measure
    monkeypatch.setattr("bfpga.compiler.compiler.measure", lambda *parts: found.append(real(*parts)) or found[-1])
    path = tmp_path / "small.onnx"
    path.write_bytes(three_layers().model().SerializeToString())
    compile_network(path, load_accelerator("pynq_z2_sparse"), three_layers().samples(40))
    (measured,) = found
    assert None not in (measured.ranges, measured.moments, measured.means, measured.inputs)
    assert [sum(taken) for taken in runs] == [40]
