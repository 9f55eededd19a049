"""Samples in the host's order: what a look-up finds in them is the tensor that the moves of the layout make."""

from __future__ import annotations

import numpy as np
import pytest

from bfpga.contract.program import FoldedColumns, TensorSpec
from bfpga.errors import DataError
from bfpga.formats.block_format import BlockFormat
from bfpga.program.host_order import SampleEncoder
from bfpga.program.layout import encode_tensor

FOLD = FoldedColumns(width=7, channels=3, taps=3, stride=2, pad=1, dilation=1)
SPECS = {
    "image": TensorSpec("x", 5, 7, 3, onnx_shape=(3, 5, 7)),
    "vector": TensorSpec("x", 1, 1, 11, onnx_shape=(11,), axes=(0,)),
    "turned": TensorSpec("x", 7, 3, 5, onnx_shape=(3, 5, 7), axes=(2, 0, 1)),
    "blocks": TensorSpec("x", 2, 3, 8, onnx_shape=(2, 4, 6), split=(2, 2, 2, 3, 2), axes=(1, 3, 0, 2, 4)),
    "given exponent": TensorSpec("x", 5, 7, 3, input_exponent=-4, onnx_shape=(3, 5, 7)),
    "shifted channels": TensorSpec("x", 5, 7, 3, onnx_shape=(3, 5, 7), channel_shift=(1.0, 0.0, -2.0)),
    "remainders": TensorSpec("x", 5, 7, 6, onnx_shape=(3, 5, 7), remainder=4),
    "remainders, given exponent": TensorSpec("x", 5, 7, 6, input_exponent=-3, onnx_shape=(3, 5, 7), remainder=4),
    "parts": TensorSpec("x", 5, 7, 6, -4, onnx_shape=(3, 5, 7), channel_shift=(0.0, 0.0, 1.0, 1.0, 2.0, 2.0)),
    "folded": TensorSpec("x", 5, 4, 9, onnx_shape=(3, 5, 7), folded=FOLD),
    "folded remainders": TensorSpec(
        "x", 5, 4, 18, onnx_shape=(3, 5, 7), remainder=4, folded=FoldedColumns(7, 6, 3, 2, 1, 1)
    ),
}  # fmt: skip
FORMATS = {
    "8 bits": BlockFormat(),
    "4 bits": BlockFormat(mantissa_bits=4),
    "16 bits, wrapped": BlockFormat(mantissa_bits=16, saturation="wrap"),
    "18 bits, truncated": BlockFormat(mantissa_bits=18, rounding="trunc"),
}


def samples(spec: TensorSpec) -> np.ndarray:
    """Some of all sizes, one of zeros."""
    x = np.random.default_rng(5).normal(0, 3, (6, *spec.onnx_shape)).astype(np.float32)
    return x * np.array([1, 0, 1e-20, 1e20, 100, 0.01], np.float32).reshape(-1, *[1] * (x.ndim - 1))


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_places_find_the_elements_of_the_arrays_tensor(spec: TensorSpec, fmt: BlockFormat) -> None:
    x = samples(spec)
    encoded, expected = SampleEncoder(spec, fmt).encode(x), encode_tensor(x, spec, fmt)
    np.testing.assert_array_equal(encoded.mantissa[:, encoded.places], expected.mantissa)
    np.testing.assert_array_equal(encoded.exponent, expected.exponent)
    assert not encoded.mantissa[:, 0].any()


def test_samples_of_another_shape_are_refused() -> None:
    with pytest.raises(DataError, match="expects"):
        SampleEncoder(SPECS["image"], BlockFormat()).encode(np.zeros((2, 3, 7, 5), np.float32))
