"""What is compiled: which instruction sets this machine has, and a library for one, built once and kept.

One C++ source serves all sets. A library is in the cache under the digest of the sources, the flags and the
compiler, so another machine with the same home directory builds its own.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from bfpga.devices import toolchain
from bfpga.devices.library_cache import cached_library
from bfpga.devices.native.records import RECORDS, Choose, CounterRecord, Learn, PortRecord, SegmentRecord
from bfpga.errors import ConfigurationError, ToolError
from bfpga.formats.cache import cache_directory

SOURCES = Path(__file__).parent
LAYERS = "layers.cpp"
#: Engines in numpy instead of layers in C++.
NUMPY = "numpy"
#: The environment variable of the instruction set.
SET_VARIABLE = "BFPGA_NATIVE"
#: -O3: the loops of the epilogue are unrolled by it. Vectors in arguments never leave the library.
FLAGS = ("-std=c++17", "-O3", "-Wno-psabi", "-pthread", "-fPIC", "-shared")
#: What a compiler said about libraries that it could not build; it is not asked again by this process.
_FAILED: dict[Path, str] = {}


@dataclass(frozen=True)
class InstructionSet:
    """A build of the layers.

    needs: flags of the processor, as Linux names them. element_bits: of an activation and of a weight in memory.
    takes: flags that it uses where the processor has them.
    """

    name: str
    title: str
    needs: tuple[str, ...]
    element_bits: int
    takes: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """Compiler flags of the set."""
        used = (*self.needs, *(name for name in self.takes if name in processor_flags()))
        options = (f"-m{name.replace('_', '')}" for name in used)
        return (f"-DBFPGA_{self.name.upper()}", *options)


_AVX512 = ("avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512dq")
#: The fastest one first.
INSTRUCTION_SETS = (
    InstructionSet("avx512_vnni", "AVX-512 VNNI", (*_AVX512, "avx512_vnni", "avx512vbmi"), 8),
    InstructionSet("avx_vnni", "AVX-VNNI", ("avx2", "fma", "avx_vnni"), 8),
    InstructionSet("avx2", "AVX2", ("avx2", "fma"), 8),
    InstructionSet("avx512_words", "AVX-512, 16-bit words", _AVX512, 16, ("avx512_vnni",)),
    InstructionSet("avx2_words", "AVX2, 16-bit words", ("avx2", "fma"), 16),
    InstructionSet("plain", "plain C++", (), 16),
)
_BY_NAME = {item.name: item for item in INSTRUCTION_SETS}


@functools.cache
def processor_flags() -> frozenset[str]:
    """What the processor can do, as Linux names it; nothing where that cannot be read."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    found = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()


def available_sets() -> list[InstructionSet]:
    """The instruction sets of this machine, the fastest one first; the compiler is not asked."""
    return [item for item in INSTRUCTION_SETS if processor_flags().issuperset(item.needs)]


def instruction_set(element_bits: int, wanted: str | None = None) -> InstructionSet | None:
    """The set for mantissas and weights of so many bits: the wanted one, that of $BFPGA_NATIVE, or the fastest.

    None for ``numpy``, and for numbers that no set holds. A set that is wanted and too narrow gives way to the words of
    the same processor. ConfigurationError for a set that there is not or that this machine lacks.
    """
    name = wanted or os.environ.get(SET_VARIABLE) or ""
    available = available_sets()
    if name == NUMPY:
        return None
    if name and name not in [item.name for item in available]:
        known = ", ".join([*(item.name for item in available), NUMPY])
        raise ConfigurationError(f"{SET_VARIABLE}: this machine has no layers {name!r}; there are {known}")
    first = available.index(_BY_NAME[name]) if name else 0
    needs = set(_BY_NAME[name].needs) if name else processor_flags()
    fitting = (item for item in available[first:] if item.element_bits >= element_bits and needs.issuperset(item.needs))
    return next(fitting, None)


def build(item: InstructionSet, source: str = LAYERS, flags: tuple[str, ...] = ()) -> Path:
    """The library of a source for an instruction set, compiled unless the cache has it. ToolError without a compiler.

    $BFPGA_CXXFLAGS follows the flags of this module and ``flags``.
    """
    arguments = [*FLAGS, *flags, *item.flags, *shlex.split(os.environ.get("BFPGA_CXXFLAGS", ""))]
    content = hashlib.sha256()
    for part in [toolchain.compiler_version(toolchain.find_compiler()), *arguments]:
        content.update(f"{part}\0".encode())
    for path in sorted([*SOURCES.glob("*.hpp"), *SOURCES.glob("*.cpp")]):
        content.update(f"{path.name}\0".encode() + path.read_bytes())
    target = cache_directory("native") / f"{Path(source).stem}-{item.name}-{content.hexdigest()[:32]}.so"

    def compile_to(built: Path, directory: Path) -> None:
        toolchain.run_compiler([*arguments, str(SOURCES / source), "-o", str(built)])

    if target in _FAILED:
        raise ToolError(_FAILED[target])
    try:
        return cached_library(target, compile_to)
    except ToolError as error:
        _FAILED[target] = str(error)
        raise


def opened(path: Path) -> ctypes.CDLL:
    """A library in this process. ToolError if it cannot be loaded."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise ToolError(f"{path} cannot be loaded: {error}; remove it to build it again") from None


@functools.cache
def _loaded(path: Path) -> ctypes.CDLL:
    library = opened(path)
    sizes = (ctypes.c_int32 * len(RECORDS))()
    library.bfpga_native_sizes(sizes)
    if list(sizes) != [ctypes.sizeof(record) for record in RECORDS]:
        raise ToolError(f"{path} was compiled with other structures; remove it to build it again")
    library.bfpga_native_open.restype = ctypes.c_void_p
    library.bfpga_native_open.argtypes = [ctypes.POINTER(SegmentRecord)]
    library.bfpga_native_close.argtypes = [ctypes.c_void_p]
    library.bfpga_native_run.argtypes = [
        ctypes.c_void_p, ctypes.POINTER(PortRecord), ctypes.c_int32, ctypes.c_int32, Choose, Learn,
        ctypes.POINTER(CounterRecord),
    ]  # fmt: skip
    return library


def load(item: InstructionSet) -> ctypes.CDLL:
    """The layers of an instruction set, ready to call. ToolError if it cannot be built or loaded."""
    return _loaded(build(item))
