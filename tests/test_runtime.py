"""Run, compare, evaluate: batches are joined, the first mismatch is named, accuracy is measured against float."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from array_layers import PlainKernel
from onnx import TensorProto, helper, numpy_helper

import bfpga
from bfpga.compiler.options import CompileOptions
from bfpga.contract.program import Program
from bfpga.devices.base import DeviceResult
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice
from bfpga.devices.reference import cosines, sqnr_db, worst_sqnr_db
from bfpga.errors import DataError, DeviceError, ModelError


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of two layers and a softmax that the host computes."""
    rng = np.random.default_rng(0)
    constants = {
        "w1": rng.normal(0, 0.4, (6, 8)), "b1": rng.normal(0, 0.1, 8),
        "w2": rng.normal(0, 0.4, (8, 3)), "b2": np.zeros(3),
    }  # fmt: skip
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("Gemm", ["active", "w2", "b2"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(70, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def program(model: Path, samples: np.ndarray) -> Program:
    return bfpga.compile(model, "tiny", samples[:32])


class Faulty:
    """A kernel device with one wrong mantissa in one tensor of the second sample."""

    name = "faulty"

    def __init__(self, program: Program, tensor: str) -> None:
        self.device = KernelDevice(program, PlainKernel(program.config), "plain")
        self.tensor = tensor

    def run(self, inputs: Mapping[str, Any], *, trace: bool = False) -> DeviceResult:
        result = self.device.run(inputs, trace=trace)
        result.tensors[self.tensor].mantissa[1, 0, 0, 2] += 1
        return result

    def reset(self) -> None:
        self.device.reset()

    def close(self) -> None:
        self.device.close()


def test_emulator_and_a_kernel_of_plain_integers_agree(program: Program, samples: np.ndarray) -> None:
    """Architecture 3.2: tensors, outputs, counters and clocks."""
    device = KernelDevice(program, PlainKernel(program.config), "plain")
    report = bfpga.compare(program, samples[:5], device)
    assert report.mismatch is None
    assert report.bit_exact
    assert report.tensors == 2
    assert report.expected.cycles == report.got.cycles > 0
    assert report.to_dict()["bit_exact"] is True


@pytest.mark.parametrize("tensor", ["active", "scores"])
def test_the_first_mismatch_is_named(program: Program, samples: np.ndarray, tensor: str) -> None:
    report = bfpga.compare(program, samples[:3], Faulty(program, tensor))
    mismatch = report.mismatch
    assert mismatch is not None
    assert (mismatch.kind, mismatch.tensor, mismatch.index) == ("mantissa", tensor, (1, 0, 0, 2))
    assert mismatch.got == mismatch.expected + 1
    assert tensor in str(mismatch)
    assert not report.bit_exact
    assert report.to_dict()["mismatch"]["index"] == (1, 0, 0, 2)


def test_outputs_counters_and_clocks_are_compared_too(program: Program, samples: np.ndarray) -> None:
    expected = Emulator(program).run({"x": samples[:2]})
    for kind in ("output", "counters", "cycles"):
        got = Emulator(program).run({"x": samples[:2]})
        assert first_mismatch(program, expected, got) is None
        if kind == "output":
            got.outputs["y"] = got.outputs["y"] + np.float32(1e-3)
        elif kind == "counters":
            assert got.layers[0].counters is not None
            got.layers[0].counters.overflows += 1
        else:
            got.layers[0].cycles += 1
        found = first_mismatch(program, expected, got)
        assert found is not None
        assert found.kind == kind


def test_batches_are_joined(program: Program, samples: np.ndarray) -> None:
    done: list[tuple[int, int]] = []
    whole = bfpga.run(program, samples, trace=True)
    parts = bfpga.run(program, samples, batch=32, trace=True, progress=lambda now, of: done.append((now, of)))
    assert done == [(32, 70), (64, 70), (70, 70)]
    assert parts.samples == 70
    assert (parts.outputs["y"] == whole.outputs["y"]).all()
    assert (parts.tensors["active"].mantissa == whole.tensors["active"].mantissa).all()
    assert parts.cycles == whole.cycles
    assert parts.layers == whole.layers


def test_evaluation_measures_both_networks(program: Program, model: Path, samples: np.ndarray) -> None:
    floats = bfpga.evaluate(program, model, samples).float_outputs["y"]
    labels = floats.argmax(axis=1)
    result = bfpga.evaluate(program, model, samples, labels, batch=16)
    assert result.float_accuracy == 1.0
    assert result.accuracy == result.agreement > 0.9
    assert result.cosine > 0.999
    assert list(result.sqnr_db) == ["active", "scores"]
    assert min(result.sqnr_db.values()) > 25
    assert result.samples == 70


def test_an_evaluation_tells_how_far_it_is(
    program: Program, model: Path, samples: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large networks have small batches; the float network and the traced samples count too."""
    macs = sum(layer.macs for layer in bfpga.run(program, samples[:1]).layers)
    monkeypatch.setattr("bfpga.runtime.TRACED_MACS", 30 * macs)
    done: list[tuple[int, int]] = []
    bfpga.evaluate(program, model, samples, traced=10, progress=lambda now, of: done.append((now, of)))
    assert done == [(now, 150) for now in (30, 60, 70, 100, 130, 140, 150)]


def test_evaluation_without_labels_has_no_accuracy(program: Program, model: Path, samples: np.ndarray) -> None:
    result = bfpga.evaluate(program, model, samples[:4])
    assert result.accuracy is None
    assert result.float_accuracy is None


def test_samples_are_flattened_for_a_program_of_vectors(program: Program, samples: np.ndarray) -> None:
    """Samples (N, 1, 2, 3) serve an input (N, 6)."""
    flat = bfpga.run(program, samples).outputs["y"]
    assert (bfpga.run(program, samples.reshape(70, 1, 2, 3)).outputs["y"] == flat).all()


@pytest.mark.parametrize("x", [np.zeros((2, 5)), np.zeros(6), np.zeros((0, 6)), np.zeros(())])
def test_samples_of_another_shape_are_refused(program: Program, x: np.ndarray) -> None:
    with pytest.raises(DataError):
        bfpga.run(program, x)


def test_unknown_devices_are_named(program: Program) -> None:
    with pytest.raises(DeviceError, match=r"'fpga'.*emulator, csim"):
        bfpga.open_device("fpga", program)


def test_a_float_network_that_does_not_run_is_named(program: Program, samples: np.ndarray, tmp_path: Path) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"\x08\x07")
    with pytest.raises(ModelError, match=r"bad\.onnx"):
        bfpga.evaluate(program, bad, samples)


def test_signal_to_noise_ratio() -> None:
    assert sqnr_db(np.array([3.0, 4.0]), np.array([3.0, 4.5])) == pytest.approx(20.0)
    assert sqnr_db(np.ones(2), np.ones(2)) == float("inf")
    assert sqnr_db(np.zeros(2), np.ones(2)) == float("-inf")


def test_cosines_of_zero_samples() -> None:
    a = np.array([[1.0, 0], [0, 0], [0, 0]])
    b = np.array([[2.0, 0], [0, 0], [1, 0]])
    assert cosines(a, b).tolist() == [1.0, 1.0, 0.0]


def test_importing_the_package_loads_nothing() -> None:
    """Start-up: numpy, compiler and ONNX come when they are used."""
    script = "import sys, bfpga; print(sorted({'numpy', 'onnx', 'onnxruntime', 'pydantic'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="nothing"):
        _ = bfpga.nothing


NETWORK_RUN = """
import os, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "onnxruntime":
            print(os.environ.get("ORT_DISABLE_TELEMETRY"))
sys.meta_path.insert(0, Watch())
import bfpga, numpy
x = numpy.ones((1, 6), numpy.float32)
bfpga.run(bfpga.compile(sys.argv[1], "tiny", x), x)
assert "onnxruntime" in sys.modules
"""


def test_onnx_runtime_is_told_to_send_nothing_before_it_is_imported(model: Path, tmp_path: Path) -> None:
    """A fresh interpreter; release 1.32 writes a device number and a data base when it is imported."""
    environment = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "BFPGA_NATIVE": "numpy"}
    command = [sys.executable, "-c", NETWORK_RUN, str(model)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert result.stdout.split() == ["1"]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_worst_sample_shows_what_the_mean_hides() -> None:
    """One of 100 samples loses half of its signal; one without a signal does not count."""
    wanted, found = np.full((100, 4), 3.0), np.full((100, 4), 3.01)
    wanted[7], found[7] = 6.0, 3.0
    wanted[9] = 0
    assert sqnr_db(wanted, found) > 14
    assert worst_sqnr_db(wanted, found) == pytest.approx(6.02, abs=0.01)
    assert worst_sqnr_db(wanted, wanted) == float("inf")


def test_evaluation_counts_saturated_samples_beyond_the_first(model: Path, samples: np.ndarray) -> None:
    """Only the last sample, which calibration did not see, saturates."""
    options = CompileOptions(exponents="max", fill_mantissas=False)  # a factor would leave the layer more head room
    program = bfpga.compile(model, "tiny", samples, options)
    large = samples.copy()
    large[-1] *= 50
    result = bfpga.evaluate(program, model, large, traced=35)
    counters = result.layers[0].counters
    assert result.traced == 35
    assert counters is not None
    assert counters.saturated_samples == 1
    assert counters.overflows == counters.most_saturated > 0
    assert result.worst_sqnr_db["active"] < result.sqnr_db["active"] + 1e-9
