"""Verilog of the memories of an IP: one module for each bank, whose ports the bodies of the IP share.

Only one body runs at a time, and its schedule has no more accesses in a cycle than there are ports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from bfpga.engines.interface.resource_units import BRAM36_SHAPES, half_blocks
from bfpga.errors import ToolError
from bfpga.rtl.names import readable, unused
from bfpga.rtl.stored_bits import Contents, stored_bits
from bfpga.rtl.tables import Tables, joinable
from bfpga.rtl.words import Word
from bfpga.synthesis.bank_contents import BankContents
from bfpga.synthesis.body import LoopBody, Memory, Opcode
from bfpga.synthesis.delays import Technology, implementation_of
from bfpga.synthesis.dependences import Dependences, find_dependences
from bfpga.synthesis.netlist.expressions import ZEROED, fitted, literal, vector
from bfpga.synthesis.netlist.verilog import Design

#: Ports of a block of memory.
_BLOCK_PORTS = 2
_STYLES = {"bram": "block", "lutram": "distributed", "uram": "ultra"}


@dataclass(frozen=True, slots=True)
class Access:
    """An access of body ``body``: operation ``index`` of it."""

    body: int
    index: int


#: The wire at a port of a body: (body, port) -> name.
Net = Callable[[int, str], str]


@dataclass(slots=True)
class Bank:
    """A memory of an IP and the accesses on each of its ports. ``latency``: cycles from an address to its word;
    ``words``: at power-on; ``word``: what is stored of one; ``places``: its numbers in the bodies, of several
    ``tables`` of constants those of each in turn."""

    name: str
    memory: Memory
    latency: int
    style: str
    words: tuple[int, ...]
    word: Word
    tables: Tables | None = None
    places: list[tuple[int, int]] = field(default_factory=list)
    reads: list[list[Access]] = field(default_factory=list)
    writes: list[list[Access]] = field(default_factory=list)

    @property
    def pieces(self) -> list[int]:
        """Words of the memories that it is made of."""
        if self.tables is not None:
            return self.tables.pieces
        is_cut = self.style == "block" and not self.memory.initial
        return _pieces(self.memory.words, self.word.width) if is_cut else [self.memory.words]


def banks_of(
    designs: Sequence[Design], technology: Technology, power_on: Mapping[str, bytes], visible: Collection[str]
) -> tuple[list[Bank], dict[Access, tuple[str, int]]]:
    """The banks of an IP, and for each read its bank's name and port. ``visible``: variables that others read.

    ToolError if accesses of a schedule need more ports than a memory has.
    """
    building = _Banks(designs, technology, power_on)
    for number, design in enumerate(designs):
        if design.body.memories:
            building.add(number, design)
    banks = list(building.banks.values())
    for bank in banks:
        if bank.memory.ports == "ram_s2p" and (len(bank.reads) > 1 or len(bank.writes) > 1):
            raise ToolError(f"{bank.memory.name}: {len(bank.reads)} reads and {len(bank.writes)} writes in a cycle")
    contents = [Contents(bank.memory.width, bank.words, bank.places) for bank in banks]
    for bank, word in zip(banks, stored_bits([each.body for each in designs], contents, visible), strict=True):
        bank.word = word
    return banks, building.ports


class _Banks:
    """Banks that grow by the memories of each body."""

    def __init__(self, designs: Sequence[Design], technology: Technology, power_on: Mapping[str, bytes]) -> None:
        self._technology, self._power_on = technology, power_on
        bodies = [design.body for design in designs]
        self._users = Counter(_key(memory) for body in bodies for memory in body.memories)
        self.banks: dict[object, Bank] = {}
        self.ports: dict[Access, tuple[str, int]] = {}

    def add(self, number: int, design: Design) -> None:
        """The memories of a body with its number."""
        dependences = find_dependences(design.body, False)
        joined = self._joined(design, dependences)
        taken: dict[str, _Ports] = {}
        for own, memory in enumerate(design.body.memories):
            group = joined.get(own, [own])
            key = _key(design.body.memories[group[0]])
            if key not in self.banks:
                self.banks[key] = self._new(design.body, group)
            bank = self.banks[key]
            bank.places.append((number, own))
            ports = taken.setdefault(bank.name, _Ports(design, dependences))
            for index in memory.accesses:
                self._place(bank, ports, Access(number, index), design)

    def _place(self, bank: Bank, taken: _Ports, access: Access, design: Design) -> None:
        is_write = design.body.operations[access.index].opcode is Opcode.MEMORY_WRITE
        port = taken.place(bank.writes if is_write else bank.reads, access, is_write)
        if not is_write:
            self.ports[access] = bank.name, port
            if design.pipeline.latency(access.index) != bank.latency:
                raise ToolError(f"{bank.memory.name}: its words come after different times")

    def _joined(self, design: Design, dependences: Dependences) -> dict[int, list[int]]:
        """The tables that are one memory with each of them."""
        memories = design.body.memories
        own = [
            number
            for number, memory in enumerate(memories)
            if memory.initial and self._users[_key(memory)] == 1
            and implementation_of(memory, self._technology) == "bram"
            and memory.words - (1 << memory.words.bit_length() - 1) <= 1
        ]  # fmt: skip
        groups = joinable(design.body, dependences, design.pipeline.stage, own)
        return {number: group for group in groups for number in group}

    def _new(self, body: LoopBody, group: Sequence[int]) -> Bank:
        memory = body.memories[group[0]]
        tables = Tables(tuple(body.memories[number] for number in group)) if len(group) > 1 else None
        implementation = implementation_of(memory, self._technology)
        if tables is not None:
            memory = tables.memory()
        words = memory.initial
        if not words and memory.origin is not None and memory.origin.root in self._power_on:
            contents = BankContents(memory, self._power_on)
            words = tuple(contents.read(address) for address in range(memory.words))
        latency = self._technology.memories[implementation].latency
        name = unused(f"{readable(memory.name) or 'table'}_bank", (), {bank.name for bank in self.banks.values()})
        word = Word.whole(memory.width)
        return Bank(name, memory, latency, _STYLES[implementation], words if any(words) else (), word, tables)


def _key(memory: Memory) -> object:
    origin = memory.origin
    if memory.initial or origin is None:
        return memory.name, memory.words, memory.width, memory.initial, origin and origin.root
    return origin.root, origin.offset, origin.extents, origin.bank


class _Ports:
    """Ports that the accesses of one body take, cycle by cycle."""

    def __init__(self, design: Design, dependences: Dependences) -> None:
        self._design, self._dependences = design, dependences
        self._taken: dict[tuple[bool, int, int], list[int]] = {}

    def place(self, ports: list[list[Access]], access: Access, is_write: bool) -> int:
        """The number of the first port that is free when the access happens."""
        stage, interval = self._design.pipeline.stage, self._design.pipeline.interval
        slot = stage(access.index) % interval
        port = 0
        while True:
            others = self._taken.setdefault((is_write, port, slot), [])
            # What excludes another access in one iteration may go with it in the next.
            alike = [other for other in others if stage(other) == stage(access.index)]
            if alike == others and all(self._dependences.may_share(access.index, other) for other in others):
                break
            port += 1
        others.append(access.index)
        while len(ports) <= port:
            ports.append([])
        ports[port].append(access)
        return port


def bank_modules(name: str, bank: Bank) -> dict[str, str]:
    """Verilog of a bank by the names of its modules, those that are used first.

    Constants in blocks that are read at more places than a block has ports are there several times. Yosys would find
    that out by trying all ways in which ports may share blocks, which does not end.
    """
    if bank.style != "block" or not bank.memory.initial or len(bank.reads) <= _BLOCK_PORTS:
        return {name: bank_module(name, bank)}
    copy = f"{name}_copy"
    return {copy: bank_module(copy, replace(bank, reads=bank.reads[:_BLOCK_PORTS])), name: _copies(name, copy, bank)}


def _copies(name: str, copy: str, bank: Bank) -> str:
    """A bank of copies that have two ports each."""
    bits = max(1, (bank.memory.words - 1).bit_length())
    lines = [_header(name, bank, bits)]
    for first in range(0, len(bank.reads), _BLOCK_PORTS):
        pins = [".clk(clk)", ".ce(ce)"]
        for port in range(_BLOCK_PORTS):
            outer = first + port
            if outer < len(bank.reads):
                pins += [f".{pin}{port}({pin}{outer})" for pin in ("re", "ra", "rd")]
            else:
                lines.append(f"wire {vector(bank.memory.width)} unread;")
                pins += [f".re{port}(1'b0)", f".ra{port}({literal(0, bits)})", f".rd{port}(unread)"]
        lines.append(f"{copy} copy_{first // _BLOCK_PORTS}({', '.join(pins)});")
    return "\n".join([*lines, "endmodule", ""])


def bank_module(name: str, bank: Bank) -> str:
    """Verilog of a bank in one: reads give the words from before a write in the same cycle."""
    bits = max(1, (bank.memory.words - 1).bit_length())
    return "\n".join([_header(name, bank, bits), *_bank_lines(bank, bits), "endmodule", ""])


def _header(name: str, bank: Bank, bits: int) -> str:
    memory, stored = bank.memory, bank.word.width
    said = "" if stored == memory.width else f", {stored} of them stored"
    ports = ["input clk", "input ce"]
    for port in range(len(bank.writes)):
        ports += [f"input we{port}", f"input {vector(bits)} wa{port}", f"input {vector(memory.width)} wd{port}"]
    for port in range(len(bank.reads)):
        ports += [f"input re{port}", f"input {vector(bits)} ra{port}", f"output {vector(memory.width)} rd{port}"]
    words = f"// {memory.name}: {memory.words} words of {memory.width} bits{said}."
    return f"{words}\nmodule {name}({', '.join(ports)});"


def _bank_lines(bank: Bank, bits: int) -> Iterator[str]:
    width = bank.word.width
    for port in range(len(bank.writes)):
        yield f"wire {vector(width)} d{port} = {bank.word.packed_text(f'wd{port}')};"
    pieces = bank.pieces
    for number, (first, words) in enumerate(zip(accumulate([0, *pieces]), pieces, strict=False)):
        yield from _stored(bank, f"stored_{number}", first, words)
        # All addresses of a piece have the same upper bits.
        own = max(1, (words - 1).bit_length())
        chosen = "" if len(pieces) == 1 else f" & wa{{}}{vector(bits, own)} == {literal(first >> own, bits - own)}"
        for port in range(len(bank.writes)):
            enable = f"ce & we{port}{chosen.format(port)}"
            address = f"wa{port}{vector(min(own, bits))}"
            yield f"always @(posedge clk) if ({enable}) stored_{number}[{address}] <= d{port};"
    for port in range(len(bank.reads)):
        yield from _read(bank, bits, port, pieces)


def _pieces(words: int, width: int) -> list[int]:
    """Words of the memories that a deep one is made of: of each, blocks side by side hold all words.

    As many blocks as any other shape takes, and the fewest pieces to select from.
    """
    fewest = half_blocks(words, width)
    for deep, wide in reversed(BRAM36_SHAPES):
        beside = -(-width // (wide // 2)) if wide > 1 else fewest + 1
        if deep >= words and beside <= fewest:
            return [words]
        if deep < words and beside + half_blocks(words - deep, width) <= fewest:
            return [deep, *_pieces(words - deep, width)]
    return [words]


def _stored(bank: Bank, name: str, first: int, words: int) -> Iterator[str]:
    """The array of a piece with the words that it begins with."""
    memory, width = bank.memory, bank.word.width
    attribute = "rom_style" if memory.initial else "ram_style"
    yield f'(* {attribute} = "{"distributed" if _is_small(bank, words) else bank.style}" *)'
    yield f"reg {vector(width)} {name} [0:{words - 1}];"
    begun = bank.words[first : first + words]
    if not memory.initial:
        zero = f"for ({name}_n = 0; {name}_n < {words}; {name}_n = {name}_n + 1) {name}[{name}_n]"
        yield f"`ifndef {ZEROED}"
        yield f"integer {name}_n;"
        yield f"initial {zero} = {literal(0, width)};"
        yield "`endif"
    if any(begun):
        yield "initial begin"
        packed = map(bank.word.packed, begun)
        yield from (f"    {name}[{k}] = {literal(word, width)};" for k, word in enumerate(packed))
        yield "end"


def _is_small(bank: Bank, words: int) -> bool:
    """Whether a piece is what stands behind tables: a few words, selected after the registers by look-up tables."""
    return bank.tables is not None and words == bank.tables.room


def _read(bank: Bank, bits: int, port: int, pieces: Sequence[int]) -> Iterator[str]:
    """A port that reads: the word of each piece in its registers, and the selection among them."""
    memory, width = bank.memory, bank.word.width
    address = f"ra{port}"
    if memory.words < 1 << bits:
        yield f"wire {vector(bits)} a{port} = re{port} ? ra{port} : {literal(0, bits)};"
        address = f"a{port}"
    text = ""
    for number, bound in reversed(list(enumerate(accumulate(pieces)))):
        own = max(1, (pieces[number] - 1).bit_length())
        own_address = f"{address}{vector(own) if own < bits else ''}"
        if _is_small(bank, pieces[number]):
            lines, delayed = _delayed(bank, f"d{port}_{number}", own_address, port, own)
            word = f"stored_{number}[{delayed}]"
        else:
            lines, word = _delayed(bank, f"q{port}_{number}", f"stored_{number}[{own_address}]", port, width)
        if text:
            more, chosen = _delayed(bank, f"c{port}_{number}", f"({address} < {literal(bound, bits)})", port, 1)
            lines, word = [*lines, *more], f"{chosen} ? {word} : {text}"
        yield from lines
        text = word
    yield f"wire {vector(width)} w{port} = {text};"
    yield f"assign rd{port} = {bank.word.text(f'w{port}')};"


def _delayed(bank: Bank, name: str, word: str, port: int, width: int) -> tuple[list[str], str]:
    """Registers that hold a word for the latency of the bank, and its name after them."""
    lines = []
    for clock in range(bank.latency):
        enable = f"ce & re{port}" if clock == 0 else "ce"
        lines += [f"reg {vector(width)} {name}_{clock};",
                  f"always @(posedge clk) if ({enable}) {name}_{clock} <= {word};"]  # fmt: skip
        word = f"{name}_{clock}"
    return lines, word


def bank_pins(designs: Sequence[Design], net: Net, bank: Bank) -> Iterator[tuple[str, str]]:
    """(pin, expression) of each input of a bank. ``net``: the wire at a port of a body."""
    bits = max(1, (bank.memory.words - 1).bit_length())
    for port, accesses in enumerate(bank.writes):
        yield f"we{port}", _any(designs, net, accesses)
        yield f"wa{port}", _chosen(designs, net, bank, accesses, 0, bits)
        yield f"wd{port}", _chosen(designs, net, bank, accesses, 1, bank.memory.width)
    for port, accesses in enumerate(bank.reads):
        yield f"re{port}", _any(designs, net, accesses)
        yield f"ra{port}", _chosen(designs, net, bank, accesses, 0, bits)


def _enable(designs: Sequence[Design], net: Net, access: Access) -> str:
    operands = designs[access.body].body.operations[access.index].operands
    return net(access.body, f"operand_{access.index}_{len(operands) - 1}")


def _any(designs: Sequence[Design], net: Net, accesses: Sequence[Access]) -> str:
    return " | ".join(_enable(designs, net, access) for access in accesses) or "1'b0"


def _chosen(
    designs: Sequence[Design], net: Net, bank: Bank, accesses: Sequence[Access], operand: int, width: int
) -> str:
    words = []
    for access in accesses:
        operations = designs[access.body].body.operations
        operation = operations[access.index]
        name, own = net(access.body, f"operand_{access.index}_{operand}"), operations[operation.operands[operand]].width
        if operand == 0 and bank.tables is not None:
            words.append(bank.tables.address(bank.places.index((access.body, operation.memory)), name, own))
        else:
            words.append(fitted(name, own, width))
    text = words[-1]
    for access, word in zip(reversed(accesses[:-1]), reversed(words[:-1]), strict=True):
        text = f"{_enable(designs, net, access)} ? {word} : {text}"
    return text
