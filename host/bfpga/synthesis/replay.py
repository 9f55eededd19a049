"""The graph of a loop against the code it was made from, iteration by iteration.

The flat LLVM IR of the kernel is executed (LLVM's just-in-time compiler) on recorded streams. At the beginning of each
iteration of a loop its state is taken from the running code; the graph computes the iteration, and what it says of the
next state, of memories and of streams is compared with what the code did.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import llvmlite.binding as llvm

from bfpga.errors import BfpgaError
from bfpga.synthesis.body import BankOrigin, LoopBody, Memory, Opcode, Origin
from bfpga.synthesis.frontend.ir import Function, integer_width, read_module
from bfpga.synthesis.graph import mask_of
from bfpga.synthesis.netlist.interpret import evaluate, iterate
from bfpga.synthesis.netlist.recording import Iteration, Run

_READ, _WRITE, _BEGIN, _VALUE, _ROOT = (f"bfpga_replay_{name}" for name in ("read", "write", "begin", "value", "root"))
_LOAD = re.compile(r"^\s*(%\S+|%\"[^\"]+\") = load volatile i(\d+), ptr (.*?)(?:, align.*)?$")
_STORE = re.compile(r"^\s*store volatile i(\d+) (\S+), ptr (.*?)(?:, align.*)?$")
_WORD = 64


class ReplayDifferenceError(BfpgaError):
    """The graph and the code do not do the same."""


@dataclass
class Streams:
    """What the kernel reads, in order, by the offset-free name of a stream, and what it has written."""

    incoming: Mapping[str, Sequence[int]]
    taken: dict[str, int] = field(default_factory=dict)
    written: list[tuple[str, int]] = field(default_factory=list)
    read: list[tuple[str, int]] = field(default_factory=list)


@dataclass
class _Iteration:
    """State at the beginning of an iteration, and how far the streams were."""

    values: dict[str, int]
    memories: dict[str, bytes]
    reads: int
    writes: int


class Replay:
    """A kernel's flat IR as a function that can be called, with a loop under observation."""

    def __init__(self, flat: str, body: LoopBody, streams: Mapping[int, str], limit: int = 1000) -> None:
        """``streams``: names of the function's stream parameters by their number; ``limit``: iterations to compare."""
        self._limit = limit
        module = read_module(flat)
        self._function = next(f for f in module.functions.values() if body.header in f.blocks)
        self._body = body
        self._values = [name for name, origin in body.origins.items() if origin.offset < 0]
        self._roots = sorted(_variables(body))
        self._stream_names = streams
        self._iterations: list[_Iteration] = []
        self._under_way: dict[str, int] = {}
        self._addresses: dict[str, int] = {}
        self.streams = Streams({})
        self._keep: list[Any] = []
        self._engine = self._compiled(_instrumented(flat, self._function, body, self._values, self._roots))
        self._sizes = _sizes(body)
        self.compared = 0
        #: Iterations that follow each other, from an entry of the loop on: what a netlist has to repeat.
        self.runs: list[Run] = []
        self._first: _Iteration | None = None
        self._recorded: list[Iteration] = []
        self.problem: Exception | None = None

    def _compiled(self, text: str) -> llvm.ExecutionEngine:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        for name, kind, function in (
            ("bfpga_hls_loop", ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4), lambda *_: None),
            (_READ, ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int), self._on_read),
            (_WRITE, ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int), self._on_write),
            (_BEGIN, ctypes.CFUNCTYPE(None), self._on_begin),
            (_VALUE, ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_int, ctypes.c_uint64), self._on_value),
            (_ROOT, ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p), self._on_root),
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

    # -- what the running code reports

    def _on_read(self, address: int, width: int) -> int:
        name, offset = self._stream_at(address)
        if offset:
            return 1 if width <= 8 else 0
        number = self.streams.taken.get(name, 0)
        self.streams.taken[name] = number + 1
        value = self.streams.incoming[name][number]
        self.streams.read.append((name, value))
        return value

    def _on_write(self, address: int, value: int, width: int) -> None:
        name, _ = self._stream_at(address)
        self.streams.written.append((name, value & mask_of(width)))

    def _stream_at(self, address: int) -> tuple[str, int]:
        for number, name in self._stream_names.items():
            begin = self._buffers[number]
            if begin <= address < begin + 4096:
                return name, address - begin
        raise ReplayDifferenceError(f"a stream access at {address:#x}")

    def _on_begin(self) -> None:
        values = dict.fromkeys(self._values, 0)
        for name, value in self._under_way.items():
            values[name] = value
        self._under_way = {}
        known = ((root, size) for root, size in self._sizes.items() if root in self._addresses)
        memories = {root: ctypes.string_at(self._addresses[root], size) for root, size in known}
        state = _Iteration(values, memories, len(self.streams.read), len(self.streams.written))
        if self._iterations and self.problem is None and self.compared < self._limit:
            try:
                self._compare(self._iterations[-1], state)
            except Exception as error:  # the running code calls this, which cannot pass it on
                self.problem = error
        self._iterations = [state]

    def _on_value(self, number: int, word: int, value: int) -> None:
        name = self._values[number]
        self._under_way[name] = self._under_way.get(name, 0) | value << (_WORD * word)

    def _on_root(self, number: int, address: int) -> None:
        self._addresses[self._roots[number]] = address

    # -- running and comparing

    def run(self, arguments: Mapping[int, int], incoming: Mapping[str, Sequence[int]]) -> list[tuple[str, int]]:
        """One call of the top function; what it wrote to its streams. ``arguments``: integers by parameter number."""
        self.streams = Streams(incoming)
        self._iterations = []
        kinds = list(self._function.arguments.values())
        memory = [ctypes.create_string_buffer(4096) if kind == "ptr" else None for kind in kinds]
        self._buffers = {k: ctypes.addressof(buffer) for k, buffer in enumerate(memory) if buffer is not None}
        types = [ctypes.c_void_p if kind == "ptr" else ctypes.c_uint32 for kind in kinds]
        address = self._engine.get_function_address(self._function.name)
        call: Callable[..., None] = ctypes.CFUNCTYPE(None, *types)(address)
        call(*(self._buffers[k] if kind == "ptr" else arguments.get(k, 0) for k, kind in enumerate(kinds)))
        self._end_run()
        if self.problem is not None:
            raise self.problem
        return self.streams.written

    def check_outputs(self, start: str, written: Sequence[tuple[str, int]], expected: Sequence[int]) -> None:
        """The beats of a start are those that the C simulation wrote; TLAST follows the data of each.

        Raises:
            ReplayDifferenceError: they are not.
        """
        beats = [value for _, value in written][::2]
        if beats != list(expected):
            raise ReplayDifferenceError(
                f"{start}: the flat code writes {len(beats)} beats, other than the simulation's"
            )

    def _compare(self, before: _Iteration, after: _Iteration) -> None:
        """The graph's iteration from ``before`` against the state after it."""
        body = self._body
        values: list[int] = []
        given: dict[int, int] = {}
        reads = list(self.streams.read[before.reads : after.reads])
        written: list[tuple[str, int]] = []
        banks = [_BankContents(memory, before.memories) for memory in body.memories]
        for index, operation in enumerate(body.operations):
            operands = [values[k] for k in operation.operands]
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
                value = given[index] = reads.pop(0)[1] if operands[0] else 0
            elif operation.opcode is Opcode.STREAM_WRITE:
                if operands[1]:
                    written.append((body.streams[operation.stream].name, operands[0]))
            elif operation.opcode is not Opcode.STREAM_STATUS:
                value = evaluate(body, operation, operands)
            values.append(value & mask_of(operation.width))
        if body.leaves >= 0 and values[body.leaves]:
            self._end_run()  # what is seen next is the beginning of another execution of the loop
            return
        if reads:
            raise ReplayDifferenceError(f"{body.name}: the code read {len(reads)} more beats than the graph")
        for register in body.registers:
            expected = self._state(register.name, after) & mask_of(register.width)
            if values[register.next] != expected:
                found = f"{values[register.next]:#x}, in the code {expected:#x}"
                raise ReplayDifferenceError(f"{body.name}: {register.name} becomes {found}")
        for bank in banks:
            bank.check(body.name, after.memories)
        self._check_written(written, self.streams.written[before.writes : after.writes])
        self.compared += 1
        self._record(before, given)

    def _record(self, before: _Iteration, given: Mapping[int, int]) -> None:
        if self._first is None:
            self._first = before
        outcome = iterate(self._body, self._states(before), self._invariants(before), given)
        self._recorded.append(Iteration(given, outcome))

    def _end_run(self) -> None:
        if self._first is not None:
            initial, invariants = self._states(self._first), self._invariants(self._first)
            self.runs.append(Run(tuple(initial), invariants, self._recorded))
        self._first, self._recorded = None, []

    def _states(self, at: _Iteration) -> list[int]:
        return [self._state(r.name, at) & mask_of(r.width) for r in self._body.registers]

    def _invariants(self, at: _Iteration) -> dict[int, int]:
        operations = enumerate(self._body.operations)
        return {k: self._named(o.name, at) & mask_of(o.width) for k, o in operations if o.opcode is Opcode.INVARIANT}

    def _check_written(self, graph: list[tuple[str, int]], code: Sequence[tuple[str, int]]) -> None:
        """A beat is one value of the graph and its fields one after the other in the code."""
        fields = list(code)
        for name, value in graph:
            if not fields or fields[0][0] != name or value & mask_of(_WORD) != fields[0][1]:
                raise ReplayDifferenceError(f"{self._body.name}: writes {value:#x} to {name}, the code {fields[:1]}")
            fields = fields[2:] if len(fields) > 1 and fields[1][0] == name else fields[1:]
        if fields:
            raise ReplayDifferenceError(f"{self._body.name}: the code writes {len(fields)} more words")

    def _state(self, name: str, at: _Iteration) -> int:
        variable, *low = name.split("@")
        return self._named(variable, at) >> sum(map(int, low))

    def _named(self, name: str, at: _Iteration) -> int:
        origin: Origin = self._body.origins[name]
        if origin.offset < 0:
            return at.values[name]
        return int.from_bytes(at.memories[origin.root][origin.offset : origin.offset + 64], "little")


