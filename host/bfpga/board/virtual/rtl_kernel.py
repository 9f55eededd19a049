"""The simulated Verilog as a kernel of the virtual board: register slave and clock counter are those of the Verilog.

No clock passes while the board does something else: between two pieces of its streams, while DMA engines move data,
and while the kernel waits for a host that has not begun a transfer, except for some hundred clocks in which it is seen.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bfpga.accelerator.loader import Accelerator
from bfpga.board.virtual.bus import WORD_BYTES
from bfpga.board.virtual.compiled_kernel import PIECE_BYTES, described_kernel
from bfpga.board.virtual.stream import Stream
from bfpga.contract.bridge import PieceRecord
from bfpga.contract.process_stream import ProcessStream
from bfpga.contract.processes import process_streams
from bfpga.contract.registers import CONTROL_ADDRESS_BITS, INPUT_STREAM, OUTPUT_STREAM, WEIGHT_STREAM
from bfpga.devices.rtl import build, described_accelerator
from bfpga.devices.simulated_kernel import OwnedKernel, create_kernel, disturb_kernel, load_library
from bfpga.errors import DeviceError
from bfpga.vendor.clock_counter import COUNTER_ADDRESS_BITS

_POINTER, _INT = ctypes.c_void_p, ctypes.c_int32


class RtlKernel(OwnedKernel):
    """One kernel in Verilog with AXI ports; ``step`` lets its clock run until a stream stops it."""

    inputs = (INPUT_STREAM, WEIGHT_STREAM)
    outputs = (OUTPUT_STREAM,)

    def __init__(self, accelerator: Accelerator) -> None:
        self.config = accelerator.config
        library = load_library(build(accelerator))
        word = ctypes.c_uint32
        library.bfpga_read_register.argtypes = [_POINTER, _INT, word, ctypes.POINTER(word)]
        library.bfpga_write_register.argtypes = [_POINTER, _INT, word, word, word]
        library.bfpga_step.argtypes = [
            _POINTER, ctypes.POINTER(PieceRecord), _INT, ctypes.POINTER(_INT), ctypes.POINTER(_INT)
        ]  # fmt: skip
        library.bfpga_waiting.argtypes, library.bfpga_waiting.restype = [_POINTER], ctypes.c_char_p
        for function in (library.bfpga_reset, library.bfpga_interrupt, library.bfpga_idle):
            function.argtypes = [_POINTER]
        self._library = library
        self._instance = create_kernel(library)
        self._output = np.zeros(PIECE_BYTES, np.uint8)
        #: The streams as they were when the kernel came to rest, None if it does not rest.
        self._rested: tuple[int, ...] | None = None

    @property
    def between(self) -> tuple[ProcessStream, ...]:
        """The streams between the processes, which the design has as links between IPs."""
        return process_streams(self.config)

    @property
    def idle(self) -> bool:
        """The wire `ap_idle`."""
        return bool(self._library.bfpga_idle(self._instance))

    @property
    def interrupt(self) -> bool:
        """The wire `interrupt`."""
        return bool(self._library.bfpga_interrupt(self._instance))

    @property
    def waiting(self) -> str | None:
        """What every stream waits for; None when no start is under way."""
        return None if self.idle else self._said()

    def read_register(self, offset: int, *, of_counter: bool = False) -> int:
        """A read at an AXI4-Lite port, which takes clocks."""
        data = ctypes.c_uint32()
        address = _address(offset, of_counter)
        self._call(self._library.bfpga_read_register, int(of_counter), address, ctypes.byref(data))
        return data.value

    def write_register(self, offset: int, value: int, mask: int, *, of_counter: bool = False) -> None:
        """A write at an AXI4-Lite port, with a strobe for each byte of the mask."""
        self._rested = None
        strobes = sum(1 << n for n in range(WORD_BYTES) if mask >> 8 * n & 0xFF)
        self._call(self._library.bfpga_write_register, int(of_counter), _address(offset, of_counter), value, strobes)

    def step(self, streams: Mapping[str, Stream], *, patient: bool = False) -> bool:
        """Let the clock run until a stream has used what there was, or nothing moves; True if it went on.

        A kernel that rests has no clock until its streams or registers change, or until a patient caller asks.
        """
        source, weights, sink = (streams[name] for name in (INPUT_STREAM, WEIGHT_STREAM, OUTPUT_STREAM))
        if self._rested == _seen(streams) and not patient:
            return False
        read, words, moved, rests = source.peek(PIECE_BYTES), weights.peek(PIECE_BYTES), _INT(), _INT()
        piece = PieceRecord(
            input=read.ctypes.data,
            input_bytes=read.size,
            weights=words.ctypes.data,
            weight_bytes=words.size,
            output=self._output.ctypes.data,
            output_capacity=min(sink.space, PIECE_BYTES),
        )
        self._call(
            self._library.bfpga_step, ctypes.byref(piece), int(patient), ctypes.byref(moved), ctypes.byref(rests)
        )
        source.drop(piece.input_used)
        weights.drop(piece.weights_used)
        if piece.output_bytes:
            sink.push(self._output[: piece.output_bytes], bool(piece.packet_ended))
        self._rested = _seen(streams) if rests.value else None
        return bool(moved.value)

    def disturb(self, seed: int) -> None:
        """From now on streams and registers are accessed with pauses drawn from a seed; 0: no longer."""
        if self._instance is not None:
            disturb_kernel(self._library, self._instance, seed)

    def reset(self) -> None:
        """The wire `ap_rst_n`, low for some clocks: registers have their words of power-on, memories keep theirs."""
        self._call(self._library.bfpga_reset)
        self._rested = None

    def _call(self, function: Callable[..., int], *arguments: Any) -> None:
        """DeviceError if a handshake of the Verilog broke its rules."""
        if function(self._instance, *arguments):
            raise DeviceError(f"simulation of the Verilog stopped: {self._said()}")

    def _said(self) -> str:
        text: bytes = self._library.bfpga_waiting(self._instance)
        return text.decode(errors="replace")


def _seen(streams: Mapping[str, Stream]) -> tuple[int, ...]:
    """What a kernel sees of its streams."""
    return tuple(number for stream in streams.values() for number in (stream.accepted, stream.delivered, stream.level))


def _address(offset: int, of_counter: bool) -> int:
    """As the port sees it: what a slave has no wires for is lost."""
    return offset & (1 << (COUNTER_ADDRESS_BITS if of_counter else CONTROL_ADDRESS_BITS)) - 1


def rtl_kernel(description: Mapping[str, Any]) -> RtlKernel:
    """The Verilog of the kernel that an emulation bitstream describes, made and compiled unless the cache has it.

    DeviceError as for ``described_kernel``, ToolError for a tool that is missing.
    """
    found = described_kernel(description)
    clock = description.get("clock_mhz")
    if not isinstance(clock, (int, float)) or not 0 < clock < float("inf"):
        raise DeviceError(
            f"the emulation bitstream states the clock {clock!r}. Load the overlay again with this toolkit"
        )
    return RtlKernel(described_accelerator(found.config, found.name, found.digest, clock))
