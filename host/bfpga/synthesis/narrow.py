"""A loop body without what is unused: operations as narrow as their demanded bits, registers split where they part.

A synthesis tool does the same. Without it a copied structure is one register, and paths through one of its fields
appear as recurrences of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from bfpga.synthesis.body import LoopBody, Opcode, Operation, Register, Stream
from bfpga.synthesis.graph import Graph, amount_bits, mask_of

_EFFECTS = frozenset({Opcode.MEMORY_WRITE, Opcode.STREAM_READ, Opcode.STREAM_WRITE})
_LOW_BITS = frozenset({Opcode.ADD, Opcode.SUB, Opcode.MUL})
_BITWISE = frozenset({Opcode.AND, Opcode.OR, Opcode.XOR})
_WIRING = frozenset({Opcode.SLICE, Opcode.CONCAT, Opcode.ZEXT, Opcode.SEXT, Opcode.SELECT})
#: Rounds of narrowing; each may open the way for the next.
_ROUNDS = 6


def narrowed(body: LoopBody) -> LoopBody:
    """The same loop with fewer bits; outputs and effects are unchanged."""
    for _ in range(_ROUNDS):
        before = (len(body.operations), len(body.registers))
        body = _Narrowing(body, _register_cuts(body)).run()
        if (len(body.operations), len(body.registers)) == before:
            break
    return body


def demanded_bits(body: LoopBody, stored: Mapping[int, int] | None = None) -> list[int]:
    """Mask of the bits of every operation on which an effect, an output or the loop's end depends.

    ``stored``: of memories, by their numbers, the bits of a word that are worth a write; without it all are.
    """
    demands = [0] * len(body.operations)
    zeros = _known_zeros(body)
    roots = [(k, mask_of(max(1, o.width))) for k, o in enumerate(body.operations) if o.opcode in _EFFECTS]
    roots += [
        (k, mask_of(body.operations[k].width)) for k in [*body.outputs, *([body.leaves] if body.leaves >= 0 else [])]
    ]
    roots += [(register.current, register.left) for register in body.registers]
    for index, mask in roots:
        demands[index] |= mask
    changed = True
    while changed:
        for index in range(len(body.operations) - 1, -1, -1):
            if demands[index]:
                for operand, mask in _operand_demands(body, index, demands[index], zeros, stored or {}):
                    demands[operand] |= mask
        changed = False
        for register in body.registers:
            missing = demands[register.current] & ~demands[register.next]
            if missing:
                demands[register.next] |= missing
                changed = True
    return demands


def _known_zeros(body: LoopBody) -> dict[int, int]:
    """Bits that are zero in constants, for masks."""
    return {k: ~o.value & mask_of(o.width) for k, o in enumerate(body.operations) if o.opcode is Opcode.CONSTANT}


def _operand_demands(
    body: LoopBody, index: int, mask: int, zeros: Mapping[int, int], stored: Mapping[int, int]
) -> list[tuple[int, int]]:
    operation = body.operations[index]
    operands = operation.operands
    opcode = operation.opcode
    widths = [body.operations[k].width for k in operands]
    if opcode in _LOW_BITS:
        return [(k, mask_of(mask.bit_length())) for k in operands]
    if opcode is Opcode.AND:
        one, other = operands
        return [(one, mask & ~zeros.get(other, 0)), (other, mask & ~zeros.get(one, 0))]
    if opcode in _BITWISE:
        return [(k, mask) for k in operands]
    if opcode is Opcode.SELECT:
        return [(operands[0], 1), (operands[1], mask), (operands[2], mask)]
    if opcode is Opcode.ZEXT:
        return [(operands[0], mask & mask_of(widths[0]))]
    if opcode is Opcode.SEXT:
        sign = 1 << (widths[0] - 1) if mask >> widths[0] else 0
        return [(operands[0], mask & mask_of(widths[0]) | sign)]
    if opcode is Opcode.SLICE:
        return [(operands[0], mask << operation.value)]
    if opcode is Opcode.CONCAT:
        result, low = [], 0
        for k, width in zip(operands, widths, strict=True):
            result.append((k, mask >> low & mask_of(width)))
            low += width
        return result
    if opcode is Opcode.SHL:
        return [(operands[0], mask_of(mask.bit_length())), (operands[1], mask_of(widths[1]))]
    if opcode in (Opcode.LSHR, Opcode.ASHR):
        low = (mask & -mask).bit_length() - 1
        return [(operands[0], mask_of(widths[0]) & ~mask_of(low)), (operands[1], mask_of(widths[1]))]
    masks = [mask_of(width) for width in widths]
    if opcode is Opcode.MEMORY_WRITE:
        masks[1] &= stored.get(operation.memory, -1)
    return list(zip(operands, masks, strict=True))


def _register_cuts(body: LoopBody) -> dict[int, set[int]]:
    """Where each register may be parted: at the edges of slices, if all its uses are wiring."""
    of_state = {register.current: k for k, register in enumerate(body.registers)}
    cuts: dict[int, set[int]] = {k: set() for k in range(len(body.registers))}
    whole: set[int] = set()
    for operation in body.operations:
        for operand in operation.operands:
            if operand in of_state:
                register = of_state[operand]
                if operation.opcode is Opcode.SLICE:
                    cuts[register].update((operation.value, operation.value + operation.width))
                elif operation.opcode not in _WIRING:
                    whole.add(register)
    borders = _Borders(body)
    found = {}
    for k, edges in cuts.items():
        if k not in whole:
            parts = borders.of(body.registers[k].next)
            found[k] = edges & parts if parts is not None else set()
    return found


class _Borders:
    """Bits at which a value is put together from independent parts; None: anywhere (it only moves)."""

    _MOVED = frozenset(
        {Opcode.STATE, Opcode.INVARIANT, Opcode.CONSTANT, Opcode.SLICE, Opcode.MEMORY_READ, Opcode.STREAM_READ}
    )

    def __init__(self, body: LoopBody) -> None:
        self._operations = body.operations
        self._known: dict[int, frozenset[int] | None] = {}

    def of(self, index: int) -> frozenset[int] | None:
        """Borders within the value of an operation."""
        if index not in self._known:
            self._known[index] = self._computed(self._operations[index])
        return self._known[index]

    def _computed(self, operation: Operation) -> frozenset[int] | None:
        if operation.opcode in self._MOVED:
            return None
        if operation.opcode is Opcode.CONCAT:
            return self._of_parts(operation.operands)
        if operation.opcode is Opcode.ZEXT:
            return self._of_parts(operation.operands) | {self._operations[operation.operands[0]].width}
        if operation.opcode is Opcode.SELECT:
            arms = [borders for k in operation.operands[1:] if (borders := self.of(k)) is not None]
            if not arms:
                return None
            return arms[0] if len(arms) == 1 else arms[0] & arms[1]
        return frozenset()

    def _of_parts(self, parts: tuple[int, ...]) -> frozenset[int]:
        borders: set[int] = set()
        low = 0
        for part in parts:
            inner = self.of(part)
            borders.update(low + border for border in inner or ())
            low += self._operations[part].width
            borders.add(low)
        return frozenset(borders)


class _Narrowing:
    def __init__(self, body: LoopBody, cuts: dict[int, set[int]]) -> None:
        self._old, self._cuts = body, cuts
        self._graph = Graph()
        self._demands = demanded_bits(body)
        self._new: dict[int, int] = {}
        self._registers: list[tuple[Register, int, int]] = []
        self._memories = [replace(memory, accesses=[], waivers=list(memory.waivers)) for memory in body.memories]
        self._streams = [Stream(stream.name, stream.width) for stream in body.streams]

    def run(self) -> LoopBody:
        old = self._old
        for index, operation in enumerate(old.operations):
            if self._demands[index]:
                self._graph.place = operation.place
                self._new[index] = self._rebuilt(index, operation)
        registers = []
        for register, low, width in self._registers:
            after = self._graph.slice(self._new[old.registers[register.next].next], low, width)
            registers.append(replace(register, next=after))
        return LoopBody(
            old.name, old.place, old.stated_interval, self._graph.operations, registers,
            self._memories, self._streams,
            self._new[old.leaves] if old.leaves >= 0 else -1,
            [self._new[k] for k in old.outputs if k in self._new], old.origins, old.header,
            {name: self._new[k] for name, k in old.exports.items()},
        )  # fmt: skip

    def _rebuilt(self, index: int, operation: Operation) -> int:
        graph, mask = self._graph, self._demands[index]
        width = operation.width
        if operation.opcode is Opcode.STATE:
            return self._state(operation, mask)
        operands = [self._operand(k) for k in operation.operands]
        if operation.opcode in _EFFECTS or operation.opcode in (Opcode.MEMORY_READ, Opcode.STREAM_STATUS):
            return self._access(operation, operands)
        top = mask.bit_length()
        if (
            operation.opcode in _LOW_BITS
            or operation.opcode in _BITWISE
            or operation.opcode in (Opcode.SELECT, Opcode.SHL)
        ):
            return self._cut(operation, operands, top)
        if operation.opcode is Opcode.INVARIANT:
            kept = graph.add(replace(operation, width=top))
            return graph.extend(Opcode.ZEXT, kept, width)
        if operation.opcode is Opcode.CONSTANT:
            return graph.constant(operation.value & mask, width)
        if operation.opcode is Opcode.SLICE:
            return graph.slice(operands[0], operation.value, width)
        if operation.opcode is Opcode.CONCAT:
            return graph.concat(operands)
        if operation.opcode in (Opcode.ZEXT, Opcode.SEXT):
            return graph.extend(operation.opcode, operands[0], width)
        if operation.opcode in (Opcode.LSHR, Opcode.ASHR):
            return graph.shift(operation.opcode, *operands)
        if operation.opcode in (Opcode.EQ, Opcode.NE, Opcode.ULT, Opcode.ULE, Opcode.SLT, Opcode.SLE):
            return graph.compare(operation.opcode, *operands)
        return graph.add(replace(operation, operands=tuple(operands)))

    def _operand(self, index: int) -> int:
        """An operand's new operation; one of which no bit is demanded may have any value."""
        return self._new[index] if index in self._new else self._graph.constant(0, self._old.operations[index].width)

    def _cut(self, operation: Operation, operands: list[int], top: int) -> int:
        """An operation whose lowest ``top`` bits are enough."""
        graph, opcode = self._graph, operation.opcode
        first = 1 if opcode is Opcode.SELECT else 0
        last = 1 if opcode is Opcode.SHL else len(operands)
        operands = [graph.slice(k, 0, top) if first <= n < last else k for n, k in enumerate(operands)]
        if opcode in _LOW_BITS:
            value = graph.arithmetic(opcode, operands[0], operands[1], operation.binding)
        elif opcode in _BITWISE:
            value = graph.logic(opcode, operands[0], operands[1])
        elif opcode is Opcode.SHL:
            value = self._shifted_left(*operands)
        else:
            value = graph.select(*operands)
        return graph.extend(Opcode.ZEXT, value, operation.width)

    def _shifted_left(self, value: int, amount: int) -> int:
        """A shift that has been cut: the amount may be as large as the width now, and then nothing is left."""
        graph, width = self._graph, self._graph.width(value)
        needed = amount_bits(width)
        shifted = graph.shift(Opcode.SHL, value, amount)
        if graph.constant_of(amount) is not None or graph.width(amount) <= needed:
            return shifted
        more = graph.slice(amount, needed, graph.width(amount) - needed)
        beyond = graph.compare(Opcode.NE, more, graph.constant(0, graph.width(more)))
        return graph.select(beyond, graph.constant(0, width), shifted)

    def _access(self, operation: Operation, operands: list[int]) -> int:
        index = self._graph.add(replace(operation, operands=tuple(operands)), shared=False)
        if operation.memory >= 0:
            self._memories[operation.memory].accesses.append(index)
        else:
            self._streams[operation.stream].accesses.append(index)
        return index

    def _state(self, operation: Operation, mask: int) -> int:
        graph = self._graph
        register = self._old.registers[operation.register]
        low, top = (mask & -mask).bit_length() - 1, mask.bit_length()
        inside = {cut for cut in self._cuts.get(operation.register, ()) if low < cut < top}
        edges = [low, *sorted(inside), top]
        parts = [graph.constant(0, low)] if low else []
        for begin, end in pairwise(edges):
            if not mask >> begin & mask_of(end - begin):
                parts.append(graph.constant(0, end - begin))
                continue
            number = len(self._registers)
            current = graph.add(Operation(Opcode.STATE, end - begin, register=number), shared=False)
            name = register.name if edges == [0, end] else f"{register.name}@{begin}"
            left = register.left >> begin & mask_of(end - begin)
            self._registers.append(
                (Register(name, end - begin, current, operation.register, register.place, left), begin, end - begin)
            )
            parts.append(current)
        if top < operation.width:
            parts.append(graph.constant(0, operation.width - top))
        return graph.concat(parts)
