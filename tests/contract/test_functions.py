"""The rows of the functions: complete, and what documentation and accelerator files say of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from function_errors import error_in_last_places

from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.contract.functions import FUNCTION_NAMES, ROWS, Function, Table

DOCUMENT = Path(__file__).parents[2] / "docs" / "accelerator-yaml.md"
HEAD = "| function | value | ONNX | argument | computed by | error with 8 and 16 bits | LUT, 32 bits | usual |"


def table_lines() -> Iterator[str]:
    """The documentation's table of functions."""
    yield HEAD
    yield "|---|---|---|---|---|---|---|---|"
    for function in Function:
        row = function.row
        how = f"table to {row.method.limit}" if isinstance(row.method, Table) else "arithmetic"
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
    tables = [function.row.method for function in Function if isinstance(function.row.method, Table)]
    assert tables
    for table in tables:
        assert table.limit & (table.limit - 1) == 0
        assert len(table.points) == 257
        assert max(map(abs, table.points)) < 1 << 15


@pytest.mark.parametrize("name", accelerator_names())
def test_ready_accelerators_name_their_functions(name: str) -> None:
    """New functions must not fill a device that was planned without them."""
    accelerator = load_accelerator(name)
    assert "functions:" in accelerator.path.read_text()
