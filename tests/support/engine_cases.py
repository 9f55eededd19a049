"""Single operations of the engines beside the array for tests of their clocks, without a schedule around them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor, Operation
from bfpga.engines.sparse_cluster.limits import piece_limits
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers

#: No skew, two columns and lanes: 2 positions, 24 clocks of pipelines, 2 clocks to write a word.
PLAIN = SystolicConfig(columns=2, rows=2, lanes=2, skew=False)


@dataclass(frozen=True)
class EngineCase:
    """One operation: weights (kernels, rows, columns, channels), inputs (samples, rows, columns, channels)."""

    config: SystolicConfig
    descriptor: Descriptor
    weights: np.ndarray
    x: np.ndarray

    def rectangle(self, sample: int) -> list[list[list[int]]]:
        """[row][column][channel] with the lanes that fill the last word."""
        missing = -self.x.shape[3] % self.config.lanes
        return np.pad(self.x[sample], ((0, 0), (0, 0), (0, missing))).tolist()


def descriptor(
    operation: Operation,
    weights: np.ndarray,
    rectangle: tuple[int, int],
    outputs: tuple[int, int],
    config: SystolicConfig,
    **fields: int,
) -> Descriptor:
    """What clocks depend on: a rectangle of the input, outputs, kernels; stride 1 unless fields say something else."""
    kernels, kernel_height, kernel_width, channels = weights.shape
    (build,) = config.beside
    return Descriptor(
        operation, output_pixels=outputs[0] * outputs[1], output_width=outputs[1], group_rows=outputs[0],
        kernel_height=kernel_height, kernel_width=kernel_width, input_height=rectangle[0], input_width=rectangle[1],
        channel_words=-(-channels // config.lanes), output_rows=kernels, blocks=-(-kernels // build.kernels_in_flight),
        **fields,
    )  # fmt: skip


def sparse_integers(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> np.ndarray:
    """Integers of 8 bits, a share of ``density`` of them not zero."""
    values = rng.integers(1, 128, shape) * rng.choice([-1, 1], shape)
    return np.where(rng.random(shape) < density, values, 0)


DENSITIES = st.sampled_from([0.0, 0.05, 0.3, 0.7, 1.0])


@st.composite
def zero_skip_cases(draw: st.DrawFn) -> EngineCase:
    """Tiles of a step and of many, kernels in several groups, images without an entry."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    lanes = draw(st.sampled_from([1, 2, 4]))
    build = ZeroSkipNumbers(
        tile_height=6, tile_width=8, lanes=draw(st.integers(3, 8)), rows_parallel=draw(st.integers(1, 2)),
        kernels_in_flight=lanes * draw(st.integers(1, 4)), load_pixels=draw(st.sampled_from([1, 2, 8])),
    )  # fmt: skip
    config = SystolicConfig(columns=draw(st.integers(1, 3)), rows=4, lanes=lanes, beside=(build,))
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 8))
    kernel = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    shape = draw(st.integers(1, 9)), *kernel, draw(st.integers(1, 5))
    weights = sparse_integers(rng, shape, draw(DENSITIES))
    weights[..., rng.random(shape[3]) < 0.3] = 0
    rectangle = rows + kernel[0] - 1, columns + kernel[1] - 1
    found = descriptor(
        Operation.ZERO_SKIP, weights, rectangle, (rows, columns), config, entry_order=draw(st.integers(0, 2))
    )
    return EngineCase(config, found, weights, np.zeros((1, *rectangle, shape[3]), int))


@st.composite
def cluster_cases(draw: st.DrawFn) -> EngineCase:
    """Strips of one cell and of many, more units than lines, weights and maps with and without zeros."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    lanes = draw(st.sampled_from([1, 2, 4]))
    build = ClusterNumbers(
        grid_rows=draw(st.integers(1, 3)), grid_columns=draw(st.integers(1, 4)), kernel=draw(st.sampled_from([1, 3])),
        kernels_in_flight=lanes * draw(st.integers(1, 3)), accumulator_words=draw(st.sampled_from([16, 32, 200])),
        memory_words=draw(st.sampled_from([12, 200])), load_pixels=draw(st.sampled_from([1, 2, 4])),
    )  # fmt: skip
    config = SystolicConfig(columns=9, rows=4, lanes=lanes, beside=(build,))
    kernel = draw(st.integers(1, build.kernel)), draw(st.integers(1, build.kernel))
    rows, columns = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    while piece_limits(build, rows, columns, kernel) is None:
        rows -= 1
    rectangle = max(rows, kernel[0]), max(columns, kernel[1])
    most = piece_limits(build, *rectangle, kernel)
    if most is None:
        rectangle, most = kernel, kernel
    shape = draw(st.integers(1, 7)), *kernel, draw(st.integers(1, 9))
    weights = sparse_integers(rng, shape, draw(DENSITIES))
    weights[..., rng.random(shape[3]) < 0.3] = 0
    outputs = rectangle[0] - kernel[0] + 1, rectangle[1] - kernel[1] + 1
    found = descriptor(
        Operation.SPARSE, weights, rectangle, outputs, config, piece_rows=most[0], piece_columns=most[1],
        count_step=draw(st.integers(0, 3)), write_slots=draw(st.sampled_from([1, build.kernel])),
    )  # fmt: skip
    x = sparse_integers(rng, (draw(st.integers(1, 4)), *rectangle, shape[3]), draw(DENSITIES))
    x[:, :, rng.random(rectangle[1]) < 0.3] = 0
    x[:, rng.random(rectangle[0]) < 0.3] = 0
    return EngineCase(config, found, weights, x.astype(np.int8))
