"""Layers for the zero-skip engine: those of the vectors, and random ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from reference import VECTORS, load_vectors

from bfpga.engines.zero_skip.arithmetic import KernelOrder, LoopNest, ZeroSkipConfig, ZeroSkipShape

Array = npt.NDArray[np.int64]

ORDERS: tuple[KernelOrder, ...] = get_args(KernelOrder)
NESTS: tuple[LoopNest, ...] = get_args(LoopNest)
#: All vectors of layers; zs14 holds encoded words.
LAYER_VECTORS = sorted(path.name for path in VECTORS.glob("zs*.json") if path.stem != "zs14_formats")


@dataclass(frozen=True)
class Case:
    """A layer: images (image, row, column), C[image][kernel][ky][kx]."""

    config: ZeroSkipConfig
    shape: ZeroSkipShape
    images: Array
    coefficients: Array
    bias: Array | None = None

    def kernels(self, first: int, end: int) -> Case:
        """The layer of some of its kernels."""
        coefficients = self.coefficients[:, first:end]
        shape = replace(self.shape, kernels=coefficients.shape[1])
        bias = None if self.bias is None else self.bias[first:end]
        return Case(self.config, shape, self.images, coefficients, bias)

    @property
    def samples(self) -> Array:
        """The images as the engine's emulation takes them: (1, row, column, image)."""
        return self.images.transpose(1, 2, 0)[None]


def vector_case(name: str, order: KernelOrder = "z_major", **changes: Any) -> tuple[Case, dict[str, Any]]:
    """The layer of a vector file and what is expected of it."""
    vector = load_vectors(name)
    numbers, images = vector["config"], np.array(vector["input"]["images"], np.int64)
    coefficients = np.array(vector["weights"]["coefficients"], np.int64)
    assert numbers["in_bytes"] == 1
    fields = {
        "tile_height": numbers["tile"][0], "tile_width": numbers["tile"][1], "lanes": numbers["lanes"],
        "kernels_in_flight": numbers["z_flight"], "order": order, "dependence_latency": numbers["dep_latency"],
        "bus_bytes": numbers["bus_bytes"], "output_bytes": numbers["out_bytes"],
        "double_buffer": numbers["double_buffer"],
        # The vectors count whole beats, however narrow a row is: as many rows as a beat has cells.
        "row_banks": numbers["bus_bytes"],
    }  # fmt: skip
    config = ZeroSkipConfig(**{**fields, **changes})
    shape = ZeroSkipShape(*coefficients.shape, *images.shape[1:], tuple(numbers["pad"]), tuple(numbers["stride"]))
    return Case(config, shape, images, coefficients), vector["expected"]


@st.composite
def cases(draw: st.DrawFn, **fixed: Any) -> Case:
    """Random layers: sizes, strides, paddings, sparsity, tiles, lanes, orders, nests, extremes, biases."""
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kernel = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    padding = draw(st.tuples(*[st.integers(0, 3)] * 4))
    height = draw(st.integers(max(1, kernel[0] - padding[0] - padding[1]), 14))
    width = draw(st.integers(max(1, kernel[1] - padding[2] - padding[3]), 14))
    images, kernels = draw(st.integers(1, 4)), draw(st.integers(1, 7))
    shape = ZeroSkipShape(
        images, kernels, *kernel, height, width, padding, draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    )
    fields = {
        "tile_height": draw(st.integers(1, 8)), "tile_width": draw(st.integers(1, 8)),
        "lanes": draw(st.integers(1, 8)), "kernels_in_flight": draw(st.integers(1, 5)), "stride": 3,
        "order": draw(st.sampled_from(ORDERS)), "nest": draw(st.sampled_from(NESTS)),
        "skip_zero": draw(st.booleans()), "skip_empty": draw(st.booleans()), "double_buffer": draw(st.booleans()),
        "dependence_latency": draw(st.integers(1, 8)), "row_banks": draw(st.sampled_from([1, 2, 8])),
        "accumulator_bits": draw(st.sampled_from([16, 32])),
    }  # fmt: skip
    fields["rows_parallel"] = draw(st.integers(1, fields["tile_height"]))
    coefficients = numbers.integers(-128, 128, (images, kernels, *kernel))
    coefficients[numbers.random(coefficients.shape) < draw(st.floats(0, 1))] = 0
    low = draw(st.sampled_from([-128, -3]))
    pixels = numbers.integers(low, -low, (images, height, width))
    bias = numbers.integers(-1000, 1000, kernels) if draw(st.booleans()) else None
    return Case(ZeroSkipConfig(**{**fields, **fixed}), shape, pixels, coefficients, bias)


def pruned_coefficients(zeros: int) -> Array:
    """16 images, 16 kernels of 3x3 (the layer of section 6.2) with so many zeros at random places."""
    coefficients = np.random.default_rng(4).integers(1, 128, 16 * 16 * 9)
    coefficients[:zeros] = 0
    return np.random.default_rng(5).permutation(coefficients).reshape(16, 16, 3, 3)
