"""The AXI-Lite slave of an ap_ctrl_hs kernel (UG1399, S_AXILITE control protocol)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bfpga.board.virtual.bus import WORD, WORD_BYTES, Poll
from bfpga.board.virtual.faults import Faults, KernelNeverDone
from bfpga.board.virtual.kernel_model import KernelModel
from bfpga.board.virtual.kernel_slave import KernelSlave
from bfpga.contract.registers import ARGUMENT_REGISTERS, BLOCK_REGISTERS, TOP_FUNCTION, Control, offset_of
from bfpga.errors import DeviceError

_CONTROL, _GLOBAL_ENABLE = offset_of("CTRL"), offset_of("GIER")
_ENABLE, _INTERRUPT_STATUS = offset_of("IP_IER"), offset_of("IP_ISR")
_DONE_INTERRUPT, _READY_INTERRUPT = 1, 2


@dataclass(frozen=True)
class Argument:
    """An argument register: ``bits`` 32 or 64 (two words); ``output``: written by the kernel."""

    name: str
    offset: int
    bits: int = 32
    output: bool = False


def own_arguments() -> tuple[Argument, ...]:
    """The arguments of the systolic array."""
    return tuple(Argument(r.name, r.offset, output=r.access == "r") for r in ARGUMENT_REGISTERS)


def is_own_kernel(vlnv: str) -> bool:
    """Whether a VLNV is that of the systolic array."""
    return vlnv.split(":")[1:3] == ["hls", TOP_FUNCTION]


def is_block_register(name: str) -> bool:
    """Whether a register belongs to the block protocol and not to an argument."""
    return name in {register.name for register in BLOCK_REGISTERS}


class Watcher(Protocol):
    """Logic next to a kernel that sees its starts and its interrupt."""

    def begins(self) -> None:
        """A start has begun."""
        ...

    def ends(self) -> None:
        """The interrupt has risen at the end of a start."""
        ...

    def observed(self) -> None:
        """The processor has read that a start is done."""
        ...


class HlsSlave(KernelSlave):
    """Start, done, interrupts and arguments of one kernel that has no registers; ``watchers``: observing logic."""

    kernel: KernelModel

    def __init__(self, name: str, arguments: Sequence[Argument], kernel: KernelModel, faults: Faults) -> None:
        super().__init__(name, kernel)
        self.arguments = tuple(arguments)
        self.watchers: list[Watcher] = []
        self._by_name = {argument.name: argument for argument in arguments}
        self._outputs = {word for a in arguments if a.output for word in self._words_of(a)}
        self._declared = {word for a in arguments for word in self._words_of(a)}
        self._faults = faults
        self._clear()

    @property
    def running(self) -> bool:
        """Whether a start has begun and not finished."""
        return self._running

    @property
    def starts(self) -> int:
        """Starts since the last reset."""
        return self._starts

    @property
    def withheld(self) -> bool:
        """Whether a fault keeps the kernel from finishing."""
        return self._hang is not None

    def reset(self) -> None:
        self.kernel.reset()
        self._clear()

    def read(self, offset: int) -> int:
        if offset == _CONTROL:
            return self._read_control()
        if offset in self._valid:
            # ap_vld of an output: cleared by reading.
            self._valid.discard(offset)
            return 1
        return self._words.get(offset, 0)

    def write(self, offset: int, value: int, mask: int = WORD) -> None:
        if offset == _CONTROL:
            self._write_control(value & mask, mask)
        elif offset == _INTERRUPT_STATUS:
            self._words[offset] = self._words.get(offset, 0) ^ value & mask & 3
        elif offset not in self._outputs and (offset < _INTERRUPT_STATUS or offset in self._declared):
            limit = {_GLOBAL_ENABLE: 1, _ENABLE: 3}.get(offset, WORD)
            self._words[offset] = (self._words.get(offset, 0) & ~mask | value & mask) & limit

    def poll(self, offset: int) -> Poll:
        if offset != _CONTROL or self._done:
            return Poll.NOTHING
        return Poll.UNDER_WAY if self._running else Poll.NOT_BEGUN

    def hint(self, offset: int) -> str:
        if offset == _CONTROL and self._done_read and not self._running:
            return "AP_DONE of the last start was read already, and reading clears it."
        return ""

    def step(self) -> bool:
        if self._start and not self._running:
            if self._moved_at_restart == self._stream_bytes():
                # Auto-restart of a run that moves nothing would never come to rest.
                return False
            self._begin()
            self._step_kernel()
            return True
        return self._running and self._step_kernel()

    def interrupt(self, pin: str) -> bool:
        return bool(self._words.get(_GLOBAL_ENABLE, 0) & 1 and self._words.get(_INTERRUPT_STATUS, 0))

    def argument(self, name: str) -> int:
        """Value of an argument register; KeyError for an unknown name."""
        return sum(
            self._words.get(word, 0) << 32 * index for index, word in enumerate(self._words_of(self._by_name[name]))
        )

    def _clear(self) -> None:
        self._words: dict[int, int] = {}
        self._valid: set[int] = set()
        self._start = self._auto_restart = self._running = self._done = self._ready = False
        self._done_read = False
        self._starts = 0
        self._hang: KernelNeverDone | None = None
        self._moved_at_restart: int | None = None

    def _read_control(self) -> int:
        value = Control.START if self._start else Control(0)
        value |= Control.DONE if self._done else Control(0)
        value |= Control.IDLE if not self._running and not self._start else Control(0)
        value |= Control.READY if self._ready else Control(0)
        value |= Control.AUTO_RESTART if self._auto_restart else Control(0)
        value |= Control.INTERRUPT if self.interrupt("interrupt") else Control(0)
        self._done_read |= self._done
        for watcher in self.watchers if self._done else ():
            watcher.observed()
        self._done = self._ready = False
        return int(value)

    def _write_control(self, value: int, mask: int) -> None:
        if mask & Control.AUTO_RESTART:
            self._auto_restart = bool(value & Control.AUTO_RESTART)
        self._moved_at_restart = None
        # Writing 0 does not stop a kernel; while it runs the bit is set already.
        self._start = self._start or bool(value & Control.START)

    def _begin(self) -> None:
        self._running = True
        self._done_read = False
        self._starts += 1
        for watcher in self.watchers:
            watcher.begins()
        self._hang = self._faults.take(KernelNeverDone, lambda f: f.kernel == self.name)
        if self._hang is None or self._hang.stage == "end":
            self.kernel.start({a.name: self.argument(a.name) for a in self.arguments if not a.output})

    def _step_kernel(self) -> bool:
        if self._hang and self._hang.stage == "start":
            return False
        moved = not self.kernel.finished and self.kernel.step(self.streams)
        if self.kernel.finished and self._hang is None:
            self._finish(self.kernel.results())
            return True
        return moved

    def _stream_bytes(self) -> int:
        return sum(stream.accepted + stream.delivered for stream in self.streams.values())

    def _finish(self, results: Mapping[str, int]) -> None:
        for name, value in results.items():
            argument = self._by_name.get(name)
            if argument is None or not argument.output:
                raise DeviceError(f"kernel `{self.name}` gives a result `{name}`, which is no output register of it")
            self._set_output(argument, value)
        self._running = False
        self._start = self._auto_restart
        self._moved_at_restart = self._stream_bytes() if self._auto_restart else None
        self._done = self._ready = True
        before = self.interrupt("interrupt")
        events = _DONE_INTERRUPT | _READY_INTERRUPT
        self._words[_INTERRUPT_STATUS] = self._words.get(_INTERRUPT_STATUS, 0) | events & self._words.get(_ENABLE, 0)
        if self.interrupt("interrupt") and not before:
            for watcher in self.watchers:
                watcher.ends()

    def _set_output(self, argument: Argument, value: int) -> None:
        words = self._words_of(argument)
        for index, word in enumerate(words):
            self._words[word] = value >> 32 * index & WORD
        valid = words[-1] + WORD_BYTES
        if valid not in self._declared:
            self._valid.add(valid)

    @staticmethod
    def _words_of(argument: Argument) -> list[int]:
        return [argument.offset + WORD_BYTES * index for index in range(-(-argument.bits // 32))]
