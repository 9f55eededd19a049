"""An overlay on a board: loaded, compared with its manifest, and only then used.

A `.hwh` that does not belong to the bitstream, another overlay under the same name, a clock of another rate: nothing
else would find these; a board would freeze or give wrong numbers.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from bfpga.board.checks import check_handoff
from bfpga.board.clock import CLOCK_REGISTERS, ClockRegisters, close_to, read_clock, set_clock
from bfpga.board.errors import BoardError, Differences
from bfpga.board.hardware import BoardHardware, kernel_registers, open_hardware
from bfpga.board.kernel import BoardKernel
from bfpga.board.overlays import OverlayFiles, find_overlay, overlay_for_program, staged_files
from bfpga.board.target import BoardTarget, describe_failure
from bfpga.board.target_choice import default_target, open_target
from bfpga.board.virtual.pynq_internals import release_clocks
from bfpga.contract.cores import Core
from bfpga.formats.cache import cache_directory, make_private
from bfpga.formats.notebook import clipped
from bfpga.program.file import load_program
from bfpga.program.learning import learns
from bfpga.vendor.manifest import Manifest

if TYPE_CHECKING:
    from bfpga.board.cores import ProgramCores
    from bfpga.contract.program import Program
    from bfpga.devices.cores import CoresDevice
    from bfpga.devices.shared_kernel import SharingDevice
    from bfpga.devices.streaming_device import StreamingDevice

#: Seconds the kernel may take to answer a start without descriptors.
PROBE_SECONDS = 1.0
#: Depth of calls that PYNQ needs to keep the description of a large design.
_RECURSION_LIMIT = 10000

WAITS = ("poll", "interrupt")


def load(
    name_or_path: str | Path, target: str | None = None, *, wait: str = "poll", timeout: float | None = None
) -> BoardOverlay:
    """Load an overlay by name, path or installed package and check it against its manifest.

    target: `virtual`, `board`, `remote:HOST[:PORT]`; without one, this board if it is one, else a virtual board. wait:
    `poll` looks at status registers, `interrupt` sleeps. timeout: shortest time limit of a start in seconds.
    DeviceError for an overlay that is not found, BoardError with every difference for one that does not fit.
    """
    return open_overlay(find_overlay(name_or_path), target, wait=wait, timeout=timeout)


def open_overlay(
    files: OverlayFiles, target: str | None = None, *, wait: str = "poll", timeout: float | None = None
) -> BoardOverlay:
    """Load an overlay that was found already; see ``load``."""
    return BoardOverlay(files, target, wait, timeout)


def open_program(program: Program, target: str) -> StreamingDevice | CoresDevice:
    """A program on a board with the overlay of its accelerator, which is closed with the device.

    DeviceError if no overlay holds its accelerator, BoardError as for ``load``.
    """
    board = open_overlay(overlay_for_program(program), target)
    try:
        return board.open(program, close_overlay=True)
    except BaseException:
        board.close()
        raise


def open_program_cores(programs: Sequence[Program], target: str) -> list[StreamingDevice]:
    """A program of its own on each core of the overlay of their accelerator; see ``open_program``."""
    board = open_overlay(overlay_for_program(programs[0]), target)
    try:
        return board.open_on_cores(programs, close_overlay=True)
    except BaseException:
        board.close()
        raise


class BoardOverlay:
    """A loaded overlay; a context manager. ``target`` is closed with it. `bfpga.Overlay` is its public name.

    overlay: PYNQ's `Overlay`. clock_mhz: as measured.
    """

    def __init__(
        self,
        overlay: str | Path | OverlayFiles,
        target: str | BoardTarget | None = None,
        wait: str = "poll",
        timeout: float | None = None,
    ) -> None:
        """Load an overlay by name, by path or as it was found; see ``load``."""
        files = overlay if isinstance(overlay, OverlayFiles) else find_overlay(overlay)
        if target is None or isinstance(target, str):
            target = open_target(target or default_target(), files.manifest.board.processing_system)
        self.manifest = files.manifest
        self.target = target
        self.overlay: Any = None
        self._files = files
        self._wait = wait
        self._timeout = timeout
        self._cores: tuple[BoardHardware, ...] = ()
        self._kernel: BoardKernel | CoresDevice | ProgramCores | None = None
        self._close_with_kernel = False
        self._left: list[Any] = []
        self._disconnected = False
        self._closed = False
        try:
            self._check_wait()
            self._bitfile = _staged(files, target.emulated)
            self._load()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        state = "closed" if self._closed else "loaded" if self._cores else "not loaded"
        clock = f"{self.manifest.clock.actual_mhz:g} MHz"
        accelerator = clipped(self.manifest.accelerator.name)
        return f"Overlay({clipped(self.manifest.name)} with {accelerator} on {self.target.name}, {clock}, {state})"

    # What a user calls

    def open(self, program: Program | str | Path, *, close_overlay: bool = False) -> StreamingDevice | CoresDevice:
        """A program on this overlay; the one opened before is closed. Several at a time: ``open_together``.

        Of several cores each takes samples when it is free; a program that learns from sample to sample has the first
        core alone. program: as such, or its file. close_overlay: closing the device closes the overlay too.
        ProgramError if the program was compiled for another accelerator.
        """
        from bfpga.devices.streaming_device import StreamingDevice

        if isinstance(program, (str, Path)):
            program = load_program(program)
        self._files.check_program(program)
        if len(self.manifest.cores) == 1 or learns(program):
            return StreamingDevice(program, self.kernel(close_overlay), self.target.name)
        return self._on_all_cores(program, close_overlay)

    def open_together(self, *programs: Program | str | Path) -> list[SharingDevice]:
        """Several programs on this overlay, a device for each; what was opened before is closed, as by ``open``.

        Weights of programs that fit the kernel's memories together stay there, so that a change from one to another
        moves none; of others they are brought again before a run (docs/board.md). Closing one device closes all. Of
        several cores the first alone is used. ProgramError for one that was compiled for another accelerator.
        """
        from bfpga.devices.shared_kernel import SharedKernel, check_accelerators

        read = [load_program(program) if isinstance(program, (str, Path)) else program for program in programs]
        check_accelerators(read)
        self._files.check_program(read[0])
        kernel = self.kernel()
        try:
            return SharedKernel(read, kernel, self.target.name).devices
        except BaseException:
            kernel.close()
            raise

    def open_on_cores(self, programs: Sequence[Program], *, close_overlay: bool = False) -> list[StreamingDevice]:
        """A program of its own on each core, for batches that all of them compute together; see ``open``.

        Closing all devices closes the overlay too with close_overlay. ProgramError for a program that was compiled for
        another accelerator, BoardError for more programs than cores.
        """
        from bfpga.board.cores import ProgramCores

        for program in programs:
            self._files.check_program(program)
        self._make_ready()
        self._kernel = cores = ProgramCores(self, programs, self.target.name)
        self._close_with_kernel = close_overlay
        return cores.devices

    def kernel(self, close_overlay: bool = False) -> BoardKernel:
        """The first core's kernel alone, for starts of one's own; what was opened before is closed."""
        self._make_ready()
        self._kernel = kernel = BoardKernel(self)
        self._close_with_kernel = close_overlay
        return kernel

    def _on_all_cores(self, program: Program, close_overlay: bool) -> CoresDevice:
        from bfpga.board.cores import OverlayCores
        from bfpga.devices.cores import CoresDevice

        self._make_ready()
        self._kernel = device = CoresDevice(program, OverlayCores(self, program, self.target.name), self.target.name)
        self._close_with_kernel = close_overlay
        return device

    def _make_ready(self) -> None:
        """Nothing is open and the overlay is loaded."""
        if self._kernel is not None:
            self._kernel.close()
        if not self._cores and not self._closed:  # the last failure left no board; it may be back
            self.recover()

    def close(self) -> None:
        """Stop the DMAs, free the buffers, release the target. Closing twice does nothing."""
        self._close_with_kernel = False
        self._closed = True
        if self._kernel is not None:
            self._kernel.close()
        loaded = bool(self._cores) and self._is_loaded()
        for hardware in self._cores:
            hardware.close(loaded=loaded)
        self._cores = ()
        self.overlay = None
        self.target.close()

    def __enter__(self) -> BoardOverlay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def clock_mhz(self) -> float:
        """Clock of the logic, read back from the processor's registers."""
        return self.hardware.clock_mhz

    # What the kernel calls

    @property
    def hardware(self) -> BoardHardware:
        return self.cores[0]

    @property
    def cores(self) -> tuple[BoardHardware, ...]:
        """What each core has; BoardError if the overlay is not loaded."""
        if not self._cores:
            raise BoardError(f"overlay {self.manifest.name} is not loaded; load it again")
        return self._cores

    @property
    def identification(self) -> int:
        """What the kernel's register of that name reads."""
        return self.manifest.identification

    @property
    def minimum_seconds(self) -> float:
        """Shortest time limit of a start."""
        return self.target.minimum_seconds if self._timeout is None else self._timeout

    @property
    def slowest_rate(self) -> float:
        """Bytes a second that transfers reach at least."""
        return self.target.slowest_rate

    def explain(self, error: BaseException) -> list[str]:
        """A virtual board's explanation of a failure."""
        return self.target.explain(error)

    def stalled(self, error: BaseException) -> bool:
        """Whether a virtual board says that nothing can move any more."""
        return self.target.stalled(error)

    def lost(self, error: BaseException) -> bool:
        """Whether an error means that the board cannot be reached any more."""
        return self.target.lost(error)

    def check_loaded(self) -> None:
        """BoardError if this program has loaded another overlay on the board; no register is touched then."""
        if not self._is_loaded():
            raise BoardError(
                f"overlay {self.manifest.name} is no longer on the board: this program has loaded another one since. "
                "likely cause: another `Overlay` or `load` on the same board\ntry: run again, which loads it anew; or "
                "close this overlay before the other is loaded"
            )

    def _is_loaded(self) -> bool:
        return self.overlay is not None and bool(self.overlay.is_loaded())

    def recover(self, connection_lost: bool = False) -> str:
        """Reset the DMAs and load the overlay again: a kernel in the middle of a start has no other reset."""
        self._disconnected |= connection_lost
        loaded = bool(self._cores) and self._is_loaded()
        for hardware in self._cores:
            self._left += hardware.close(not self._disconnected, loaded)
        self._cores = ()
        if self._disconnected:
            self.target.reconnect()
            self._disconnected = False
        self._load()
        self.target.free(self._left)
        self._left.clear()
        return "the overlay was loaded again and the board is ready; the next run loads its weights again"

    def release(self) -> None:
        """The kernel was closed; its buffers are free for the next one."""
        self._kernel = None
        for hardware in self._cores:
            hardware.pool.reclaim()
        if self._close_with_kernel:
            self._close_with_kernel = False
            self.close()

    # Loading

    def _check_wait(self) -> None:
        if self._wait not in WAITS:
            raise BoardError(f"wait={self._wait!r} is unknown; known are {', '.join(WAITS)}")
        if self._wait == "interrupt" and not self.target.interrupts:
            raise BoardError(f'{self.target.name}: PYNQ.remote carries no interrupts; use wait="poll"')

    def _load(self) -> None:
        """Download and check; BoardError for whatever PYNQ raises."""
        try:
            self._download()
        except BoardError:
            raise
        except Exception as error:
            self._disconnected = self.target.lost(error)
            raise BoardError(f"{self._bitfile}: loading failed: {describe_failure(error)}") from error

    def _download(self) -> None:
        pynq, device = import_module("pynq"), self.target.device
        pynq.Device.active_device = device
        with _quiet(), _deep_calls():
            self.overlay = pynq.Overlay(str(self._bitfile), download=False, device=device)
            self._differences(check_handoff(self.overlay.ip_dict, self.manifest))
            release_clocks()
            _complete_clocks(self.overlay.clock_dict, self.manifest)
            self.overlay.download()
        clock = self._checked_clock(pynq)
        for core in self.manifest.cores:
            self._check_identification(pynq, core)
        self._cores = open_hardware(pynq, self.overlay, device, self.manifest, clock, self._wait)

    def _differences(self, differences: Differences) -> None:
        if differences.found:
            raise differences.error(
                f"overlay {self.manifest.name} on {self.target.name} is not what its manifest says "
                f"({self._bitfile.name}):"
            )

    def _checked_clock(self, pynq: Any) -> float:
        """The measured clock; set from the manifest if the one that PYNQ has set is wrong."""
        registers = CLOCK_REGISTERS[self.manifest.board.processing_system]
        read, write = _processor_access(pynq, self.target.device, registers)
        expected = self.manifest.clock.actual_mhz
        if not close_to(read_clock(registers, read), expected):
            set_clock(registers, read, write, expected)
        mhz = read_clock(registers, read)
        differences = Differences()
        cause = "the PLL runs at another rate than the design assumes, or something else set the clock"
        if mhz is None or not close_to(mhz, expected):
            found = "no source of known rate" if mhz is None else f"{mhz:.3f} MHz"
            differences.add("clock of the logic", f"{expected:.3f} MHz", found, cause)
        self._differences(differences)
        assert mhz is not None
        return mhz

    def _check_identification(self, pynq: Any, core: Core) -> None:
        registers = kernel_registers(pynq, self.overlay, self.target.device, core)
        of_core = f" of core {core.index}" if core.index else ""
        try:
            found = registers.probe(PROBE_SECONDS)
        except Exception as error:
            if not self.target.stalled(error):
                raise
            found = None
        differences = Differences()
        if found is None:
            cause = "the kernel has no clock, is held in reset, or is another"
            differences.add(f"start without work{of_core}", "ends at once", "no end", cause)
        elif found != self.identification:
            differences.add(
                f"identification of the kernel{of_core}",
                f"{self.identification:#010x} ({self.manifest.accelerator.name})",
                f"{found:#010x}",
                "the .hwh does not belong to the .bit, the .bit was built for another layout of descriptors, registers "
                "or streams (build it again), or another overlay was loaded under the same name",
            )
        self._differences(differences)


