"""The rows of the functions: complete, and what documentation and accelerator files say of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from function_errors import error_in_last_places

from bfpga.accelerator.constraints import config_findings
from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import FUNCTION_NAMES, ROWS, Function
from bfpga.formats.block_format import BlockFormat

DOCUMENT = Path(__file__).parents[2] / "docs" / "accelerator-yaml.md"
HEAD = "| function | value | ONNX | argument | computed by | error with 8 and 16 bits | LUT, 32 bits | usual |"


def table_lines() -> Iterator[str]:
    """The documentation's table of functions."""
    yield HEAD
    yield "|---|---|---|---|---|---|---|---|"
    for function in Function:
        row = function.row
        how = "arithmetic" if row.table is None else f"table to {row.table.limit}"
        argument = row.argument.meaning if row.argument is not None else "-"
        errors = "-"
        if row.argument is None:
            errors = ", ".join(f"{error_in_last_places(function, bits):.1f}" for bits in (8, 16))
        cells = [f"`{function.key}`", f"`{row.formula}`", ", ".join(row.operators) or "-", argument, how, errors]
        yield f"| {' | '.join(cells)} | {row.lut(32, 5)} | {'yes' if row.usual else 'no'} |"


def test_every_function_has_a_row_and_a_code_of_its_own() -> None:
    """Sets of functions are bits of a C++ int: codes reach to 30."""
    assert list(ROWS) == list(Function)
    assert sorted(Function) == list(range(len(Function)))
    assert len(Function) <= 31
    assert tuple(Function.named(name).key for name in FUNCTION_NAMES) == FUNCTION_NAMES


def test_documentation_shows_the_rows() -> None:
    wanted = "\n".join(table_lines())
    assert wanted in DOCUMENT.read_text(), f"docs/accelerator-yaml.md needs this table:\n{wanted}"


@pytest.mark.parametrize("function", Function, ids=lambda function: function.key)
def test_homogeneous_functions_are_those_that_let_a_factor_pass(function: Function) -> None:
    """What equalization relies on: f(2 x) = 2 f(x)."""
    row, x = function.row, np.linspace(-20, 20, 4001)
    argument = row.argument.usual if row.argument is not None else 0.0
    assert row.homogeneous == np.array_equal(row.plain(2 * x, argument), 2 * row.plain(x, argument))


@pytest.mark.parametrize("function", Function, ids=lambda function: function.key)
def test_bounds_hold_and_are_reached(function: Function) -> None:
    """What policy known_range relies on."""
    row, x = function.row, np.linspace(-1000, 1000, 4001)
    if row.argument is None:
        largest = np.abs(row.plain(x, 0.0)).max()
        assert (row.largest is None) == (largest > 100)
        assert row.largest is None or largest == pytest.approx(row.largest, abs=1e-3)


def test_tables_fit_their_words() -> None:
    """C++ holds points in 16 bits, and limits must be powers of two."""
    tables = [function.row.table for function in Function if function.row.table is not None]
    assert tables
    for table in tables:
        assert table.limit & (table.limit - 1) == 0
        assert len(table.points) == 257
        assert max(map(abs, table.points)) < 1 << 15


def test_results_of_a_table_need_accumulators_that_hold_them() -> None:
    """Arguments up to 512 beside numbers of 2^-14 take 24 bits; a value of a table alone takes 16."""
    functions = ("none", "relu", "sigmoid", "hard_swish")
    for bits, wanted in ((23, {"hard_swish"}), (15, {"sigmoid", "hard_swish"}), (24, set())):
        config = KernelConfig(format=BlockFormat(6), accumulator_bits=bits, bias_bits=14, functions=functions)
        texts = [finding.text for finding in config_findings(config) if finding.key == "functions"]
        assert len(texts) == len(wanted)
        assert all(any(name in text for text in texts) for name in wanted)


@pytest.mark.parametrize("function", [item for item in Function if item.row.table], ids=lambda item: item.key)
def test_a_table_says_of_its_function_what_is_true(function: Function) -> None:
    """Distances from max(x, 0) have one sign and end in nothing on the right; even and odd tables mean both sides."""
    row, table, x = function.row, function.row.table, np.linspace(0, 64, 8193)
    assert table is not None
    right, left = (row.plain(side, 0.0) for side in (x, -x))
    if table.holds != "value":
        sign = 1 if table.holds == "above_relu" else -1
        right, left = sign * (right - x), sign * left
        assert min(right.min(), left.min()) >= -1e-12
        assert min(table.points) >= 0
        assert table.points[-1] == 0
    if table.symmetry != "none":
        assert np.allclose(right, -left if table.symmetry == "odd" else left, atol=1e-12)


@pytest.mark.parametrize("name", accelerator_names())
def test_ready_accelerators_name_their_functions(name: str) -> None:
    """New functions must not fill a device that was planned without them."""
    accelerator = load_accelerator(name)
    assert "functions:" in accelerator.path.read_text()
