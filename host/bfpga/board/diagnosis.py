"""From registers and symptoms to the likely cause of a failure and what to try."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bfpga.board.axi_dma_registers import Status
from bfpga.board.dma import ChannelState
from bfpga.board.errors import BoardDiagnosis
from bfpga.board.registers import control_sentence
from bfpga.contract.registers import Control


@dataclass(frozen=True)
class Moved:
    """Bytes that a channel moved in this start, and what it should have moved."""

    done: int
    expected: int

    @property
    def complete(self) -> bool:
        return self.done == self.expected


@dataclass(frozen=True)
class Snapshot:
    """The hardware after a failure, by stream (`input`, `weights`, `output`); None: it could not be read."""

    channels: Mapping[str, ChannelState | None] = field(default_factory=dict)
    moved: Mapping[str, Moved] = field(default_factory=dict)
    control: Control | None = None

    def lines(self) -> tuple[str, ...]:
        """One line for each channel and for the kernel."""
        lines = []
        for stream, state in self.channels.items():
            moved = self.moved[stream]
            text = state.sentence() if state else f"{stream} channel: its registers cannot be read"
            lines.append(f"{text}; {moved.done} of {moved.expected} bytes of `{stream}` seen to move")
        return (*lines, control_sentence(self.control))


@dataclass(frozen=True)
class LikelyCause:
    """The likely cause and what to try."""

    cause: str
    remedy: str


_SELF_TEST = "run the self-test of the overlay; if it fails too, power-cycle the board"
_BUILD = "build the overlay again from the accelerator that the program was compiled for"


def of_channel(state: ChannelState) -> LikelyCause:
    """Why a DMA channel stopped with an error."""
    if state.status & Status.DECODE_ERROR:
        return LikelyCause(
            "the DMA was sent to an address without memory: a buffer that was freed, or a base address of DDR that "
            "differs from the design's",
            "free no buffer of a running start; check that the .hwh belongs to the bitstream",
        )
    if state.status & Status.SLAVE_ERROR:
        return LikelyCause(
            "the memory refused the access: a protected range, or a memory port that the boot image has switched off",
            "check the memory ports of the boot image against the design, then " + _SELF_TEST,
        )
    if state.status & Status.INTERNAL_ERROR and state.name.endswith("S2MM"):
        return LikelyCause(
            "the kernel sent more bytes than the program's stores say, or ended its packet too late",
            _BUILD,
        )
    if state.status & Status.INTERNAL_ERROR:
        return LikelyCause("the DMA saw a transfer of length 0 or lost its configuration", _SELF_TEST)
    return LikelyCause(
        "something else reset the DMA or loaded another overlay: a second notebook or process on this board",
        "close other programs that use the board, then run again",
    )


def of_timeout(snapshot: Snapshot) -> LikelyCause:
    """Why a start did not end."""
    control, moved = snapshot.control, snapshot.moved
    if control is None:
        return LikelyCause("the registers of the board cannot be read any more", "check the connection and the power")
    waiting = [stream for stream in ("input", "weights") if stream in moved and not moved[stream].complete]
    output = moved.get("output", Moved(0, 0))
    idle = bool(control & (Control.IDLE | Control.DONE))
    if idle and waiting and not output.done:
        return LikelyCause(
            "the kernel is not running although it was started: the write of ap_start was lost, or it ended early "
            f"without reading `{', '.join(waiting)}`",
            "check the clock and the reset of the design, then " + _SELF_TEST,
        )
    if idle and not output.complete:
        return LikelyCause(
            "the kernel has finished but the DMA still waits for the end of the packet: a beat with TLAST is missing, "
            "or fewer beats were stored than the program says",
            _BUILD,
        )
    if not idle and waiting:
        return LikelyCause(
            f"the stream `{', '.join(waiting)}` is stuck: the kernel does not read it, because it waits for another "
            "stream or its output is not taken",
            "compare board and C simulation with the same program, then " + _SELF_TEST,
        )
    if not idle and output.expected and output.complete:
        return LikelyCause(
            "the kernel has sent its whole output but never says that it is done: its clock or reset was touched, or "
            "it is another kernel",
            _SELF_TEST,
        )
    if not idle:
        return LikelyCause(
            "the kernel never finished although all its data was sent: beats were lost on the way, its output is not "
            "taken, or its clock is much slower than the manifest says",
            "compare board and C simulation with the same program; if those agree, give a longer time limit",
        )
    return LikelyCause("the start took longer than its time limit", "give a longer time limit")


def of_lost_interrupt() -> LikelyCause:
    """Why a transfer finished without its interrupt."""
    return LikelyCause(
        "the transfer is finished and the DMA has raised its interrupt, but it never arrived: interrupt controller or "
        "UIO device are not connected (a Kria needs a device tree overlay)",
        'use wait="poll", or check /proc/interrupts',
    )


def of_lost_connection() -> LikelyCause:
    """Why a remote board does not answer."""
    return LikelyCause(
        "the gRPC connection to the board is lost: network, power, or the server on the board was ended",
        "check that the board answers and that pynq-remote runs on it; the next run connects again",
    )


def of_checksum(stream: str) -> LikelyCause:
    """Why a stream did not arrive as it was sent."""
    if stream == "output":
        return LikelyCause(
            "the output was changed between kernel and host: a cache line that was not invalidated, or memory that "
            "does not keep its bits",
            _SELF_TEST,
        )
    return LikelyCause(
        f"the kernel has read other `{stream}` bytes than the host packed: memory that was overwritten, a cache line "
        "that was not flushed, or a beat that was lost",
        "close other programs that use the board's memory, then " + _SELF_TEST,
    )


def of_short_packet() -> LikelyCause:
    """Why fewer bytes arrived than a transfer holds."""
    return LikelyCause("the packet ended early: TLAST came too early, or beats were lost", _BUILD)


def of_identification() -> LikelyCause:
    """Why a kernel has another identification than a moment ago."""
    return LikelyCause(
        "another overlay was loaded while this one was in use: a second notebook or process on this board",
        "close other programs that use the board, then run again",
    )


def diagnose(
    what: str, finding: LikelyCause, snapshot: Snapshot, explanation: list[str], aftermath: str
) -> BoardDiagnosis:
    """Everything about a failure."""
    return BoardDiagnosis(what, finding.cause, finding.remedy, snapshot.lines(), tuple(explanation), aftermath)
