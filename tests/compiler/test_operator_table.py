"""The table of operators in docs/operators.md is what the compiler does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from small_networks import WIDE, Network, compiled

from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.compiler.lower import placement as place
from bfpga.compiler.lower.accelerator_table import accelerator_rows, accelerator_table
from bfpga.compiler.lower.operator_table import CONDITIONS, array_operators, host_operators, operator_table
from bfpga.contract.functions import Function

DOCUMENT = Path(__file__).parents[2] / "docs" / "operators.md"


def test_the_document_has_the_table() -> None:
    wanted = f"<!-- operators -->\n{operator_table()}\n<!-- end of operators -->"
    assert wanted in DOCUMENT.read_text(), "run python -m benchmarks.compiler.network_table --operators"


def test_the_document_says_which_accelerators_have_what_some_lack() -> None:
    """Issue 17, item 3 and the operator table: rendered from the ready accelerators."""
    wanted = f"<!-- accelerators -->\n{accelerator_table()}\n<!-- end of accelerators -->"
    assert wanted in DOCUMENT.read_text(), "run python -m benchmarks.compiler.network_table --operators"
    rows = dict(accelerator_rows())
    for name in accelerator_names():
        config = load_accelerator(name).config
        for kind, key in (("Sigmoid", "sigmoid"), ("LeakyRelu", "leaky_relu"), ("HardSwish", "hard_swish")):
            assert (rows[kind] == "all" or name in rows[kind].split(", ")) == (key in config.known_functions)


def test_a_note_names_the_accelerators_that_have_a_function(tmp_path: Path) -> None:
    network = Network(8, 6, 6)
    network.conv(8, 8, 3)
    network.add("Sigmoid")
    network.conv(4, 8, 1)
    program = compiled(network, tmp_path, replace(WIDE, functions=("none", "relu")))
    assert any("Sigmoid" in note and "pynq_z2_flows" in note for note in program.notes)


def test_every_operator_of_the_array_has_its_condition() -> None:
    functions = {name for function in Function for name in function.row.operators}
    assert set(CONDITIONS) <= array_operators()
    assert array_operators() - set(CONDITIONS) <= functions
    assert set(place.HEAVY) | set(place.ELEMENTWISE) <= array_operators()
    assert {"LogSoftmax", "GroupNormalization", "GatherND"} <= set(host_operators())
