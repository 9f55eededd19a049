"""Kernels in parts, numbers of lanes from densities, weights of a round: helpers around the sparse cluster."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_sparse_cluster import convolve

from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings
from bfpga.engines.sparse_cluster.partition.geometry import Padding
from bfpga.engines.sparse_cluster.units.cluster import SparseCluster, SparseClusterConfig, SparseLayer
from bfpga.engines.sparse_cluster.units.parts import SplitCluster, layer_parts
from bfpga.engines.sparse_cluster.units.sizing import LaneSizes, lane_sizes, weights_in_round
from bfpga.errors import ConfigurationError


def test_a_kernel_of_5_by_5_as_four_parts() -> None:
    """SC R7: each part is 3 x 3 at most; together they are the direct convolution"""
    generator = np.random.default_rng(1)
    kernel, image = generator.integers(-9, 10, (5, 5)), generator.integers(-9, 10, (9, 8))
    layer = SparseLayer(kernel[None, :, :, None], Padding(2, 2, 2, 2))
    config = SparseClusterConfig()
    with pytest.raises(ConfigurationError, match="a larger one has to be split"):
        SparseCluster(layer, config)
    split = SplitCluster(layer, config)
    parts = split.parts((9, 8))
    assert [part.offset for part in parts] == [(0, 0), (0, 3), (3, 0), (3, 3)]
    assert [part.layer.kernel for part in parts] == [(3, 3), (3, 2), (2, 3), (2, 2)]
    found = split.run(image[None, :, :, None])[0, :, :, 0]
    assert found.tolist() == convolve(image.tolist(), kernel.tolist(), (2, 2, 2, 2), (1, 1))
    assert split.cycles(image[:, :, None]) > 0


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_parts_add_up_to_the_whole(data: st.DataObject) -> None:
    """SC R7: any kernel, padding, stride, groups and largest sub-kernel"""
    generator = np.random.default_rng(data.draw(st.integers(0, 1 << 20)))
    kernel = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7))
    largest = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    groups = data.draw(st.sampled_from([1, 2]))
    padding = Padding(*(data.draw(st.integers(0, 8)) for _ in range(4)))
    rows = max(data.draw(st.integers(1, 10)), kernel[0] - padding.top - padding.bottom)
    columns = max(data.draw(st.integers(1, 10)), kernel[1] - padding.left - padding.right)
    weights = generator.integers(-128, 128, (2 * groups, *kernel, 2))
    layer = SparseLayer(weights, padding, (data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))), groups)
    images = generator.integers(-128, 128, (2, rows, columns, 2 * groups))
    whole = SparseCluster(layer, SparseClusterConfig(largest_kernel=(7, 7))).run(images)
    small = SparseClusterConfig(largest_kernel=largest, partition=PartitionSettings(mode="overlap_add"))
    np.testing.assert_array_equal(SplitCluster(layer, small).run(images), whole)
    for part in layer_parts(layer, largest, (rows, columns)):
        assert part.layer.output_shape(part.cells.rows, part.cells.columns) == layer.output_shape(rows, columns)


def test_the_sums_of_all_parts_fit_the_accumulators() -> None:
    """SC R7, SC R154: 49 products need more bits than the 9 of one part"""
    layer = SparseLayer(np.ones((1, 7, 7, 1), np.int64))
    with pytest.raises(ConfigurationError, match="49 products of 8 x 8 bits need 22"):
        SplitCluster(layer, SparseClusterConfig(accumulator_bits=21))


def test_lanes_from_cells_and_densities() -> None:
    """SC R68: X7 of the specification, 60 % of 3 x 3 weights are 6 lanes; 20 % of 4 x 4 values are 4"""
    assert lane_sizes((3, 3), (4, 4), 0.2, 0.6) == LaneSizes(16, 4, 9, 6)
    assert lane_sizes((1, 1), (1, 1), 0.0) == LaneSizes(1, 1, 1, 1)
    assert lane_sizes((10, 10), (10, 10), 0.07, 1.0).tile_values == 7, "0.07 * 100 is 7, whatever floats say"


@pytest.mark.parametrize(("lanes", "values", "weights"), [(4, 3, 2), (3, 2, 2), (3, 1, 3), (9, 2, 5)])
def test_weights_of_a_round_that_begins_with_a_weight(lanes: int, values: int, weights: int) -> None:
    """SC R71: the examples of section 6.2, and the cap"""
    assert weights_in_round(lanes, values) == weights
    assert weights_in_round(lanes, values, cap=2) == min(weights, 2)


@given(st.integers(1, 32), st.integers(1, 32), st.integers(0, 31))
def test_weights_of_a_round_that_begins_anywhere(lanes: int, values: int, skipped: int) -> None:
    """SC R71: counted lane by lane; the worst case is reached"""
    most = max(len({(first + lane) // values for lane in range(lanes)}) for first in range(values))
    assert weights_in_round(lanes, values, aligned=False) == most
    assert len({(skipped + lane) // values for lane in range(lanes)}) <= most
    assert weights_in_round(lanes, values) == len({lane // values for lane in range(lanes)})


def test_impossible_sizes_are_refused() -> None:
    """SC R154"""
    with pytest.raises(ConfigurationError, match=r"the density is 1\.5; a share from 0 to 1 is needed"):
        lane_sizes((3, 3), (4, 4), 1.5)
    with pytest.raises(ConfigurationError, match="sides of 1 or more are needed"):
        lane_sizes((3, 0), (4, 4), 0.5)
    with pytest.raises(ConfigurationError, match="0 values"):
        weights_in_round(4, 0)