def _staged(files: OverlayFiles, emulated: bool) -> Path:
    """The file that PYNQ loads, in the user's cache; its name carries the hash of its content."""
    directory = cache_directory("boards")
    try:
        make_private(directory)
        return staged_files(files, directory, emulated).bitstream
    except OSError as error:
        raise BoardError(
            f"{directory}: cannot write there: {error.strerror or error}; set BFPGA_CACHE to a directory that can be "
            "written"
        ) from None


def _processor_access(pynq: Any, device: Any, registers: ClockRegisters) -> Any:
    """Functions that read and write registers of the processor by address."""
    pages: dict[int, Any] = {}

    def page(address: int) -> Any:
        base = address & ~0xFFF
        if base not in pages:
            pages[base] = pynq.MMIO(base, 0x1000, device=device)
        return pages[base]

    def read(address: int) -> int:
        return int(page(address).read(address & 0xFFF))

    def write(address: int, value: int) -> None:
        page(address).write(address & 0xFFF, int(value))

    return read, write


def _complete_clocks(clocks: dict[Any, dict[str, Any]], manifest: Manifest) -> None:
    """PYNQ 4 reads no frequency from the `.hwh` of a Zynq-7000 and then divides by it; the manifest has it."""
    for index, clock in clocks.items():
        if "frequency" in clock and clock["frequency"] is None:
            clock["frequency"] = manifest.clock.actual_mhz if int(index) == 0 else 100.0


@contextmanager
def _deep_calls() -> Iterator[None]:
    """PYNQ pickles the description of a design, link by link; a large one exceeds Python's usual depth."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    try:
        yield
    finally:
        with suppress(RecursionError):
            sys.setrecursionlimit(limit)


@contextmanager
def _quiet() -> Iterator[None]:
    """Warnings of PYNQ about what is checked here with more care."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
