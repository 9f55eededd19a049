"""Values of the float network on the calibration samples, captured in one pass of ONNX Runtime.

Each stage says by a ``Reduction`` which values it wants and reduces them as they come, so that no more than two
batches are held. All stages look at the network as it was read: what they decide (channel shifts, exponents, rounded
weights) is applied to what they reduced, and needs no second pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto

from bfpga.compiler.lower.layers import ArrayTensor
from bfpga.compiler.read.importer import Graph
from bfpga.compiler.read.opsets import OPSETS, opset_of
from bfpga.compiler.read.simplify import session
from bfpga.errors import ModelError
from bfpga.formats.files import first_line
from bfpga.formats.onnx_runtime import onnxruntime

Float32Array = npt.NDArray[np.float32]
#: Float32 values captured at a time (all wanted values of a few samples).
CAPTURED_VALUES = 24_000_000


class Reduction(Protocol):
    """What one stage takes of the values. names: of the values; samples: the first ones, as many as it looks at."""

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def samples(self) -> int: ...

    def add(self, values: Mapping[str, Float32Array]) -> None:
        """Take a batch: ``names`` (and others), each (samples, *shape). Batches come in the order of the samples."""
        ...


def capture(
    graph: Graph,
    samples: Mapping[str, Float32Array],
    reductions: Sequence[Reduction],
    tensors: Mapping[str, ArrayTensor] | None = None,
) -> None:
    """Run the network once over the samples and give every reduction the values that it wants.

    samples: by input name, (samples, *shape). No more samples are run than the longest reduction looks at. tensors:
    those with remainders are given as (samples, values and remainders), the latter as what they are in the mean: zeros;
    constants are the same for all samples; what a mask takes out of its rows counts as zero.
    """
    constants = {name: tensor.constant for name, tensor in (tensors or {}).items() if tensor.constant is not None}
    masked = {name: tensor.mask.masked for name, tensor in (tensors or {}).items() if tensor.mask is not None}
    widened = {name for name, tensor in (tensors or {}).items() if tensor.remainder}
    names = sorted({name for reduction in reductions for name in reduction.names})
    most = max((reduction.samples for reduction in reductions), default=0)
    if not names:
        return
    start = 0
    computed = [name for name in names if name not in constants]
    for values in _ahead(_batches(graph.model, {name: array[:most] for name, array in samples.items()}, computed)):
        count = len(next(iter(values.values())))
        values.update({name: _repeated(constants[name], count) for name in names if name in constants})
        values.update({name: _widened(values[name]) for name in widened & set(names)})
        hidden = masked.keys() & set(names)
        values.update({name: np.where(masked[name], np.float32(0), values[name]) for name in hidden})
        for reduction in reductions:
            left = reduction.samples - start
            if left > 0:
                reduction.add({name: values[name][:left] for name in reduction.names})
        start += count


def _ahead(batches: Iterator[dict[str, Float32Array]]) -> Iterator[dict[str, Float32Array]]:
    """The batches, the next of which is computed by a thread while the caller works on one."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, batches, None)
        while (values := coming.result()) is not None:
            coming = thread.submit(next, batches, None)
            yield values


def _repeated(value: npt.NDArray[np.floating[Any]], count: int) -> Float32Array:
    return np.broadcast_to(np.asarray(value, np.float32), (count, *value.shape))


def _widened(value: Float32Array) -> Float32Array:
    flat = value.reshape(len(value), -1)
    return np.concatenate([flat, np.zeros_like(flat)], axis=1)


def _runtime_session(model: ModelProto) -> onnxruntime.InferenceSession:
    """ModelError for operators that the installed ONNX Runtime does not have, as those of a newer opset."""
    try:
        return session(model)
    except Exception as error:
        newest, opset = OPSETS[1], opset_of(model)
        remedy = f"; export the network with an opset up to {newest}, it has {opset}" if opset > newest else ""
        raise ModelError(
            f"ONNX Runtime {onnxruntime.__version__} does not compute this network: {first_line(error)}{remedy}"
        ) from error


def _batches(
    model: ModelProto, samples: Mapping[str, Float32Array], names: Sequence[str]
) -> Iterator[dict[str, Float32Array]]:
    """The named values (inputs, outputs or inner ones) of a model on samples, a few samples at a time."""
    extended = ModelProto()
    extended.CopyFrom(model)
    present = {value.name for value in extended.graph.output}
    fetched = [name for name in names if name not in samples]
    extended.graph.output.extend(onnx.helper.make_empty_tensor_value_info(n) for n in fetched if n not in present)
    run = _runtime_session(extended) if fetched else None
    total, start, step = len(next(iter(samples.values()))), 0, 1
    while start < total:
        part = {name: array[start : start + step] for name, array in samples.items()}
        try:
            results = {} if run is None else dict(zip(fetched, run.run(fetched, part), strict=True))
        except Exception as error:
            raise ModelError(f"the float network cannot be computed for {step} samples: {first_line(error)}") from error
        results.update({name: part[name] for name in names if name in samples})
        yield results
        start += step
        # The first sample shows how much memory one takes.
        if step == 1 and not any(value.type.tensor_type.shape.dim[0].dim_value for value in model.graph.input):
            step = max(1, CAPTURED_VALUES // max(1, sum(value.size for value in results.values())))


def within_squares(values: Float32Array) -> tuple[Float32Array, float]:
    """Values whose squares float32 holds, and the power of two that they were divided by: 1 for usual ones."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0 or 2.0**-40 < largest < 2.0**40:
        return values, 1.0
    power = int(np.frexp(largest)[1])
    return np.asarray(np.ldexp(values, -power), np.float32), 2.0**power


def stored(
    value: Float32Array, tensor: ArrayTensor, scale: npt.NDArray[np.float64] | None = None
) -> npt.NDArray[np.float32]:
    """A value in the order of the array's memory (samples, height, width, channels).

    scale: the binary logarithm of what each channel is scaled by.
    """
    result = value.reshape(len(value), -1)[:, tensor.layout]
    return result if scale is None else result * np.exp2(scale).astype(np.float32)
