"""The compiled HLS sources as a kernel of the virtual board: the same C++ that synthesis takes, run piece by piece."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from bfpga.board.virtual.kernel_model import OperationTime
from bfpga.board.virtual.kernel_thread import KernelThread, kernel_thread
from bfpga.board.virtual.process_time import read_descriptors
from bfpga.board.virtual.stream import Stream
from bfpga.contract.bridge import OperationRecord, PieceRecord, RunRecord, StartState
from bfpga.contract.configuration import ARRAY, KernelConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.layout import layout_mismatch
from bfpga.contract.names import check_digest, check_name
from bfpga.contract.position_stream import AWAITED_EXPONENTS, TOLD_EXPONENTS
from bfpga.contract.process_stream import ProcessStream
from bfpga.contract.processes import process_streams
from bfpga.contract.registers import INPUT_STREAM, OUTPUT_STREAM, WEIGHT_STREAM
from bfpga.devices.csim import build
from bfpga.devices.position_words import PositionWords
from bfpga.devices.simulated_kernel import OwnedKernel, create_kernel, disturb_kernel, load_library
from bfpga.engines.configurations import config_from_dict
from bfpga.engines.kernel.map_streams import MapStreams
from bfpga.engines.kernel.program_memory import ProgramMemory
from bfpga.errors import ConfigurationError, DeviceError

#: Most bytes that one piece takes from a stream or gives to it.
PIECE_BYTES = 1 << 16
#: Those of input, weights and output.
WHOLE_PIECES = (PIECE_BYTES, PIECE_BYTES, PIECE_BYTES)
#: Bytes that a disturbed kernel has of a stream in one piece; too few for a beat of a wide stream is none.
DISTURBED_BYTES = (0, 16, 48, 256, PIECE_BYTES)
#: `control`, bit 0: the policies forget what they have learned.
CLEAR_POLICIES = 1


class CompiledKernel(OwnedKernel):
    """One kernel with AXI ports; ``step`` goes on with a start until a stream stops it."""

    inputs = (INPUT_STREAM, WEIGHT_STREAM)
    outputs = (OUTPUT_STREAM,)

    #: The one thread in which the C++ runs; None: the caller's.
    _thread: KernelThread | None = None

    def __init__(self, config: KernelConfig, name: str, digest: str) -> None:
        self.config = config
        self._maps = MapStreams.of(config)
        self._programs = ProgramMemory(config) if config.program_descriptors else None
        library = load_library(build(config, "native", name, digest))
        library.bfpga_start.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32]
        library.bfpga_resume.argtypes = [ctypes.c_void_p, ctypes.POINTER(PieceRecord)]
        library.bfpga_results.argtypes = [ctypes.c_void_p, ctypes.POINTER(RunRecord)]
        library.bfpga_operations.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int32)]
        library.bfpga_operations.restype = ctypes.POINTER(OperationRecord)
        self._library = library
        self._words = PositionWords(library) if config.position_stream else None
        self._instance = create_kernel(library)
        self._output = np.zeros(PIECE_BYTES, np.uint8)
        self._state = StartState.FINISHED
        self._text = ""
        #: Input of the start.
        self._input = bytearray()
        self._seed = 0
        self._random: Random | None = None

    def stay_in_one_thread(self) -> None:
        """Run in the thread of kernels from now on, and end there."""
        self._thread = kernel_thread()

    def _in_thread(self, work: Callable[[], object]) -> None:
        if self._thread is None:
            work()
        else:
            self._thread.call(work)

    def close(self) -> None:
        """Free the kernel; it cannot run afterwards."""
        if self._instance is not None:
            self._in_thread(super().close)

    def __del__(self) -> None:
        if self._thread is None:
            self.close()
        elif self._instance is not None:
            self._thread.later(functools.partial(self._library.bfpga_destroy, self._instance))
            self._instance = None

    @property
    def words(self) -> tuple[str, ...]:
        """Names of its ports to other kernels, which carry exponents."""
        return () if self._words is None else (TOLD_EXPONENTS, AWAITED_EXPONENTS)

    @property
    def between(self) -> tuple[ProcessStream, ...]:
        """The streams between the processes, which the design has as links between IPs."""
        return process_streams(self.config)

    @property
    def finished(self) -> bool:
        """No start is under way."""
        return self._state is StartState.FINISHED

    @property
    def waiting(self) -> str | None:
        """Why the start cannot go on, None when none is under way."""
        if self.finished:
            return None
        return f"stopped: {self._text}" if self._state is StartState.FAILED else self._text

    def start(self, arguments: Mapping[str, int]) -> None:
        """Begin a start: registers `descriptor_count` and `control`."""
        count = arguments["descriptor_count"]
        signed = count - (1 << 32) if count >> 31 else count
        clear = arguments["control"] & CLEAR_POLICIES
        self._in_thread(lambda: self._library.bfpga_start(self._instance, signed, clear))
        self._state, self._text = StartState.NEEDS_INPUT, "not stepped yet"
        self._input.clear()

    def step(self, streams: Mapping[str, Stream]) -> bool:
        """Go on until a stream is empty or full; True if a beat moved or the start came to its end."""
        if self._state in (StartState.FINISHED, StartState.FAILED):
            return False
        # Where what it may have moves nothing it goes on as it can: a board rests only when nothing moves.
        return self._go_on(streams, self._pieces()) or (self._disturbed and self._go_on(streams, WHOLE_PIECES))

    def disturb(self, seed: int) -> None:
        """From now on input, weights and output come and leave in pieces of random sizes, in no order; 0: no longer.

        The processes run in an order drawn by chance too, the streams between them pretend to be
        empty or full: see `CSimulation.disturb`. No value may change.
        """
        self._seed = seed
        self._random = Random(seed) if seed else None
        if self._instance is not None:
            disturb_kernel(self._library, self._instance, seed)

    @property
    def _disturbed(self) -> bool:
        return self._random is not None

    def _pieces(self) -> tuple[int, int, int]:
        """Bytes of input, weights and output that the next piece may have; of a disturbed kernel now and then none."""
        if self._random is None:
            return WHOLE_PIECES
        first, second, third = self._random.choices(DISTURBED_BYTES, k=3)
        return first, second, third

    def _go_on(self, streams: Mapping[str, Stream], most: tuple[int, int, int]) -> bool:
        """Run on at most so many bytes of input, weights and output; True as for `step`."""
        source, weights, sink = (streams[name] for name in (INPUT_STREAM, WEIGHT_STREAM, OUTPUT_STREAM))
        read, words = source.peek(most[0]), weights.peek(most[1])
        piece = PieceRecord(
            input=read.ctypes.data,
            input_bytes=read.size,
            weights=words.ctypes.data,
            weight_bytes=words.size,
            output=self._output.ctypes.data,
            output_capacity=min(sink.space, most[2]),
        )
        exchanges = self._give_words(streams)
        self._in_thread(lambda: self._library.bfpga_resume(self._instance, ctypes.byref(piece)))
        moved = self._move_words(streams) if exchanges else 0
        self._input += read[: piece.input_used].tobytes()
        source.drop(piece.input_used)
        weights.drop(piece.weights_used)
        if piece.output_bytes:
            sink.push(self._output[: piece.output_bytes], bool(piece.packet_ended))
        self._state, self._text = StartState(piece.state), piece.text.decode(errors="replace")
        return bool(piece.input_used or piece.weights_used or piece.output_bytes or moved or self.finished)

    def _give_words(self, streams: Mapping[str, Stream]) -> bool:
        """The exponents that the core before has told, and room for those that the next one takes."""
        if self._words is None or self._instance is None:
            return False
        awaited = streams[AWAITED_EXPONENTS].peek(PIECE_BYTES)
        self._words.give(self._instance, awaited, min(streams[TOLD_EXPONENTS].space, PIECE_BYTES))
        return True

    def _move_words(self, streams: Mapping[str, Stream]) -> int:
        """Bytes of them that the piece has moved."""
        assert self._words is not None
        assert self._instance is not None
        used, told = self._words.moved(self._instance)
        streams[AWAITED_EXPONENTS].drop(used)
        streams[TOLD_EXPONENTS].push(told, False)
        return used + len(told)

    def results(self) -> dict[str, int]:
        """Output registers of the start that finished last, by name."""
        record = RunRecord()
        self._library.bfpga_results(self._instance, ctypes.byref(record))
        return {
            "cycles": record.cycles,
            "overflow": record.overflows,
            "underflow": record.underflows,
            "status": record.status & 0xFFFFFFFF,
            "identification": int(self._library.bfpga_identification()),
            "input_checksum": record.input_checksum,
            "weight_checksum": record.weight_checksum,
            "output_checksum": record.output_checksum,
        }

    def operations(self) -> list[OperationTime]:
        """Operations of the start that finished last: clocks, and beats of input, weights and output."""
        count = ctypes.c_int32()
        records = self._library.bfpga_operations(self._instance, ctypes.byref(count))
        return [
            OperationTime(record.cycles, (record.input_beats, record.weight_beats, record.output_beats))
            for record in records[: count.value]
        ]

    @property
    def repeated_samples(self) -> int:
        """Samples for which the start that finished last repeated operations that its memory held; 0: it did not."""
        return 0 if self._programs is None else self._programs.samples(self._input)

    @property
    def opening_beats(self) -> int:
        """Beats of that start before its first operation, which a program memory takes."""
        return 0 if self._programs is None else self._programs.opening_beats(self._input)

    def received(self, samples: int | None = None) -> list[Descriptor]:
        """Operations of the start that finished last. samples: of a start that repeats them, at most; None: all."""
        if self._programs is not None:
            return list(self._programs.descriptors(self._input, samples))
        # Of a copy: what an exception keeps of it does not bar the next start from clearing the original.
        plain = bytes(self._input) if self._maps is None else self._maps.plain_input(self._input)
        return list(read_descriptors(plain, self.config))

    def reset(self) -> None:
        """As after programming: no start, empty memories, nothing learned."""
        self.close()
        self._instance = create_kernel(self._library)
        self._state = StartState.FINISHED
        self.disturb(self._seed)

@dataclass(frozen=True)
class DescribedKernel:
    """What an emulation bitstream says of a kernel."""

    config: KernelConfig
    name: str
    digest: str


def kernel_from_description(description: Mapping[str, Any]) -> CompiledKernel:
    """The kernel that an emulation bitstream describes; errors as for ``described_kernel``."""
    found = described_kernel(description)
    return CompiledKernel(found.config, found.name, found.digest)


def described_kernel(description: Mapping[str, Any]) -> DescribedKernel:
    """What an emulation bitstream says of a kernel; DeviceError for an unknown kind and for another layout."""
    kind = description.get("kind")
    if kind != ARRAY:
        raise DeviceError(f"the emulation bitstream holds a kernel of kind {kind!r}; known is {ARRAY}")
    mismatch = layout_mismatch(description.get("layout"))
    if mismatch is not None:
        raise DeviceError(
            f"the emulation bitstream holds a kernel of another layout than this toolkit's: {mismatch}. Load the "
            "overlay again with this toolkit, which writes a new one"
        )
    try:
        name, digest = check_name(description.get("name"), "name"), check_digest(description.get("digest"), "digest")
        config = config_from_dict(description.get("configuration"))
    except ConfigurationError as error:
        raise DeviceError(f"the emulation bitstream does not describe a systolic array: {error}") from None
    return DescribedKernel(config, name, digest)
