"""What this machine can do: each tool, what it is needed for and how to get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bfpga.devices.native.library import NUMPY, SET_VARIABLE, available_sets, instruction_set
from bfpga.devices.toolchain import find_ap_types, find_compiler
from bfpga.errors import ConfigurationError, ToolError
from bfpga.scale.threads import thread_count
from bfpga.vendor.bitstream.tools import Tool, find_hls, find_tool
from bfpga.vendor.clang import OLDEST, find_clang


@dataclass(frozen=True)
class Check:
    """One finding. ``detail`` holds the version or what is missing."""

    name: str
    found: bool
    detail: str
    needed_for: str
    remedy: str
    required: bool = False


def examine() -> list[Check]:
    """All checks, in the order in which the tools are needed."""
    return [check() for check in CHECKS]


def python() -> Check:
    good = sys.version_info >= (3, 10)
    return Check("Python", good, platform.python_version(), "everything", "install Python 3.10 or newer", True)


def numpy_blas() -> Check:
    import numpy as np

    detail = f"{np.__version__}, BLAS: {blas_name()}"
    return Check("numpy", True, detail, "the emulator", "pip install numpy", True)


def blas_name() -> str:
    """Library that multiplies matrices for numpy."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return "unknown (threadpoolctl is not installed)"
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    if not pools:
        return "none reported"
    return ", ".join(f"{pool['internal_api']} {pool['version']} ({pool['num_threads']} threads)" for pool in pools)


def onnx_runtime() -> Check:
    return package("ONNX Runtime", "onnxruntime", "float references and layers left to the host", True)


def onnx_reader() -> Check:
    return package("ONNX", "onnx", "reading networks", True)


def compiler() -> Check:
    """The compiler that the C simulation will use."""
    program = os.environ.get("CXX") or "g++"
    remedy = "install g++ 9 or newer (Debian, Ubuntu: apt install g++) or set CXX"
    return Check(program, bool(shutil.which(program)), version(program), "the C simulation of kernels", remedy)


def native_layers() -> Check:
    """What the emulator will compute layers with; nothing is compiled here."""
    remedy = f"install g++ 9 or newer, and unset {SET_VARIABLE} if it is `{NUMPY}`"
    purpose = "the emulator's full speed; without, the engines in numpy give the same results"
    try:
        find_compiler()
        chosen = instruction_set(element_bits=8)
        threads = thread_count()
    except (ToolError, ConfigurationError) as error:
        return Check("compiled layers", False, str(error), purpose, remedy)
    if chosen is None:
        return Check("compiled layers", False, f"{SET_VARIABLE} is {NUMPY}", purpose, remedy)
    known = ", ".join(item.name for item in available_sets())
    return Check("compiled layers", True, f"{chosen.title}, {threads} threads; there are {known}", purpose, remedy)


def clang() -> Check:
    remedy = "optional; install clang (Debian, Ubuntu: apt install clang)"
    found = bool(shutil.which("clang++"))
    return Check("clang++", found, version("clang++"), "a second compiler's opinion on the headers", remedy)


def exact_integers() -> Check:
    """The clang that the C simulation with exact integers will use."""
    try:
        found, detail = True, find_clang()[0]
    except ToolError:
        found, detail = False, f"no clang {OLDEST} or later"
    purpose = "C simulation with integers of exact widths (`--device csim:exact`)"
    return Check("exact integers", found, detail, purpose, "pip install 'bfpga[synthesis]'")


def libclang() -> Check:
    return package("libclang", "clang", "`bfpga lint-hls`", distribution="libclang")


def ap_int_headers() -> Check:
    try:
        found, detail = True, str(find_ap_types())
    except ToolError:
        found, detail = False, "not found"
    return Check(
        "ap_int headers",
        found,
        detail,
        "C simulation with the vendor's integer types (`--device csim:ap_int`); native integers need nothing",
        "pip install --no-deps hls4ml",
    )


def tclsh() -> Check:
    path = shutil.which("tclsh")
    remedy = "install Tcl 8.6 (Debian, Ubuntu: apt install tcl)"
    return Check("tclsh", path is not None, path or "not on the PATH", "`bfpga check-tcl`", remedy)


def pynq() -> Check:
    from bfpga.board.virtual.pynq_internals import install_advice

    purpose = "running on a board, and on the virtual board (`--device virtual`)"
    remedy = f"on a board use a PYNQ image; for the virtual one: {install_advice()}"
    return package("pynq", "pynq", purpose, remedy=remedy)


def dask() -> Check:
    purpose = "work on several processes, machines or boards (`--workers`, `--scheduler`, several boards of `--device`)"
    return package("Dask", "distributed", purpose, remedy="pip install 'bfpga[scale]'")


def vendor_tool(name: str, find: Callable[[], Tool], purpose: str) -> Check:
    """A vendor tool where the build looks for it: its version and place."""
    remedy = "install it, best where the installer proposes; not needed for emulation, C simulation and estimates"
    try:
        tool = find()
    except ToolError as error:
        return Check(name, False, str(error).splitlines()[0], purpose, remedy)
    return Check(name, True, f"{tool.name} {tool.version}, {tool.path}", purpose, remedy)


def vitis_hls() -> Check:
    return vendor_tool("Vitis HLS", lambda: find_hls().tool, "synthesis of the kernels")


def vivado() -> Check:
    return vendor_tool("Vivado", lambda: find_tool("vivado"), "bitstreams (`bfpga build`)")


def board() -> Check:
    """The device tree of a board names it; other machines have none or another name."""
    model = Path("/proc/device-tree/model")
    try:
        text = model.read_bytes().rstrip(b"\0").decode(errors="replace")
    except OSError:
        text = ""
    found = any(word in text.lower() for word in ("zynq", "pynq", "kria", "rfsoc", "ultra96"))
    remedy = "run bfpga on the board to use one"
    return Check("board", found, text or "this machine is no board", "running on hardware", remedy)


def package(
    name: str, module: str, purpose: str, required: bool = False, remedy: str = "", distribution: str = ""
) -> Check:
    """An importable Python package and the version of its distribution."""
    found = importlib.util.find_spec(module) is not None
    distribution = distribution or module
    detail = "not installed"
    if found:
        try:
            detail = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            detail = "installed"
    return Check(name, found, detail, purpose, remedy or f"pip install {distribution}", required)


def version(program: str) -> str:
    """First line a compiler prints about itself."""
    path = shutil.which(program)
    if path is None:
        return "not on the PATH"
    try:
        result = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{path} does not answer: {error}"
    return (result.stdout or result.stderr).splitlines()[0] if result.stdout or result.stderr else path


CHECKS: tuple[Callable[[], Check], ...] = (
    python,
    numpy_blas,
    onnx_reader,
    onnx_runtime,
    compiler,
    native_layers,
    clang,
    exact_integers,
    ap_int_headers,
    libclang,
    tclsh,
    pynq,
    dask,
    vitis_hls,
    vivado,
    board,
)
