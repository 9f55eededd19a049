"""Kernel starts on a board: pack, launch, wait, check, unpack; two in flight, so that host and array work at once.

A start that fails in whatever way ends in one exception with a diagnosis, and leaves a board on which the next start
is right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import NoReturn, Protocol, TypeVar

from bfpga.board import diagnosis
from bfpga.board.buffers import BoardBuffer
from bfpga.board.diagnosis import LikelyCause, Moved, Snapshot
from bfpga.board.dma import ChannelError
from bfpga.board.errors import BoardError
from bfpga.board.hardware import BoardHardware
from bfpga.board.target import describe_failure
from bfpga.board.wait import Deadline
from bfpga.board.waiters import LostInterruptError, WaitLimitError
from bfpga.board.weights import PlacedWeights, ResidentWeights
from bfpga.contract.registers import COUNTER_REGISTERS
from bfpga.devices.kernel_start import KernelResult, KernelStart, Octets
from bfpga.devices.measured_clocks import MeasuredClocks
from bfpga.devices.native.stream_work import stream_work
from bfpga.errors import DataError, DeviceError
from bfpga.program.packets import SampleStream

#: A start may take this many times what its bytes and cycles need, beyond the minimum.
SAFETY = 8.0
#: Parts of the time of a start, in ``BoardKernel.seconds``.
PARTS = ("pack", "transfer", "compute", "unpack")

Result = TypeVar("Result")


class Board(Protocol):
    """What a kernel needs of its overlay."""

    @property
    def hardware(self) -> BoardHardware:
        """Channels, registers and buffers; new ones after ``recover``."""
        ...

    @property
    def identification(self) -> int:
        """What the kernel's register of that name must read."""
        ...

    @property
    def minimum_seconds(self) -> float:
        """Shortest time limit of a start."""
        ...

    @property
    def slowest_rate(self) -> float:
        """Bytes a second that transfers reach at least."""
        ...

    def explain(self, error: BaseException) -> list[str]:
        """A virtual board's explanation of a failure; nothing from a real one."""
        ...

    def stalled(self, error: BaseException) -> bool:
        """Whether a virtual board says that nothing can move any more."""
        ...

    def lost(self, error: BaseException) -> bool:
        """Whether an error means that the board cannot be reached any more."""
        ...

    def check_loaded(self) -> None:
        """BoardError if this program has loaded another overlay on the board; no register is touched then."""
        ...

    def recover(self, connection_lost: bool = False) -> str:
        """Reset the DMAs, load the overlay again, check it; BoardError if the board does not come back.

        The sentence says how the board was left.
        """
        ...

    def release(self) -> None:
        """The kernel was closed."""
        ...


@dataclass
class _Slot:
    """A start with its buffers. Checksums are those the kernel must report; ``seconds``: spent on its launch."""

    start: KernelStart
    packet: BoardBuffer
    weights: PlacedWeights | None
    output: BoardBuffer | None
    input_checksum: int
    weight_checksum: int
    #: Bytes that go in; that may come back, and that have.
    sent: int
    most: int
    received: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class _Report:
    """The result registers of a start, by their names. ``measured``: those of the clock counter."""

    cycles: int
    overflow: int
    underflow: int
    status: int
    identification: int
    input_checksum: int
    weight_checksum: int
    output_checksum: int
    measured: MeasuredClocks


class _RefusedError(Exception):
    """The hardware finished, but what it reports is wrong; within the driver only."""

    def __init__(self, what: str, finding: LikelyCause) -> None:
        self.what, self.finding = what, finding
        super().__init__(what)


