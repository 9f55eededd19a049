"""The graph of a loop against the code it was made from, iteration by iteration.

The flat LLVM IR of an IP is executed (LLVM's just-in-time compiler) on the words that passed its streams in the C
simulation. At the beginning of an iteration of a loop its state is taken from the running code; the graph computes the
iteration, and what it says of the next state, of memories and of streams is compared with what the code did.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bfpga.synthesis.bank_contents import BankContents, observed_bytes, variable_of
from bfpga.synthesis.body import LoopBody, Opcode
from bfpga.synthesis.frontend.ir import read_module
from bfpga.synthesis.frontend.llvm import llvm_library
from bfpga.synthesis.graph import mask_of
from bfpga.synthesis.instrument import BEGIN, READ, ROOTS, VALUES, WIDEST, WORD, WRITE, instrumented
from bfpga.synthesis.netlist.interpret import evaluate, iterate
from bfpga.synthesis.netlist.recording import Iteration, Run
from bfpga.synthesis.replay_streams import ReplayDifferenceError, ReplayedStreams, StreamLog
from bfpga.synthesis.traffic import Traffic
from bfpga.vendor.kernel_ips import StreamPort

if TYPE_CHECKING:
    from llvmlite.binding import ExecutionEngine

#: Iterations that are compared one after the other, and how much further apart such runs are each time.
_RUN, _SPREAD = 10, 1.25


@dataclass
class _Iteration:
    """State at the beginning of an iteration."""

    values: Mapping[str, int]
    memories: Mapping[str, bytes]


class Replay:
    """The flat IR of an IP as a function that can be called, with a loop under observation."""

    def __init__(
        self, flat: str, body: LoopBody, ports: Sequence[StreamPort], registers: Sequence[str], traffic: Traffic,
        limit: int,
    ) -> None:  # fmt: skip
        """``ports``, ``registers``: the function's parameters, in its order; ``limit``: iterations to compare."""
        module = read_module(flat)
        self.body, self._limit = body, limit
        self._function = next(f for f in module.functions.values() if body.header in f.blocks)
        self._registers, self._calls = registers, traffic.calls
        self._streams = ReplayedStreams(ports, traffic)
        self._bytes = observed_bytes(body)
        self._keep: list[Any] = []
        observed = instrumented(flat, self._function, body, sorted(self._bytes))
        self._places, self._roots = observed.places, observed.roots
        self._engine = self._compiled(observed.text)
        self._word, self._values, self._variables = (
            self._engine.get_global_value_address(name) for name in (WORD, VALUES, ROOTS)
        )
        #: Iterations in which the graph did what the code does; those of one run follow each other.
        self.compared = 0
        self.runs: list[Run] = []
        self._number = 0
        self._next_run, self._left = 0.0, 0
        self._before: _Iteration | None = None
        self._first: _Iteration | None = None
        self._recorded: list[Iteration] = []
        self._ended = threading.Event()
        self._problem: Exception | None = None

    def _compiled(self, text: str) -> ExecutionEngine:
        llvm = llvm_library()
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        access = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)
        for name, kind, function in (
            ("bfpga_hls_loop", ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4), lambda *_: None),
            (READ, access, self._watched(self._on_read)),
            (WRITE, access, self._watched(self._on_write)),
            (BEGIN, ctypes.CFUNCTYPE(None), self._watched(self._on_begin)),
        ):
            callback = kind(function)
            self._keep.append(callback)
            llvm.add_symbol(name, ctypes.cast(callback, ctypes.c_void_p).value)
        module = llvm.parse_assembly(text)
        module.verify()
        machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(opt=0)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        return engine

    def _watched(self, function: Callable[..., None]) -> Callable[..., None]:
        """Code that has gone astray may never return, so a callback that fails does not return to it."""

        def call(*arguments: int) -> None:
            try:
                function(*arguments)
            except Exception as problem:
                self._problem = problem
                self._ended.set()
                threading.Event().wait()

        return call

    # -- what the running code reports

    def _on_read(self, address: int, size: int) -> None:
        ctypes.memmove(self._word, self._streams.load(address).to_bytes(WIDEST, "little"), size)

    def _on_write(self, address: int, size: int) -> None:
        self._streams.store(address, int.from_bytes(ctypes.string_at(self._word, size), "little"))

    def _on_begin(self) -> None:
        log, self._streams.log = self._streams.log, StreamLog()
        self._number += 1
        if self._before is None and not self._is_wanted():
            return
        state = self._observed()
        if self._before is not None:
            self._compare(self._before, state, log)
        self._before = state if self._is_wanted() else None
        if self._before is None:
            self._end_run()

    def _is_wanted(self) -> bool:
        """Whether the iteration that begins is one of those to compare."""
        if self._left == 0 and self._number >= self._next_run and self.compared < self._limit:
            self._left = min(_RUN, self._limit - self.compared)
            self._next_run = max(self._number + _RUN, _SPREAD * self._number)
        return self._left > 0

    def _observed(self) -> _Iteration:
        values = {
            name: int.from_bytes(ctypes.string_at(self._values + offset, size), "little")
            for name, (offset, size) in self._places.items()
        }
        addresses = (ctypes.c_void_p * len(self._roots)).from_address(self._variables)
        memories = {
            root: ctypes.string_at(address, self._bytes[root])
            for root, address in zip(self._roots, addresses, strict=True)
            if address is not None
        }
        return _Iteration(values, memories)

    # -- running and comparing

    def run(self) -> None:
        """All calls that were recorded.

        Raises:
            ReplayDifferenceError: the code or the graph does other than the C simulation.
        """
        threading.Thread(target=self._watched(self._call), daemon=True).start()
        self._ended.wait()
        if self._problem is not None:
            raise self._problem
        self._streams.check_end()

    def _call(self) -> None:
        kinds = list(self._function.arguments.values())
        registers = [ctypes.create_string_buffer(8) for _ in self._registers]
        pointers = [*self._streams.addresses, *map(ctypes.addressof, registers)]
        types = [ctypes.c_void_p if kind == "ptr" else ctypes.c_uint32 for kind in kinds]
        function = ctypes.CFUNCTYPE(None, *types)(self._engine.get_function_address(self._function.name))
        names = [""] * len(self._streams.addresses) + list(self._registers)
        for given in self._calls:
            places = zip(kinds, names, pointers, strict=True)
            function(*(pointer if kind == "ptr" else given[name] for kind, name, pointer in places))
            self._before = None
            self._end_run()
        self._ended.set()

    def _compare(self, before: _Iteration, after: _Iteration, log: StreamLog) -> None:
        """The graph's iteration from ``before`` against the state after it."""
        body = self.body
        self._left -= 1
        banks = [BankContents(memory, before.memories) for memory in body.memories]
        written: dict[str, list[int]] = {}
        values, given = self._evaluated(before, banks, log, written)
        if body.leaves >= 0 and values[body.leaves]:
            self._end_run()  # what is seen next is the beginning of another execution of the loop
            return
        for name, words in log.read.items():
            if words:
                raise ReplayDifferenceError(f"{body.name}: the code read {len(words)} more words of {name}")
        for register in body.registers:
            expected = self._state(register.name, after) & mask_of(register.width)
            if values[register.next] != expected:
                found = f"{values[register.next]:#x}, in the code {expected:#x}"
                raise ReplayDifferenceError(f"{body.name}: {register.name} becomes {found}")
        for bank in banks:
            bank.check(body.name, after.memories)
        for name in written.keys() | log.written.keys():
            graph, code = written.get(name, []), log.written.get(name, [])
            if graph != code:
                raise ReplayDifferenceError(
                    f"{body.name}: writes {_words(graph)} to {name}, {_words(code)} in the code"
                )
        self.compared += 1
        self._record(before, given)

    def _evaluated(
        self, before: _Iteration, banks: Sequence[BankContents], log: StreamLog, written: dict[str, list[int]]
    ) -> tuple[list[int], dict[int, int]]:
        """Values of all operations, and those that came from outside; words of ``log.read`` are taken."""
        body = self.body
        values: list[int] = []
        given: dict[int, int] = {}
        for index, operation in enumerate(body.operations):
            operands = [values[k] for k in operation.operands]
            stream = body.streams[operation.stream].name if operation.stream >= 0 else ""
            value = 0
            if operation.opcode is Opcode.STATE:
                value = self._state(body.registers[operation.register].name, before)
            elif operation.opcode is Opcode.INVARIANT:
                value = self._named(operation.name, before)
            elif operation.opcode is Opcode.MEMORY_READ:
                value = given[index] = banks[operation.memory].read(operands[0]) if operands[1] else 0
            elif operation.opcode is Opcode.MEMORY_WRITE:
                if operands[2]:
                    banks[operation.memory].write(operands[0], operands[1])
            elif operation.opcode is Opcode.STREAM_READ:
                value = given[index] = self._taken(log.read, stream) if operands[0] else 0
            elif operation.opcode is Opcode.STREAM_WRITE:
                if operands[1]:
                    written.setdefault(stream, []).append(self._streams.beat(stream, operands[0]))
            elif operation.opcode is Opcode.STREAM_STATUS:
                # No result may depend on what the code has not polled.
                if log.asked.get((stream, operation.name)):
                    value = given[index] = 1 - log.asked[stream, operation.name].pop(0)
            else:
                value = evaluate(body, operation, operands)
            values.append(value & mask_of(operation.width))
        return values, given

    def _taken(self, words: Mapping[str, list[int]], stream: str) -> int:
        if not words.get(stream):
            raise ReplayDifferenceError(f"{self.body.name}: reads {stream}, which the code does not")
        return words[stream].pop(0)

    def _record(self, before: _Iteration, given: Mapping[int, int]) -> None:
        if self._first is None:
            self._first = before
        outcome = iterate(self.body, self._states(before), self._invariants(before), given)
        self._recorded.append(Iteration(given, outcome))

    def _end_run(self) -> None:
        if self._first is not None:
            initial, invariants = self._states(self._first), self._invariants(self._first)
            self.runs.append(Run(tuple(initial), invariants, self._recorded))
        self._first, self._recorded = None, []

    def _states(self, at: _Iteration) -> list[int]:
        return [self._state(r.name, at) & mask_of(r.width) for r in self.body.registers]

    def _invariants(self, at: _Iteration) -> dict[int, int]:
        operations = enumerate(self.body.operations)
        return {k: self._named(o.name, at) & mask_of(o.width) for k, o in operations if o.opcode is Opcode.INVARIANT}

    def _state(self, register: str, at: _Iteration) -> int:
        variable, low = variable_of(register)
        return self._named(variable, at) >> low

    def _named(self, name: str, at: _Iteration) -> int:
        origin = self.body.origins[name]
        if origin.offset < 0:
            return at.values.get(name, 0)
        return int.from_bytes(at.memories[origin.root][origin.offset :], "little")


def _words(words: Sequence[int]) -> str:
    return " ".join(f"{word:#x}" for word in words) or "nothing"
