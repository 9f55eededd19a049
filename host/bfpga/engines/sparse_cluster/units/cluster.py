"""The sparse compute cluster in numpy: one layer of integers, bit for bit, and its clocks (docs/sparse-cluster.md).

Sums are taken modulo 2**accumulator_bits, so no order of products changes a bit: the results of every variant,
partition and number of units are those of one exact dense product. A variant changes the clocks, which are counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bfpga.engines.array.accumulators import Convolve, convolution
from bfpga.engines.sparse_cluster.partition.geometry import NO_PADDING, Padding, Rectangle
from bfpga.engines.sparse_cluster.units.configuration import SparseClusterConfig
from bfpga.engines.sparse_cluster.units.cycles import LayerCycles, count_layer
from bfpga.engines.sparse_cluster.units.output import stitch_halo, stitch_overlap_add
from bfpga.engines.sparse_cluster.units.plan import Piece, Plan, plan_layer
from bfpga.engines.sparse_cluster.units.reduction import count_reduction, takes_reduction_path
from bfpga.engines.sparse_cluster.units.weights import SparseLayer, weight_patterns
from bfpga.errors import DataError
from bfpga.formats.arrays import BoolArray, Int64Array, IntArray
from bfpga.formats.rounding import wrap

__all__ = ["SparseCluster", "SparseClusterConfig", "SparseLayer"]


class SparseCluster:
    """One layer prepared for a cluster: weights in the type that makes products exact, patterns analysed once.

    ``ConfigurationError`` if the cluster cannot run the layer (kernel, accumulator width).
    """

    def __init__(self, layer: SparseLayer, config: SparseClusterConfig) -> None:
        config.check_layer(layer.kernel, layer.weights.shape[3])
        check_range(layer.weights, config.weight_bits, "weights")
        self.layer = layer
        self.config = config
        self.patterns = weight_patterns(layer, config)
        self._convolutions: dict[tuple[int, int], Convolve] = {}

    def run(self, x: IntArray) -> Int64Array:
        """Sums (samples, output rows, output columns, kernels) of images (samples, rows, columns, channels).

        None of them leaves the accumulator: the width was checked against all products of a sum (E10).
        """
        self._check_input(x)
        rows, columns = self.layer.output_shape(x.shape[1], x.shape[2])
        sums = self._convolution(x.shape[1], x.shape[2])(x)
        return sums.reshape(len(x), rows, columns, len(self.layer.weights)).astype(np.int64)

    def plan(self, image: IntArray, work: IntArray | None = None) -> Plan:
        """How one image (rows, columns, channels) is folded and cut for the units.

        work: whole numbers >= 0 (rows, columns), or (channels, rows, columns) for the scope ``channel``: a function of
        one's own, balanced instead of the metric (R27).
        """
        return plan_layer(self.layer, self.config, self.patterns, self._nonzero(image), work)

    def cycles(self, image: IntArray, plan: Plan | None = None) -> LayerCycles:
        """Counters and clocks of one image (rows, columns, channels); plan: another way to cut it than ``plan``'s."""
        nonzero = self._nonzero(image)
        if plan is None and takes_reduction_path(self.layer, self.config):
            return count_reduction(self.layer, self.config, nonzero)
        plan = plan or plan_layer(self.layer, self.config, self.patterns, nonzero)
        return count_layer(self.layer, self.config, self.patterns, nonzero, plan)

    def piece_results(self, image: IntArray, plan: Plan) -> list[Int64Array]:
        """What the units deliver for each piece of a plan: (rows, columns, kernels).

        In halo mode the outputs that a piece owns; in overlap-add mode its raw full grid. With the scope ``channel``
        each result is that of the piece's channel alone.
        """
        self._check_input(image[None])
        compute = self._owned_outputs if plan.mode == "halo" else self._full_grid
        return [compute(image, piece) for piece in plan.pieces]

    def stitch(self, results: Sequence[Int64Array], plan: Plan, shape: tuple[int, int]) -> Int64Array:
        """The output map (rows, columns, kernels) from the units' results; shape: rows and columns of the input."""
        total = np.zeros((*self.layer.output_shape(*shape), len(self.layer.weights)), np.int64)
        for channels in sorted({piece.channels for piece in plan.pieces}):
            pairs = list(zip(plan.pieces, results, strict=True))
            part = [(piece.owned, result) for piece, result in pairs if piece.channels == channels]
            total += self._stitched(part, plan.mode, shape)
        return wrap(total, self.config.accumulator_bits)

    def _stitched(self, part: list[tuple[Rectangle, Int64Array]], mode: str, shape: tuple[int, int]) -> Int64Array:
        if mode == "halo":
            return stitch_halo(part, self.layer.output_shape(*shape))
        return stitch_overlap_add(part, self.layer, *shape, self.config.accumulator_bits)

    def _owned_outputs(self, image: IntArray, piece: Piece) -> Int64Array:
        """Outputs of the rectangle a piece owns, from the cells it stores."""
        layer, owned, stored = self.layer, piece.owned, piece.stored
        top = stored.row0 - (owned.row0 * layer.stride[0] - layer.padding.top)
        left = stored.column0 - (owned.column0 * layer.stride[1] - layer.padding.left)
        height = (owned.rows - 1) * layer.stride[0] + layer.kernel[0]
        width = (owned.columns - 1) * layer.stride[1] + layer.kernel[1]
        cells = np.zeros((height, width, image.shape[2]), image.dtype)
        cells[top : top + stored.rows, left : left + stored.columns] = self._stored(image, piece)
        return self._convolved(cells, SparseLayer(layer.weights, NO_PADDING, layer.stride, layer.groups))

    def _full_grid(self, image: IntArray, piece: Piece) -> Int64Array:
        """Raw full grid of a piece (E3)."""
        rows, columns = self.layer.kernel
        padding = Padding(rows - 1, rows - 1, columns - 1, columns - 1)
        return self._convolved(
            self._stored(image, piece), SparseLayer(self.layer.weights, padding, groups=self.layer.groups)
        )

    def _stored(self, image: IntArray, piece: Piece) -> IntArray:
        """The cells of a piece; channels it does not hold are zero."""
        stored = piece.stored
        cells = np.zeros((stored.rows, stored.columns, image.shape[2]), image.dtype)
        held = slice(*piece.channels)
        cells[:, :, held] = image[stored.row0 : stored.row1, stored.column0 : stored.column1, held]
        return cells

    def _convolved(self, cells: IntArray, layer: SparseLayer) -> Int64Array:
        rows, columns = layer.output_shape(cells.shape[0], cells.shape[1])
        function = convolution(
            layer.weights, layer.window(cells.shape[0], cells.shape[1]), layer.groups, self._largest_input
        )
        return function(cells[None]).reshape(rows, columns, -1).astype(np.int64)

    @property
    def _largest_input(self) -> int:
        return 1 << (self.config.input_bits - 1)

    def _convolution(self, height: int, width: int) -> Convolve:
        key = (height, width)
        if key not in self._convolutions:
            window = self.layer.window(height, width)
            self._convolutions[key] = convolution(self.layer.weights, window, self.layer.groups, self._largest_input)
        return self._convolutions[key]

    def _nonzero(self, image: IntArray) -> BoolArray:
        self._check_input(image[None])
        return np.ascontiguousarray((image != 0).transpose(2, 0, 1))

    def _check_input(self, x: IntArray) -> None:
        if x.ndim != 4 or x.shape[3] != self.layer.channels:
            raise DataError(
                f"sparse cluster: images have shape {x.shape[1:]}; (rows, columns, {self.layer.channels}) is needed"
            )
        if min(self.layer.output_shape(x.shape[1], x.shape[2])) < 1:
            raise DataError(
                f"sparse cluster: a map of {x.shape[1]} x {x.shape[2]} is smaller than the kernel "
                f"{self.layer.kernel[0]} x {self.layer.kernel[1]} with its padding"
            )
        check_range(x, self.config.input_bits, "inputs")


def check_range(values: IntArray, bits: int, what: str) -> None:
    """Refuse values that are no integers of ``bits`` bits."""
    if values.dtype.kind not in "iu":
        raise DataError(f"sparse cluster: {what} have type {values.dtype}; integers are needed")
    half = 1 << (bits - 1)
    if values.size and not (-half <= int(values.min()) and int(values.max()) < half):
        raise DataError(
            f"sparse cluster: {what} go from {int(values.min())} to {int(values.max())}; {bits} bits hold {-half} to "
            f"{half - 1}"
        )
