"""A PYNQ board in software: processor side (registers, DDR) and the logic that a hardware handoff describes.

It does not depend on the `pynq` package. A program reads and writes registers by address and DDR by physical address;
after every write the logic runs until nothing moves.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, TypeAlias

from bfpga.board.virtual import diagnosis
from bfpga.board.virtual.bus import (
    WORD,
    WORD_BYTES,
    AddressMap,
    BusError,
    Poll,
    Slave,
    check_read,
    check_write,
)
from bfpga.board.virtual.clocks import ProcessingSystem, SystemRegisters, processing_system
from bfpga.board.virtual.fabric import Fabric, FabricBuilder
from bfpga.board.virtual.faults import Fault, Faults
from bfpga.board.virtual.hardware import HardwareDescription, read_hardware
from bfpga.board.virtual.kernel_model import AnyKernel
from bfpga.board.virtual.memory import Memory
from bfpga.errors import DeviceError

__all__ = ["Access", "BoardStall", "BusError", "Family", "VirtualBoard"]

Family: TypeAlias = Literal["zynq7", "zynqmp"]

MIB = 1 << 20
#: End of the DDR pool: below the end of the smallest DDR of a supported board (512 MiB, 2 GiB).
_POOL_END = {"zynq7": 0x1F000000, "zynqmp": 0x7F000000}
#: Rounds without a byte moved after which a kernel that claims progress is wrong.
_BARREN_ROUNDS = 10_000
#: Reads of a status register of something that was never begun are patient: a program may only be looking.
_NOT_BEGUN_PATIENCE = 50


class BoardStall(DeviceError):  # noqa: N818 - the name that drivers know
    """A program waits for what can never happen; on a board it would wait for ever."""


@dataclass(frozen=True)
class Access:
    """A register access of the trace. ``kind``: `read` or `write`."""

    kind: str
    address: int
    value: int
    instance: str


class VirtualBoard:
    """One board. Use as a context manager or call `close`.

    ddr_bytes: size of the DDR pool. stall_reads: reads of a status register without any change that mean a stall.
    stream_bytes: what a stream holds. threaded: run the logic in a thread, ``latency`` seconds after each write, so
    that a program really waits. eviction_seed: let the cache write dirty lines back at random times. trace: how many
    register accesses to keep.
    """

    def __init__(
        self,
        family: Family,
        *,
        ddr_bytes: int = 128 * MIB,
        stall_reads: int = 200,
        stream_bytes: int = 16 * 1024,
        threaded: bool = False,
        latency: float = 0.0,
        eviction_seed: int | None = None,
        trace: int = 0,
    ) -> None:
        if family not in _POOL_END:
            raise DeviceError(f"unknown family {family!r}; a virtual board is zynq7 or zynqmp")
        if not 0 < ddr_bytes <= _POOL_END[family] - MIB:
            raise DeviceError(
                f"a DDR pool of {ddr_bytes:,} bytes; {family} boards have room for at most "
                f"{_POOL_END[family] - MIB:,} bytes"
            )
        self.family: Family = family
        self.faults = Faults(self._check_fault)
        self.memory = Memory(_POOL_END[family] - ddr_bytes, ddr_bytes, self.faults)
        self.clocks: ProcessingSystem = processing_system(family, self.faults)
        self.interrupt_listeners: dict[int, Callable[[bool], None]] = {}
        self.trace: deque[Access] = deque(maxlen=trace)
        self._stall_reads = stall_reads
        self._stream_bytes = stream_bytes
        self._eviction = None if eviction_seed is None else random.Random(eviction_seed)
        self._lock = threading.RLock()
        self._fabric: Fabric | None = None
        self._lines: dict[int, bool] = {}
        self._polls: dict[int, int] = {}
        self._held_in_reset = False
        self._map = self._system_map()
        self._thread = _FabricThread(self._run, latency) if threaded else None

    def __enter__(self) -> VirtualBoard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the thread, release the kernels. Calling it twice is fine."""
        if self._thread:
            self._thread.stop()
            self._thread = None
        with self._lock:
            if self._fabric:
                self._fabric.close()
            self._fabric = None
            self._map = self._system_map()

    @property
    def fabric(self) -> Fabric:
        """The configured logic; DeviceError before `configure`."""
        if self._fabric is None:
            raise DeviceError("the virtual board is not configured: no design was downloaded")
        return self._fabric

    @property
    def hardware(self) -> HardwareDescription:
        """The configured design; DeviceError before `configure`."""
        return self.fabric.hardware

    def configure(self, hwh_text: str | bytes, kernels: Mapping[str, AnyKernel]) -> None:
        """Program the logic: wire it from the handoff, with these kernels by instance name, all reset.

        Slaves that no model exists for are plain registers. DDR keeps its contents, clocks are set to what the design
        declares. DeviceError for a malformed handoff or one of another family; the board then keeps what it had.
        """
        hardware = read_hardware(hwh_text)
        if hardware.family != self.family:
            raise DeviceError(f"the design is made for {hardware.family}, this virtual board is a {self.family}")
        builder = FabricBuilder(hardware, self.memory, self.faults, self._stream_bytes)
        with self._lock:
            fabric = builder.build(kernels)
            address_map = self._system_map()
            builder.map_into(fabric, address_map)
            if self._fabric:
                self._fabric.close(keep=kernels.values())
            self._fabric, self._map = fabric, address_map
            fabric.reset()
            self.clocks.configure(hardware.clocks)
            self._polls.clear()
        self.run()

    def read(self, address: int, length: int = WORD_BYTES) -> bytes:
        """Read registers; BusError outside every slave, BoardStall when it is a wait without end."""
        check_read(address, length)
        self._raise_from_thread()
        with self._lock:
            first = address - address % WORD_BYTES
            words = [self._read_word(word) for word in range(first, address + length, WORD_BYTES)]
            self._sample_interrupts()
            restless = self._find(address)[0].restless
        self._notify()
        if restless:
            self.run()
        data = b"".join(word.to_bytes(WORD_BYTES, "little") for word in words)
        return data[address - first :][:length]

    def write(self, address: int, data: bytes) -> None:
        """Write registers and run the logic; BusError outside every slave."""
        self._raise_from_thread()
        with self._lock:
            check_write(address, len(data), self._find(address)[0])
            first = address - address % WORD_BYTES
            padded = bytes(address - first) + data + bytes(-(address - first + len(data)) % WORD_BYTES)
            strobes = (1 << 8 * len(data)) - 1 << 8 * (address - first)
            for start in range(0, len(padded), WORD_BYTES):
                value = int.from_bytes(padded[start : start + WORD_BYTES], "little")
                self._write_word(first + start, value, strobes >> 8 * start & WORD)
            self._polls.clear()
        self.run()

    def run(self) -> None:
        """Let the logic run: until nothing moves, or, with a thread, soon."""
        if self._thread:
            self._thread.wake()
        else:
            self._run()

    def reset_fabric(self) -> None:
        """Pulse the reset of the programmable logic (FCLK_RESET0_N, pl_resetn0): every cell and stream."""
        with self._lock:
            if self._fabric:
                self._fabric.reset()
            self._polls.clear()
        self.run()

    def explain(self) -> list[str]:
        """What waits for what, a sentence each; one sentence that nothing waits if so."""
        with self._lock:
            if self._fabric is None:
                return ["The board is not configured: no design was downloaded."]
            if self.clocks.reset_asserted:
                return ["The programmable logic is held in reset by the processor."]
            return diagnosis.explain(self._fabric)

    # Registers

    def _find(self, address: int) -> tuple[Slave, int]:
        slave, offset = self._map.find(address)
        if self._held_in_reset and not isinstance(slave, SystemRegisters):
            raise BusError(f"{slave.name} at {address:#010x} does not answer: the logic is held in reset")
        return slave, offset

    def _read_word(self, address: int) -> int:
        slave, offset = self._find(address)
        wait, hint = slave.poll(offset), slave.hint(offset)
        value = slave.read(offset)
        self._record("read", address, value, slave)
        self._count_poll(address, wait, slave, hint)
        return value

    def _write_word(self, address: int, value: int, strobes: int) -> None:
        slave, offset = self._find(address)
        self._record("write", address, value, slave)
        slave.write(offset, value, strobes)
        held = self.clocks.reset_asserted
        if held and not self._held_in_reset and self._fabric:
            self._fabric.reset()
        self._held_in_reset = held

    def _record(self, kind: str, address: int, value: int, slave: Slave) -> None:
        if self.trace.maxlen:
            self.trace.append(Access(kind, address, value, slave.name))

    def _count_poll(self, address: int, wait: Poll, slave: Slave, hint: str) -> None:
        if wait is Poll.NOTHING or (self._thread and not self._thread.quiet):
            self._polls.pop(address, None)
            return
        self._polls[address] = count = self._polls.get(address, 0) + 1
        patience = self._stall_reads * (1 if wait is Poll.UNDER_WAY else _NOT_BEGUN_PATIENCE)
        if count > patience:
            self._polls.clear()
            found = f"{slave.name}: register {address:#010x} was read {patience:,} times and cannot change any more."
            raise BoardStall(" ".join(filter(None, [found, hint, *self.explain()])))

    # Running

    def _run(self) -> None:
        with self._lock:
            if self._fabric and not self._held_in_reset:
                if self._eviction:
                    self.memory.evict(self._eviction)
                if self._run_to_rest(self._fabric):
                    self._polls.clear()
            self._sample_interrupts()
        self._notify()

    def _run_to_rest(self, fabric: Fabric) -> bool:
        """Step every cell until none changes; whether any did."""
        changed = False
        barren, moved = 0, self._moved(fabric)
        while stepping := [slave for slave in fabric.slaves.values() if slave.step()]:
            changed = True
            barren = barren + 1 if self._moved(fabric) == moved else 0
            moved = self._moved(fabric)
            if barren > _BARREN_ROUNDS:
                names = ", ".join(slave.name for slave in stepping)
                raise DeviceError(f"{names}: claims to go on for ever without moving any data; its model is wrong")
        return changed

    @staticmethod
    def _moved(fabric: Fabric) -> int:
        return sum(stream.accepted + stream.delivered for stream in fabric.streams)

    def _sample_interrupts(self) -> None:
        """Controllers may feed controllers: sampled until their outputs rest."""
        if self._fabric is None:
            return
        for _ in range(len(self._fabric.controllers)):
            for controller in self._fabric.controllers:
                controller.sample()

    def _notify(self) -> None:
        """Notify listeners of interrupt lines that changed; outside the lock, a listener may access the board."""
        with self._lock:
            lines = self._fabric.lines if self._fabric else {}
            levels = {number: slave.interrupt(pin) for number, (slave, pin) in lines.items()}
            before, self._lines = self._lines, levels
            changed = [n for n in sorted(levels.keys() | before) if levels.get(n, False) != before.get(n, False)]
            calls = [(self.interrupt_listeners.get(number), levels.get(number, False)) for number in changed]
        for listener, level in calls:
            if listener:
                listener(level)

    def _raise_from_thread(self) -> None:
        if self._thread:
            self._thread.raise_error()

    # Checks

    def _system_map(self) -> AddressMap:
        address_map = AddressMap()
        for base, size, registers in self.clocks.windows:
            address_map.add(base, size, registers)
        return address_map

    def _check_fault(self, fault: Fault) -> None:
        if self._fabric:
            diagnosis.check_fault(fault, self._fabric)


class _FabricThread:
    """Runs the logic a moment after each write, as a board does while the program goes on."""

    def __init__(self, run: Callable[[], None], latency: float) -> None:
        self._run = run
        self._latency = latency
        self._wanted = threading.Condition()
        self._pending = 0
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._loop, name="virtual-board", daemon=True)
        self._thread.start()

    @property
    def quiet(self) -> bool:
        """Whether no run is wanted or under way."""
        return self._pending == 0

    def wake(self) -> None:
        with self._wanted:
            self._pending += 1
            self._wanted.notify()

    def stop(self) -> None:
        self._stopping.set()
        with self._wanted:
            self._wanted.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=10)

    def raise_error(self) -> None:
        """Raise what the logic raised, in the program's thread."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _loop(self) -> None:
        while not self._stopping.is_set():
            with self._wanted:
                self._wanted.wait_for(lambda: self._pending or self._stopping.is_set())
                seen = self._pending
            if self._stopping.wait(self._latency):
                return
            try:
                self._run()
            except Exception as error:
                self._error = error
            with self._wanted:
                self._pending -= seen