class _BankContents:
    """The words of a bank in the bytes of its variable."""

    def __init__(self, memory: Memory, variables: Mapping[str, bytes]) -> None:
        self._memory = memory
        self._words: dict[int, int] = {}
        self._table = memory.initial
        self._places = _bank_places(memory) if not memory.initial else []
        origin = memory.origin
        self._bytes = variables.get(origin.root, b"") if origin is not None else b""

    def read(self, address: int) -> int:
        if self._table:
            return self._table[address] if address < len(self._table) else 0
        if address in self._words:
            return self._words[address]
        if address >= len(self._places):
            return 0
        return sum(self._bytes[place] << 8 * k for k, place in enumerate(self._places[address]))

    def write(self, address: int, data: int) -> None:
        self._words[address] = data

    def check(self, loop: str, after: Mapping[str, bytes]) -> None:
        origin = self._memory.origin
        if self._table or origin is None:
            return
        for address in self._words:
            code = sum(after[origin.root][place] << 8 * k for k, place in enumerate(self._places[address]))
            if self._words[address] != code:
                found = f"{self._words[address]:#x}, in the code {code:#x}"
                raise ReplayDifferenceError(f"{loop}: {self._memory.name}[{address}] is {found}")


_PLACES: dict[BankOrigin, list[tuple[int, ...]]] = {}


