"""Resources of the engines beside the array: parts counted by hand, growth with sizes, nothing where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfpga.accelerator.boards import load_board
from bfpga.accelerator.constraints import board_findings, config_findings, exceeded, largest_columns
from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.contract.configuration import SystolicConfig
from bfpga.engines.interface.resource_units import Resources
from bfpga.engines.kernel_resources import estimate_resources
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.formats.block_format import BlockFormat

ARRAY = SystolicConfig(columns=9, rows=4, lanes=2, multiplier="dsp_packed", accumulator_bits=32)
ZERO_SKIP = ZeroSkipNumbers(16, 16, lanes=12, rows_parallel=2, kernels_in_flight=8)
CLUSTER = ClusterNumbers(2, 4, kernel=3, kernels_in_flight=8, accumulator_words=64, memory_words=256)
BOTH = replace(ARRAY, beside=(ZERO_SKIP, CLUSTER))


def parts(config: SystolicConfig) -> dict[str, Resources]:
    return estimate_resources(config).parts


def with_cluster(**changes: Any) -> SystolicConfig:
    return replace(ARRAY, beside=(replace(CLUSTER, **changes),))


def with_zero_skip(**changes: Any) -> SystolicConfig:
    return replace(ARRAY, beside=(replace(ZERO_SKIP, **changes),))


def total(config: SystolicConfig) -> Resources:
    return estimate_resources(config).total


# Parts by hand


def test_engines_add_their_parts_and_change_no_other() -> None:
    alone, both = parts(ARRAY), parts(BOTH)
    assert {name: both[name] for name in alone} == alone
    assert {name.split(" ")[0] for name in both.keys() - alone.keys()} == {"zero-skip", "cluster"}


@pytest.mark.parametrize(
    ("grid", "kernel", "multiplier", "dsp"),
    [((2, 4), 3, "dsp", 72), ((4, 2), 3, "dsp", 72), ((1, 1), 3, "dsp", 9), ((4, 4), 2, "dsp", 64),
     ((2, 4), 3, "lut", 0)],
)  # fmt: skip
def test_a_cluster_costs_a_dsp_block_a_product(grid: tuple[int, int], kernel: int, multiplier: str, dsp: int) -> None:
    """SC 7.1: m x p multipliers, p = kernel x kernel."""
    config = with_cluster(grid_rows=grid[0], grid_columns=grid[1], kernel=kernel, multiplier=multiplier)
    assert parts(config)["cluster multipliers"].dsp == dsp


@pytest.mark.parametrize(
    ("lanes", "rows", "multiplier", "dsp"),
    [(28, 4, "dsp_packed", 56), (28, 5, "dsp_packed", 70), (9, 3, "dsp_packed", 15), (28, 4, "dsp", 112),
     (28, 4, "lut", 0)],
)  # fmt: skip
def test_two_packed_pixels_of_a_row_share_a_dsp_block(lanes: int, rows: int, multiplier: str, dsp: int) -> None:
    """ZS 7.1: a multiplier a lane and row; an odd lane has a block of its own."""
    config = with_zero_skip(lanes=lanes, rows_parallel=rows, multiplier=multiplier)
    assert parts(config)["zero-skip multipliers"].dsp == dsp


@pytest.mark.parametrize(
    ("kernels", "words", "bits", "bram36"),
    [
        (8, 64, 32, 36),  # 72 sums of 512 x 32 bits: half a block each
        (8, 64, 36, 36),
        (8, 64, 37, 72),  # wider than half a block
        (8, 128, 32, 72),  # 1024 words: 18 bits a half
        (16, 32, 24, 36),
    ],
)
def test_sums_of_a_cluster_fill_half_block_memories(kernels: int, words: int, bits: int, bram36: int) -> None:
    """SC 7.2: a memory for each of the p sums of each of the m units. A half holds 512 x 36, 1024 x 18 or 2048 x 9."""
    config = with_cluster(kernels_in_flight=kernels, accumulator_words=words)
    assert parts(replace(config, accumulator_bits=bits))["cluster sums"].bram36 == bram36


def test_halves_of_an_odd_number_of_sums_are_shared_between_units() -> None:
    """Three units with 9 halves each are 27 halves, 14 blocks."""
    assert parts(with_cluster(grid_rows=3, grid_columns=1))["cluster sums"].bram36 == 14


def test_pieces_hold_two_sets_of_segments() -> None:
    """Segments of 8 pixels x 2 lanes x 8 bits and their place of 60 bits: 188 bits are 6 halves of 36.

    Both sets of 256 are halves of one memory. The place: an address of 11 bits, phases of a row and a column of 3 bits
    each, 3 rows of a kernel, a column of the outputs of 2 x 20 bits.
    """
    assert parts(with_cluster())["cluster pieces"].bram36 == 8 * 6 // 2
    assert parts(with_cluster(memory_words=128))["cluster pieces"].bram36 == 8 * 6 // 2
    # 1024 segments: halves of 18 bits, 11 of them; units share the odd ones
    assert parts(with_cluster(memory_words=512))["cluster pieces"].bram36 == 8 * 11 // 2


def test_counts_of_lines_are_tables() -> None:
    """SC R131: they are written and read in one clock."""
    assert parts(with_cluster())["cluster partition"].bram36 == 0


def test_sums_of_a_zero_skip_engine_are_behind_every_multiplier() -> None:
    """ZS 7.2: 8 kernels x 8 x 2 words of a tile of 16 x 16, 128 words: half a block for each of 24 multipliers."""
    assert parts(with_zero_skip())["zero-skip sums"].bram36 == 12
    # A tile of 64 x 64 has 32 x 6 words; with 16 kernels 3072, of which a half holds 2048 x 9 bits.
    large = with_zero_skip(tile_height=64, tile_width=64, kernels_in_flight=16)
    assert parts(large)["zero-skip sums"].bram36 == 24 * min(2 * 4, 3 * 2, 6) // 2


def test_pixels_that_are_multiplied_are_not_in_block_memory() -> None:
    """ZS R33: every column of the tile buffer is read in the same clock; look-up table memories have the ports."""
    assert parts(with_zero_skip())["zero-skip tile buffer"].bram36 == 0


# Growth


@given(
    st.sampled_from(["grid_rows", "grid_columns", "kernels_in_flight", "accumulator_words", "memory_words"]),
    st.integers(1, 4), st.integers(1, 8), st.sampled_from([2, 4, 8, 16]), st.sampled_from(["dsp", "lut"]),
)  # fmt: skip
def test_more_of_a_cluster_never_costs_less(key: str, rows: int, columns: int, flight: int, multiplier: str) -> None:
    """SC 7.3."""
    small = with_cluster(grid_rows=rows, grid_columns=columns, kernels_in_flight=flight, multiplier=multiplier)
    more = replace(small.numbers_of(ClusterNumbers), **{key: 2 * getattr(small.numbers_of(ClusterNumbers), key)})
    assert_no_less(total(replace(small, beside=(more,))), total(small))


@given(
    st.sampled_from(["lanes", "rows_parallel", "kernels_in_flight", "stride", "kernel_height", "kernel_width"]),
    st.integers(9, 40), st.integers(1, 8), st.sampled_from([2, 8, 16]), st.sampled_from(["dsp", "dsp_packed", "lut"]),
)  # fmt: skip
def test_more_of_a_zero_skip_engine_never_costs_less_in_multipliers_and_tables(
    key: str, lanes: int, rows: int, flight: int, multiplier: str
) -> None:
    """ZS 7.3; block memory may fall: more multipliers have fewer sums each."""
    small = with_zero_skip(
        tile_height=64, tile_width=64, lanes=lanes, rows_parallel=rows, kernels_in_flight=flight,
        multiplier=multiplier, stride=1,
    )  # fmt: skip
    more = replace(small.numbers_of(ZeroSkipNumbers), **{key: 2 * getattr(small.numbers_of(ZeroSkipNumbers), key)})
    large = total(replace(small, beside=(more,)))
    assert_no_less(replace(large, bram36=total(small).bram36), total(small), lut_slack=0.1)


def assert_no_less(large: Resources, small: Resources, lut_slack: float = 0.0) -> None:
    assert large.dsp >= small.dsp
    assert large.bram36 >= small.bram36
    assert large.lut >= small.lut * (1 - lut_slack)
    assert large.ff >= small.ff


@pytest.mark.parametrize("units", [1, 2, 4, 8, 16])
def test_a_unit_more_costs_the_same_in_products_wherever_it_comes(units: int) -> None:
    """SC 7.1: units are alike."""
    one = parts(with_cluster(grid_rows=1, grid_columns=1))
    many = parts(with_cluster(grid_rows=1, grid_columns=units))
    assert many["cluster multipliers"] == Resources(9 * units, 0, 0, units * one["cluster multipliers"].ff)
    assert many["cluster sums"].lut == units * one["cluster sums"].lut


def test_wider_mantissas_cost_more_of_everything_an_engine_multiplies_and_adds() -> None:
    narrow = replace(BOTH, accumulator_bits=48, beside=(replace(ZERO_SKIP, multiplier="lut"), CLUSTER))
    wide = replace(narrow, format=BlockFormat(16), multiplier="dsp")
    narrow = replace(narrow, multiplier="dsp")
    for name in ("zero-skip multipliers", "zero-skip tile buffer", "cluster sums", "cluster pieces"):
        assert parts(wide)[name].lut > parts(narrow)[name].lut, name


# Boards


@pytest.mark.parametrize("name", [name for name in accelerator_names() if load_accelerator(name).systolic.engines[1:]])
def test_ready_accelerators_leave_tables_for_routing(name: str) -> None:
    """docs/estimates.md: more than 85 % of the tables is not planned; DSP blocks and memories may be used up."""
    accelerator = load_accelerator(name)
    needed = total(accelerator.systolic)
    assert exceeded(needed, accelerator.board) == []
    assert needed.lut <= 0.85 * accelerator.board.lut
    assert config_findings(accelerator.systolic) == []


def test_the_columns_that_a_refusal_names_fit_beside_the_engine() -> None:
    accelerator, board = load_accelerator("pynq_z2_zero_skip_loop"), load_board("pynq_z2")
    wide = replace(accelerator.systolic, columns=24)
    best = largest_columns(wide, board)
    ((key, text, engine),) = board_findings(wide, board)
    assert (key, engine) == ("columns", "systolic_array")
    assert text.endswith(f"at most {best} columns fit beside zero_skip")
    assert 0 < best < 24
    assert board_findings(replace(wide, columns=best), board) == []
