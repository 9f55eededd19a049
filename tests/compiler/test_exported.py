"""Files that real exporters wrote (tests/data/exported): the results of ONNX Runtime, on every device."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from effort import some_of
from small_networks import WIDE, recurrent_network
from small_networks import Network as Layers

from bfpga.accelerator.loader import load_accelerator
from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import Network, read_network
from bfpga.contract.program import HostNode, Program
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.devices.reference import FloatNetwork, sqnr_db
from bfpga.errors import ModelError
from bfpga.estimate.host import host_seconds
from bfpga.runtime import open_device
from bfpga.verify.virtual_boards import VirtualBoards

FOLDER = Path(__file__).parents[1] / "data" / "exported"
FILES = sorted(path.stem for path in FOLDER.glob("*.onnx"))
#: What other files have too: of a single sample in place of batches of any size, or the same module by the exporter of
#: PyTorch that others of these networks are of.
REPEATED = {f"{name}_batch1" for name in FILES} | {
    "bilstm_dynamo_batch1", "cbam_legacy", "convnext_dynamo_batch1", "decoder_legacy", "distributions_legacy",
    "gru_legacy", "lstm_legacy", "mixer_convolved_dynamo_batch1", "mixer_legacy", "mobilenetv3_dynamo_batch1",
    "mobilevit_legacy", "pixel_shuffle_legacy", "tcn_dynamo_batch1", "unet_legacy", "yolo_dynamo_batch1",
}  # fmt: skip
#: Least ratio of signal to noise in decibels with 8-bit mantissas, and where the network itself has fewer bits.
CLOSE, FEW_BITS = 15.0, 10.0
#: Recurrent operators are so small here that the host would keep them.
STEPS = CompileOptions(recurrent="array")
#: A file of every exporter and kind of network.
SOME = [
    "decoder_legacy", "gru_dynamo", "keras_lstm", "lstm_legacy_batch1", "mobilevit_dynamo_batch1", "paddle_batch",
    "sklearn_classifier", "tcn_legacy", "vit_dynamo_batch1", "yolo_legacy",
]  # fmt: skip
RECURRENT = [name for name in FILES if "lstm" in name or name.startswith("gru")]


def read(name: str) -> Network:
    return read_network(FOLDER / f"{name}.onnx")


def samples_for(network: Network, count: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {name: generator.normal(size=(count, *shape)).astype(np.float32) for name, shape in network.inputs.items()}


def on_host(program: Program) -> Counter[str]:
    return Counter(kind for node in program.nodes if isinstance(node, HostNode) for kind in node.operators)


def written(layers: Layers, folder: Path) -> Path:
    path = folder / "network.onnx"
    path.write_bytes(layers.model().SerializeToString())
    return path


def own_results(network: Network, x: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The file's results by ONNX Runtime, in batches of what the file states."""
    return FloatNetwork(network, quantized=True).run(x)


@pytest.mark.parametrize("name", some_of(FILES, *(name for name in FILES if name not in REPEATED)))
def test_an_exported_file_gives_its_results_on_emulator_and_simulation(name: str) -> None:
    network = read(name)
    x = samples_for(network, 4)
    program = compile_network(network, load_accelerator("tiny"), x, STEPS)
    emulated = Emulator(program).run(x, trace=True)
    for output, wanted in own_results(network, x).items():
        assert emulated.outputs[output].shape == wanted.shape
        assert sqnr_db(wanted, emulated.outputs[output]) > (FEW_BITS if network.quantized else CLOSE)
    device = open_device("csim", program)
    # Other batches than the emulator's: what the host computes of a sample is the same in all of them.
    for part in (slice(0, 1), slice(1, 3)):
        found = device.run({key: value[part] for key, value in x.items()})
        for output, value in found.outputs.items():
            np.testing.assert_array_equal(value, emulated.outputs[output][part])
    device.close()


@pytest.mark.parametrize("name", some_of(FILES, "decoder_legacy", "vit_legacy_batch1"))
def test_an_exported_file_gives_its_results_where_rows_and_attention_stay_on_the_chip(name: str) -> None:
    """A host that kept operators without a reader could not run them: the shape in front of a Reshape."""
    network = read(name)
    x = samples_for(network, 4)
    program = compile_network(network, load_accelerator("pynq_z2_transformer"), x, STEPS)
    assert all(node.outputs for node in program.nodes if isinstance(node, HostNode))
    emulated = Emulator(program).run(x).outputs
    for output, wanted in own_results(network, x).items():
        assert sqnr_db(wanted, emulated[output]) > (FEW_BITS if network.quantized else CLOSE)


@pytest.mark.parametrize("name", some_of(SOME, *SOME[::2]))
def test_wide_mantissas_leave_little_noise(name: str) -> None:
    network = read(name)
    x = samples_for(network, 4)
    found = Emulator(compile_network(network, accelerator_around(WIDE, "wide"), x, STEPS)).run(x).outputs
    for output, wanted in own_results(network, x).items():
        assert sqnr_db(wanted, found[output]) > 40


