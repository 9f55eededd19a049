"""bfpga: from an ONNX file to a bit-exact run on block floating point hardware, with or without a board.

Everything is loaded when it is used: importing the package costs nothing. ``dir(bfpga)`` lists what there is.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bfpga.formats.version import VERSION

if TYPE_CHECKING:
    from bfpga.accelerator.boards import Board, load_board
    from bfpga.accelerator.loader import Accelerator, accelerator_names, load_accelerator
    from bfpga.api.building import build
    from bfpga.api.comparing import compare_accelerators
    from bfpga.api.deploying import deploy
    from bfpga.api.estimates import Estimate, estimate
    from bfpga.api.exploring import explore
    from bfpga.api.pruned import prune
    from bfpga.api.reports import report
    from bfpga.board.load import load
    from bfpga.board.overlay import BoardOverlay as Overlay
    from bfpga.compiler.options import CompileOptions
    from bfpga.contract.program import Program
    from bfpga.data import Samples, load_samples
    from bfpga.devices.base import DeviceResult as Result
    from bfpga.dynamic_graph.run import EagerRun, eager
    from bfpga.errors import BfpgaError
    from bfpga.program.file import load_program
    from bfpga.runtime import Evaluation, compare, compile, evaluate, open_device, predict, run
    from bfpga.runtime_async import AsyncDevice

__all__ = [
    "Accelerator", "AsyncDevice", "BfpgaError", "Board", "CompileOptions", "EagerRun", "Estimate", "Evaluation",
    "Overlay", "Program", "Result", "Samples", "accelerator_names", "build", "compare", "compare_accelerators",
    "compile", "deploy", "eager", "estimate", "evaluate", "explore", "load", "load_accelerator", "load_board",
    "load_program", "load_samples", "open_device", "predict", "prune", "report", "run",
]  # fmt: skip
__version__ = VERSION

#: Where it is defined, and its name there if that is another; the imports above say the same to type checkers.
_PLACES = {
    "bfpga.accelerator.boards": ("Board", "load_board"),
    "bfpga.accelerator.loader": ("Accelerator", "accelerator_names", "load_accelerator"),
    "bfpga.api.building": ("build",),
    "bfpga.api.comparing": ("compare_accelerators",),
    "bfpga.api.deploying": ("deploy",),
    "bfpga.api.estimates": ("Estimate", "estimate"),
    "bfpga.api.exploring": ("explore",),
    "bfpga.api.pruned": ("prune",),
    "bfpga.api.reports": ("report",),
    "bfpga.board.load": ("load",),
    "bfpga.board.overlay": ("Overlay",),
    "bfpga.compiler.options": ("CompileOptions",),
    "bfpga.contract.program": ("Program",),
    "bfpga.data": ("Samples", "load_samples"),
    "bfpga.devices.base": ("Result",),
    "bfpga.dynamic_graph.run": ("EagerRun", "eager"),
    "bfpga.errors": ("BfpgaError",),
    "bfpga.program.file": ("load_program",),
    "bfpga.runtime_async": ("AsyncDevice",),
    "bfpga.runtime": ("Evaluation", "compare", "compile", "evaluate", "open_device", "predict", "run"),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}
_NAMES_THERE = {"Overlay": "BoardOverlay", "Result": "DeviceResult"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'bfpga' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), _NAMES_THERE.get(name, name))
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


class _Package(ModuleType):
    """Packages of the name of a function (`estimate`, `report`, ...) do not take its place when they are imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
