"""What a remote PYNQ board serves by gRPC: files, registers and buffers. Importing this module imports PYNQ's stubs.

Failures are sent in the `msg` field where the protocol has one; PYNQ's client raises them as RuntimeError. Elsewhere
the call is ended with a status, which the client raises as `grpc.RpcError` with the same text.
"""

from __future__ import annotations

import hmac
import importlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from bfpga.board.remote_token import TOKEN_KEY, TOKEN_WANTED
from bfpga.board.virtual.bitfile import decode_emulation_bitstream
from bfpga.board.virtual.board import VirtualBoard
from bfpga.board.virtual.kernel_model import KernelFactory
from bfpga.board.virtual.memory import CachedView
from bfpga.board.virtual.programming import program_board
from bfpga.board.virtual.pynq_internals import import_pynq
from bfpga.errors import BfpgaError, DeviceError

import_pynq()
grpc: Any = importlib.import_module("grpc")
_buffers, _buffers_grpc, _registers, _registers_grpc, _device, _device_grpc = (
    importlib.import_module(f"pynq.remote.{service}_pb2{part}")
    for service in ("buffer", "mmio", "remote_device")
    for part in ("", "_grpc")
)

#: Files of Linux' FPGA manager, which programs the logic.
_MANAGER = "/sys/class/fpga_manager/fpga0/"
_FIRMWARE = "/lib/firmware/"
#: What the files of clients may take, all together: bitstreams of real parts have tens of megabytes.
MOST_FILE_BYTES, MOST_FILES, LONGEST_PATH = 1 << 28, 1024, 4096
#: Bytes in one message of a stream; gRPC's limit is 4 MiB.
CHUNK_BYTES = 1 << 21


def failure_text(error: BfpgaError) -> str:
    """How an error of the board is reported to a client: its kind and its text."""
    return f"{type(error).__name__}: {error}"


def chunks(data: bytes) -> Iterator[bytes]:
    """Pieces of a message stream; one empty piece for no data."""
    for start in range(0, max(len(data), 1), CHUNK_BYTES):
        yield data[start : start + CHUNK_BYTES]


class TokenCheck(grpc.ServerInterceptor):  # type: ignore[misc]
    """Lets calls pass that carry the token; UNAUTHENTICATED for all others, before anything of them is read."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._refusal = grpc.stream_stream_rpc_method_handler(_refuse)

    def intercept_service(self, proceed: Callable[[Any], Any], details: Any) -> Any:
        """The handler of a call."""
        given = dict(details.invocation_metadata).get(TOKEN_KEY, "")
        same = hmac.compare_digest(given if isinstance(given, bytes) else given.encode(), self._token)
        return proceed(details) if same else self._refusal


def _refuse(requests: Any, context: Any) -> Iterator[Any]:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, TOKEN_WANTED)
    yield


class FileService(_device_grpc.RemoteDeviceServicer):  # type: ignore[misc, name-defined]
    """Files of the board. Writing a name to the FPGA manager's `firmware` programs the logic, as in Linux."""

    def __init__(self, board: VirtualBoard, name: str, machine: str, kernels: KernelFactory | None) -> None:
        self._board = board
        self._kernels = kernels
        self._lock = threading.Lock()
        self._files = {
            "/proc/version": f"Linux version 6.6.0 (virtual board) {machine}\n".encode(),
            "/proc/device-tree/chosen/pynq_board": name.encode() + b"\0",
            f"{_MANAGER}state": b"unknown\n",
            f"{_MANAGER}flags": b"0\n",
            f"{_MANAGER}firmware": b"",
        }

    def existsfile(self, request: Any, context: Any) -> Any:
        """Whether there is a file."""
        return _device.ExistsFileResponse(exists=request.file_path in self._files)

    def readfile(self, request: Any, context: Any) -> Iterator[Any]:
        """A file in pieces; NOT_FOUND if there is none."""
        data = self._files.get(request.file_path)
        if data is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"{request.file_path}: no such file on the virtual board")
        for chunk in chunks(data or b""):
            yield _device.ReadFileResponse(data=chunk)

    def writefile(self, requests: Iterator[Any], context: Any) -> Any:
        """A file in pieces; into the FPGA manager's `firmware`: programming."""
        path, data = "", bytearray()
        for request in requests:
            path = request.file_path
            data += request.data
            self._check_room(path, len(data), context)
        with self._lock:
            self._check_room(path, len(data), context)
            if path == f"{_MANAGER}firmware":
                self._program(bytes(data).decode("utf-8", "replace").strip(), context)
            elif path:
                self._files[path] = bytes(data)
        return _device.WriteFileResponse()

    def _check_room(self, path: str, size: int, context: Any) -> None:
        """RESOURCE_EXHAUSTED where a file would exceed what clients may have."""
        others = {name: len(data) for name, data in list(self._files.items()) if name != path}
        if size + sum(others.values()) > MOST_FILE_BYTES or len(others) >= MOST_FILES or len(path) > LONGEST_PATH:
            context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"no room for the file: the virtual board holds {MOST_FILE_BYTES >> 20} MiB in {MOST_FILES} files with "
                f"names of {LONGEST_PATH} characters; start it again to empty it",
            )

    def set_bitstream_attrs(self, request: Any, context: Any) -> Any:
        """What the client says of a bitstream before it programs; the FPGA manager needs none of it."""
        return _device.SetBitstreamAttrsResponse(status=True)

    def shutdown(self, request: Any, context: Any) -> Any:
        """Nothing to shut down: no transfer outlives a new design."""
        return _device.ShutdownResponse(status=True)

    def _program(self, name: str, context: Any) -> None:
        """What the FPGA manager does with a file below /lib/firmware."""
        try:
            self._configure(name)
        except BfpgaError as error:  # a compiler that a kernel needs may be missing
            self._files[f"{_MANAGER}state"] = b"write error\n"
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, failure_text(error))
        self._files[f"{_MANAGER}firmware"] = name.encode() + b"\n"
        self._files[f"{_MANAGER}state"] = b"operating\n"

    def _configure(self, name: str) -> None:
        if self._files[f"{_MANAGER}flags"].strip() not in (b"", b"0"):
            raise DeviceError(f"{name}: partial bitstreams do not exist for a virtual board")
        data = self._files.get(_FIRMWARE + name)
        if data is None:
            raise DeviceError(f"{_FIRMWARE}{name}: no such file on the virtual board; write it before the FPGA manager")
        program_board(self._board, decode_emulation_bitstream(data, name), self._kernels)


