"""Functions that a model defines: none may call itself, and none may grow without bounds when it is written out."""

from __future__ import annotations

from onnx import FunctionProto, ModelProto

from bfpga.compiler.read.graphs import nested
from bfpga.errors import ModelError
from bfpga.formats.files import printable

#: Operators that all calls of functions may be written out to.
MOST_OPERATORS = 2000

Key = tuple[str, str]


def check_functions(model: ModelProto, path: object) -> None:
    """ModelError for functions that call themselves, through others too, and for those of too many operators."""
    if not model.functions:
        return
    functions = {(function.domain, function.name): function for function in model.functions}
    sizes: dict[Key, int] = {}
    for key in functions:
        _size(key, functions, sizes, [], path)
    total = sum(sizes.get((node.domain, node.op_type), 1) for node in nested(model.graph.node))
    if total > MOST_OPERATORS:
        raise ModelError(
            f"{path}: the calls of the model's functions come to {total:,} operators; {MOST_OPERATORS:,} are possible: "
            "export the network without functions"
        )


def _size(key: Key, functions: dict[Key, FunctionProto], sizes: dict[Key, int], above: list[Key], path: object) -> int:
    """Operators that a call is written out to."""
    if key in above:
        names = " -> ".join(printable(name) for _, name in [*above[above.index(key) :], key])
        raise ModelError(f"{path}: function {printable(key[1])} calls itself ({names}); functions must end")
    if len(above) > MOST_OPERATORS // 10:
        raise ModelError(f"{path}: functions call each other {len(above)} deep; export the network without functions")
    if key not in sizes:
        total = 0
        for node in nested(functions[key].node):
            called = (node.domain, node.op_type)
            total += _size(called, functions, sizes, [*above, key], path) if called in functions else 1
        sizes[key] = total
    return sizes[key]
