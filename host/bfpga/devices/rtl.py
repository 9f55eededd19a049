"""Simulation of a kernel's Verilog, clock by clock, as a device: what it computes and the clocks that it takes.

The library is built once for each content of the kernel's sources, device and clock, and kept in a cache; building
needs the packages of `bfpga[synthesis]` and a C++ compiler, both looked for only then.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import Program
from bfpga.contract.registers import COUNTER_REGISTERS
from bfpga.devices import toolchain
from bfpga.devices.kernel_start import KernelResult, Octets
from bfpga.devices.library_cache import cached_library
from bfpga.devices.measured_clocks import MeasuredClocks
from bfpga.devices.simulated_kernel import SimulatedKernel
from bfpga.errors import DeviceError, ToolError
from bfpga.formats.cache import cache_directory

if TYPE_CHECKING:
    from bfpga.accelerator.loader import Accelerator

_LOG = logging.getLogger(__name__)
RTL = "rtl"
_FLAGS = ("-std=c++17", "-O1", "-fPIC")
#: Called with (IPs done, IPs in all) while their Verilog is made.
Progress = Callable[[int, int], None]


def is_rtl(name: str) -> bool:
    """Whether a device is such a simulation, whatever seed its name says."""
    return name == RTL or name.startswith(f"{RTL}:")


def named_seed(name: str) -> int:
    """The seed that the name of the device says: `rtl:seed=N` pauses streams and accesses by chance; 0: never.

    DeviceError for what it cannot say.
    """
    _, _, said = name.partition(":")
    number = said.removeprefix("seed=")
    if name != RTL and (number == said or not (number.isdecimal() and number.isascii() and 0 < int(number) < 1 << 64)):
        raise DeviceError(f"device {name!r} is unknown; {RTL}:seed=N, N from 1 on, pauses its streams by chance")
    return int(number or 0)


def build(accelerator: Accelerator, progress: Progress | None = None) -> Path:
    """The shared library of an accelerator's Verilog, made and compiled unless the cache has it.

    $BFPGA_CXXFLAGS follows the flags of this module.
    ToolError if a tool is missing or fails, or the cache cannot be written; DeviceError for cores that tell each other
    exponents.
    """
    if accelerator.config.position_stream:
        raise DeviceError(
            f"accelerator {accelerator.name}: its cores tell each other exponents (`positions: stream`), and the "
            "simulated Verilog is of one kernel; take csim or virtual"
        )
    try:
        from bfpga.rtl.simulation import simulation_digest
    except ModuleNotFoundError as error:
        raise ToolError(f"a simulation of Verilog needs the package {error.name}: pip install {error.name}") from None
    flags = [*_FLAGS, *shlex.split(os.environ.get("BFPGA_CXXFLAGS", ""))]
    compiler = toolchain.compiler_version(toolchain.find_compiler())
    digest = hashlib.sha256(f"{simulation_digest(accelerator)} {compiler} {flags}".encode()).hexdigest()[:32]
    library = cache_directory("rtl") / f"{digest}.so"
    return cached_library(library, lambda built, directory: _make(accelerator, flags, built, directory, progress))


def _make(
    accelerator: Accelerator, flags: Sequence[str], built: Path, directory: Path, progress: Progress | None
) -> None:
    from bfpga.rtl.kernel import ips_of, kernel_design
    from bfpga.rtl.simulation import simulation_sources

    begun = time.perf_counter()
    design = kernel_design(accelerator, ips_of(accelerator, progress))
    _LOG.info("Verilog of %s after %.1f s", accelerator.name, time.perf_counter() - begun)
    sources = simulation_sources(accelerator, design)
    _LOG.info("its simulation in C++ after %.1f s", time.perf_counter() - begun)
    _compile(sources, flags, built, directory)
    _LOG.info("compiled after %.1f s", time.perf_counter() - begun)


def _compile(sources: Mapping[str, str], flags: Sequence[str], built: Path, directory: Path) -> None:
    """The files of the simulation, several at once."""
    for name, text in sources.items():
        (directory / name).write_text(text)
    files = sorted(directory.glob("*.cpp"))
    objects = [str(file.with_suffix(".o")) for file in files]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        runs = [
            pool.submit(toolchain.run_compiler, [*flags, "-c", str(file), "-o", target])
            for file, target in zip(files, objects, strict=True)
        ]
    for run in runs:
        run.result()
    toolchain.run_compiler(["-shared", *objects, "-o", str(built)])


class RtlSimulation(SimulatedKernel):
    """One kernel in Verilog; its memories, exponents and policy slots last as long as the object.

    A start runs when it is begun; its result has the clocks that the clock counter measured. seed: of pauses.
    """

    title = "simulation of the Verilog"

    def __init__(self, accelerator: Accelerator, seed: int = 0, progress: Progress | None = None) -> None:
        super().__init__(accelerator.config, build(accelerator, progress))
        self._library.bfpga_counted.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._seed = seed
        self.disturb(seed)

    def disturb(self, seed: int) -> None:
        """From now on streams and registers are accessed with pauses drawn from a seed; 0: no longer.

        DeviceError for a kernel that is closed.
        """
        super().disturb(seed)
        self._seed = seed

    def run_packet(
        self, descriptors: int, packet: Octets, weights: Octets = b"", capacity: int = 0, clear_policies: bool = False
    ) -> KernelResult:
        """One kernel start on plain streams, see ``SimulatedKernel.run_packet``; with the clocks measured, if no stream
        was paused by chance. Clocks of single operations are not known.
        """
        result = super().run_packet(descriptors, packet, weights, capacity, clear_policies)
        counted = (ctypes.c_uint32 * len(COUNTER_REGISTERS))()
        self._library.bfpga_counted(self._instance, counted)
        numbers = dict(zip((register.name for register in COUNTER_REGISTERS), counted, strict=True))
        measured = MeasuredClocks(counted=result.cycles, starts=1, **numbers)
        return replace(result, operation_cycles=None, measured=None if self._seed else measured)


def accelerator_of(program: Program) -> Accelerator:
    """The accelerator of a program, see ``described_accelerator``."""
    return described_accelerator(program.config, program.accelerator, program.digest, program.clock_mhz)


def described_accelerator(config: KernelConfig, name: str, digest: str, clock_mhz: float) -> Accelerator:
    """An accelerator of which the kernel is known. Of one that is not ready the device is not: delays are those of
    another with its DSP blocks, at the clock. That changes clocks, and no value.
    """
    from bfpga.accelerator.loader import is_ready, load_accelerator
    from bfpga.accelerator.variants import accelerator_around

    if is_ready(name):
        ready = load_accelerator(name)
        if ready.digest == digest:
            return ready
    return accelerator_around(config, name, digest, clock_mhz)
