"""The table of operators in docs/networks.md is what the compiler does."""

from __future__ import annotations

from pathlib import Path

from bfpga.compiler.lower import placement as place
from bfpga.compiler.lower.operator_table import CONDITIONS, array_operators, host_operators, operator_table
from bfpga.contract.functions import Function

DOCUMENT = Path(__file__).parents[2] / "docs" / "networks.md"


def test_the_document_has_the_table() -> None:
    wanted = f"<!-- operators -->\n{operator_table()}\n<!-- end of operators -->"
    assert wanted in DOCUMENT.read_text(), "run python -m benchmarks.compiler.network_table --operators"


def test_every_operator_of_the_array_has_its_condition() -> None:
    functions = {name for function in Function for name in function.row.operators}
    assert set(CONDITIONS) <= array_operators()
    assert array_operators() - set(CONDITIONS) <= functions
    assert set(place.HEAVY) | set(place.ELEMENTWISE) <= array_operators()
    assert {"Softmax", "LayerNormalization", "Gather"} <= set(host_operators())