class RegisterService(_registers_grpc.MmioServicer):  # type: ignore[misc, name-defined]
    """Registers. A range has its addresses as its id, so nothing is kept for a client that went away."""

    def __init__(self, board: VirtualBoard) -> None:
        self._board = board
        # PYNQ 3.1 declares what it reads as signed, 4.0 as unsigned.
        value = _registers.ReadResponse.DESCRIPTOR.fields_by_name["data"]
        self._signed = value.type in (value.TYPE_INT32, value.TYPE_SINT32, value.TYPE_SFIXED32)

    def get_mmio(self, request: Any, context: Any) -> Any:
        """Open a range of addresses."""
        return _registers.GetMmioResponse(status=True, mmio_id=f"{request.base_addr:#x}+{request.length:#x}")

    def read(self, request: Any, context: Any) -> Any:
        """One word."""
        try:
            address = self._address(request.mmio_id, request.offset, request.length)
            data = self._board.read(address, request.length)
        except DeviceError as error:
            return _registers.ReadResponse(status=False, msg=failure_text(error))
        value = int.from_bytes(data[:4], "little")
        if self._signed and value >> 31:
            value -= 1 << 32
        return _registers.ReadResponse(status=True, data=value)

    def write(self, request: Any, context: Any) -> Any:
        """Whole words."""
        try:
            self._board.write(self._address(request.mmio_id, request.offset, len(request.data)), request.data)
        except DeviceError as error:
            return _registers.WriteResponse(status=False, msg=failure_text(error))
        return _registers.WriteResponse(status=True)

    def _address(self, mmio_id: str, offset: int, length: int) -> int:
        try:
            base, size = (int(part, 16) for part in mmio_id.split("+"))
        except ValueError:
            raise DeviceError(f"register range {mmio_id!r} was not opened") from None
        if length > 4 and length != 8:
            raise DeviceError(f"{length} bytes at once; the protocol carries words of 4 bytes")
        if offset + length > size:
            raise DeviceError(f"{length} bytes at offset {offset:#x} leave the range of {size:#x} bytes at {base:#x}")
        return base + offset


@dataclass
class _Buffer:
    """A buffer in DDR and the copy of the server's process: its processor's cache, or the DDR itself."""

    physical: int
    size: int
    cache: CachedView | None
    data: Any = field(repr=False)