def test_virtual_boards_give_the_same_bits(boards: VirtualBoards) -> None:
    for name in SOME[::3]:
        network = read(name)
        x = samples_for(network, 3)
        program = compile_network(network, load_accelerator("tiny"), x, STEPS)
        device = boards.open(program)
        assert first_mismatch(program, Emulator(program).run(x), device.run(x)) is None
        device.close()


@pytest.mark.parametrize("name", some_of(RECURRENT, "gru_dynamo", "keras_lstm"))
def test_zero_start_states_leave_recurrent_operators_to_the_array(name: str) -> None:
    """They were ConstantOfShape, Expand or a constant of one sample, and the operator stayed whole on the host."""
    host = on_host(compile_network(read(name), load_accelerator("tiny"), options=STEPS))
    assert not {"LSTM", "GRU", "Shape", "Expand", "ConstantOfShape"} & set(host)


def test_steps_stay_whole_where_the_array_lacks_their_functions(tmp_path: Path) -> None:
    """Without sigmoid and tanh a small GRU left the host 68 operators in place of one, eleven times its time."""
    network, accelerator = read("gru_legacy"), load_accelerator("pynq_z2_dense")
    accelerator = replace(accelerator, config=replace(accelerator.config, function_tables=0))
    program = compile_network(network, accelerator)
    assert on_host(program)["GRU"] == 1
    assert any("recurrent operators run whole on the host" in note for note in program.notes)
    seconds = host_seconds(program, accelerator.board.arm_cores)
    assert seconds is not None
    assert seconds < 5e-4
    # A large one is worth it: its products take the host longer than the functions of all steps.
    large = compile_network(written(recurrent_network("GRU", 256), tmp_path), accelerator)
    assert not on_host(large)["GRU"]


def test_a_batch_of_one_is_one_sample_a_run() -> None:
    """The class token of a transformer is a constant of one sample; products stay on the array."""
    network = read("vit_dynamo_batch1")
    assert network.graph().model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1
    host = on_host(compile_network(network, load_accelerator("tiny")))
    assert not {"MatMul", "Gemm", "Conv"} & set(host)


def test_an_infinite_constant_is_refused_by_its_name_unless_it_is_a_mask(tmp_path: Path) -> None:
    network = Layers(4)
    mask = network.constant(np.full(4, -np.inf, np.float32))
    network.add("Softmax", network.add("Add", "x", mask))
    read_network(written(network, tmp_path))
    network.add("Relu", "v0")
    with pytest.raises(ModelError, match=r"weights c0 hold infinite values, which Relu Relu_2 reads"):
        read_network(written(network, tmp_path))


def test_a_batch_that_is_built_in_is_named_with_its_remedy(tmp_path: Path) -> None:
    network = Layers(6)
    network.add("Transpose", network.add("Reshape", "x", network.constant(np.array([2, 3, 4]))), perm=[1, 0, 2])
    network.add("Reshape", network.last, network.constant(np.array([4, 6])))
    model = network.model()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
    path = tmp_path / "fixed.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"a batch of 4 is built into .* with an open batch, or for a batch of 1"):
        compile_network(path, load_accelerator("tiny"))


def test_an_open_batch_may_be_minus_one(tmp_path: Path) -> None:
    """As Paddle wrote it; results could not be judged: a run of minus one sample."""
    network = Layers(6)
    network.add("Relu")
    model = network.model()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = -1
    path = tmp_path / "paddle.onnx"
    path.write_bytes(model.SerializeToString())
    x = np.ones((3, 6), np.float32)
    np.testing.assert_array_equal(FloatNetwork(path).run({"x": x})[network.last], x)


def test_scores_of_scikit_learn_are_taken_and_labels_are_not_unless_asked_for() -> None:
    path = FOLDER / "sklearn_classifier.onnx"
    program = compile_network(path, load_accelerator("tiny"))
    assert list(program.outputs) == ["output_probability"]
    assert any("output_label is left out" in note for note in program.notes)
    network = read_network(path, outputs=["output_label"])
    x = samples_for(network, 6)
    wide = Emulator(compile_network(network, accelerator_around(WIDE, "wide"), x)).run(x).outputs["output_label"]
    scores = own_results(read_network(path), x)["output_probability"]
    np.testing.assert_array_equal(wide, scores.argmax(1))
    for name, message in (("labels", "there is no value 'labels'"), ("label", "is text"), ("output_label", "is text")):
        with pytest.raises(ModelError, match=message):
            read_network(FOLDER / "sklearn_text_labels.onnx", outputs=[name])


def test_a_loop_is_named_where_a_network_stays_on_the_host() -> None:
    program = compile_network(read("keras_gru"), load_accelerator("tiny"))
    assert any("(Loop) runs on the host: it has networks of its own inside" in note for note in program.notes)
