"""Samples of the host as mantissas in the host's order, and where the array's order finds each of them.

The array reads pixels with all their channels, columns again for every tap, zeros between: values that are encoded
already are moved. So the moves of a tensor are made once, with places in place of values, and are then one look-up for
all samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import TensorSpec
from bfpga.formats.arrays import FloatArray, IntArray
from bfpga.formats.block_float import mantissa_dtype
from bfpga.formats.block_format import BlockFormat
from bfpga.program.layout import (
    channel_factors,
    check_shape,
    fold_columns,
    onnx_shape,
    to_array,
    unfolded,
    values_alone,
)
from bfpga.program.stream_work import NUMPY_WORK, Encoding, StreamWork

Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class EncodedSamples:
    """Mantissas (samples, 1 + values of a sample) in the host's order; the first of each sample is zero.

    places: (height, width, channels) of the array's tensor: which of them each element is. exponent: (samples,).
    """

    mantissa: IntArray
    places: Places
    exponent: IntArray


class SampleEncoder:
    """Encodes samples of one tensor."""

    def __init__(self, spec: TensorSpec, fmt: BlockFormat, work: StreamWork = NUMPY_WORK) -> None:
        spec, self.places = unfolded(spec), _places(spec)
        self._alone, self._sets = values_alone(spec), 2 if spec.remainder else spec.parts
        factors = channel_factors(spec).reshape(-1) if spec.channel_shift else None
        self._encoding = Encoding(fmt, spec.input_exponent, factors, spec.remainder, spec.parts)
        self._work = work

    def encode(self, x: FloatArray) -> EncodedSamples:
        """x: (samples, *onnx_shape), whose mantissas are those of ``layout.encode_tensor``."""
        check_shape(x, self._alone)
        values = x.reshape(len(x), -1)
        kind = mantissa_dtype(self._encoding.format.mantissa_bits)
        mantissa = np.empty((len(x), 1 + self._sets * values.shape[1]), kind)
        mantissa[:, 0] = 0
        return EncodedSamples(mantissa, self.places, self._work.encode(values, self._encoding, mantissa[:, 1:]))


def _places(spec: TensorSpec) -> Places:
    """Where the elements of a tensor are among the mantissas of its samples."""
    if spec.folded is not None:
        folded: Places = fold_columns(_places(unfolded(spec))[None], spec)[0]
        return folded
    alone = values_alone(spec)
    count = alone.height * alone.width * alone.channels
    sets = 2 if spec.remainder else spec.parts
    first = to_array(np.arange(1, 1 + count, dtype=np.intp).reshape(1, *onnx_shape(alone)), alone)[0]
    found = [first + count * number for number in range(sets)]
    if spec.remainder:
        return np.concatenate(found, axis=2)
    result: Places = np.stack(found, axis=3).reshape(spec.height, spec.width, spec.channels)
    return result