class BufferService(_buffers_grpc.RemoteBufferServicer):  # type: ignore[misc, name-defined]
    """Buffers in the board's DDR. The server writes and reads its own copy; flush and invalidate move it."""

    def __init__(self, board: VirtualBoard) -> None:
        self._memory = board.memory
        self._lock = threading.Lock()
        self._buffers: dict[str, _Buffer] = {}
        self._made = 0

    def close(self) -> None:
        """Give back what clients left."""
        with self._lock:
            for buffer in self._buffers.values():
                self._memory.free(buffer.physical)
            self._buffers = {}

    def allocate(self, request: Any, context: Any) -> Any:
        """A buffer of zeros; RESOURCE_EXHAUSTED if the pool has no room."""
        with self._lock:
            try:
                buffer = self._allocated(max(request.size, 1), request.cacheable)
            except DeviceError as error:
                # The stock client ignores the message here and would go on with a buffer that does not exist.
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, failure_text(error))
                raise
            self._made += 1
            self._buffers[str(self._made)] = buffer
            return _buffers.AllocateResponse(buffer_id=str(self._made))

    def freebuffer(self, request: Any, context: Any) -> Any:
        """Give a buffer back."""
        with self._lock:
            buffer = self._buffers.pop(request.buffer_id, None)
            if buffer is None:
                return _buffers.FreeBufferResponse(msg=_unknown(request.buffer_id))
            self._memory.free(buffer.physical)
        return _buffers.FreeBufferResponse()

    def write(self, requests: Iterator[Any], context: Any) -> Any:
        """Change the copy of the server's process."""
        position: int | None = None
        for request in requests:
            buffer = self._buffers.get(request.buffer_id)
            if buffer is None:
                return _buffers.BufferWriteResponse(msg=_unknown(request.buffer_id))
            start = request.start if position is None else position
            position = start + len(request.data)
            if position > buffer.size:
                return _buffers.BufferWriteResponse(msg=f"{position} bytes into a buffer of {buffer.size} bytes")
            buffer.data[start:position] = memoryview(request.data)
        return _buffers.BufferWriteResponse()

    def read(self, request: Any, context: Any) -> Iterator[Any]:
        """The copy of the server's process; NOT_FOUND for an unknown buffer."""
        buffer = self._buffers.get(request.buffer_id)
        if buffer is None:
            # The stock client ignores the message here.
            context.abort(grpc.StatusCode.NOT_FOUND, _unknown(request.buffer_id))
            return
        for chunk in chunks(buffer.data[request.start : request.end or buffer.size].tobytes()):
            yield _buffers.BufferReadResponse(data=chunk)

    def flush(self, request: Any, context: Any) -> Any:
        """Write the copy to DDR."""
        return self._synchronize(request, _buffers.FlushResponse, CachedView.flush)

    def invalidate(self, request: Any, context: Any) -> Any:
        """Read the copy from DDR."""
        return self._synchronize(request, _buffers.InvalidateResponse, CachedView.invalidate)

    def physical_address(self, request: Any, context: Any) -> Any:
        """Where DMA finds a buffer."""
        buffer = self._buffers.get(request.buffer_id)
        if buffer is None:
            return _buffers.AddressResponse(msg=_unknown(request.buffer_id))
        return _buffers.AddressResponse(address=buffer.physical)

    def virtual_address(self, request: Any, context: Any) -> Any:
        """Buffers have no other address here."""
        return self.physical_address(request, context)

    def cacheable(self, request: Any, context: Any) -> Any:
        """Whether a buffer has a copy apart from DDR."""
        buffer = self._buffers.get(request.buffer_id)
        if buffer is None:
            return _buffers.CacheableResponse(msg=_unknown(request.buffer_id))
        return _buffers.CacheableResponse(cacheable=buffer.cache is not None)

    def _allocated(self, size: int, cacheable: bool) -> _Buffer:
        physical = self._memory.allocate(size)
        cache = self._memory.cached_view(physical, size) if cacheable else None
        return _Buffer(physical, size, cache, cache.data if cache else self._memory.view(physical, size))

    def _synchronize(self, request: Any, response: Any, move: Callable[[CachedView], None]) -> Any:
        buffer = self._buffers.get(request.buffer_id)
        if buffer is None:
            return response(msg=_unknown(request.buffer_id))
        if buffer.cache is not None:
            move(buffer.cache)
        return response()


def _unknown(buffer_id: str) -> str:
    return f"buffer {buffer_id!r} does not exist on the virtual board: never allocated, or freed"


@dataclass
class BoardServices:
    """All services of one board; they live on when a connection is lost."""

    board: VirtualBoard
    name: str
    machine: str
    kernels: KernelFactory | None = None

    def __post_init__(self) -> None:
        self.files = FileService(self.board, self.name, self.machine, self.kernels)
        self.registers = RegisterService(self.board)
        self.buffers = BufferService(self.board)

    def register(self, server: Any) -> None:
        """Offer the services on a gRPC server."""
        _device_grpc.add_RemoteDeviceServicer_to_server(self.files, server)
        _registers_grpc.add_MmioServicer_to_server(self.registers, server)
        _buffers_grpc.add_RemoteBufferServicer_to_server(self.buffers, server)
