"""Words that the bodies of an IP share: bytes of variables, values that one computes for others, and phis.

A variable is cut into pieces at every bit at which a register of any body begins or ends. A piece that one body alone
touches stays in that body's register; any other has a register of the IP, from which bodies take it when they begin and
to which they give it when they end; or, where nobody asks later what the body left, the body changes it there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from bfpga.errors import ToolError
from bfpga.rtl.liveness import live_words, only, used_states
from bfpga.rtl.names import Names, readable, unused
from bfpga.rtl.phis import SharedPhis
from bfpga.synthesis.bank_contents import variable_of
from bfpga.synthesis.body import LoopBody, Opcode
from bfpga.synthesis.frontend.kernel import IpCode
from bfpga.synthesis.frontend.segments import RETURN, Edge
from bfpga.synthesis.netlist.expressions import literal, vector


@dataclass(frozen=True, slots=True)
class Bits:
    """Bits ``low`` to below ``high`` of variable or value ``root``."""

    root: str
    low: int
    high: int

    def covers(self, other: Bits) -> bool:
        """Whether other bits are among these."""
        return self.root == other.root and self.low <= other.low and other.high <= self.high


@dataclass(slots=True)
class Piece:
    """Bits of a variable that have a register in the IP. ``word``: at power-on."""

    name: str
    bits: Bits
    word: int
    users: set[int] = field(default_factory=set)
    is_shared: bool = False
    #: Body, register of it and the first bit there of each word that the piece takes when the body ends.
    writers: list[tuple[int, int, int]] = field(default_factory=list)
    #: The word that it always has where it is used.
    constant: int | None = None

    @property
    def width(self) -> int:
        """Bits of the piece."""
        return self.bits.high - self.bits.low


class SharedValues:
    """What the bodies of an IP exchange. ``outside``: registers of each body that the IP has; ``loads``: those of its
    own that take a word when the body begins; ``resets``: words of all its registers at power-on.

    ``blocks``: registers of each body that are in a DSP block, and so stay in the body; ``frozen``: those that its last
    iteration leaves as they were.
    """

    def __init__(
        self, code: IpCode, names: Names, blocks: Sequence[Collection[int]], frozen: Sequence[Collection[int]]
    ) -> None:
        self.code, self._names, self._blocks, self._frozen = code, names, blocks, frozen
        self._taken: set[str] = set()
        self._bodies = code.bodies.bodies
        self.pieces: dict[str, list[Piece]] = {}
        #: Phi -> its register and width.
        self.phis: dict[str, tuple[str, int]] = {}
        self.constant_phis: dict[str, int] = {}
        self._exporter = {name: (k, op) for k, body in enumerate(self._bodies) for name, op in body.exports.items()}
        self._check_memories()
        self._cut()
        self._share_whole_registers()
        self._find_writers()
        self._find_phis()
        self.outside = [self._outside(number) for number in range(len(self._bodies))]
        self.phi_groups = self._join_phis()
        self._add_direct_writers()
        self.loads = [
            [r for r in range(len(b.registers)) if self.is_loaded(k, r) and r not in self.outside[k]]
            for k, b in enumerate(self._bodies)
        ]
        self.resets = [
            {r: self._power_on(self.register_bits(k, r)) for r in range(len(body.registers))}
            for k, body in enumerate(self._bodies)
        ]

    # -- variables

    def register_bits(self, body: int, register: int) -> Bits:
        """What a register of a body is a part of."""
        own = self._bodies[body].registers[register]
        variable, low = variable_of(own.name)
        origin = self._bodies[body].origins[variable]
        first = low + 8 * max(origin.offset, 0)
        return Bits(origin.root, first, first + own.width)

    def is_variable(self, body: int, register: int) -> bool:
        """Whether a register is part of a variable; otherwise it is one of a phi."""
        return self._bodies[body].origins[variable_of(self._bodies[body].registers[register].name)[0]].offset >= 0

    def is_loaded(self, body: int, register: int) -> bool:
        """Whether a register takes a word when its body begins: a phi, or what other bodies touch too."""
        if not self.is_variable(body, register):
            return True
        pieces = list(self._pieces_of(self.register_bits(body, register)))
        return any(piece.is_shared for piece in pieces)

    def _outside(self, number: int) -> frozenset[int]:
        """The registers of a body that stand in the IP, so that no word is copied when it begins or ends.

        A variable may change again after the body has ended: a value that others take from the body stays in it.
        """
        body = self._bodies[number]
        blocks = self._blocks[number]
        exported = set(body.exports.values())
        found = set()
        for register, own in enumerate(body.registers):
            bits = self.register_bits(number, register)
            if register in blocks:
                continue
            if not self.is_variable(number, register):
                if bits.root not in self.constant_phis and len(self._phi_users[bits.root]) == 1:
                    found.add(register)
                continue
            pieces = list(self._pieces_of(bits))
            if all(piece.is_shared and piece.constant is None for piece in pieces) and own.next not in exported:
                found.add(register)
        return frozenset(found)

    def _add_direct_writers(self) -> None:
        """What a body changes in a register of the IP is written, whether or not another body sees it."""
        for number, registers in enumerate(self.outside):
            for register in registers:
                own = self._bodies[number].registers[register]
                if own.next == own.current or not self.is_variable(number, register):
                    continue
                bits = self.register_bits(number, register)
                for piece in self._pieces_of(bits):
                    writer = number, register, piece.bits.low - bits.low
                    if writer not in piece.writers:
                        piece.writers.append(writer)

    def phi_registers(self, phi: str) -> Iterator[tuple[int, int]]:
        """Body and register of what a body changes in the register of a phi."""
        for number, registers in enumerate(self.outside):
            for register in sorted(registers):
                own = self._bodies[number].registers[register]
                is_changed = own.next != own.current and self.register_bits(number, register).root == phi
                if is_changed and not self.is_variable(number, register):
                    yield number, register

    def _touched(self) -> Iterator[tuple[int, Bits, str]]:
        """Each use of a variable: the body, the bits and what the body calls them."""
        for number, body in enumerate(self._bodies):
            for register in range(len(body.registers)):
                if self.is_variable(number, register):
                    yield number, self.register_bits(number, register), body.registers[register].name
            for operation in body.operations:
                if operation.opcode is Opcode.INVARIANT:
                    origin = body.origins[operation.name]
                    if origin.offset >= 0:
                        bits = Bits(origin.root, 8 * origin.offset, 8 * origin.offset + operation.width)
                        yield number, bits, operation.name

    def _check_memories(self) -> None:
        """No byte of a variable is in a memory and in a register: each would have a word of its own."""
        spans: dict[str, list[tuple[int, int, str]]] = {}
        for body in self._bodies:
            for memory in body.memories:
                if memory.origin is not None and not memory.initial:
                    low = 8 * memory.origin.offset
                    high = low + 8 * memory.origin.extents[0] * memory.origin.strides[0]
                    spans.setdefault(memory.origin.root, []).append((low, high, memory.name))
        for number, bits, said in self._touched():
            for low, high, name in spans.get(bits.root, ()):
                if bits.low < high and low < bits.high:
                    raise ToolError(f"{self._bodies[number].place}: {said} is a register and a part of memory {name}")

    def _cut(self) -> None:
        touched = list(self._touched())
        cuts: dict[str, set[int]] = {}
        for _, bits, _ in touched:
            cuts.setdefault(bits.root, set()).update((bits.low, bits.high))
        for root, edges in cuts.items():
            order = sorted(edges)
            for low, high in pairwise(order):
                bits = Bits(root, low, high)
                uses = [(k, said) for k, each, said in touched if each.covers(bits)]
                if uses:
                    users = {body for body, _ in uses}
                    if root in self.code.parameters:
                        users.add(RETURN)
                    piece = Piece(self._name_register(uses[0][1]), bits, self._power_on(bits), users, len(users) > 1)
                    self.pieces.setdefault(root, []).append(piece)

    def _name_register(self, said: str) -> str:
        name = unused(f"shared_{readable(said)}", (), self._taken)
        self._taken.add(name)
        return name

    def _share_whole_registers(self) -> None:
        """A register of a body takes all of its word from the IP, or nothing of it."""
        changed = True
        while changed:
            changed = False
            for number, body in enumerate(self._bodies):
                for register in range(len(body.registers)):
                    pieces = list(self._pieces_of(self.register_bits(number, register)))
                    shared = [piece.is_shared for piece in pieces]
                    if any(shared) and not all(shared):
                        changed = True
                        for piece in pieces:
                            piece.is_shared = True

    def _power_on(self, bits: Bits) -> int:
        contents = int.from_bytes(self.code.power_on.words.get(bits.root, b""), "little")
        return contents >> bits.low & (1 << bits.high - bits.low) - 1

    def _pieces_of(self, bits: Bits) -> Iterator[Piece]:
        return (p for p in self.pieces.get(bits.root, []) if bits.low <= p.bits.low and p.bits.high <= bits.high)

    def word_of(self, bits: Bits) -> str:
        """Expression of bits of a variable, or of a phi."""
        if bits.root in self.constant_phis:
            word = self.constant_phis[bits.root] >> bits.low & (1 << bits.high - bits.low) - 1
            return literal(word, bits.high - bits.low)
        if bits.root in self.phis:
            name, width = self.phis[bits.root]
            return f"{name}{vector(min(bits.high, width), bits.low)}"
        parts = [self._name(piece) for piece in self._pieces_of(bits)]
        return "{" + ", ".join(reversed(parts)) + "}"

    def _name(self, piece: Piece) -> str:
        if not piece.is_shared:
            return literal(piece.word, piece.width)
        return piece.name if piece.constant is None else literal(piece.constant, piece.width)

    def shared_pieces(self) -> Iterator[Piece]:
        """The pieces with a register of the IP."""
        return (piece for pieces in self.pieces.values() for piece in pieces if piece.is_shared)

    def _find_writers(self) -> None:
        """Who changes each piece so that another body sees it, and which pieces have one word for ever."""
        pieces = {piece.name: piece for piece in self.shared_pieces()}
        reads: dict[int, set[str]] = {}
        replaces: dict[int, set[str]] = {}
        writes: dict[str, list[tuple[int, int, int]]] = {}
        for number, body in enumerate(self._bodies):
            used = used_states(body)
            for register, own in enumerate(body.registers):
                if not self.is_variable(number, register):
                    continue
                bits = self.register_bits(number, register)
                for piece in self._pieces_of(bits):
                    if register in used:
                        reads.setdefault(number, set()).add(piece.name)
                    if own.next != own.current:
                        writes.setdefault(piece.name, []).append((number, register, piece.bits.low - bits.low))
                        if register not in used:
                            replaces.setdefault(number, set()).add(piece.name)
            for piece in self._pieces_given(body):
                reads.setdefault(number, set()).add(piece.name)
        after = {piece.name for piece in pieces.values() if RETURN in piece.users}
        begins, ends = live_words(self.code.bodies, reads, replaces, after)
        for name, piece in pieces.items():
            piece.writers = [each for each in writes.get(name, []) if name in ends[each[0]]]
            words = [self._constant_word(piece, each) for each in piece.writers]
            if not words:
                piece.constant = piece.word
            elif name not in begins[0] and RETURN not in piece.users:
                piece.constant = only(words)

    def _pieces_given(self, body: LoopBody) -> Iterator[Piece]:
        for operation in body.operations:
            if operation.opcode is Opcode.INVARIANT and body.origins[operation.name].offset >= 0:
                origin = body.origins[operation.name]
                yield from self._pieces_of(Bits(origin.root, 8 * origin.offset, 8 * origin.offset + operation.width))

    def _constant_word(self, piece: Piece, writer: tuple[int, int, int]) -> int | None:
        number, register, low = writer
        body = self._bodies[number]
        operation = body.operations[body.registers[register].next]
        if operation.opcode is not Opcode.CONSTANT:
            return None
        return operation.value >> low & (1 << piece.width) - 1

    # -- values

    def _find_phis(self) -> None:
        widths: dict[str, int] = {}
        hints: dict[str, str] = {}
        self._phi_users: dict[str, set[int]] = {}
        for number, body in enumerate(self._bodies):
            for register in range(len(body.registers)):
                if not self.is_variable(number, register):
                    bits = self.register_bits(number, register)
                    hints.setdefault(bits.root, self._names.register(body, register))
                    widths[bits.root] = max(widths.get(bits.root, 0), bits.high)
                    self._phi_users.setdefault(bits.root, set()).add(number)
        self.phis = {phi: (self._name_register(hints[phi]), width) for phi, width in widths.items()}
        for phi in self.phis:
            words = [self._constant_export(edge, phi) for edge in self.code.bodies.edges if phi in edge.words]
            if (word := only(words)) is not None:
                self.constant_phis[phi] = word

    def _join_phis(self) -> list[list[str]]:
        """Phis by their registers; constant ones have none."""
        homes: dict[str, int] = {}
        changed: set[str] = set()
        reads: dict[int, set[str]] = {}
        for number, body in enumerate(self._bodies):
            names = {operation.name for operation in body.operations if operation.opcode is Opcode.INVARIANT}
            reads[number] = {self.phi_register(name) for name in names if body.origins[name].offset < 0}
            for register in self.outside[number]:
                own, root = body.registers[register], self.register_bits(number, register).root
                if root in self.phis and self.phis[root][1] == own.width:
                    homes[root] = number
                    if own.next != own.current:
                        changed.add(root)
        reads = {number: found & homes.keys() for number, found in reads.items()}
        widths = {phi: width for phi, (_, width) in self.phis.items()}
        groups = SharedPhis(self.code.bodies, homes, changed, reads, self.phi_register).groups(widths)
        for group in groups.values():
            self.phis.update((phi, self.phis[group[0]]) for phi in group)
        found = (groups.get(phi, [phi]) for phi in self.phis if phi not in self.constant_phis)
        return list({id(group): group for group in found}.values())

    def phi_register(self, name: str) -> str:
        """The phi in whose register an exported value is; "" for any other value."""
        while name in self._exporter:
            number, index = self._exporter[name]
            operation = self._bodies[number].operations[index]
            if operation.opcode is not Opcode.INVARIANT:
                registers = self._bodies[number].registers
                frozen = self._frozen[number]
                found = [
                    k for k in self.outside[number]
                    if registers[k].next == index or (registers[k].current == index and k in frozen)
                ]  # fmt: skip
                return next((self.register_bits(number, k).root for k in found if not self.is_variable(number, k)), "")
            name = operation.name
        return ""

    def _constant_export(self, edge: Edge, phi: str) -> int | None:
        body = self._bodies[edge.source]
        operation = body.operations[body.exports[edge.words[phi]]]
        return operation.value if operation.opcode is Opcode.CONSTANT else None

    def exported(self, name: str) -> tuple[int, int]:
        """Body and operation of an exported value."""
        if name not in self._exporter:
            raise ToolError(f"{name} is used and no body computes it")
        return self._exporter[name]

