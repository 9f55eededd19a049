"""Real networks of the folder BFPGA_MODELS: their samples, how their outputs are judged, their float values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.runtime import BATCH

Array = npt.NDArray[Any]
Float32Array = npt.NDArray[np.float32]
Judge = Callable[[Array, Array, Array], tuple[str, float, float]]
#: Calibration samples that are used at most.
CALIBRATION_SAMPLES = 256


@dataclass(frozen=True)
class Network:
    """A network, its samples, and how its outputs are judged."""

    name: str
    data: str
    judge: Judge
    calibration: str = ""


def scaled(file: Any) -> Array:
    """Samples as the model takes them."""
    x = file["x"].astype(np.float32)
    if "x_offset" in file:
        x = x - np.asarray(file["x_offset"], np.float32)
    if "x_scale" in file:
        x = x * np.asarray(file["x_scale"], np.float32)
    return x.astype(np.float32)


def top1(float_output: Array, output: Array, y: Array) -> tuple[str, float, float]:
    """Accuracy in percent."""
    return "top-1 %", *(100 * float((values.argmax(1) == y).mean()) for values in (float_output, output))


def agreement(float_output: Array, output: Array, y: Array) -> tuple[str, float, float]:
    """How often the class is that of the float network, in percent."""
    return "agreement %", 100.0, 100 * float((float_output.argmax(1) == output.argmax(1)).mean())


def windows(x: Array) -> Array:
    """Five frames in a row of every file: (files, 200, 128) -> (files * 196, 640)."""
    return np.concatenate([x[:, start : start + 196] for start in range(5)], axis=2).reshape(-1, 640)


def area_under_curve(scores: Array, y: Array) -> float:
    """Probability that a positive sample scores above a negative one, ties half."""
    positive, negative = scores[y == 1], scores[y == 0]
    difference = positive[:, None] - negative[None, :]
    return float((difference > 0).mean() + 0.5 * (difference == 0).mean())


def anomaly_score(x: Array, output: Array, files: int) -> Array:
    """Mean squared error of reconstruction, by file."""
    return ((x - output) ** 2).reshape(files, -1).mean(1)


def cosine(float_output: Array, output: Array, y: Array) -> tuple[str, float, float]:
    """Smallest cosine of a sample's output to the reference."""
    a, b = float_output.reshape(len(float_output), -1), output.reshape(len(output), -1)
    cosines = (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
    return "smallest cosine", 1.0, float(cosines.min())


NETWORKS = (
    Network("mlp_digits", "digits_test_a", top1, "digits_train"),
    Network("mlp_mnist", "mnist_test_even", top1, "mnist_train_calib"),
    Network("lenet_mnist", "mnist_test_even", top1, "mnist_train_calib"),
    Network("lenet_mnist_pruned90", "mnist_test_even", top1, "mnist_train_calib"),
    Network("resnet8_cifar10", "cifar10_test_shared", top1, "cifar10_train_calib"),
    Network("dscnn_kws", "kws_mfcc_shared", top1),
    Network("ad01_autoencoder", "ad01_shared", top1),
    Network("mobilenetv1_025_vww", "vww_shared", agreement),
    Network("squeezenet_dc_sparse", "imagenet227_shared", top1),
    Network("minilm_layer0", "minilm_layer0_hidden", cosine),
)


def network_named(name: str) -> Network:
    """The network of the folder with this name."""
    return next(network for network in NETWORKS if network.name == name)


def float_run(model: Path, x: Array) -> Array:
    """Output of the float network by ONNX Runtime."""
    from bfpga.formats.onnx_runtime import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: x[i : i + BATCH]})[0] for i in range(0, len(x), BATCH)])


def input_shape(model: Path) -> tuple[int, ...]:
    """Shape of the model's input without the batch axis."""
    import onnx

    value = onnx.load(str(model), load_external_data=False).graph.input[0]
    return tuple(dimension.dim_value for dimension in value.type.tensor_type.shape.dim)[1:]


def network_samples(network: Network, folder: Path, model: Path) -> tuple[Float32Array, Float32Array]:
    """(samples, calibration samples); without a file of its own, every second sample calibrates."""
    with np.load(folder / "data" / f"{network.data}.npz", allow_pickle=False) as file:
        x = scaled(file)
    calibration = x[::2]
    if network.calibration:
        with np.load(folder / "data" / f"{network.calibration}.npz", allow_pickle=False) as file:
            calibration = scaled(file)
    shape = input_shape(model)
    return x.reshape(-1, *shape), calibration[:CALIBRATION_SAMPLES].reshape(-1, *shape)
