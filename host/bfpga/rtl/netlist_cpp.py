"""C++ of a flat netlist of Yosys: one function that settles all wires of a clock, one for its edge.

Every output of a cell is a variable, so vectors whose bits depend on each other need no iteration. Wires of more than
64 bits are cut into words where a cell works bit by bit; sums and products have up to 128 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bfpga.errors import ToolError

#: Statements of a function: compilers take more than twice the time for one of twice the length.
_CHUNK = 300
#: Functions of a file.
_FILE_CHUNKS = 12
_WORD, _LONGEST = 64, 128
#: Cells that work bit by bit.
_BITWISE = {"$and": "&", "$or": "|", "$xor": "^"}
_COMPARED = {"$eq": "==", "$ne": "!=", "$eqx": "==", "$nex": "!=", "$lt": "<", "$le": "<=", "$gt": ">", "$ge": ">="}
_SUMS = {"$add": "+", "$sub": "-", "$mul": "*"}
#: Numbers that are divided by 0 are unknown: 0 here.
_DIVISIONS = {"$div": "/", "$mod": "%"}
_SHIFTS = ("$shl", "$sshl", "$shr", "$sshr", "$shift", "$shiftx")
_REGISTERS = ("$dff", "$dffe", "$sdff", "$sdffe", "$sdffce")

#: A bit: a number of the netlist, or a constant.
Bit = int | str
#: Bits of a variable: its name, the lowest of them, their number; a constant has a value instead of a name.
Run = tuple[str | int, int, int]


@dataclass
class Step:
    """A variable that is computed in every clock. ``bits``: of the netlist; ``uses``: bits that it follows from."""

    name: str
    bits: Sequence[Bit]
    uses: Sequence[Bit]
    #: Its expression, once the names of all bits are known.
    text: Callable[[], str]
    #: The cell, if it can be cut into single bits.
    cut: Callable[[], list[Step]] | None = None
    source: str = ""

    @property
    def width(self) -> int:
        return len(self.bits)


@dataclass
class Memory:
    """A memory: words of ``width`` bits, each in so many words of 64."""

    name: str
    width: int
    size: int
    offset: int
    contents: dict[int, int] = field(default_factory=dict)

    @property
    def words(self) -> int:
        return -(-self.width // _WORD)


class NetlistCpp:
    """The C++ of a module; ``module``: as `write_json` describes it, flat, its processes made to cells.

    ToolError for a cell that is not known and for a loop without a register.
    """

    def __init__(self, module: Mapping[str, Any], name: str) -> None:
        self._module, self._name = module, name
        #: Where a bit of the netlist is: variable and place in it.
        self._places: dict[Bit, tuple[str, int]] = {}
        self._steps: list[Step] = []
        self._registers: dict[str, tuple[int, int, Callable[[], str], Sequence[Bit]]] = {}
        self._writes: list[tuple[int, Callable[[], str], Sequence[Bit]]] = []
        self._memories = {key: _memory(number, item) for number, (key, item) in enumerate(_memories(module))}
        self._initial = _initial(module)
        self._count = 0
        self._outputs: list[str] = []
        for key, port in module["ports"].items():
            if port["direction"] == "input":
                for low in range(0, len(port["bits"]), 32):
                    self._define(f"{_port(key)}[{low // 32}]", port["bits"][low : low + 32])
        for cell in module["cells"].values():
            self._cell(cell)
        self._ordered = self._sorted()

    def files(self) -> dict[str, str]:
        """The header `design.h` with the structure ``name``, and files that are compiled apart."""
        chunks = [self._ordered[low : low + _CHUNK] for low in range(0, len(self._ordered), _CHUNK)]
        shared = self._shared(chunks)
        functions = [self._function(number, chunk, shared) for number, chunk in enumerate(chunks)]
        files = {"design.h": self._header(len(chunks), shared)}
        functions += [*self._edge(), self._constructor()]
        for number, low in enumerate(range(0, len(functions), _FILE_CHUNKS)):
            body = "\n".join(functions[low : low + _FILE_CHUNKS])
            files[f"design_{number}.cpp"] = f'#include "design.h"\n\n{body}'
        return files

    # Cells

    def _cell(self, cell: Mapping[str, Any]) -> None:
        kind, wires = cell["type"], cell["connections"]
        if kind in ("$scopeinfo", "$meminit_v2"):
            if kind == "$meminit_v2":
                self._contents(cell)
        elif kind in _REGISTERS:
            for low, high in _cuts(len(wires["Q"])):
                self._register(cell, low, high)
        elif kind == "$memwr_v2":
            self._write(cell)
        elif kind == "$memrd":
            memory = self._memories[cell["parameters"]["MEMID"]]
            for number, (low, high) in enumerate(_cuts(memory.width)):
                self._read(cell, memory, number, low, high)
        elif kind in _BITWISE or kind in ("$mux", "$pmux", "$not", "$xnor", "$pos"):
            for low, high in _cuts(len(wires["Y"])):
                self._steps.append(self._bitwise(cell, low, high))
        else:
            self._arithmetic(cell)

    def _bitwise(self, cell: Mapping[str, Any], low: int, high: int) -> Step:
        kind, wires = cell["type"], cell["connections"]
        size = len(wires["Y"])
        a = _extended(cell, "A", size)[low:high]
        mask = _mask(high - low)
        if kind == "$pmux":
            b = [wires["B"][n * size + low : n * size + high] for n in range(len(wires["S"]))]
            uses = [*a, *(bit for part in b for bit in part), *wires["S"]]
            choices = list(zip(b, wires["S"], strict=True))

            def text() -> str:
                found = self._value(a)
                for part, select in reversed(choices):
                    found = f"{self._value([select])} ? {self._value(part)} : {found}"
                return found
        elif kind == "$mux":
            b = wires["B"][low:high]
            uses = [*a, *b, *wires["S"]]

            def text() -> str:
                return f"{self._value(wires['S'])} ? {self._value(b)} : {self._value(a)}"
        elif kind in ("$not", "$pos"):
            uses = a

            def text() -> str:
                return f"~{self._value(a)} & {mask}" if kind == "$not" else self._value(a)
        else:
            b = _extended(cell, "B", size)[low:high]
            uses = [*a, *b]

            def text() -> str:
                if kind == "$xnor":
                    return f"~({self._value(a)} ^ {self._value(b)}) & {mask}"
                return f"{self._value(a)} {_BITWISE[kind]} {self._value(b)}"

        def cut() -> list[Step]:
            return [self._bitwise(cell, bit, bit + 1) for bit in range(low, high)]

        return self._step(wires["Y"][low:high], uses, text, cut if high - low > 1 else None, cell)

    def _arithmetic(self, cell: Mapping[str, Any]) -> None:
        kind, wires = cell["type"], cell["connections"]
        y = wires["Y"]
        a, b = wires["A"], wires.get("B", [])
        numeric = kind in (*_SUMS, *_DIVISIONS, "$neg")
        text: Callable[[], str]
        if kind in _SUMS or kind == "$neg":
            size = self._fits(cell, len(y))
            first = _extended(cell, "A", size)
            second = _extended(cell, "B", size) if kind != "$neg" else []
            sign = "-" if kind == "$neg" else ""

            def text() -> str:
                other = f" {_SUMS[kind]} {self._value(second)}" if second else ""
                return f"({sign}{self._value(first)}{other}) & {_mask(size)}"
        elif kind in _DIVISIONS:
            size = self._fits(cell, max(len(a), len(b), len(y)))
            first, second = _extended(cell, "A", size), _extended(cell, "B", size)
            signed = _number(cell, "A_SIGNED") and _number(cell, "B_SIGNED")

            def text() -> str:
                sides = [self._signed(x) if signed else self._value(x) for x in (first, second)]
                value = f"{_type(size)}({sides[0]} {_DIVISIONS[kind]} {sides[1]})"
                return f"{sides[1]} != 0 ? {value} & {_mask(len(y))} : 0"
        elif kind in _COMPARED:
            size = max(len(a), len(b))
            first, second = _extended(cell, "A", size), _extended(cell, "B", size)
            signed = _number(cell, "A_SIGNED") and _number(cell, "B_SIGNED") and kind in ("$lt", "$le", "$gt", "$ge")
            if size > _LONGEST and kind not in ("$eq", "$ne", "$eqx", "$nex"):
                self._fits(cell, size)

            def text() -> str:
                if size > _LONGEST:
                    equal = " && ".join(
                        f"{self._value(first[low:high])} == {self._value(second[low:high])}"
                        for low, high in _cuts(size)
                    )
                    return equal if kind in ("$eq", "$eqx") else f"!({equal})"
                sides = [self._signed(x) if signed else self._value(x) for x in (first, second)]
                return f"{sides[0]} {_COMPARED[kind]} {sides[1]}"
        elif kind in ("$logic_not", "$reduce_or", "$reduce_bool", "$reduce_and", "$reduce_xor", "$reduce_xnor"):

            def text() -> str:
                parts = [(self._value(a[low:high]), high - low) for low, high in _cuts(len(a))]
                if kind == "$reduce_and":
                    return " && ".join(f"{part} == {_mask(size)}" for part, size in parts)
                if kind.startswith("$reduce_x"):
                    odd = " ^ ".join(f"__builtin_parityll({part})" for part, _ in parts)
                    return odd if kind == "$reduce_xor" else f"!({odd})"
                some = " || ".join(f"{part} != 0" for part, _ in parts)
                return f"!({some})" if kind == "$logic_not" else some
        elif kind in ("$logic_and", "$logic_or"):

            def text() -> str:
                some = [" || ".join(f"{self._value(x[low:high])} != 0" for low, high in _cuts(len(x))) for x in (a, b)]
                return f"({some[0]}) {'&&' if kind == '$logic_and' else '||'} ({some[1]})"
        elif kind in _SHIFTS:
            self._shift(cell)
            return
        else:
            raise ToolError(f"the simulation knows no cell {kind} ({_source(cell)})")
        self._steps.append(self._step(y if numeric else y[:1], [*a, *b], text, None, cell))
        if not numeric:
            self._zeros(y[1:])

    def _shift(self, cell: Mapping[str, Any]) -> None:
        kind, wires = cell["type"], cell["connections"]
        y, b = wires["Y"], wires["B"]
        size = max(len(wires["A"]), len(y))
        a = _extended(cell, "A", size)
        both_ways = kind in ("$shift", "$shiftx") and _number(cell, "B_SIGNED")
        arithmetic = kind == "$sshr" and _number(cell, "A_SIGNED")
        left = kind in ("$shl", "$sshl")
        if size > _LONGEST and arithmetic:
            self._fits(cell, size)
        for low, high in _cuts(len(y)) if size > _LONGEST else [(0, len(y))]:

            def text(low: int = low, high: int = high) -> str:
                by = self._signed(b) if both_ways else self._value(b)
                mask = _mask(high - low)
                if size > _LONGEST:
                    words = ", ".join(self._value(a[x0:x1]) for x0, x1 in _cuts(size))
                    place = f"__int128({low}) {'-' if left else '+'} {by}"
                    return f"bits_of<{-(-size // _WORD)}>({{{words}}}, {place}) & {mask}"
                long = "true" if size > _WORD else "false"
                if both_ways:
                    return f"shifted_both<{long}>({self._value(a)}, {by}, {size}) & {mask}"
                if arithmetic:
                    return f"shifted_signed<{long}>({self._signed(a)}, {by}, {size}) & {mask}"
                return f"{'left' if left else 'right'}<{long}>({self._value(a)}, {by}, {size}) & {mask}"

            self._steps.append(self._step(y[low:high], [*a, *b], text, None, cell))

    def _zeros(self, bits: Sequence[Bit]) -> None:
        if bits:
            self._steps.append(self._step(bits, (), lambda: "0"))

    def _register(self, cell: Mapping[str, Any], low: int, high: int) -> None:
        kind, wires = cell["type"], cell["connections"]
        q, d = wires["Q"][low:high], wires["D"][low:high]
        uses = [*d, *wires.get("EN", ()), *wires.get("SRST", ())]
        name = self._new("r")
        self._define(name, q)

        def active(port: str) -> str:
            return f"{'' if _number(cell, f'{port}_POLARITY') else '!'}{self._value(wires[port])}"

        def text() -> str:
            value = self._value(d)
            enabled = f"{active('EN')} ? {value} : {name}" if "EN" in wires else value
            if "SRST" not in wires:
                return enabled
            reset = f"{active('SRST')} ? {_literal(_number(cell, 'SRST_VALUE') >> low & ((1 << (high - low)) - 1))}"
            if kind == "$sdffce":
                return f"{active('EN')} ? ({reset} : {value}) : {name}"
            return f"{reset} : ({enabled})"

        first = sum(self._initial.get(bit, 0) << n for n, bit in enumerate(q))
        self._registers[name] = (high - low, first, text, uses)

    def _read(self, cell: Mapping[str, Any], memory: Memory, number: int, low: int, high: int) -> None:
        wires = cell["connections"]
        if _number(cell, "CLK_ENABLE"):
            raise ToolError(f"the simulation knows no memory that is read at an edge ({_source(cell)})")
        address = wires["ADDR"]

        def text() -> str:
            return f"word_of({memory.name}, {self._index(memory, address)}, {memory.words}, {number})"

        self._steps.append(self._step(wires["DATA"][low:high], address, text, None, cell))

    def _write(self, cell: Mapping[str, Any]) -> None:
        wires, memory = cell["connections"], self._memories[cell["parameters"]["MEMID"]]
        address, data, enable = wires["ADDR"], wires["DATA"], wires["EN"]

        def text() -> str:
            lines = []
            for number, (low, high) in enumerate(_cuts(memory.width)):
                mask = self._value(enable[low:high])
                if len(set(enable[low:high])) == 1:
                    mask = f"({self._value(enable[low : low + 1])} ? {_mask(high - low)} : 0)"
                place = f"{memory.name}, {self._index(memory, address)}, {memory.words}, {number}"
                lines.append(f"    set_word({place}, {self._value(data[low:high])}, {mask});")
            return "\n".join(lines)

        self._writes.append((_number(cell, "PORTID"), text, [*address, *data, *enable]))

    def _index(self, memory: Memory, address: Sequence[Bit]) -> str:
        return f"{self._value(address)} - {memory.offset}" if memory.offset else self._value(address)

    def _contents(self, cell: Mapping[str, Any]) -> None:
        memory, wires = self._memories[cell["parameters"]["MEMID"]], cell["connections"]
        first, data = _constant(wires["ADDR"]), _constant(wires["DATA"])
        for number in range(_number(cell, "WORDS")):
            memory.contents[first - memory.offset + number] = data >> number * memory.width & ((1 << memory.width) - 1)

    # Values

    def _new(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _define(self, name: str, bits: Sequence[Bit]) -> None:
        for place, bit in enumerate(bits):
            self._places[bit] = (name, place)

    def _step(
        self,
        bits: Sequence[Bit],
        uses: Sequence[Bit],
        text: Callable[[], str],
        cut: Callable[[], list[Step]] | None = None,
        cell: Mapping[str, Any] | None = None,
    ) -> Step:
        name = self._new("w")
        self._define(name, bits)
        return Step(name, bits, uses, text, cut, _source(cell) if cell else "")

    def _fits(self, cell: Mapping[str, Any], size: int) -> int:
        if size > _LONGEST:
            raise ToolError(f"the simulation knows no {cell['type']} of {size} bits ({_source(cell)})")
        return size

    def _runs(self, bits: Sequence[Bit]) -> Iterator[tuple[int, Run]]:
        """Bits as runs of variables: place of the lowest bit, and the run."""
        low = 0
        while low < len(bits):
            high = low + 1
            if isinstance(bits[low], str) or bits[low] not in self._places:
                while high < len(bits) and (isinstance(bits[high], str) or bits[high] not in self._places):
                    high += 1
                yield low, (sum((bit == "1") << n for n, bit in enumerate(bits[low:high])), 0, high - low)
            else:
                name, place = self._places[bits[low]]
                while high < len(bits) and self._places.get(bits[high]) == (name, place + high - low):
                    high += 1
                yield low, (name, place, high - low)
            low = high

    def _value(self, bits: Sequence[Bit]) -> str:
        """The number that bits make, of 64 bits or, where they are more, of 128."""
        kind = "u64" if len(bits) <= _WORD else "u128"
        parts = []
        for at, (name, place, size) in self._runs(bits):
            if isinstance(name, int):
                if name:
                    parts.append(_literal(name << at, kind))
                continue
            part = f"{name} >> {place}" if place else name
            if size < self._width(name) - place:
                part = f"({part} & {_mask(size)})"
            parts.append(f"({kind}({part}) << {at})" if at else f"{kind}({part})")
        return f"({' | '.join(parts)})" if len(parts) > 1 else parts[0] if parts else f"{kind}(0)"

    def _signed(self, bits: Sequence[Bit]) -> str:
        """The same as a number with a sign."""
        room = _WORD if len(bits) <= _WORD else _LONGEST
        kind = "int64_t" if room == _WORD else "__int128"
        return f"({kind}({self._value(bits)} << {room - len(bits)}) >> {room - len(bits)})"

    def _width(self, name: str) -> int:
        return self._widths.get(name, 32)

    # Order

    def _sorted(self) -> list[Step]:
        """The steps, each after those that it follows from, close to them. Vectors that loop are cut into bits."""
        while True:
            self._widths = {step.name: step.width for step in self._steps} | {
                name: width for name, (width, *_) in self._registers.items()
            }
            ordered, looping = self._attempt()
            if not looping:
                return ordered
            cut = {step.name: step.cut() for step in looping if step.cut is not None}
            if not cut:
                places = sorted({step.source for step in looping})
                raise ToolError(f"a loop without a register passes {', '.join(places[:5])}")
            self._steps = [part for step in self._steps for part in cut.get(step.name, [step])]

    def _attempt(self) -> tuple[list[Step], list[Step]]:
        """Steps in order, or those of a loop."""
        steps = {step.name: step for step in self._steps}
        before: dict[str, list[str]] = {}
        for step in self._steps:
            names = dict.fromkeys(self._places[bit][0] for bit in step.uses if bit in self._places)
            before[step.name] = [name for name in names if name in steps]
        ordered: list[Step] = []
        done: set[str] = set()
        open_: dict[str, None] = {}
        for first in self._wanted(steps):
            stack = [(first, iter(before[first]))] if first not in done else []
            if stack:
                open_[first] = None
            while stack:
                name, rest = stack[-1]
                following = next((other for other in rest if other not in done), None)
                if following is None:
                    stack.pop()
                    del open_[name]
                    done.add(name)
                    ordered.append(steps[name])
                elif following in open_:
                    path = list(open_)
                    return [], [steps[each] for each in path[path.index(following) :]]
                else:
                    open_[following] = None
                    stack.append((following, iter(before[following])))
        return ordered, []

    def _wanted(self, steps: Mapping[str, Step]) -> Iterator[str]:
        """The variables that registers, memories and outputs need."""
        uses = [uses for _, _, _, uses in self._registers.values()]
        uses += [uses for _, _, uses in self._writes]
        uses += [port["bits"] for port in self._module["ports"].values() if port["direction"] == "output"]
        for bits in uses:
            for bit in bits:
                name = self._places.get(bit, ("", 0))[0]
                if name in steps:
                    yield name

    # Text

    def _shared(self, chunks: Sequence[Sequence[Step]]) -> dict[str, str]:
        """Variables that more than one function uses, with their types."""
        chunk_of = {step.name: number for number, chunk in enumerate(chunks) for step in chunk}
        shared: dict[str, str] = {}
        widths = self._widths

        def use(bits: Sequence[Bit], number: int) -> None:
            for bit in bits:
                name = self._places.get(bit, ("", 0))[0]
                if name in chunk_of and chunk_of[name] != number and name not in shared:
                    shared[name] = _type(widths[name])

        for number, chunk in enumerate(chunks):
            for step in chunk:
                use(step.uses, number)
        for _, _, _, uses in self._registers.values():
            use(uses, -1)
        for _, _, uses in self._writes:
            use(uses, -1)
        for port in self._module["ports"].values():
            if port["direction"] == "output":
                use(port["bits"], -1)
        return shared

    def _function(self, number: int, chunk: Sequence[Step], shared: Mapping[str, str]) -> str:
        lines = [f"void {self._name}::settle_{number}() {{"]
        for step in chunk:
            kind = "" if step.name in shared else f"const {_type(step.width)} "
            lines.append(f"    {kind}{step.name} = {step.text()};")
        return "\n".join([*lines, "}", ""])

    def _edge(self) -> list[str]:
        """What an edge does: memories, then registers, those first that are read by others."""
        writes = [text() for _, text, _ in sorted(self._writes, key=lambda item: item[0])]
        functions = [f"void {self._name}::write() {{\n" + "\n".join(writes) + "\n}\n"]
        early, late = [], []
        for name, (width, _, text, uses) in self._registers.items():
            reads = {self._places[bit][0] for bit in uses if bit in self._places} - {name}
            if reads & self._registers.keys():
                early.append((name, f"    const {_type(width)} n{name} = {text()};", f"    {name} = n{name};"))
            else:
                late.append(f"    {name} = {text()};")
        first, second = [line for _, line, _ in early], [line for *_, line in early]
        functions.append(f"void {self._name}::capture() {{\n" + "\n".join([*first, *second, *late]) + "\n}\n")
        return functions

    def _constructor(self) -> str:
        """Memories at power-on. No inline function: of those a process has one, whatever kernels it simulates."""
        lines = [f"    {line}" for memory in self._memories.values() for line in _filled(memory)]
        return "\n".join([f"{self._name}::{self._name}() {{", *lines, "}\n"])

    def _header(self, count: int, shared: Mapping[str, str]) -> str:
        lines = [_PREAMBLE, f"struct {self._name} {{"]
        for key, port in self._module["ports"].items():
            lines.append(f"    uint32_t {_port(key)}[{-(-len(port['bits']) // 32)}] = {{}};")
        for name, (width, first, *_) in self._registers.items():
            lines.append(f"    {_type(width)} {name} = {_literal(first)};")
        lines += [f"    {kind} {name};" for name, kind in shared.items()]
        for memory in self._memories.values():
            lines.append(f"    std::vector<u64> {memory.name} = std::vector<u64>({memory.size * memory.words});")
        lines += [f"    {self._name}();", *(f"    void settle_{number}();" for number in range(count))]
        lines += ["    void write();", "    void capture();", "", "    // All wires follow from inputs and registers.",
                  "    void settle() {", *(f"        settle_{number}();" for number in range(count))]  # fmt: skip
        for key, port in self._module["ports"].items():
            if port["direction"] == "output":
                for low in range(0, len(port["bits"]), 32):
                    value = self._value(port["bits"][low : low + 32])
                    lines.append(f"        {_port(key)}[{low // 32}] = static_cast<uint32_t>({value});")
        lines += ["    }", "    // After all wires have settled.", "    void edge() {", "        write();",
                  "        capture();", "    }", "};", ""]  # fmt: skip
        return "\n".join(lines)


_PREAMBLE = """\
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