def _bank_places(memory: Memory) -> list[tuple[int, ...]]:
    """Byte offsets of each word of a bank, lowest first."""
    origin = memory.origin
    assert origin is not None
    if origin not in _PLACES:
        _PLACES[origin] = _computed_places(origin)
    return _PLACES[origin]


def _computed_places(origin: BankOrigin) -> list[tuple[int, ...]]:
    banks = iter(origin.bank)
    fixed = {d: next(banks) for d, style in enumerate(origin.splits) if style == "complete"}
    addresses = [d for d, style in enumerate(origin.splits) if style not in ("complete", "reshape")]
    inside = [d for d, style in enumerate(origin.splits) if style == "reshape"]
    base = origin.offset + sum(index * origin.strides[d] for d, index in fixed.items())
    words = []
    for word in product(*(range(origin.extents[d]) for d in addresses)):
        start = base + sum(index * origin.strides[d] for d, index in zip(addresses, word, strict=True))
        word_bytes: list[int] = []
        for part in product(*(range(origin.extents[d]) for d in inside)):
            first = start + sum(index * origin.strides[d] for d, index in zip(inside, part, strict=True))
            word_bytes += range(first, first + origin.strides[-1])
        words.append(tuple(word_bytes))
    return words


def _variables(body: LoopBody) -> set[str]:
    roots = {origin.root for origin in body.origins.values() if origin.offset >= 0}
    return roots | {m.origin.root for m in body.memories if m.origin is not None and not m.initial}


