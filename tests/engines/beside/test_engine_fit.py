"""What engines beside the array do not take, and what they say of it (docs/engines.md, sections 1, 2 and 6)."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from array_layers import gemm, image

from bfpga.compiler.lower.layers import Layer
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Policy
from bfpga.contract.engine_numbers import EngineName
from bfpga.contract.program import ArrayNode, PolicySpec, Window
from bfpga.engines.registry import engine_named
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.formats.block_format import BlockFormat

BOTH = SystolicConfig(columns=9, beside=(ZeroSkipNumbers(), ClusterNumbers()))
IMAGE = image("x", 14, 14, 4)
ENGINES: tuple[EngineName, ...] = ("zero_skip", "sparse_cluster")


def layer(kernel: int = 3, stride: int = 1, pad: int = 1, **fields: object) -> ArrayNode:
    size = (14 + 2 * pad - kernel) // stride + 1
    window = Window(kernel, kernel, stride, stride, pad, pad, 1, 1, size, size)
    node = gemm(np.ones((6, kernel, kernel, 4)), window)
    return replace(node, **fields)


@pytest.mark.parametrize("engine", [*ENGINES, "systolic_array"])
@pytest.mark.parametrize(
    ("kernel", "stride", "pad"), [(3, 1, 1), (1, 1, 0), (2, 2, 0), (3, 2, 2), (1, 1, 1), (1, 2, 1)]
)
def test_convolutions_within_the_sizes_are_taken(engine: EngineName, kernel: int, stride: int, pad: int) -> None:
    assert engine_named(engine).refusal(layer(kernel, stride, pad), IMAGE, BOTH) == ""


@pytest.mark.parametrize("engine", ENGINES)
def test_layers_in_float_are_judged_by_their_geometry(engine: EngineName) -> None:
    """Formats and policies are chosen later."""
    node = layer()
    assert node.weights is not None
    floats = Layer("c", "gemm", ("x",), "y", 6, node.window, weights=node.weights.astype(np.float32))
    assert engine_named(engine).refusal(floats, IMAGE, BOTH) == ""
    floats.window = replace(node.window, dilation_x=2)
    assert "dilated by 1x2" in engine_named(engine).refusal(floats, IMAGE, BOTH)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (ArrayNode("p", "max", ("x",), "y", 4, Window(output_height=14, output_width=14)), "no convolution.*max"),
        (layer(weights=None), "weights are not known"),
        (layer(uniform_weights=True), "average"),
        (layer(weight_format="two_hot"), "two_hot, the engine takes linear"),
        (layer(policy=PolicySpec(Policy.STATISTICS)), "statistics, whose result depends on the order"),
        (layer(window=Window(3, 3, dilation_y=2, output_height=10, output_width=12)), "dilated by 2x1"),
        (layer(window=Window(3, 3, pad_top=3, output_height=14, output_width=12)), "padding.*top 3.*kernel of 3x3"),
        (layer(window=Window(3, 3, output_height=15, output_width=12)), "padding.*bottom 3"),
        (layer(5, pad=2), "kernel is 5x5, the engine's largest is 3x3"),
        (layer(3, 3), "stride"),
    ],
)
def test_other_layers_are_refused_with_a_reason(engine: EngineName, node: ArrayNode, reason: str) -> None:
    """ZS R53, SC R14: the dispatcher says why an engine does not take a layer."""
    found = engine_named(engine).refusal(node, IMAGE, BOTH)
    assert re.search(reason, found)
    assert "\n" not in found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": BlockFormat(mantissa_bits=18)}, "18 bits, the engine multiplies 16"),
        ({"accumulator_bits": 50}, "50 bits, the engine's have 16 to 48"),
        ({"parameter_rows": 1}, "2 channels do not fit 1 parameter rows"),
        ({"beside": ()}, "no engine"),
    ],
)
def test_arrays_whose_numbers_an_engine_does_not_have(
    engine: EngineName, change: dict[str, object], reason: str
) -> None:
    assert reason in engine_named(engine).refusal(layer(), IMAGE, replace(BOTH, **change))


def test_padding_beyond_a_kernel_is_taken_as_far_as_zeros_around_the_kernel_fit() -> None:
    """Section 9: a kernel grows by two lines for each line of padding beyond it; the refusal says to what."""
    found = engine_named("zero_skip").refusal(layer(1, pad=2), IMAGE, BOTH)
    assert "with zeros around it the kernel is 5x5, the engine's largest is 3x3" in found
    large = replace(BOTH, beside=(ZeroSkipNumbers(kernel_height=5, kernel_width=5),))
    assert engine_named("zero_skip").refusal(layer(1, pad=2), IMAGE, large) == ""
    one_side = Window(1, 1, pad_top=2, output_height=16, output_width=14)
    assert engine_named("sparse_cluster").refusal(replace(layer(1), window=one_side), IMAGE, BOTH) == ""


def test_strides_share_no_factor_with_the_blocks_of_the_cluster() -> None:
    """Section 6: outputs of a row lie in different banks."""
    found = engine_named("sparse_cluster").refusal(layer(3, 3), IMAGE, BOTH)
    assert "3x3 has a factor in common with the engine's kernel of 3" in found
    wide = replace(BOTH, beside=(ZeroSkipNumbers(stride=3),))
    assert engine_named("zero_skip").refusal(layer(3, 3), IMAGE, wide) == ""


def test_rows_too_long_for_the_units_are_refused() -> None:
    """SC R55, R155"""
    small = ClusterNumbers(grid_rows=1, grid_columns=2, accumulator_words=8, memory_words=256)
    found = engine_named("sparse_cluster").refusal(layer(), IMAGE, replace(BOTH, beside=(small,)))
    assert "one row of its output does not fit the units" in found
    assert "1x2 pieces of 8 sums" in found