class BoardKernel:
    """A ``StreamingKernel`` on a board. ``seconds``: time so far by part, see ``PARTS``.

    pack and unpack are the host's copies and checksums; compute is the clock counter's clocks divided by the measured
    rate; transfer is what the host spent on launching and on waiting beyond the computation.
    """

    depth = 2

    def __init__(self, board: Board) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._board = board
        self._work = stream_work()
        self._weights = ResidentWeights(board.hardware)
        self._running: _Slot | None = None
        self._waiting: deque[_Slot] = deque()
        self._broken = False
        self._closed = False

    # What a user calls

    def begin(self, start: KernelStart) -> None:
        """Take a start: pack it, and launch it if the hardware is free. BoardError as in ``finish``."""
        self._check_open()
        if self._in_flight() >= self.depth:
            raise DeviceError(f"{self.depth} starts are in flight already; finish one first")
        if self._broken:
            self._recover()
        self._check_loaded()
        slot = self._guarded(lambda: self._pack(start))
        if self._running is None:
            self._guarded(lambda: self._launch(slot))
        else:
            self._waiting.append(slot)

    def finish(self) -> KernelResult:
        """Result of the oldest start; the next one is launched before this one is unpacked.

        BoardError with a diagnosis if anything went wrong. All starts in flight are lost then, and so are the weights
        and policies in the kernel; the next ``begin`` finds a clean board.
        """
        self._check_open()
        self._check_loaded()
        if self._running is None:
            raise DeviceError("no start is in flight; begin one first")
        slot = self._running
        report = self._guarded(lambda: self._complete(slot))
        self._running = None
        if self._waiting:
            following = self._waiting.popleft()
            self._guarded(lambda: self._launch(following))
        return self._guarded(lambda: self._unpack(slot, report))

    def run(self, start: KernelStart) -> KernelResult:
        """One start from beginning to end."""
        self.begin(start)
        return self.finish()

    def cancel(self) -> None:
        """Give up all starts in flight; the board is brought back by the next ``begin``, not now."""
        if self._in_flight():
            self._forget()
            self._broken = True

    def close(self) -> None:
        """Give the buffers back; starts in flight are waited for within their time limit."""
        if self._closed:
            return
        try:
            while self._running is not None and not self._broken:
                self.finish()
        except BoardError:
            pass  # the board was recovered, and the result is not wanted any more
        finally:
            self._closed = True
            self._board.release()

    # Steps of a start

    def _pack(self, start: KernelStart) -> _Slot:
        """Buffers filled with the streams of a start."""
        begun = perf_counter()
        hardware = self._board.hardware
        hardware.check_start(start)
        weights = self._weights.place(start)
        most = start.output_bytes
        if start.maps is not None:
            plain = start.input()
            most = start.maps.most_output(plain, start.descriptors)
            start = replace(start, packet=plain)
        packet, sent, data = self._filled(start)
        output = hardware.pool.take(most, receives=True) if most else None
        checksum = self._work.checksum(data, hardware.stream_bits) if len(data) else 0
        slot = _Slot(start, packet, weights, output, checksum, self._weights.checksum(start, weights), sent, most)
        self.seconds["pack"] += perf_counter() - begun
        return slot

    def _filled(self, start: KernelStart) -> tuple[BoardBuffer, int, Octets]:
        """A buffer with the input stream of a start, how many bytes of it are sent, and the plain stream."""
        pool, packet = self._board.hardware.pool, start.packet
        if isinstance(packet, SampleStream):
            buffer = pool.take(len(packet), template=packet.template)
            return buffer, len(packet), buffer.write(packet)
        sent = packet if start.maps is None else start.maps.sent(packet, start.descriptors)
        buffer = pool.take(len(sent))
        buffer.fill(sent)
        return buffer, len(sent), packet

    def _launch(self, slot: _Slot) -> None:
        """Receive first, so that no output backs up; then the kernel; then its data."""
        begun = perf_counter()
        hardware, start = self._board.hardware, slot.start
        self._running = slot
        if slot.output is not None:
            hardware.output.begin(slot.output, slot.most)
        arguments = {"descriptor_count": start.descriptors, "control": int(start.clear_policies)}
        hardware.registers.start(arguments)
        if slot.sent:
            hardware.input.begin(slot.packet, slot.sent)
        if slot.weights is not None:
            hardware.weights.begin(slot.weights.buffer, len(start.weights), start.weight_repeats)
        slot.seconds = perf_counter() - begun

    def _complete(self, slot: _Slot) -> _Report:
        """Wait for a start, then read and judge what it reports."""
        begun = perf_counter()
        hardware = self._board.hardware
        deadline = Deadline(self._limit(slot.start))
        hardware.waiter.wait(hardware.channels, hardware.registers.finished, deadline)
        report = _read_report(hardware)
        compute = report.measured.clocks / (hardware.clock_mhz * 1e6)
        self.seconds["compute"] += compute
        self.seconds["transfer"] += slot.seconds + max(0.0, perf_counter() - begun - compute)
        self._judge(slot, report)
        return report

    def _limit(self, start: KernelStart) -> float:
        """Seconds that a start may take."""
        moved = len(start.packet) + len(start.weights) * start.weight_repeats + start.output_bytes
        needed = moved / self._board.slowest_rate + start.predicted_cycles / (self._board.hardware.clock_mhz * 1e6)
        return self._board.minimum_seconds + SAFETY * needed

    def _judge(self, slot: _Slot, report: _Report) -> None:
        """Raise _RefusedError unless all bytes moved and the kernel saw what was sent."""
        hardware = self._board.hardware
        slot.received = hardware.output.transferred
        for channel in hardware.channels:
            # How short a compressed tensor becomes is not known before.
            shorter = slot.start.maps is not None and channel is hardware.output
            if channel.transferred > channel.expected or (channel.transferred < channel.expected and not shorter):
                what = f"{channel.name} moved {channel.transferred} of {channel.expected} bytes"
                raise _RefusedError(what, diagnosis.of_short_packet())
        if report.identification != self._board.identification:
            what = f"the kernel says {report.identification:#010x}, its overlay is {self._board.identification:#010x}"
            raise _RefusedError(what, diagnosis.of_identification())
        for stream, found, sent in (
            ("input", report.input_checksum, slot.input_checksum),
            ("weights", report.weight_checksum, slot.weight_checksum),
        ):
            if found != sent:
                raise _checksum(stream, sent, found)

    def _unpack(self, slot: _Slot, report: _Report) -> KernelResult:
        """A copy of the output, compared with what the kernel says it sent; the buffers are free again."""
        begun = perf_counter()
        hardware = self._board.hardware
        output = slot.output.content(slot.received) if slot.output is not None else b""
        output = _plain(slot.start, output)
        checksum = self._work.checksum(output, hardware.stream_bits) if output else 0
        if checksum != report.output_checksum:
            raise _checksum("output", report.output_checksum, checksum)
        self._free(slot)
        self.seconds["unpack"] += perf_counter() - begun
        return KernelResult(
            output=output,
            cycles=report.cycles,
            operation_cycles=None,
            overflow=report.overflow,
            underflow=report.underflow,
            status=report.status,
            packets=int(slot.output is not None),
            checksums=(report.input_checksum, report.weight_checksum, report.output_checksum),
            measured=report.measured,
        )

    def _free(self, slot: _Slot) -> None:
        pool = self._board.hardware.pool
        pool.give(slot.packet)
        if slot.output is not None:
            pool.give(slot.output)
        self._weights.release(slot.weights)

    # Failures

    def _guarded(self, step: Callable[[], Result]) -> Result:
        """Do a step of a start; whatever goes wrong leaves no start in flight and a board that works."""
        try:
            return step()
        except Exception as error:
            self._fail(error)
        except BaseException:  # an interrupt from the keyboard: nothing may take long now
            self._forget()
            self._broken = True
            raise

    def _fail(self, error: Exception) -> NoReturn:
        """Diagnose, bring the board back, raise one BoardError; errors of the program itself pass through."""
        if isinstance(error, BoardError):  # a start was refused before anything moved, or memory is short
            self._give_up_starts()
            raise error
        nothing: list[str] = []
        explanation = _safely(lambda: self._board.explain(error), nothing)
        snapshot = self._snapshot()
        what, finding = self._finding(error, snapshot)
        aftermath = self._aftermath(self._board.lost(error))
        if finding is None:
            raise error
        raise BoardError(diagnosis.diagnose(what, finding, snapshot, explanation, aftermath)) from error

    def _finding(self, error: Exception, snapshot: Snapshot) -> tuple[str, LikelyCause | None]:
        """What happened, and why; no finding for an error that is not the hardware's."""
        if isinstance(error, _RefusedError):
            return error.what, error.finding
        if isinstance(error, ChannelError):
            return f"a transfer failed: {error}", diagnosis.of_channel(error.state)
        if isinstance(error, LostInterruptError):
            return f"{error.name}: the interrupt of a finished transfer was lost", diagnosis.of_lost_interrupt()
        if isinstance(error, WaitLimitError):
            slot = self._running
            limit = f" within {self._limit(slot.start):.1f} s" if slot else ""
            return f"the start did not end{limit}", diagnosis.of_timeout(snapshot)
        if self._board.stalled(error):
            return "the start did not end: nothing on the board can move any more", diagnosis.of_timeout(snapshot)
        if self._board.lost(error):
            return f"the board does not answer: {describe_failure(error)}", diagnosis.of_lost_connection()
        if isinstance(error, (DeviceError, RuntimeError, OSError, TimeoutError)):
            return f"the start did not end: {describe_failure(error)}", diagnosis.of_timeout(snapshot)
        return str(error), None

    def _snapshot(self) -> Snapshot:
        """Registers as far as they can be read."""
        hardware = self._board.hardware
        streams = hardware.streams()
        states = {stream: _safely(channel.state, None) for stream, channel in streams.items()}
        moved = {stream: Moved(channel.seen(states[stream]), channel.expected) for stream, channel in streams.items()}
        return Snapshot(states, moved, _safely(hardware.registers.control, None))

    def _aftermath(self, connection_lost: bool) -> str:
        """Bring the board back at once; the sentence that says how it was left."""
        self._forget()
        try:
            return self._recover(connection_lost)
        except BoardError as error:
            return f"the board could not be brought back: {error}\nthe next run tries again"

    def _recover(self, connection_lost: bool = False) -> str:
        self._broken = True
        left = self._board.recover(connection_lost)
        self._weights = ResidentWeights(self._board.hardware)
        self._broken = False
        return left

    def _forget(self) -> None:
        self._running = None
        self._waiting.clear()

    def _give_up_starts(self) -> None:
        """Without a start in flight nothing moves, and the buffers taken so far are free again; else a reset."""
        if self._in_flight():
            self._forget()
            self._recover()
        else:
            self._weights = ResidentWeights(self._board.hardware)
            self._board.hardware.pool.reclaim()

    def _in_flight(self) -> int:
        return len(self._waiting) + (self._running is not None)

    def _check_loaded(self) -> None:
        try:
            self._board.check_loaded()
        except BoardError:
            self._forget()
            self._broken = True
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise DeviceError("this kernel is closed: its overlay was closed, or another program was opened on it")


def _read_report(hardware: BoardHardware) -> _Report:
    """The registers of the start that has ended, the kernel's and the clock counter's."""
    names = [name for name in _Report.__dataclass_fields__ if name != "measured"]
    values = {name: hardware.registers.read(name) for name in names}
    clocks = {register.name: hardware.counter.read(register.name) for register in COUNTER_REGISTERS}
    return _Report(**values, measured=MeasuredClocks(counted=values["cycles"], starts=1, **clocks))


def _plain(start: KernelStart, output: bytes) -> bytes:
    """The plain output of a start; what is none was damaged on its way."""
    if start.maps is None:
        return output
    try:
        return start.maps.received(output, start.input(), start.descriptors)
    except DataError as error:
        raise _RefusedError(str(error), diagnosis.of_checksum("output")) from None


def _checksum(stream: str, expected: int, found: int) -> _RefusedError:
    what = f"the checksum of `{stream}` is {found:#010x}, not {expected:#010x}"
    return _RefusedError(what, diagnosis.of_checksum(stream))


def _safely(read: Callable[[], Result], otherwise: Result) -> Result:
    """The result of a read that may fail because the hardware is what is being diagnosed."""
    try:
        return read()
    except Exception:
        return otherwise
