"""Quantized networks on the array against their own results: one table, one command.

    BFPGA_MODELS=FOLDER python -m benchmarks.compiler.quantized [--accelerator NAME ...] [--network NAME ...]
        [--markdown FILE]

ONNX Runtime quantizes each network of FOLDER (models/ and data/) to 8 bits: QDQ with signed activations and a scale for
each channel of weights, operators on integers with unsigned activations, and dynamic quantization. Each is compiled
from its own ranges, without samples, and again with calibration samples. The own results are ONNX Runtime's, with
quantizers as they are defined.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import bfpga
from benchmarks.common.command import command, required_models_folder
from benchmarks.common.networks import NETWORKS, Array, Network, network_samples, top1
from benchmarks.common.report import finish, table
from bfpga.compiler.read.network import Network as ReadNetwork
from bfpga.compiler.read.network import read_network
from bfpga.contract.program import HostNode
from bfpga.devices.reference import FloatNetwork
from bfpga.runtime import BATCH

KINDS = ("QDQ", "QOperator", "dynamic")
CALIBRATION = 64


class _Samples:
    """Calibration samples as ONNX Runtime asks for them, one at a time."""

    def __init__(self, name: str, x: Array) -> None:
        self.left = iter([{name: x[index : index + 1]} for index in range(len(x))])

    def get_next(self) -> Any:
        return next(self.left, None)


def quantize(source: Path, target: Path, kind: str, x: Array) -> None:
    """Write a quantized form of a network."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

    if kind == "dynamic":
        quantize_dynamic(source, target)
        return
    signed = kind == "QDQ"
    name = next(iter(read_network(source).inputs))
    quantize_static(
        source, target, _Samples(name, x), quant_format=QuantFormat[kind], per_channel=signed,
        activation_type=QuantType.QInt8 if signed else QuantType.QUInt8,
        weight_type=QuantType.QInt8 if signed else QuantType.QUInt8,
    )  # fmt: skip


def own_results(network: ReadNetwork, x: Array) -> Array:
    """First output of the quantized network."""
    reference, name = FloatNetwork(network, quantized=True), next(iter(network.inputs))
    batches = range(0, len(x), BATCH)
    return np.concatenate([reference.run({name: x[i : i + BATCH]})[reference.outputs[0]] for i in batches])


def rows(network: Network, accelerators: list[str], folder: Path) -> Iterator[list[str]]:
    """A row for each form of a network."""
    model = folder / "models" / f"{network.name}.onnx"
    x, calibration = network_samples(network, folder, model)
    with np.load(folder / "data" / f"{network.data}.npz", allow_pickle=False) as file:
        y = np.asarray(file["y"])
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "quantized.onnx"
            quantize(model, path, kind, calibration[:CALIBRATION])
            read = read_network(path)
            own = own_results(read, x)
            cells = [network.name, kind, str(len(x)), f"{top1(own, own, y)[1]:.2f}"]
            for accelerator in accelerators:
                for samples in (None, calibration[:CALIBRATION]):
                    program = bfpga.compile(read, accelerator, samples)
                    found = next(iter(bfpga.run(program, x).outputs.values()))
                    _, reference, value = top1(own, found, y)
                    same = 100 * float((found.argmax(1) == own.argmax(1)).mean())
                    cells.append(f"{value:.2f} ({value - reference:+.2f}), {same:.1f}")
            operators = [name for node in program.nodes if isinstance(node, HostNode) for name in node.operators]
            yield [*cells, ", ".join(operators) or "-"]
            print(" | ".join(cells), file=sys.stderr)


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--accelerator", nargs="+", default=["pynq_z2_dense", "pynq_z2_bfp16"])
    judged = [network.name for network in NETWORKS if network.judge is top1 and network.name != "ad01_autoencoder"]
    parser.add_argument("--network", nargs="+", default=judged, choices=judged)
    arguments = parser.parse_args(given)
    folder = required_models_folder()
    head = ["network", "quantized as", "samples", "own top-1 %"]
    head += [f"{name}, {how}" for name in arguments.accelerator for how in ("own ranges", "calibrated")] + ["host"]
    chosen = [network for network in NETWORKS if network.name in arguments.network]
    found = [row for network in chosen for row in rows(network, arguments.accelerator, folder)]
    return finish(table(head, found), arguments.markdown)


if __name__ == "__main__":
    sys.exit(main())
