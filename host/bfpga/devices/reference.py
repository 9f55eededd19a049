"""The float32 network, run by ONNX Runtime with the values between its operators: what emulation is judged against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bfpga.devices.host import onnx_runtime_installed, onnx_session
from bfpga.errors import ModelError, ToolError
from bfpga.formats.arrays import FloatArray

if TYPE_CHECKING:
    from bfpga.compiler.read.network import Network


class FloatNetwork:
    """A network in float32, of an ONNX file or read already.

    values: names of what is fetched in addition to the outputs, as far as the network has it. quantized: take a
    quantized network as its file holds it, not the float network that it represents.
    """

    def __init__(self, network: str | Path | Network, values: Iterable[str] = (), quantized: bool = False) -> None:
        if not onnx_runtime_installed():
            raise ToolError("a float reference needs ONNX Runtime: pip install onnx onnxruntime")
        import onnx

        from bfpga.compiler.read.network import read_network

        read = read_network(network)
        path = read.path
        #: What its results are called.
        self.kind = "the quantized network" if quantized and read.quantized else "float"
        try:
            model = onnx.ModelProto()
            model.CopyFrom(read.reference if quantized else read.model)
            outputs = [value.name for value in model.graph.output]
            produced = {name for node in model.graph.node for name in node.output}
            extra = [name for name in dict.fromkeys(values) if name in produced and name not in outputs]
            model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in extra)
            self.session = onnx_session(model.SerializeToString())
        except Exception as error:
            raise ModelError(f"{path}: ONNX Runtime cannot run this network: {error}") from error
        #: Samples of a run where the file states them; None: any number.
        self.batch = _stated_batch(model)
        self.outputs = outputs
        self.fetched = [*outputs, *extra]

    def run(self, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, FloatArray]:
        """Outputs and fetched values of a batch, by name."""
        values = {name: np.asarray(x, np.float32) for name, x in inputs.items()}
        samples = len(next(iter(values.values())))
        if self.batch is None or self.batch == samples:
            return self._run(values)
        parts = []
        for start in range(0, samples, self.batch):
            group = {name: _filled(x[start : start + self.batch], self.batch) for name, x in values.items()}
            parts.append(self._run(group))
        return {name: np.concatenate([part[name] for part in parts])[:samples] for name in self.fetched}

    def _run(self, values: Mapping[str, npt.NDArray[np.float32]]) -> dict[str, FloatArray]:
        results = self.session.run(self.fetched, dict(values))
        return {name: np.asarray(result) for name, result in zip(self.fetched, results, strict=True)}


def float_outputs(
    network: Network, inputs: Mapping[str, npt.NDArray[Any]], batch: int
) -> tuple[dict[str, FloatArray], str]:
    """Outputs of a network's float reference for all samples by name, the first one first, and what it is called.

    batch: samples of a run.
    """
    floats = FloatNetwork(network, quantized=True)
    samples = min(map(len, inputs.values()))
    parts = [
        floats.run({name: values[start : start + batch] for name, values in inputs.items()})
        for start in range(0, samples, batch)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in floats.outputs}, floats.kind


def _stated_batch(model: Any) -> int | None:
    """The first axis of the inputs of an ONNX model where it is a number above 0 (exporters write 1), else None."""
    constants = {item.name for item in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    sizes = {value.type.tensor_type.shape.dim[0].dim_value for value in inputs if value.type.tensor_type.shape.dim}
    return max(sizes - {0}, default=None)


def _filled(values: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.float32]:
    """``values`` with the last sample repeated up to ``count``."""
    missing = count - len(values)
    return np.concatenate([values, np.repeat(values[-1:], missing, axis=0)]) if missing else values


def energies(reference: FloatArray, value: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sums of squares of each sample (samples, ...): of the signal, and of the quantization noise."""
    wanted = reference.reshape(len(reference), -1).astype(np.float64)
    noise = np.square(wanted - value.reshape(len(value), -1)).sum(axis=1)
    return np.square(wanted).sum(axis=1), noise


def ratio_db(signal: float, noise: float) -> float:
    """Ratio of two energies in decibels; infinite without noise."""
    if noise == 0:
        return float("inf")
    return 10 * float(np.log10(signal / noise)) if signal else float("-inf")


def worst_ratio_db(signal: FloatArray, noise: FloatArray) -> float:
    """The lowest ratio of a sample; samples without a signal do not count.

    The ratio over all samples hides a few that saturated: their share of all signal is small.
    """
    noisy = (noise > 0) & (signal > 0)
    return float(10 * np.log10(signal[noisy] / noise[noisy]).min()) if noisy.any() else float("inf")


def sqnr_db(reference: FloatArray, value: FloatArray) -> float:
    """Ratio of signal to quantization noise in decibels; infinite for equal values."""
    wanted = reference.astype(np.float64)
    return ratio_db(float(np.square(wanted).sum()), float(np.square(wanted - value).sum()))


def worst_sqnr_db(reference: FloatArray, value: FloatArray) -> float:
    """The lowest ``sqnr_db`` of a sample (samples, ...), see ``worst_ratio_db``."""
    return worst_ratio_db(*energies(reference, value))


def cosines(first: FloatArray, second: FloatArray) -> npt.NDArray[np.float64]:
    """Cosine between two batches, sample by sample; 1 where both are zero."""
    a, b = (x.reshape(len(x), -1).astype(np.float64) for x in (first, second))
    product = (a * b).sum(axis=1)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    equal = np.abs(a - b).sum(axis=1) == 0
    return np.asarray(np.where(norms > 0, product / np.where(norms > 0, norms, 1), equal), np.float64)