using u64 = uint64_t;
using u128 = unsigned __int128;

template <bool Long>
struct Pick {
    using type = u64;
    using with_sign = int64_t;
};
template <>
struct Pick<true> {
    using type = u128;
    using with_sign = __int128;
};
template <bool Long>
using word_t = typename Pick<Long>::type;
template <bool Long>
using signed_t = typename Pick<Long>::with_sign;

template <bool Long>
inline word_t<Long> left(word_t<Long> value, u128 by, unsigned bits) {
    return by < bits ? value << static_cast<unsigned>(by) : 0;
}
template <bool Long>
inline word_t<Long> right(word_t<Long> value, u128 by, unsigned bits) {
    return by < bits ? value >> static_cast<unsigned>(by) : 0;
}
template <bool Long>
inline word_t<Long> shifted_signed(signed_t<Long> value, u128 by, unsigned bits) {
    return static_cast<word_t<Long>>(by < bits ? value >> static_cast<unsigned>(by) : value < 0 ? -1 : 0);
}
template <bool Long>
inline word_t<Long> shifted_both(word_t<Long> value, __int128 by, unsigned bits) {
    return by < 0 ? left<Long>(value, static_cast<u128>(-by), bits) : right<Long>(value, static_cast<u128>(by), bits);
}
// The 64 bits of a long value from a place on; beyond its ends are zeros.
template <std::size_t Words>
inline u64 bits_of(const u64 (&words)[Words], __int128 from) {
    const __int128 at = from >> 6;
    const unsigned by = static_cast<unsigned>(from & 63);
    const auto word = [&](__int128 n) { return n >= 0 && n < static_cast<__int128>(Words) ? words[n] : 0; };
    return word(at) >> by | (by ? word(at + 1) << (64 - by) : 0);
}
inline u64 word_of(const std::vector<u64>& memory, u64 index, u64 words, u64 number) {
    const u64 at = index * words + number;
    return at < memory.size() ? memory[at] : 0;
}
inline void set_word(std::vector<u64>& memory, u64 index, u64 words, u64 number, u64 value, u64 mask) {
    const u64 at = index * words + number;
    if (mask && at < memory.size()) {
        memory[at] = (memory[at] & ~mask) | (value & mask);
    }
}
"""


def _memories(module: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key, item in module.get("memories", {}).items():
        yield f"\\{key}", item


def _memory(number: int, item: Mapping[str, Any]) -> Memory:
    return Memory(f"m{number}", item["width"], item["size"], item["start_offset"])


def _filled(memory: Memory) -> Iterator[str]:
    """Statements that give a memory its first words."""
    if not any(memory.contents.values()):
        return
    values = [memory.contents.get(index, 0) for index in range(memory.size)]
    words = [value >> _WORD * n & ((1 << _WORD) - 1) for value in values for n in range(memory.words)]
    yield f"static const u64 {memory.name}_first[] = {{{', '.join(f'{word:#x}u' for word in words)}}};"
    yield f"{memory.name}.assign({memory.name}_first, {memory.name}_first + {len(words)});"


def _initial(module: Mapping[str, Any]) -> dict[Bit, int]:
    """The bits that are 1 at power-on."""
    found = {}
    for net in module["netnames"].values():
        value = net.get("attributes", {}).get("init")
        if value is not None:
            for bit, one in zip(net["bits"], reversed(value), strict=False):
                if one == "1":
                    found[bit] = 1
    return found


def _extended(cell: Mapping[str, Any], port: str, size: int) -> list[Bit]:
    """The bits of an operand, cut or extended to a size."""
    bits = list(cell["connections"][port])
    if len(bits) < size:
        fill = bits[-1] if bits and _number(cell, f"{port}_SIGNED") else "0"
        bits += [fill] * (size - len(bits))
    return bits[:size]


def _number(cell: Mapping[str, Any], name: str) -> int:
    value = cell["parameters"].get(name, 0)
    return int(value, 2) if isinstance(value, str) and value.strip("01") == "" and value else int(value or 0)


def _constant(bits: Sequence[Bit]) -> int:
    return sum((bit == "1") << n for n, bit in enumerate(bits))


def _cuts(size: int) -> list[tuple[int, int]]:
    return [(low, min(low + _WORD, size)) for low in range(0, size, _WORD)]


def _mask(size: int) -> str:
    return _literal((1 << size) - 1, "u64" if size <= _WORD else "u128")


def _literal(value: int, kind: str = "u64") -> str:
    if value >> _WORD:
        return f"(u128({value >> _WORD:#x}ull) << 64 | {value & ((1 << _WORD) - 1):#x}ull)"
    return f"{value:#x}ull" if kind == "u64" else f"u128({value:#x}ull)"


def _type(width: int) -> str:
    return "u64" if width <= _WORD else "u128"


def _port(name: str) -> str:
    return f"p_{name}"


def _source(cell: Mapping[str, Any]) -> str:
    return str(cell.get("attributes", {}).get("src", "")).partition("|")[0]
