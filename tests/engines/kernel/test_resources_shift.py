"""Tables of shift tiles and of arrays that mix both kinds of columns: the model against counts of a synthesizer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfpga.accelerator.boards import load_board
from bfpga.accelerator.constraints import board_findings, largest_shift_columns
from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.configuration import KernelConfig
from bfpga.engines.systolic import shift_resources as model
from bfpga.estimate.roofline import estimate_roofline
from bfpga.formats.shift_format import ShiftFormat

#: Written by `python -m benchmarks.array.lut_estimate --all --table tests/data/lut_counts.json` (Yosys 0.70).
COUNTS: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "data" / "lut_counts.json").read_text())
#: Largest distance of the model from a count, as a share of the count.
TOLERANCE = 0.15
def modelled(module: str, parameters: dict[str, int]) -> float:
    """What the model says of a counted module."""
    fmt = ShiftFormat(x_width=parameters.get("XW", 8), exp_width=parameters.get("EW", 3), d=parameters.get("D", 0))
    bits, both = parameters.get("ACC", 32), bool(parameters.get("BOTH", 0))
    if module == "shift_tile":
        return model.shift_tile_lut(fmt, parameters["LANES"], bits, both)
    if module == "shift_product":
        return model.two_hot_product_lut(fmt) if parameters["TWO_HOT"] else model.barrel_lut(fmt)
    if module == "two_hot_value":
        return model.decoder_lut(fmt, 8)
    if module == "packed_rows":
        return 2 * model.packed_row_lut(bits)
    if module == "dsp_row":
        return model.dsp_row_lut(parameters["MW"], parameters["LANES"], bits)
    assert module == "forwarder"
    return parameters["ROWS"] * model.way_out_lut(bits, parameters["ROWS"])


@pytest.mark.parametrize("family", ["xc7", "xcup"])
def test_model_is_within_15_percent_of_every_count(family: str) -> None:
    counts = [count for count in COUNTS if count["family"] == family]
    assert len(counts) > 200
    off = {
        f"{count['module']} {count['parameters']}": modelled(count["module"], count["parameters"]) / count["lut"] - 1
        for count in counts
    }
    assert {name: f"{100 * share:.1f} %" for name, share in off.items() if abs(share) > TOLERANCE} == {}


@given(
    st.sampled_from([1, 2, 3]), st.integers(0, 7), st.sampled_from([1, 2, 4]), st.integers(18, 47), st.booleans(),
    st.integers(2, 15),
)  # fmt: skip
def test_wider_is_never_smaller(exponent: int, d: int, lanes: int, bits: int, both: bool, width: int) -> None:
    def tile(fmt: ShiftFormat, lanes: int = lanes, bits: int = bits, both: bool = both) -> float:
        return model.shift_tile_lut(fmt, lanes, bits, both)

    fmt = ShiftFormat(x_width=width, exp_width=exponent, d=d)
    one = tile(fmt)
    assert tile(replace(fmt, x_width=width + 1)) >= one
    assert tile(replace(fmt, exp_width=exponent + 1)) >= one or fmt.d > fmt.exp_max
    assert tile(replace(fmt, d=d + 1)) >= one
    assert tile(fmt, lanes=2 * lanes) > one
    assert tile(fmt, bits=bits + 1) > one
    assert tile(fmt, both=True) >= one


def test_refusal_names_the_shift_columns_that_fit() -> None:
    accelerator = load_accelerator("pynq_z2_mixed")
    config, board = accelerator.config, load_board("pynq_z2")
    wide = replace(config, columns=32, shift_columns=20)
    ((key, text),) = board_findings(wide, board)
    best = largest_shift_columns(wide, board)
    assert key == "shift_columns"
    assert text.startswith("is 20: ")
    assert "LUTs in all, more than the 53200" in text
    assert text.endswith(f"at most {best} shift columns fit with 12 columns of DSP blocks")
    fitting = replace(config, columns=12 + best, shift_columns=best)
    assert best > 0
    assert board_findings(fitting, board) == []
    assert board_findings(replace(fitting, columns=13 + best, shift_columns=best + 1), board) != []


def test_columns_of_dsp_blocks_that_do_not_fit_are_named_themselves() -> None:
    config = replace(load_accelerator("pynq_z2_mixed").config, columns=45, shift_columns=5)
    ((key, text),) = board_findings(config, load_board("pynq_z2"))
    assert key == "columns"
    assert text.startswith("is 40: ")
    assert "columns fit" in text


@pytest.mark.parametrize(
    ("name", "formats"),
    [
        ("pynq_z2_shift", ("two_hot", "power_of_two")),
        ("pynq_z2_mixed", ("linear", "two_hot")),
        ("zcu104_mixed", ("linear", "two_hot")),
        ("pynq_z2_dense", ("linear",)),
    ],
)
def test_roofline_knows_what_each_format_of_weights_reaches(name: str, formats: tuple[str, ...]) -> None:
    """SM R31: two powers of two a unit and clock, one two-hot weight; columns of DSP blocks take both of a word."""
    accelerator = load_accelerator(name)
    config = accelerator.config
    column = config.rows * config.lanes
    reached = {
        "linear": (config.columns - config.shift_columns) * column,
        "two_hot": config.columns * column,
        "power_of_two": 2 * config.columns * column,
    }
    assert estimate_roofline(accelerator).format_macs == {kind: reached[kind] for kind in formats}
    for kind in formats:
        assert str(reached[kind]) in accelerator.description


@pytest.mark.parametrize("columns", [5, 17, 47])
def test_every_memory_has_a_column_where_their_count_is_prime(columns: int) -> None:
    assert KernelConfig(columns=columns).banks == columns
