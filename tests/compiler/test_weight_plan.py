"""Weights that do not fit are cut into pieces that do."""

from __future__ import annotations

import numpy as np
import pytest

from bfpga.compiler.schedule.weight_plan import plan_weights
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, Window


def grouped_layer(channels: int, groups: int, inner: int) -> ArrayNode:
    weights = np.ones((channels, 4, 2, inner), np.int32)
    window = Window(4, 2, output_height=4, output_width=2)
    return ArrayNode("layer", "gemm", ("x",), "y", channels, window, groups=groups, weights=weights)


@pytest.mark.parametrize("weight_words", [16, 32, 64, 96])
@pytest.mark.parametrize(("channels", "groups", "inner"), [(32, 2, 3), (24, 2, 5), (40, 1, 3), (48, 4, 2)])
def test_every_piece_of_a_layer_fits_the_weight_memory(
    weight_words: int, channels: int, groups: int, inner: int
) -> None:
    """Two groups of three channels straddle words of four lanes: all row blocks together read more words each."""
    config = KernelConfig(columns=3, rows=4, lanes=4, weight_words=weight_words, parameter_rows=256)
    node = grouped_layer(channels, groups, inner)
    plan = plan_weights([node], config)["layer"]
    assert all(tile.weight_base + tile.words <= weight_words for tile in plan.tiles)
    assert all(tile.parameter_base + tile.rows <= config.parameter_rows for tile in plan.tiles)
    assert [tile.m0 for tile in plan.tiles[1:]] == [tile.m1 for tile in plan.tiles[:-1]]
    assert (plan.tiles[0].m0, plan.tiles[-1].m1) == (0, channels)
