"""Networks that have a name: those that ship, and those that `bfpga models --train NAME` makes."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from bfpga.errors import ModelError
from bfpga.formats.cache import cache_directory


@dataclass(frozen=True)
class NamedNetwork:
    """A network and its samples, by the names of their files. trained: made on this machine, kept in the cache."""

    name: str
    title: str
    file: str
    samples: str
    calibration: str
    trained: bool = False

    @property
    def folder(self) -> Path:
        """Where its files are, or will be once it is trained."""
        return cache_directory("models") if self.trained else Path(str(files("bfpga.examples"))) / "models"

    @property
    def model_path(self) -> Path:
        """Its ONNX file; ModelError while it is not trained."""
        path = self.folder / self.file
        if not path.is_file():
            raise ModelError(f"the network {self.name} is not trained yet: bfpga models --train {self.name}")
        return path

    @property
    def samples_path(self) -> Path:
        """Samples that judge it, with labels."""
        return self.folder / self.samples

    @property
    def calibration_path(self) -> Path:
        """Samples of the training set."""
        return self.folder / self.calibration


NAMED = (
    NamedNetwork("digits", "digits of 8 x 8 pixels, 2 layers", "mlp_digits.onnx", "digits_test.npz",
                 "digits_calibration.npz"),
    NamedNetwork("mnist", "digits of 28 x 28 pixels, 3 fully connected layers", "mlp_mnist.onnx", "mnist_test.npz",
                 "mnist_calibration.npz"),
    NamedNetwork("lenet", "the same, 2 convolutions and 2 fully connected layers", "lenet_mnist.onnx",
                 "mnist_test.npz", "mnist_calibration.npz"),
    NamedNetwork("lenet_pruned", "the same, 90 % of its weights are zero", "lenet_mnist_pruned90.onnx",
                 "mnist_test.npz", "mnist_calibration.npz"),
    NamedNetwork("keywords", "10 words of synthetic speech, depthwise separable convolutions", "keywords.onnx",
                 "keywords_test.npz", "keywords_calibration.npz", trained=True),
    NamedNetwork("anomaly", "faults of a synthetic machine by its sound, an autoencoder", "anomaly.onnx",
                 "anomaly_test.npz", "anomaly_calibration.npz", trained=True),
)  # fmt: skip


def network_names() -> list[str]:
    """The names, in the order of `bfpga models`."""
    return [network.name for network in NAMED]


def named_network(name: str | Path) -> NamedNetwork | None:
    """The network of this name; None for any other name or path."""
    return next((network for network in NAMED if network.name == os.fspath(name)), None)


def model_path(name_or_path: str | Path) -> Path:
    """The file of a named network, or the path itself.

    ModelError for a plain word that is neither a name nor a file, and for a network that is not trained yet.
    """
    text = os.fspath(name_or_path)
    network = named_network(text)
    if network is not None:
        return network.model_path
    if "/" in text or "." in text or os.path.exists(text):
        return Path(text)
    near = difflib.get_close_matches(text, network_names(), 1, 0.5)
    hint = f"did you mean `{near[0]}`? " if near else ""
    known = ", ".join(network_names())
    raise ModelError(f"{text!r} is neither a file nor a known network; {hint}known networks: {known}")
