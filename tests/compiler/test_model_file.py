"""ONNX files and their external weights: whole, within bounds, from the model's folder; or one clear refusal."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from mutations import mutations
from onnx import external_data_helper
from small_networks import Network, refusal

from bfpga.compiler.read import model_file
from bfpga.compiler.read.network import read_network
from bfpga.errors import ModelError

MUTANTS = 100  # benchmarks/robustness/mutants.py takes thousands


def network() -> Network:
    result = Network(3, 8, 8)
    result.conv(4, 3, 3, pads=[1, 1, 1, 1])
    result.add("Relu")
    result.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    result.add("Gemm", result.add("Flatten", axis=1), result.weights(64, 10))
    return result


def with_external_weights(folder: Path) -> Path:
    """A network whose weights lie in `weights.bin`."""
    model = network().model()
    external_data_helper.convert_model_to_external_data(model, location="weights.bin", size_threshold=0)
    path = folder / "network.onnx"
    onnx.save(model, path)
    return path


def test_external_weights_are_read_from_the_models_folder(tmp_path: Path) -> None:
    path = with_external_weights(tmp_path)
    inside = tmp_path / "inside.onnx"
    inside.write_bytes(network().model().SerializeToString())
    found, wanted = (read_network(file).graph().constants for file in (path, inside))
    assert found.keys() == wanted.keys()
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


def test_weights_that_are_cut_short_are_refused(tmp_path: Path) -> None:
    path = with_external_weights(tmp_path)
    weights = tmp_path / "weights.bin"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(ModelError, match=r"network.onnx: external weight data is missing or damaged: .*weights.bin"):
        read_network(path).graph()


@pytest.mark.parametrize("way", ["link", "parent", "absolute"])
def test_weights_outside_the_models_folder_are_refused(way: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = with_external_weights(folder)
    secret = tmp_path / "secret.bin"
    (folder / "weights.bin").rename(secret)
    if way == "link":
        (folder / "weights.bin").symlink_to(secret)
    else:
        model = onnx.load(path, load_external_data=False)
        for tensor in model.graph.initializer:
            location = next(item for item in tensor.external_data if item.key == "location")
            location.value = "../secret.bin" if way == "parent" else str(secret)
        path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="leads out of the model's folder"):
        read_network(path).graph()


@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "missing"])
def test_what_is_no_regular_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    with pytest.raises(ModelError, match=r"no regular file|is a directory|no such file"):
        read_network(path).graph()


def test_weights_in_a_pipe_are_refused_at_once(tmp_path: Path) -> None:
    path = with_external_weights(tmp_path)
    (tmp_path / "weights.bin").unlink()
    os.mkfifo(tmp_path / "weights.bin")
    with pytest.raises(ModelError, match="no regular file"):
        read_network(path).graph()


def test_models_that_no_message_holds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is 2 GiB; a smaller one is tested."""
    path = with_external_weights(tmp_path)
    monkeypatch.setattr(model_file, "LARGEST_MODEL", (tmp_path / "weights.bin").stat().st_size)
    with pytest.raises(ModelError, match="bytes with its weights"):
        read_network(path).graph()


def test_control_characters_of_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    model = network().model()
    model.graph.node[0].name = "conv\x1b[2J"
    path.write_bytes(model.SerializeToString())
    assert read_network(path).graph().operators[0].name == "conv\\x1b[2J"


def test_damaged_networks_are_networks_or_one_error(tmp_path: Path) -> None:
    path, messages = tmp_path / "network.onnx", []
    for mutant in mutations(network().model().SerializeToString(), MUTANTS, seed=5):
        path.write_bytes(mutant)
        messages.append(refusal(path))
    refused = [message for message in messages if message]
    assert len(refused) > MUTANTS // 4
    assert all(message.startswith(str(path)) and message.isprintable() for message in refused)


def test_damaged_external_weights_are_weights_or_one_error(tmp_path: Path) -> None:
    path = with_external_weights(tmp_path)
    whole = path.read_bytes()
    start = whole.index(b"location")
    for mutant in mutations(whole[start - 40 : start + 60], MUTANTS, seed=6):
        path.write_bytes(whole[: start - 40] + mutant + whole[start + 60 :])
        message = refusal(path)
        assert not message or (message.startswith(str(path)) and message.isprintable())
