"""Cores of one overlay: one finds exponents on a sample and tells them, the others compute at the same time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from position_pairs import small_model
from position_programs import POSITIONS
from small_networks import Network

from bfpga.accelerator.loader import Accelerator
from bfpga.accelerator.variants import accelerator_around, with_cores
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.schedule.given_exponents import with_given_exponents, with_streamed_exponents
from bfpga.contract.descriptor import Policy
from bfpga.contract.program import ArrayNode, Program
from bfpga.devices.emulator import Emulator
from bfpga.devices.native.library import NUMPY
from bfpga.devices.simulated_kernel import SimulatedKernel
from bfpga.devices.streamed_pair import KernelCore, StreamedPair
from bfpga.engines.positions.sampling import SampleFraction, Sampling
from bfpga.errors import ConfigurationError, DataError, DeviceError, ProgramError
from bfpga.formats.block_float import encode_samples
from bfpga.program.checks import check_parts
from bfpga.program.streamed_exponents import telling_operations
from bfpga.runtime import open_device
from bfpga.runtime_pair import PairSide, open_cores, open_pair, open_streamed_pair

#: One kernel for all tests: it is compiled once. Fewer functions than `POSITIONS` has take less time.
CONFIG = replace(POSITIONS, functions=("none", "relu"), position_stream=True)
THIRD = Sampling.along("B", SampleFraction(1, 3))
Array = npt.NDArray[np.float32]


def accelerator(cores: int = 2, **changes: Any) -> Accelerator:
    return with_cores(accelerator_around(replace(CONFIG, **changes)), cores)


def images_model(folder: Path, seed: int = 0) -> Path:
    """Convolutions, a residual connection, maxima and a fully connected layer; their sizes by chance."""
    rng = np.random.default_rng(seed)
    first, second, size = (int(number) for number in rng.integers([3, 3, 6], [8, 8, 10]))
    model = Network(2, size, size)
    model.conv(first, 2, 3, pads=[1, 1, 1, 1])
    if rng.random() < 0.7:
        model.add("Relu")
    if rng.random() < 0.7:
        model.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    before = model.last
    model.conv(first, first, 3, pads=[1, 1, 1, 1])
    if rng.random() < 0.7 or seed == 0:
        model.add("Relu", model.add("Add", model.last, before))
    model.conv(second, first, 1)
    model.add("GlobalAveragePool")
    model.add("Flatten")
    model.add("Gemm", model.last, model.weights(second, 5), model.weights(5))
    path = folder / f"images{seed}.onnx"
    path.write_bytes(model.model().SerializeToString())
    return path


def images(model: Path, count: int, seed: int = 0) -> Array:
    """Images of different brightness, so that it matters whose exponents are used."""
    shape = next(iter(dynamic(model).inputs.values()))
    rng = np.random.default_rng(seed)
    brightness = 2.0 ** rng.integers(-3, 2, count).reshape(-1, 1, 1, 1)
    return np.asarray(rng.normal(size=(count, *shape)) * brightness, np.float32)


def dynamic(model: Path, rule: Any = "rate") -> Program:
    options = CompileOptions(policy="dynamic", flow="two_pass", rule=rule, remainders="never")
    return compile_network(model, accelerator(), None, options)


def expected(model: Path, x: Array, batch: int, rule: Any = "rate") -> Array:
    """The numpy model: flow 1 on the first image of each batch, the other ones with its exponents as static ones."""
    program, results = dynamic(model, rule), []
    ((name, spec),) = ((name, program.tensors[name]) for name in program.inputs)
    for first in range(0, len(x), batch):
        part = x[first : first + batch]
        exponent = int(encode_samples(part[None], program.config.format)[1][0])
        tensors = {**program.tensors, name: replace(spec, input_exponent=exponent)}
        found = Emulator(replace(program, tensors=tensors), NUMPY).run(part[:1], trace=True)
        static = with_given_exponents(program)
        for node in static.nodes:
            if isinstance(node, ArrayNode) and not node.policy.inherit:
                node.policy = replace(node.policy, exponent=int(found.tensors[node.output].exponent[0]))
        rest = Emulator(replace(static, tensors={**static.tensors, name: tensors[name]}), NUMPY).run(part[1:])
        results += [*found.outputs.values(), *rest.outputs.values()]
    return np.concatenate(results)


def words(pair: StreamedPair) -> Any:
    """The logic of the virtual board whose cores these are."""
    core = pair.cores[0]
    assert isinstance(core, KernelCore)
    return core.device.streaming._board._overlay.target.board.fabric  # type: ignore[attr-defined]


def only(outputs: dict[str, Any]) -> Array:
    (value,) = outputs.values()
    return np.asarray(value)


# ---------------------------------------------------------------- the bits


def test_fully_connected_networks_have_the_bits_of_a_pair_that_the_host_leads(tmp_path: Path) -> None:
    """FP R37, R38, R42, R47: embodiments 6 (all items on the main core) and 7, samples of two and of three items."""
    model, x = small_model(tmp_path), np.random.default_rng(1).normal(size=(20, 6)).astype(np.float32)
    for once, period in ((True, 6), (False, 4)):
        sampling = Sampling.along("B", SampleFraction(1, period))
        pair = open_streamed_pair(model, accelerator(), 12, sampling, device="csim", once=once)
        found = pair.run(x)
        pair.close()
        side = PairSide(accelerator())
        led = open_pair(model, side, side, 12, sampling, once=once).run(x)
        np.testing.assert_array_equal(only(found.outputs), only(led.outputs))


@pytest.mark.parametrize("device", ["emulator", "virtual"])
def test_images_have_the_bits_of_the_numpy_model(device: str, tmp_path: Path) -> None:
    """FP R38, R46: one image of three precedes, the others are computed with its exponents on the next core."""
    for seed, rule in enumerate(["rate", "max", "lead"]):
        model = images_model(tmp_path, seed)
        x = images(model, 6, seed)
        pair = open_streamed_pair(model, accelerator(), 3, THIRD, device=device, rule=rule)
        found = only(pair.run(x).outputs)
        pair.close()
        reference = expected(model, x, 3, rule)
        np.testing.assert_array_equal(found, reference)
        assert not np.array_equal(reference, only(Emulator(dynamic(model, rule)).run(x).outputs)), "whose is one"


def test_three_cores_hand_exponents_on(tmp_path: Path) -> None:
    """FP R37: the second core tells the third one what it was told; each of them has a share of the images."""
    model = images_model(tmp_path)
    x = images(model, 5)
    sampling = Sampling.along("B", SampleFraction(1, 5))
    pair = open_streamed_pair(model, accelerator(3), 5, sampling)
    found = pair.run(x)
    pair.close()
    np.testing.assert_array_equal(only(found.outputs), expected(model, x, 5))


# ---------------------------------------------------------------- the stream


def test_words_keep_their_order_in_a_shallow_fifo(tmp_path: Path) -> None:
    """FP R42: processes in any order, a stream of one word; the first core waits, nothing is lost."""
    model = images_model(tmp_path)
    x, reference = images(model, 6), None
    for seed in (0, 1):
        pair = open_streamed_pair(model, accelerator(), 3, THIRD)
        fabric = words(pair)
        stream = fabric.kernels[0].streams["told_exponents"]
        assert stream.capacity == 16 * 4, "the room of the design is that of its FIFO"
        assert fabric.kernels[1].streams["awaited_exponents"] is stream
        stream.capacity = 4
        for kernel in fabric.kernels:
            kernel.kernel.disturb(seed)
        found = only(pair.run(x).outputs)
        layers = len(telling_operations([item.descriptor for item in pair.cores[0].program.steps[0].operations]))  # type: ignore[union-attr]
        assert stream.accepted == stream.delivered == 2 * 4 * layers
        pair.close()
        reference = expected(model, x, 3) if reference is None else reference
        np.testing.assert_array_equal(found, reference)


def test_a_core_that_is_told_nothing_ends_with_an_error(tmp_path: Path) -> None:
    """FP R42: the error says what the core waits for; so does that of the pair, which is of no use any more."""
    model = images_model(tmp_path)
    silent, following = dynamic(model), with_streamed_exponents(dynamic(model), awaits=True)
    for device in ("virtual", "csim"):
        cores = open_cores([silent, following], accelerator(), device)
        cores[0].begin(images(model, 1), None, 0)
        with pytest.raises(DeviceError, match="awaited_exponents"):
            cores[1].begin(images(model, 1), None, 0) and cores[1].finish()
        for core in cores:
            core.close()
    pair = open_streamed_pair(model, accelerator(), 3, THIRD)
    words(pair).kernels[1].streams["awaited_exponents"] = words(pair).kernels[0].streams["awaited_exponents"]
    with pytest.raises(DeviceError, match="awaited_exponents"):
        pair.run(images(model, 3))
    with pytest.raises(DeviceError, match="open the cores again"):
        pair.run(images(model, 3))
    pair.close()


def test_a_word_of_another_layer_is_found(tmp_path: Path) -> None:
    """FP R42: words carry the layer, so that one too many cannot pass for the next one."""
    model = images_model(tmp_path)
    finding, following = (with_streamed_exponents(dynamic(model), awaits=awaits) for awaits in (False, True))
    first, second = open_cores([finding, following], accelerator(), "csim")
    assert isinstance(first, KernelCore)
    assert isinstance(second, KernelCore)
    first.begin(images(model, 1), None, 0)
    kernel, after = first.device.streaming, second.device.streaming
    assert isinstance(kernel, SimulatedKernel)
    assert isinstance(after, SimulatedKernel)
    after.awaited += kernel.told[4:]
    with pytest.raises(DeviceError, match="tells the exponent of another layer than the one awaited, slot 2"):
        second.begin(images(model, 1), None, 0)


# ---------------------------------------------------------------- the clocks


def test_cores_compute_at_the_same_time(tmp_path: Path) -> None:
    """FP R41: both begin together; the second core waits for the words of the first batch, and then for few."""
    model = images_model(tmp_path)
    pair = open_streamed_pair(model, accelerator(), 3, THIRD)
    found = pair.run(images(model, 24))
    assert found.clocks is not None
    first, second = found.begins_and_ends()
    assert first[0][0] == second[0][0] == 0
    assert all(one[0] < two[1] and two[0] < one[1] for one, two in zip(first[1:], second[:-1], strict=True))
    assert first[0][1] < second[0][1], "the last exponent comes before the last layer"
    # A core by itself is as fast where it need not wait.
    given = with_given_exponents(dynamic(model))
    (alone, _) = open_cores([given, given], accelerator(), "virtual")
    alone.begin(images(model, 2), None, 0)
    measured = alone.finish().measured
    assert measured is not None
    waits = [clocks - measured.clocks for clocks in found.clocks[1]]
    assert waits[0] > measured.clocks / 3, "half of the first image's time, and what its layers take"
    assert all(0 <= clocks < waits[0] / 2 for clocks in waits[1:])
    pair.close()
    alone.close()


# ---------------------------------------------------------------- errors


def test_exponents_are_streamed_by_kernels_that_have_the_stream(tmp_path: Path) -> None:
    model = images_model(tmp_path)
    without = replace(dynamic(model), config=replace(CONFIG, position_stream=False))
    with pytest.raises(ConfigurationError, match="give it `positions: stream` and `cores: 2` or more"):
        with_streamed_exponents(without)
    with pytest.raises(ConfigurationError, match="give it 7 policy_slots, it has 3"):
        with_streamed_exponents(replace(dynamic(model), config=replace(CONFIG, policy_slots=3)))
    for awaits, verb in ((False, "tells"), (True, "awaits")):
        program = with_streamed_exponents(dynamic(model), awaits=awaits)
        with pytest.raises(ProgramError, match=f"{verb} an exponent, and its kernel has no stream of exponents"):
            check_parts(replace(program, config=without.config))
    twice = with_streamed_exponents(dynamic(model), awaits=True)
    for node in twice.nodes:
        if isinstance(node, ArrayNode) and node.policy.policy is Policy.STATIC:
            node.policy = replace(node.policy, slot=1)
    with pytest.raises(ProgramError, match="in one slot"):
        check_parts(twice)


def test_what_does_not_fit_is_said_once(tmp_path: Path) -> None:
    model = images_model(tmp_path)
    with pytest.raises(DeviceError, match="awaits the exponents of another core"):
        open_device("emulator", with_streamed_exponents(dynamic(model), awaits=True))
    pair = open_streamed_pair(model, accelerator(), 3, THIRD, device="emulator")
    with pytest.raises(DataError, match="is needed, one sample at least"):
        pair.run(np.zeros((3, 4, 4), np.float32))
    with pytest.raises(DeviceError, match="no clock counter"):
        pair.run(images(model, 3)).begins_and_ends()
    with pytest.raises(ConfigurationError, match="there is one core"):
        StreamedPair(pair.cores[:1], 3, THIRD)
    with pytest.raises(ConfigurationError, match="2 items precede"):
        StreamedPair(pair.cores, 6, THIRD)