def _sizes(body: LoopBody) -> dict[str, int]:
    """Bytes of each variable that are looked at."""
    sizes: dict[str, int] = {}
    for origin in body.origins.values():
        if origin.offset >= 0:
            sizes[origin.root] = max(sizes.get(origin.root, 0), origin.offset + 8)
    for memory in body.memories:
        if memory.origin is not None and not memory.initial:
            end = memory.origin.offset + memory.origin.extents[0] * memory.origin.strides[0]
            sizes[memory.origin.root] = max(sizes.get(memory.origin.root, 0), end)
    return sizes


def _instrumented(flat: str, function: Function, body: LoopBody, values: Sequence[str], roots: Sequence[str]) -> str:
    lines: list[str] = []
    label = body.header.lstrip("%") + ":"
    pending = False
    for number, line in enumerate(flat.split("\n")):
        if pending and not re.match(r"\s+%\S+ = phi ", line):
            lines += _observation(body, function, values, roots)
            pending = False
        load, store = _LOAD.match(line.partition(", !")[0]), _STORE.match(line.partition(", !")[0])
        if load:
            lines += _called_load(number, *load.groups())
        elif store:
            lines += _called_store(number, *store.groups())
        else:
            lines.append(line)
        if line.startswith(label):
            pending = True
    text = "\n".join(lines).replace(" internal global ", " global ")
    declarations = (
        f"declare i64 @{_READ}(ptr, i32)\ndeclare void @{_WRITE}(ptr, i64, i32)\ndeclare void @{_BEGIN}()\n"
        f"declare void @{_VALUE}(i32, i32, i64)\ndeclare void @{_ROOT}(i32, ptr)\n"
    )
    return text + "\n" + declarations


def _called_load(number: int, result: str, width: str, pointer: str) -> list[str]:
    if width == str(_WORD):
        return [f"  {result} = call i64 @{_READ}(ptr {pointer}, i32 {width})"]
    name = f"%bfpga.load.{number}"
    return [f"  {name} = call i64 @{_READ}(ptr {pointer}, i32 {width})", f"  {result} = trunc i64 {name} to i{width}"]


def _called_store(number: int, width: str, value: str, pointer: str) -> list[str]:
    if width == str(_WORD):
        return [f"  call void @{_WRITE}(ptr {pointer}, i64 {value}, i32 {width})"]
    name = f"%bfpga.store.{number}"
    call = f"  call void @{_WRITE}(ptr {pointer}, i64 {name}, i32 {width})"
    return [f"  {name} = zext i{width} {value} to i64", call]


def _observation(body: LoopBody, function: Function, values: Sequence[str], roots: Sequence[str]) -> list[str]:
    """Calls at the head of the loop: its values, where its variables are, then that an iteration begins."""
    kinds = _kinds(function)
    lines = [f"  call void @{_ROOT}(i32 {k}, ptr {root})" for k, root in enumerate(roots)]
    for number, name in enumerate(values):
        operand = body.origins[name].root
        kind = kinds.get(operand)
        if kind is None or not re.fullmatch(r"i\d+", kind):
            continue
        width = integer_width(kind)
        for word in range(-(-width // _WORD)):
            lines += _observed_word(number, word, operand, width)
    return [*lines, f"  call void @{_BEGIN}()"]


def _observed_word(number: int, word: int, operand: str, width: int) -> list[str]:
    stem = f"%bfpga.value.{number}.{word}"
    lines, value = [], operand
    if word:
        lines.append(f"  {stem}.s = lshr i{width} {operand}, {_WORD * word}")
        value = f"{stem}.s"
    if width != _WORD:
        step = "zext" if width < _WORD else "trunc"
        lines.append(f"  {stem} = {step} i{width} {value} to i64")
        value = stem
    return [*lines, f"  call void @{_VALUE}(i32 {number}, i32 {word}, i64 {value})"]


def _kinds(function: Function) -> dict[str, str]:
    """Types of a function's values by name, as far as they are integers."""
    kinds = dict(function.arguments)
    for block in function.blocks.values():
        for instruction in block.instructions:
            if instruction.result:
                kinds[instruction.result] = _kind(instruction.opcode, instruction.text)
    return kinds


def _kind(opcode: str, text: str) -> str:
    if opcode in ("icmp", "fcmp"):
        return "i1"
    if opcode in ("zext", "sext", "trunc", "bitcast", "ptrtoint"):
        return text.rpartition(" to ")[2]
    found = re.search(r"(?:^|\s)(i\d+)\b", text)
    if opcode == "select":
        found = re.search(r", (i\d+) ", text)
    return found.group(1) if found else ""
