"""A kernel that is compiled into a library and called through ctypes: what all simulations of kernels share."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bfpga.contract.bridge import RunRecord
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.layout import layout_mismatch
from bfpga.contract.program import BlockTensor, KernelOperation
from bfpga.devices.kernel_start import KernelResult, KernelStart, Octets
from bfpga.devices.position_words import PositionWords
from bfpga.engines.kernel import streams
from bfpga.engines.kernel.map_streams import MapStreams
from bfpga.errors import DeviceError

#: Words of exponents that a start may tell in a simulation: its reader has room for all of them.
TOLD_BYTES = 1 << 16


def load_library(path: Path) -> ctypes.CDLL:
    """A compiled bridge with the types of what makes, names and frees a kernel.

    DeviceError for one that was compiled for another layout (with what differs) or does not name its own, and for what
    is no library of this machine.
    """
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise DeviceError(f"{path}: the compiled kernel cannot be loaded: {error}. Delete the file: the kernel is "
                          "compiled again then") from None  # fmt: skip
    mismatch = layout_mismatch(_compiled_layout(library))
    if mismatch is not None:
        raise DeviceError(
            f"{path}: the compiled kernel is of another layout than this toolkit: {mismatch}. Delete the file: the "
            "kernel is compiled again then"
        )
    library.bfpga_create.restype = ctypes.c_void_p
    library.bfpga_identification.restype = ctypes.c_uint32
    library.bfpga_destroy.argtypes = [ctypes.c_void_p]
    return library


def _compiled_layout(library: ctypes.CDLL) -> object:
    """The layout that a bridge names; None for a bridge that names none."""
    try:
        function = library.bfpga_layout
    except AttributeError:
        return None
    function.restype = ctypes.c_char_p
    try:
        return json.loads(function())
    except ValueError:
        return None


def create_kernel(library: ctypes.CDLL) -> int:
    """A new kernel of the library; DeviceError without memory for it."""
    kernel = library.bfpga_create()
    if kernel is None:
        raise DeviceError("no memory for the simulated kernel; its memories are those of the accelerator")
    return int(kernel)


def disturb_kernel(library: ctypes.CDLL, kernel: int, seed: int) -> None:
    """From now on a kernel runs in an order drawn by chance, see `CSimulation.disturb`."""
    library.bfpga_disturb.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    library.bfpga_disturb(kernel, seed)


class OwnedKernel:
    """A kernel of a compiled library, which is freed with the object."""

    _library: ctypes.CDLL
    #: None before it is made and after it is freed.
    _instance: int | None = None

    def close(self) -> None:
        """Free the kernel; it cannot run afterwards."""
        if self._instance is not None:
            self._library.bfpga_destroy(self._instance)
            self._instance = None

    def __del__(self) -> None:
        self.close()


class SimulatedKernel(OwnedKernel):
    """One simulated kernel; its memories, exponents and policy slots last as long as the object.

    Two objects never share state. A start runs when it is begun. library: the compiled kernel, with the interface of
    the bridge (`contract/bridge.py`).
    """

    depth = 1
    #: What errors call it.
    title = "simulation"

    def __init__(self, config: KernelConfig, library: Path) -> None:
        self.config = config
        self._maps = MapStreams.of(config)
        self._library = load_library(library)
        self._library.bfpga_run.argtypes = [ctypes.c_void_p, ctypes.POINTER(RunRecord)]
        self._instance = create_kernel(self._library)
        self._words = PositionWords(self._library) if config.position_stream else None
        #: Words of exponents that starts have told the next core, and that this one has from the core before.
        self.told, self.awaited = bytearray(), bytearray()
        self._results: list[KernelResult] = []
        self.seconds: dict[str, float] = {}
        #: The name of the device that simulates a kernel as this one is; errors add it.
        self.repeated_by = ""

    def disturb(self, seed: int) -> None:
        """From now on chance drawn from a seed decides what a kernel's surroundings may decide; 0: no longer.

        DeviceError for a kernel that is closed.
        """
        if self._instance is None:
            raise DeviceError("only an open kernel has an order that can be disturbed")
        disturb_kernel(self._library, self._instance, seed)

    @property
    def identification(self) -> int:
        """First 32 bits of the accelerator's digest, as the register of that name reads."""
        return int(self._library.bfpga_identification())

    def begin(self, start: KernelStart) -> None:
        """Run a start; see ``run_packet`` for errors."""
        weights = np.tile(np.frombuffer(start.weights, np.uint8), start.weight_repeats)
        self._results.append(
            self.run_packet(start.descriptors, start.input(), weights, start.output_bytes, start.clear_policies)
        )

    def finish(self) -> KernelResult:
        """Result of the oldest start that was begun."""
        return self._results.pop(0)

    def cancel(self) -> None:
        """Drop results that were not taken."""
        self._results.clear()

    def run_packet(
        self, descriptors: int, packet: Octets, weights: Octets = b"", capacity: int = 0, clear_policies: bool = False
    ) -> KernelResult:
        """One kernel start on plain streams; ``capacity``: bytes the output may have.

        DeviceError with the kernel's sentence if it stops (a stream that is empty, a descriptor that breaks a rule) or
        leaves input unread or its output without an end.
        """
        if self._maps is None:
            return self.run_beats(descriptors, packet, weights, capacity, clear_policies)
        sent, most = self._maps.sent(packet, descriptors), self._maps.most_output(packet, descriptors)
        result = self.run_beats(descriptors, sent, weights, most, clear_policies)
        return replace(result, output=self._maps.received(result.output, packet, descriptors))

    def run_beats(
        self, descriptors: int, packet: Octets, weights: Octets, capacity: int, clear_policies: bool
    ) -> KernelResult:
        """As ``run_packet``, with the bytes that the kernel's own streams carry: maps may be compressed there."""
        if self._instance is None:
            raise DeviceError("the simulated kernel is closed")
        read, weight_words = np.frombuffer(packet, np.uint8), np.frombuffer(weights, np.uint8)
        output = np.zeros(max(capacity, 1), np.uint8)
        cycles = np.zeros(max(descriptors, 1), np.uint32)
        run = RunRecord(
            descriptors=descriptors,
            clear_policies=int(clear_policies),
            input=read.ctypes.data,
            input_bytes=read.size,
            weights=weight_words.ctypes.data,
            weight_bytes=weight_words.size,
            output=output.ctypes.data,
            output_capacity=capacity,
            operation_cycles=cycles.ctypes.data,
        )
        if self._words is not None:
            self._words.give(self._instance, np.frombuffer(bytes(self.awaited), np.uint8), TOLD_BYTES)
        if self._library.bfpga_run(self._instance, ctypes.byref(run)):
            again = f" ({self.repeated_by})" if self.repeated_by else ""
            raise DeviceError(f"{self.title} stopped: {run.error.decode(errors='replace')}{again}")
        self._check_finished(run)
        if self._words is not None:
            used, told = self._words.moved(self._instance)
            del self.awaited[:used]
            self.told += told.tobytes()
        return KernelResult(
            output=output[: run.output_bytes].tobytes(),
            cycles=run.cycles,
            operation_cycles=cycles[:descriptors].tolist(),
            overflow=run.overflows,
            underflow=run.underflows,
            status=run.status,
            packets=run.packets,
            checksums=(run.input_checksum, run.weight_checksum, run.output_checksum),
        )

    def _check_finished(self, run: RunRecord) -> None:
        for stream, left in (("input", run.input_left), ("weights", run.weights_left)):
            if left:
                raise DeviceError(f"{self.title}: {left} bytes of stream `{stream}` were not read")
        if run.open_beats:
            raise DeviceError(
                f"{self.title}: the output ends with {run.open_beats} beats without TLAST; a DMA would wait for ever"
            )

    def run_operations(
        self,
        operations: Sequence[KernelOperation],
        tensors: Mapping[str, BlockTensor],
        sample: int = 0,
        clear_policies: bool = False,
    ) -> KernelResult:
        """One kernel start: loads come from ``tensors``, stores are written into ``tensors`` (rows of ``sample``)."""
        result = self.run_packet(
            len(operations),
            streams.input_packet(operations, self.config, tensors, sample),
            streams.weight_stream(operations),
            streams.output_bytes(operations, self.config),
            clear_policies,
        )
        stored = streams.decode_output(operations, self.config, result.output)
        streams.write_rows(stored, tensors, sample)
        return replace(result, choices=tuple(part.choices for part in stored))
