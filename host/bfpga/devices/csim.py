"""C simulation: the rendered kernel, compiled for this machine and called through ctypes.

The library is built once for each content of its sources and kept in a cache; building needs jinja2 and a C++
compiler, both looked for only then.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.processes import process_streams
from bfpga.devices import toolchain
from bfpga.devices.library_cache import cached_library
from bfpga.devices.simulated_kernel import SimulatedKernel
from bfpga.errors import DeviceError, ToolError
from bfpga.formats.cache import cache_directory
from bfpga.vendor.clang import EXACT_FLAGS, find_clang

Integers = Literal["native", "ap_int", "exact"]

#: Compiler flags of a build. The constructors of ap_int mask bits they have not set; g++ sees that in every use.
#: Exact integers are clang's; the simulation with them is the strict one, which also checks waivers of dependences.
_FLAGS: dict[Integers, tuple[str, ...]] = {
    "native": ("-O3", "-march=native", "-DBFPGA_NATIVE_INTEGERS"),
    "ap_int": ("-O2", "-fno-semantic-interposition", "-Wno-maybe-uninitialized", "-Wno-uninitialized"),
    "exact": ("-O2", *EXACT_FLAGS, "-DBFPGA_WAIVER_CHECKS"),
}


#: Flags of a build of any integers that can count clocks.
COUNTING_FLAGS = ("-DBFPGA_WAIVER_CHECKS", "-Wno-maybe-uninitialized")

#: The most stages of a pipelined loop that are simulated, and the most that are drawn (`StagesOfLoops::most_drawn`).
MOST_STAGES, MOST_DRAWN_STAGES = 1000, 40


_COMMENT_LINE = re.compile(r"^[ \t]*//.*$", re.MULTILINE)


def build(config: KernelConfig, integers: Integers, name: str, digest: str, flags: Sequence[str] = ()) -> Path:
    """The shared library of an accelerator's kernel, compiled unless the cache has it.

    $BFPGA_CXXFLAGS follows the flags of this module, ``flags`` follows both. The cache key covers rendered
    sources, the headers they include, flags and compiler, so a stale file is never used, and neither a header of what
    this kernel lacks nor a line of comment, such as the accelerator's name, changes anything; a damaged file is built
    again. ToolError if a tool is missing or fails, or the cache cannot be written.
    """
    chosen = shlex.split(os.environ.get("BFPGA_CXXFLAGS", ""))
    arguments = (*toolchain.WARNINGS, *_FLAGS[integers], *chosen, *flags)
    if integers == "ap_int":
        arguments += ("-isystem", str(toolchain.find_ap_types()))
    compiler = find_clang() if integers == "exact" else (toolchain.find_compiler(),)
    kernel = name, digest, config
    library = cache_directory("csim") / f"{_content_digest(kernel, compiler, arguments, _source_times())}.so"
    return cached_library(
        library, lambda built, directory: _compile(_sources(*kernel), compiler, arguments, built, directory)
    )


def _sources(name: str, digest: str, config: KernelConfig) -> dict[str, str]:
    """All that a kernel is compiled from: path -> text."""
    try:
        from bfpga.vendor.render import kernel_sources, render_kernel, shim_headers
    except ModuleNotFoundError as error:
        raise ToolError(f"a simulated kernel needs the package {error.name}: pip install {error.name}") from None

    rendered = render_kernel(name, digest, config) | shim_headers()
    chosen_paths = ("include/", "src/", "shim/")
    return kernel_sources({path: text for path, text in rendered.items() if path.startswith(chosen_paths)})


def _source_times() -> tuple[tuple[str, int], ...]:
    """Headers and templates of the package with the times of their last changes."""
    try:
        from bfpga.vendor.render import source_directories
    except ModuleNotFoundError:
        return ()  # without jinja2, which the error that follows names
    folders = (walked for root in source_directories() for walked in os.walk(root))
    paths = (os.path.join(folder, name) for folder, _, names in folders for name in names)
    return tuple((path, os.stat(path).st_mtime_ns) for path in paths)


@functools.lru_cache(maxsize=256)
def _content_digest(
    kernel: tuple[str, str, KernelConfig],
    compiler: Sequence[str],
    arguments: Sequence[str],
    times: tuple[tuple[str, int], ...],
) -> str:
    """Rendering takes longer than many a start: a process does it once for a kernel, unless a source is edited."""
    content = hashlib.sha256()
    parts = [toolchain.compiler_version(*compiler), *arguments]
    for path, text in sorted(_sources(*kernel).items()):
        parts += [path, _COMMENT_LINE.sub("", text)]
    for part in parts:
        content.update(len(part).to_bytes(8, "little") + part.encode())
    return content.hexdigest()[:32]


def _compile(
    sources: Mapping[str, str], compiler: Sequence[str], arguments: Sequence[str], built: Path, directory: Path
) -> None:
    """Compile the sources, written into ``directory``, into the library ``built``."""
    for path, text in sources.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    includes = [flag for folder in ("shim", "include", "src") for flag in ("-I", str(directory / folder))]
    bridge = str(directory / "src" / "bridge.cpp")
    toolchain.run_compiler([*arguments, *includes, "-fPIC", "-shared", bridge, "-o", str(built)], compiler)


def check_stages(stages: Mapping[str, int]) -> None:
    """Refuse what `CSimulation.stall` cannot give: DeviceError for a loop that no process has, or a number of stages
    beyond 0 to ``MOST_STAGES``.
    """
    known = {*pipelined_loops(), ""}
    for name, count in stages.items():
        if name.rpartition(".")[2] not in known:
            raise DeviceError(f"no process has a loop {name!r}; there are {', '.join(sorted(known - {''}))}")
        if not 0 <= count <= MOST_STAGES:
            raise DeviceError(f"loop {name!r} cannot have {count} stages; 0 to {MOST_STAGES} can be simulated")


def pipelined_loops() -> set[str]:
    """The names of the pipelined loops of processes, as their headers give them."""
    from bfpga.vendor.render import library_directory

    headers = (library_directory() / "bfpga" / "processes").rglob("*.hpp")
    return {name for header in headers for name in re.findall(r'PipelinedLoop \w+\("(\w+)"\)', header.read_text())}


class CSimulation(SimulatedKernel):
    """One simulated kernel; its memories, exponents and policy slots last as long as the object.

    Two objects never share state. A start runs when it is begun. ``integers`` selects native C++ integers, AMD's
    ap_int or clang's exact ones (same bits, slower).
    """

    title = "C simulation"

    def __init__(
        self,
        config: KernelConfig,
        integers: Integers = "native",
        name: str = "kernel",
        digest: str = "00000000",
        flags: Sequence[str] = (),
    ) -> None:
        self.integers: Integers = integers
        super().__init__(config, build(config, integers, name, digest, flags))

    def disturb(self, seed: int) -> None:
        """From now on the processes of the kernel run in an order drawn by chance, the streams between them hold up to
        seven words more, and all streams pause: what may happen in hardware, and must change no value. 0: no longer.

        DeviceError for a kernel that is closed.
        """
        super().disturb(seed)

    def hold(self, words: Mapping[str, int]) -> None:
        """From the next start on the streams of these names, between processes, hold so many words, enough or not.

        The others hold what the design gives them. DeviceError for a stream that the kernel has not, and for one
        without a word.
        """
        names = [stream.name for stream in process_streams(self.config)]
        for name, count in words.items():
            if name not in names:
                raise DeviceError(f"no stream {name!r} joins processes of the kernel; there are {names}")
            if count < 1:
                raise DeviceError(f"stream {name!r} cannot hold {count} words; it needs one at least")
        self._library.bfpga_hold.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32]
        for name in names:
            self._library.bfpga_hold(self._instance, name.encode(), words.get(name, 0))

    def stall(self, seed: int = 0, stages: Mapping[str, int] = MappingProxyType({})) -> None:
        """From the next start on pipelined loops have stages: a word leaves its process so many iterations later, and
        while a loop waits nothing of it moves (docs/kernel.md). Nothing of that may change a value or stop a start.

        seed: draws 0 to 40 stages for each loop of each process; 0: none. stages: of loops by name, `Array` or
        `array.Array` (the process in front), and by `` (nothing) of all others. Earlier settings are dropped.
        DeviceError for a loop that no process has, for stages beyond 0 to ``MOST_STAGES``, and for a kernel that is
        closed.
        """
        if self._instance is None:
            raise DeviceError("only an open kernel has loops that can be given stages")
        check_stages(stages)
        self._library.bfpga_draw_stages.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        self._library.bfpga_set_stages.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32]
        self._library.bfpga_draw_stages(self._instance, seed)
        for name, count in stages.items():
            self._library.bfpga_set_stages(self._instance, name.encode(), count)

    def pause(self, seed: int) -> None:
        """From the next start on streams pause at times, those to the outside and those between processes, for their
        readers and for their writers: a word that is there, or room, is not seen for some turns. 0: none does.

        Each side of a stream has its own share of words that wait, and its longest pause, drawn anew for each start.
        DeviceError for a kernel that is closed.
        """
        if self._instance is None:
            raise DeviceError("only an open kernel has streams that can pause")
        self._library.bfpga_pause.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        self._library.bfpga_pause(self._instance, seed)

    def count_clocks(self) -> None:
        """From the next start on clocks are counted (``clocks``): each process one iteration of its loop a clock.

        The stages of their pipelines are not counted. DeviceError for a build without ``COUNTING_FLAGS``.
        """
        if self._library.bfpga_count_clocks(ctypes.c_void_p(self._instance), 1):
            raise DeviceError("only a kernel whose loops are counted, -DBFPGA_WAIVER_CHECKS, reports clocks")

    def clocks(self, operations: int) -> tuple[int, list[int]]:
        """Clocks of the start before, and when each of its operations had ended."""
        ended = np.zeros(max(operations, 1), np.int64)
        self._library.bfpga_clocks.restype = ctypes.c_int64
        self._library.bfpga_clocks.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32]
        clocks = self._library.bfpga_clocks(self._instance, ended.ctypes.data, operations)
        return clocks, ended[:operations].tolist()
