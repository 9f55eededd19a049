"""Which array of a kernel with two computes a layer: for all samples, or for each by a count of its input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from changed_kernels import changed
from small_networks import Network
from two_arrays import TWO_ARRAYS, WITH_TWO_ARRAYS

from bfpga.compiler.compiler import compile_network
from bfpga.compiler.dispatch.two_arrays import ArrayClocks
from bfpga.compiler.options import CompileOptions, LayerOptions
from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.descriptor import COMPUTING, Flag, Operation
from bfpga.contract.predicates import counted_in, predicate_of
from bfpga.contract.program import ArrayNode, Program
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.csim import CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.engines.skip_array.two_arrays import may_choose, on_other_array, on_skip_array
from bfpga.errors import ConfigurationError
from bfpga.program.choices import program_operations
from bfpga.verify.check import simulation

Samples = npt.NDArray[np.float32]
MAJORITY = CompileOptions(dispatch="majority")
#: A threshold between the counts of the samples below.
BAND = CompileOptions(dispatch="band", band_dense=60, band_sparse=65)


def network() -> Network:
    """Two convolutions whose values in between are rectified."""
    layers = Network(4, 6, 6)
    layers.add("Relu", layers.conv(8, 4, 3, pads=[1, 1, 1, 1]))
    layers.conv(12, 8, 3, pads=[1, 1, 1, 1])
    return layers


@pytest.fixture(scope="module")
def samples() -> Samples:
    """Means of their own, so that some have more values above zero behind the first layer than others."""
    drawn = np.random.default_rng(5).normal(size=(24, 4, 6, 6))
    return (drawn + np.linspace(-2, 2, 24)[:, None, None, None]).astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("two") / "two.onnx"
    onnx.save(network().model(), str(target))
    return target


def compiled(path: Path, samples: Samples, options: CompileOptions, **changes: Any) -> Program:
    accelerator = replace(WITH_TWO_ARRAYS, config=changed(TWO_ARRAYS, **changes))
    return compile_network(path, accelerator, samples, options)


def ways(program: Program) -> dict[str, list[tuple[bool, bool | None]]]:
    """Of each layer its products: whether of the skip array, and by which sense of a register they run."""
    found: dict[str, list[tuple[bool, bool | None]]] = {}
    for item in program_operations(program):
        if item.descriptor.operation == Operation.GEMM:
            predicate = predicate_of(item.descriptor)
            skips = bool(item.descriptor.flags & Flag.SKIP_ARRAY)
            found.setdefault(item.layer, []).append((skips, None if predicate is None else predicate.unless))
    return found


def test_a_counted_input_decides_for_each_sample_and_another_for_all(path: Path, samples: Samples) -> None:
    """The first layer has no counted input: nobody measures that most of it is zero."""
    program = compiled(path, samples, MAJORITY)
    first, second = ways(program).values()
    assert first == [(False, None)]
    assert second == [(False, False), (True, True)]
    counting = [item for item in program_operations(program) if counted_in(item.descriptor)]
    assert [item.descriptor.count_threshold for item in counting] == [6 * 6 * 8 // 2]


def test_without_registers_or_with_an_engine_that_is_asked_for_there_is_one_way(path: Path, samples: Samples) -> None:
    assert all(len(own) == 1 for own in ways(compiled(path, samples, MAJORITY, count_registers=0)).values())
    asked = CompileOptions(dispatch="majority", engine="systolic_array")
    assert list(ways(compiled(path, samples, asked)).values()) == [[(False, None)], [(False, None)]]


def strips_network() -> Network:
    """Pooling and a layer behind it by strips in turn, where memory is small, and layers behind those as a whole."""
    layers = Network(3, 41, 35)
    layers.conv(8, 3, 3, strides=[2, 2], pads=[1, 1, 1, 1])
    pooled = layers.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1])
    squeezed = layers.add("Relu", layers.conv(4, 8, 1, source=pooled))
    layers.add("Relu", layers.conv(12, 4, 3, source=squeezed, pads=[1, 1, 1, 1]))
    return layers


def test_a_layer_is_asked_only_when_its_input_is_counted_as_a_whole(tmp_path: Path) -> None:
    """Strip by strip with the layer before, the first strip would be asked by the count of a part."""
    path = tmp_path / "strips.onnx"
    onnx.save(strips_network().model(), str(path))
    drawn = np.random.default_rng(5).normal(size=(12, 3, 41, 35)) + np.linspace(-2, 2, 12)[:, None, None, None]
    program = compiled(path, drawn.astype(np.float32), MAJORITY, activation_words=128)
    order = [item.layer for item in program_operations(program) if item.descriptor.operation in COMPUTING]
    pooling, squeeze, last = (
        [number for number, layer in enumerate(order) if layer == name] for name in ("MaxPool_1", "Conv_2", "Conv_4")
    )
    assert pooling[-1] > squeeze[0], "strips in turn"
    assert squeeze[-1] < last[0]
    found = ways(program)
    assert set(found["Conv_2"]) == {(False, None)}
    assert set(found["Conv_4"]) == {(False, False), (True, True)}


def test_the_way_of_each_sample_is_told_and_all_devices_give_the_same_bits(path: Path, samples: Samples) -> None:
    """SC R139: values between layers are dispatched for each sample."""
    program = compiled(path, samples, BAND)
    inputs = {"x": samples}
    expected = Emulator(program).run(inputs, trace=True)
    second = [node.name for node in program.nodes if isinstance(node, ArrayNode)][-1]
    taken = next(layer.choices for layer in expected.layers if layer.name == second)
    assert taken is not None
    assert set(taken) == {False, True}
    found = simulation("csim")(program).run(inputs, trace=True)
    assert first_mismatch(program, expected, found) is None
    assert next(layer.choices for layer in found.layers if layer.name == second) == taken
    alone = Emulator(compiled(path, samples, BAND, count_registers=0)).run(inputs, trace=False)
    for name, values in expected.outputs.items():
        assert np.array_equal(values, alone.outputs[name])


def test_rules_make_thresholds_of_clocks_of_shares_or_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """SC R11, SC R12, SC R13. 100 values; the skip array takes two clocks for each, the systolic array 120.

    Of half zeros the skip array is asked, and neither limit of a band is between them."""
    monkeypatch.setattr(ArrayClocks, "dense", 120)
    monkeypatch.setattr(ArrayClocks, "skipping", lambda self, values: 2 * values)
    clocks = ArrayClocks(TWO_ARRAYS, 100, [])
    assert clocks.threshold(LayerOptions()) == 59
    assert clocks.threshold(LayerOptions(dispatch="majority")) == 50
    assert replace(clocks, size=101).threshold(LayerOptions(dispatch="majority")) == 50
    assert clocks.threshold(LayerOptions(dispatch="band", band_dense=20, band_sparse=50)) == 59
    assert clocks.threshold(LayerOptions(dispatch="band", band_dense=20, band_sparse=30)) == 70
    assert clocks.threshold(LayerOptions(dispatch="band", band_dense=60, band_sparse=80)) == 39
    odd = replace(clocks, size=99)
    assert odd.threshold(LayerOptions(dispatch="band", band_dense=60, band_sparse=80)) == 39  # 39.6 values are 60 %
    assert odd.threshold(LayerOptions(dispatch="band", band_dense=20, band_sparse=30)) == 69  # 69.3 values are 30 %
    thousand = replace(clocks, size=1000)
    for tenth in range(501, 1000, 7):
        limits = LayerOptions(dispatch="band", band_dense=tenth / 10 - 50, band_sparse=tenth / 10)
        assert thousand.threshold(limits) == max(59, 1000 - tenth)
        limits = LayerOptions(dispatch="band", band_dense=tenth / 10 - 1, band_sparse=100)
        assert thousand.threshold(limits) == min(59, 1009 - tenth)
    monkeypatch.setattr(ArrayClocks, "dense", 0)
    assert clocks.threshold(LayerOptions()) == -1


def test_an_input_at_the_limit_of_a_band_is_sparse(tmp_path: Path) -> None:
    """SC R12: shares of zeros are rounded numbers; 3 of 10 values of every sample are other than zero."""
    layers = Network(4, 5, 5)
    layers.conv(12, 4, 3, pads=[1, 1, 1, 1])
    onnx.save(layers.model(), str(tmp_path / "one.onnx"))
    values = np.resize(np.float32([1, 1, 1, 0, 0, 0, 0, 0, 0, 0]), (16, 4, 5, 5))
    for band_sparse, skips in ((70, True), (71, False)):
        options = CompileOptions(dispatch="band", band_dense=60, band_sparse=band_sparse)
        (own,) = ways(compiled(tmp_path / "one.onnx", values, options)).values()
        assert own == [(skips, None)]


def test_with_the_same_numbers_of_both_arrays_clocks_choose_the_systolic_array(path: Path, samples: Samples) -> None:
    """A step takes a clock for each group of pixels on either array, so the skip array is never faster."""
    assert all(own == [(False, None)] for own in ways(compiled(path, samples, CompileOptions())).values())


def test_an_operation_goes_from_one_array_to_the_other_and_back(path: Path, samples: Samples) -> None:
    program = compiled(path, samples, CompileOptions())
    (node, *_) = (node for node in program.nodes if isinstance(node, ArrayNode))
    (operation,) = (
        item for item in program_operations(program)
        if item.layer == node.name and item.descriptor.operation == Operation.GEMM
    )  # fmt: skip
    assert may_choose(program.config, operation.descriptor)
    skips = on_skip_array(program.config, node, operation.descriptor)
    assert skips.chunk_steps > 0
    back = on_other_array(program.config, node, skips)
    assert back == operation.descriptor
    assert not may_choose(replace(program.config, array=SystolicArray()), operation.descriptor)
    streamed = replace(operation.descriptor, flags=operation.descriptor.flags | Flag.STREAM_WEIGHTS)
    assert not may_choose(program.config, streamed)



def test_the_systolic_array_waits_for_results_of_windows(tmp_path: Path) -> None:
    """A run of the first layer has more results than their stream holds; the second layer needs none of them."""
    layers = Network(2, 16, 18)
    first = layers.conv(8, 2, 3, pads=[1, 1, 1, 1])
    second = layers.conv(8, 2, 3, source="x", pads=[1, 1, 1, 1])
    layers.add("Add", first, second)
    onnx.save(layers.model(), str(tmp_path / "beside.onnx"))
    samples = np.random.default_rng(1).normal(size=(2, 2, 16, 18)).astype(np.float32)
    program = compiled(tmp_path / "beside.onnx", samples, CompileOptions(), array_passes=16, activation_words=4096)
    (node, *_) = (node for node in program.nodes if isinstance(node, ArrayNode))
    for item in program_operations(program):
        if item.layer == node.name and item.descriptor.operation == Operation.GEMM:
            item.descriptor = on_skip_array(program.config, node, item.descriptor)
    kernel = CSimulation(program.config, "native", program.accelerator, program.digest)
    kernel.disturb(1)
    found = StreamingDevice(program, kernel, "csim").run({"x": samples}, trace=False)
    assert first_mismatch(program, Emulator(program).run({"x": samples}, trace=False), found) is None


def test_layers_that_read_one_counted_tensor_have_one_rule(tmp_path: Path) -> None:
    """Its values are counted once, so a second rule could not be heeded."""
    layers = Network(4, 6, 6)
    values = layers.add("Relu", layers.conv(8, 4, 3, pads=[1, 1, 1, 1]))
    left, right = (layers.conv(12, 8, 3, values, pads=[1, 1, 1, 1]) for _ in range(2))
    layers.add("Add", left, right)
    onnx.save(layers.model(), str(tmp_path / "both.onnx"))
    drawn = np.random.default_rng(5).normal(size=(8, 4, 6, 6)).astype(np.float32)
    rules = {left: {"dispatch": "majority"}, right: {"dispatch": "band", "band_sparse": 65.0}}
    text = r"have different rules: majority and band \(band_dense 40, band_sparse 65\); give both the same dispatch"
    with pytest.raises(ConfigurationError, match=text):
        compiled(tmp_path / "both.onnx", drawn, CompileOptions(layers=rules))
    alike = {name: {"dispatch": "majority", "band_sparse": 60.0 + n} for n, name in enumerate(rules)}
    assert ways(compiled(tmp_path / "both.onnx", drawn, CompileOptions(layers=alike)))
    apart = {**rules, right: {"engine": "systolic_array"}}
    assert ways(compiled(tmp_path / "both.onnx", drawn, CompileOptions(layers=apart)))
