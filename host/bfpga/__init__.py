"""bfpga: from an ONNX file to a bit-exact run on block floating point hardware, with or without a board.

Everything is loaded when it is used: importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bfpga.board.load import load
    from bfpga.dynamic_graph.run import eager
    from bfpga.runtime import compare, compile, evaluate, open_device, run

__all__ = ["compare", "compile", "eager", "evaluate", "load", "open_device", "run"]
__version__ = "0.2.0"


#: Modules of what is not in the runtime.
_ELSEWHERE = {"eager": "bfpga.dynamic_graph.run", "load": "bfpga.board.load"}


def __getattr__(name: str) -> Any:
    if name in __all__:
        module = _ELSEWHERE.get(name, "bfpga.runtime")
        return getattr(import_module(module), name)
    raise AttributeError(f"module 'bfpga' has no attribute {name!r}")
