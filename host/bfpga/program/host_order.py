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
from bfpga.formats.block_float import encode_remainders, encode_samples, mantissa_dtype
from bfpga.formats.block_format import BlockFormat
from bfpga.program.layout import (
    channel_factors,
    check_shape,
    encode_parts,
    fold_columns,
    onnx_shape,
    to_array,
    unfolded,
    values_alone,
)

Places = npt.NDArray[np.intp]
#: Samples are encoded so many bytes at a time, step by step in the cache.
_BLOCK_BYTES = 1 << 18


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

    def __init__(self, spec: TensorSpec, fmt: BlockFormat) -> None:
        self.spec, self.format = unfolded(spec), fmt
        self.places = _places(spec)
        self._factors = channel_factors(self.spec).reshape(-1) if self.spec.channel_shift else None

    def encode(self, x: FloatArray) -> EncodedSamples:
        """x: (samples, *onnx_shape), whose mantissas are those of ``layout.encode_tensor``."""
        check_shape(x, values_alone(self.spec))
        values = x.reshape(len(x), -1)
        sets = 2 if self.spec.remainder else self.spec.parts
        mantissa = np.zeros((len(x), 1 + sets * values.shape[1]), mantissa_dtype(self.format.mantissa_bits))
        exponent = np.empty(len(x), np.int32)
        step = max(1, _BLOCK_BYTES // max(1, values[:1].nbytes))
        for first in range(0, len(x), step):
            rows = slice(first, first + step)
            exponent[rows] = self._encode(values[rows], mantissa[rows, 1:])
        return EncodedSamples(mantissa, self.places, exponent)

    def _encode(self, values: FloatArray, mantissas: IntArray) -> IntArray:
        """Fill in the mantissas of samples (samples, values); their exponents."""
        spec, fmt, size = self.spec, self.format, values.shape[1]
        if self._factors is not None:
            values = values * self._factors
        whole, exponent = encode_samples(values, fmt, spec.input_exponent)
        sets = [whole]
        if spec.parts > 1:
            sets = encode_parts(values, exponent, spec.parts, fmt)
        elif spec.remainder:
            sets.append(encode_remainders(values, whole, exponent, fmt, spec.remainder))
        for number, found in enumerate(sets):
            mantissas[:, number * size : (number + 1) * size] = found
        return exponent


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
