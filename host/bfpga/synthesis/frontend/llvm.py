"""LLVM as a library: of a package that a synthesis needs, and nothing else."""

from __future__ import annotations

from importlib import import_module, metadata
from types import ModuleType

from bfpga.errors import ToolError


def llvm_library() -> ModuleType:
    """The module ``llvmlite.binding``; ToolError without its package."""
    try:
        return import_module("llvmlite.binding")
    except ModuleNotFoundError:
        raise ToolError("reading loops needs LLVM as a library: pip install 'bfpga[synthesis]'") from None


def llvm_release() -> str:
    """Release of the package; ToolError without it."""
    llvm_library()
    return metadata.version("llvmlite")
