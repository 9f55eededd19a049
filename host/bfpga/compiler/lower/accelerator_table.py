"""What only some of the ready accelerators compute on the array: the second table of docs/operators.md."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import Function
from bfpga.engines.kernel.supported import computes_weights

#: Operators whose factors or matrices are computed: shift units multiply with powers of two only, and a skip array by
#: what the compiler has stored.
COMPUTED = "MatMul and Mul of two computed values; GRU's and LSTM's gates"
#: What the process of rows computes.
ROWS = "Softmax, LayerNormalization, RMSNormalization, Mul of two computed values of one shape"


@cache
def _ready() -> dict[str, KernelConfig]:
    return {name: load_accelerator(name).config for name in accelerator_names()}


def with_function(kind: str) -> list[str]:
    """Ready accelerators whose function unit computes an operator, in some form of its arguments."""
    keys = {function.key for function in Function if kind in function.row.operators}
    return [name for name, config in _ready().items() if keys & set(config.known_functions)]


def with_rows() -> list[str]:
    """Ready accelerators with a process of rows."""
    return [name for name, config in _ready().items() if config.has_rows]


def accelerator_rows() -> Iterator[tuple[str, str]]:
    """(operators, the ready accelerators that compute them)."""
    for kind in sorted({kind for function in Function for kind in function.row.operators}):
        yield kind, _listed(with_function(kind))
    yield ROWS, _listed(with_rows())
    yield COMPUTED, _listed([name for name, config in _ready().items() if computes_weights(config)])


def _listed(names: list[str]) -> str:
    return "all" if names == list(_ready()) else ", ".join(names) or "none of them"


def accelerator_table() -> str:
    """The table in Markdown, without a line end."""
    lines = ["| operators | ready accelerators |", "|---|---|"]
    return "\n".join(lines + [f"| {kind} | {names} |" for kind, names in accelerator_rows()])
