"""Builds the operations of a loop body: equal ones once, constants folded, wiring kept apart from logic.

Shifts by constants, masks, extensions and disjoint ORs become slices and concatenations, which cost nothing in
hardware; sums and comparisons are as narrow as their operands' significant bits allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from bfpga.synthesis.body import Opcode, Operation, Place

_MOVED = frozenset(
    {Opcode.CONCAT, Opcode.ZEXT, Opcode.SEXT, Opcode.CONSTANT, Opcode.SLICE, Opcode.STATE, Opcode.INVARIANT}
)
_COMMUTATIVE = frozenset({Opcode.ADD, Opcode.MUL, Opcode.AND, Opcode.OR, Opcode.XOR, Opcode.EQ, Opcode.NE})


def mask_of(width: int) -> int:
    """``width`` ones."""
    return (1 << width) - 1


def signed(value: int, width: int) -> int:
    """The number that ``width`` bits are with a sign."""
    return value - (1 << width) if value >> (width - 1) & 1 else value


def amount_bits(width: int) -> int:
    """Bits in which a shift of a value of this width reads its amount: none where there is nothing to choose."""
    return (width - 1).bit_length()


class Graph:
    """A growing list of operations; every method returns the index of a value with the stated bits."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.place: Place | None = None
        self._known: dict[tuple[object, ...], int] = {}
        self._zeros: list[int] = []
        self._signs: list[int] = []
        self._sliceable: list[bool] = []
        self._moved_from: dict[int, frozenset[int]] = {}
        self._slices: dict[tuple[int, int, int], int] = {}

    # -- construction

    def add(self, operation: Operation, *, shared: bool = True) -> int:
        """Index of an operation; an equal one is used again if ``shared``."""
        key = (
            operation.opcode, operation.width, operation.operands, operation.value, operation.name,
            operation.register, operation.memory, operation.stream, operation.binding,
        )  # fmt: skip
        if shared and key in self._known:
            return self._known[key]
        if operation.place is None:
            operation = replace(operation, place=self.place)
        index = len(self.operations)
        self.operations.append(operation)
        self._zeros.append(self._zero_bits(operation))
        self._signs.append(self._sign_bits(operation))
        self._sliceable.append(self._is_sliceable(operation))
        if shared:
            self._known[key] = index
        return index

    def width(self, index: int) -> int:
        """Bits of a value."""
        return self.operations[index].width

    def constant(self, value: int, width: int) -> int:
        """A constant, its lowest ``width`` bits."""
        return self.add(Operation(Opcode.CONSTANT, width, value=value & mask_of(width)))

    def constant_of(self, index: int) -> int | None:
        """The value of a constant, else None."""
        operation = self.operations[index]
        return operation.value if operation.opcode is Opcode.CONSTANT else None

    def zeros(self, index: int) -> int:
        """Mask of the bits that are known to be 0."""
        return self._zeros[index]

    # -- wiring

    def slice(self, index: int, low: int, width: int) -> int:
        """Bits ``low`` to ``low + width - 1``."""
        key = (index, low, width)
        if key not in self._slices:
            self._slices[key] = self._sliced(index, low, width)
        return self._slices[key]

    def _sliced(self, index: int, low: int, width: int) -> int:
        whole = self.operations[index]
        if low == 0 and width == whole.width:
            return index
        if (self._zeros[index] >> low) & mask_of(width) == mask_of(width):
            return self.constant(0, width)
        if whole.opcode is Opcode.CONSTANT:
            return self.constant(whole.value >> low, width)
        if whole.opcode is Opcode.SLICE:
            return self.slice(whole.operands[0], whole.value + low, width)
        if whole.opcode is Opcode.CONCAT:
            return self._slice_of_concat(whole, low, width)
        if whole.opcode in (Opcode.ZEXT, Opcode.SEXT):
            return self._slice_of_extension(whole, low, width)
        if whole.opcode is Opcode.SELECT and self._sliceable[index]:
            arms = (self.slice(arm, low, width) for arm in whole.operands[1:])
            return self.select(whole.operands[0], *arms)
        if whole.opcode in (Opcode.AND, Opcode.OR, Opcode.XOR):
            return self.logic(whole.opcode, *(self.slice(side, low, width) for side in whole.operands))
        return self.add(Operation(Opcode.SLICE, width, (index,), low))

    def _is_sliceable(self, operation: Operation) -> bool:
        """Whether a slice of it needs no logic of its own: wiring, or a selection among wiring of other values.

        A selection between a value and the same value moved is a stage of a shifter: slices of it overlap, and each
        would be a shifter of its own.
        """
        if operation.opcode is Opcode.SELECT:
            _, one, other = operation.operands
            if not (self._sliceable[one] and self._sliceable[other]):
                return False
            return self._origins(one).isdisjoint(self._origins(other))
        return operation.opcode in _MOVED

    def _origins(self, index: int) -> frozenset[int]:
        """Values of which wiring and selections among wiring put a value together; constants are none."""
        if index not in self._moved_from:
            operation = self.operations[index]
            found: frozenset[int] = frozenset((index,))
            if operation.opcode is Opcode.CONSTANT:
                found = frozenset()
            elif operation.operands and self._sliceable[index]:
                parts = operation.operands[1:] if operation.opcode is Opcode.SELECT else operation.operands
                found = frozenset().union(*map(self._origins, parts))
            self._moved_from[index] = found
        return self._moved_from[index]

    def _slice_of_concat(self, whole: Operation, low: int, width: int) -> int:
        parts, position = [], 0
        for part in whole.operands:
            size = self.width(part)
            begin, end = max(low, position), min(low + width, position + size)
            if begin < end:
                parts.append(self.slice(part, begin - position, end - begin))
            position += size
        return self.concat(parts)

    def _slice_of_extension(self, whole: Operation, low: int, width: int) -> int:
        inner = whole.operands[0]
        size = self.width(inner)
        if low >= size:
            return self._filling(whole.opcode, inner, width)
        taken = min(width, size - low)
        part = self.slice(inner, low, taken)
        return self.extend(whole.opcode, part, width) if taken < width else part

    def _filling(self, opcode: Opcode, inner: int, width: int) -> int:
        if opcode is Opcode.ZEXT:
            return self.constant(0, width)
        return self.extend(Opcode.SEXT, self.slice(inner, self.width(inner) - 1, 1), width)

    def concat(self, parts: Sequence[int]) -> int:
        """All bits of ``parts``, the lowest first."""
        flat: list[int] = []
        for part in parts:
            operation = self.operations[part]
            for piece in operation.operands if operation.opcode is Opcode.CONCAT else (part,):
                self._append(flat, piece)
        if len(flat) == 1:
            return flat[0]
        width = sum(self.width(part) for part in flat)
        if self.constant_of(flat[-1]) == 0:
            return self.extend(Opcode.ZEXT, self.concat(flat[:-1]), width)
        return self.add(Operation(Opcode.CONCAT, width, tuple(flat)))

    def _append(self, flat: list[int], piece: int) -> None:
        if flat:
            last, new = self.operations[flat[-1]], self.operations[piece]
            if last.opcode is new.opcode is Opcode.CONSTANT:
                flat[-1] = self.constant(last.value | new.value << last.width, last.width + new.width)
                return
            source, low = (last.operands[0], last.value) if last.opcode is Opcode.SLICE else (flat[-1], 0)
            if new.opcode is Opcode.SLICE and new.operands[0] == source and new.value == low + last.width:
                flat[-1] = self.slice(source, low, last.width + new.width)
                return
        flat.append(piece)

    def extend(self, opcode: Opcode, index: int, width: int) -> int:
        """ZEXT or SEXT to ``width`` bits."""
        operation = self.operations[index]
        if width == operation.width:
            return index
        if operation.opcode is Opcode.CONSTANT:
            value = operation.value if opcode is Opcode.ZEXT else signed(operation.value, operation.width)
            return self.constant(value, width)
        if operation.opcode is Opcode.ZEXT or operation.opcode is opcode:
            return self.extend(operation.opcode, operation.operands[0], width)
        if opcode is Opcode.SEXT and self._zeros[index] >> (operation.width - 1) & 1:
            return self.extend(Opcode.ZEXT, index, width)
        return self.add(Operation(opcode, width, (index,)))

    def shift(self, opcode: Opcode, index: int, amount: int) -> int:
        """SHL, LSHR or ASHR; wiring where the amount is constant."""
        width = self.width(index)
        count = self.constant_of(amount)
        if count is None:
            if self.constant_of(index) == 0 or width == 1:
                return index
            return self.add(Operation(opcode, width, (index, self._trimmed_amount(amount, width))))
        if count >= width:
            return self.constant(0, width) if opcode is not Opcode.ASHR else self._filling(Opcode.SEXT, index, width)
        if count == 0:
            return index
        if opcode is Opcode.SHL:
            return self.concat([self.constant(0, count), self.slice(index, 0, width - count)])
        kind = Opcode.ZEXT if opcode is Opcode.LSHR else Opcode.SEXT
        return self.extend(kind, self.slice(index, count, width - count), width)

    def _trimmed_amount(self, amount: int, width: int) -> int:
        """The amount's bits that matter; with a larger amount the result is not used."""
        needed = amount_bits(width)
        return self.slice(amount, 0, needed) if self.width(amount) > needed else amount

    # -- logic

    def logic(self, opcode: Opcode, one: int, other: int) -> int:
        """AND, OR or XOR."""
        if self.constant_of(one) is not None:
            one, other = other, one
        width = self.width(one)
        value = self.constant_of(other)
        known = self.constant_of(one)
        if value is not None and known is not None:
            result = {Opcode.AND: known & value, Opcode.OR: known | value, Opcode.XOR: known ^ value}[opcode]
            return self.constant(result, width)
        if one == other:
            return self.constant(0, width) if opcode is Opcode.XOR else one
        if value == 0:
            return other if opcode is Opcode.AND else one
        if value == mask_of(width) and opcode is not Opcode.XOR:
            return one if opcode is Opcode.AND else other
        if width == 1:
            simple = self._boolean(opcode, one, other)
            if simple is not None:
                return simple
        if value is not None and width > 1:
            return self._with_constant(opcode, one, value, width)
        if opcode is not Opcode.AND and (self._zeros[one] | self._zeros[other]) == mask_of(width):
            return self._disjoint(one, other, width)
        inverse = self._split_by_zeros(opcode, one, other, width)
        if inverse is not None:
            return inverse
        one, other = min(one, other), max(one, other)
        return self.add(Operation(opcode, width, (one, other)))

    def _split_by_zeros(self, opcode: Opcode, one: int, other: int, width: int) -> int | None:
        """Leading bits in which one side is 0 need no gate."""
        known = self._zeros[one] | self._zeros[other]
        top = width
        while top and known >> (top - 1) & 1:
            top -= 1
        if top == width:
            return None
        low = self.logic(opcode, self.slice(one, 0, top), self.slice(other, 0, top)) if top else None
        if opcode is Opcode.AND:
            high = self.constant(0, width - top)
        else:
            high = self._disjoint(self.slice(one, top, width - top), self.slice(other, top, width - top), width - top)
        return high if low is None else self.concat([low, high])

    def _with_constant(self, opcode: Opcode, index: int, value: int, width: int) -> int:
        """Bit by bit: runs of the constant's equal bits."""
        parts, low = [], 0
        while low < width:
            bit = value >> low & 1
            high = low
            while high < width and (value >> high & 1) == bit:
                high += 1
            part = self.slice(index, low, high - low)
            if opcode is Opcode.AND:
                part = part if bit else self.constant(0, high - low)
            elif opcode is Opcode.OR:
                part = self.constant(mask_of(high - low), high - low) if bit else part
            elif bit:
                part = self._inverted(part)
            parts.append(part)
            low = high
        return self.concat(parts)

    def _inverted(self, index: int) -> int:
        width = self.width(index)
        operation = self.operations[index]
        ones = self.constant(mask_of(width), width)
        if operation.opcode is Opcode.XOR and operation.operands[1] == ones:
            return operation.operands[0]
        if operation.opcode is Opcode.EQ:
            return self.add(replace(operation, opcode=Opcode.NE))
        if operation.opcode is Opcode.NE:
            return self.add(replace(operation, opcode=Opcode.EQ))
        return self.add(Operation(Opcode.XOR, width, (index, ones)))

    def invert(self, index: int) -> int:
        """All bits inverted."""
        value = self.constant_of(index)
        width = self.width(index)
        return self.constant(~value, width) if value is not None else self._inverted(index)

    def _disjoint(self, one: int, other: int, width: int) -> int:
        """one | other where no bit is 1 in both: wiring."""
        zeros = self._zeros[one]
        parts, low = [], 0
        while low < width:
            from_other = zeros >> low & 1
            high = low
            while high < width and (zeros >> high & 1) == from_other:
                high += 1
            parts.append(self.slice(other if from_other else one, low, high - low))
            low = high
        return self.concat(parts)

    def _boolean(self, opcode: Opcode, one: int, other: int) -> int | None:
        """What two conditions are together, where that is simple."""
        if opcode is Opcode.XOR:
            return self._inverted(one) if self.constant_of(other) == 1 else None
        if self.is_inverse(one, other):
            return self.constant(0 if opcode is Opcode.AND else 1, 1)
        for a, b in ((one, other), (other, one)):
            inner = self.operations[a]
            if inner.opcode in (Opcode.AND, Opcode.OR) and b in inner.operands:
                return a if inner.opcode is opcode else b
            opposite = Opcode.AND if opcode is Opcode.OR else Opcode.OR
            if inner.opcode is opposite and any(self.is_inverse(b, side) for side in inner.operands):
                rest = next(s for s in inner.operands if not self.is_inverse(b, s))
                return self.logic(opcode, b, rest)
        left, right = self.operations[one], self.operations[other]
        opposite = Opcode.AND if opcode is Opcode.OR else Opcode.OR
        if left.opcode is right.opcode is opposite:
            return self._factored(opcode, opposite, left, right)
        return None

    def _factored(self, opcode: Opcode, opposite: Opcode, left: Operation, right: Operation) -> int | None:
        shared = [side for side in left.operands if side in right.operands]
        if not shared:
            return None
        rests = [next((s for s in o.operands if s != shared[0]), shared[0]) for o in (left, right)]
        return self.logic(opposite, shared[0], self.logic(opcode, *rests))

    def is_inverse(self, one: int, other: int) -> bool:
        """Whether two conditions are known to be each other's inverse."""
        a, b = self.operations[one], self.operations[other]
        for x, y, index in ((a, b, other), (b, a, one)):
            if x.opcode is Opcode.XOR and self.constant_of(x.operands[1]) == 1 and x.operands[0] == index:
                return True
            if x.opcode is Opcode.EQ and y.opcode is Opcode.NE and x.operands == y.operands:
                return True
        return False

    def select(self, condition: int, if_true: int, if_false: int) -> int:
        """if_true where the condition holds, else if_false."""
        known = self.constant_of(condition)
        if known is not None:
            return if_true if known else if_false
        if if_true == if_false:
            return if_true
        operation = self.operations[condition]
        if operation.opcode is Opcode.XOR and self.constant_of(operation.operands[1]) == 1:
            return self.select(operation.operands[0], if_false, if_true)
        width = self.width(if_true)
        if width == 1 and (self.constant_of(if_true) is not None or self.constant_of(if_false) is not None):
            return self._selected_bit(condition, if_true, if_false)
        for arm, position in ((if_true, 1), (if_false, 2)):
            inner = self.operations[arm]
            if inner.opcode is Opcode.SELECT and inner.operands[0] == condition:
                arms = [if_true, if_false]
                arms[position - 1] = inner.operands[position]
                return self.select(condition, *arms)
        merged = self._merged_select(condition, if_true, if_false)
        if merged is not None:
            return merged
        narrow = self._narrow_select(condition, if_true, if_false, width)
        return (
            narrow if narrow is not None else self.add(Operation(Opcode.SELECT, width, (condition, if_true, if_false)))
        )

    def element(self, values: Sequence[int], index: int) -> int:
        """The value with the number ``index``, by a multiplexer for each bit of the index; any beyond the last."""
        level, bit = list(values), 0
        while len(level) > 1 and bit < self.width(index):
            chosen = self.slice(index, bit, 1)
            pairs = [level[k : k + 2] for k in range(0, len(level), 2)]
            level = [self.select(chosen, pair[1], pair[0]) if len(pair) > 1 else pair[0] for pair in pairs]
            bit += 1
        return level[0]

    def _merged_select(self, condition: int, if_true: int, if_false: int) -> int | None:
        """Two multiplexers with one value in common are one with both conditions: the enable of a register."""
        for arm, other, holds in ((if_true, if_false, condition), (if_false, if_true, self.invert(condition))):
            inner = self.operations[arm]
            if inner.opcode is Opcode.SELECT and other in inner.operands[1:]:
                chosen, value = inner.operands[0], inner.operands[1]
                if value == other:
                    chosen, value = self.invert(chosen), inner.operands[2]
                return self.select(self.logic(Opcode.AND, holds, chosen), value, other)
        return None

    def _selected_bit(self, condition: int, if_true: int, if_false: int) -> int:
        value = self.constant_of(if_true)
        if value is not None:
            if value:
                return self.logic(Opcode.OR, condition, if_false)
            return self.logic(Opcode.AND, self._inverted(condition), if_false)
        if self.constant_of(if_false):
            return self.logic(Opcode.OR, self._inverted(condition), if_true)
        return self.logic(Opcode.AND, condition, if_true)

    def _narrow_select(self, condition: int, if_true: int, if_false: int, width: int) -> int | None:
        """A multiplexer only of the bits that differ: pieces of wiring apart, extension after it."""
        zeros = self._zeros[if_true] & self._zeros[if_false]
        top = width
        while top > 1 and zeros >> (top - 1) & 1:
            top -= 1
        if top < width:
            low = self.select(condition, self.slice(if_true, 0, top), self.slice(if_false, 0, top))
            return self.extend(Opcode.ZEXT, low, width)
        spare = min(self._signs[if_true], self._signs[if_false]) - 1
        if spare > 0:
            kept = width - spare
            low = self.select(condition, self.slice(if_true, 0, kept), self.slice(if_false, 0, kept))
            return self.extend(Opcode.SEXT, low, width)
        cuts = self._cuts(if_true) | self._cuts(if_false)
        if not cuts:
            return None
        edges = [0, *sorted(cuts), width]
        return self.concat(
            [
                self.select(condition, self.slice(if_true, a, b - a), self.slice(if_false, a, b - a))
                for a, b in pairwise(edges)
            ]
        )

    def _cuts(self, index: int) -> set[int]:
        operation = self.operations[index]
        if operation.opcode is not Opcode.CONCAT:
            return set()
        cuts, position = set(), 0
        for part in operation.operands[:-1]:
            position += self.width(part)
            cuts.add(position)
        return cuts

    # -- arithmetic

    def division(self, opcode: Opcode, one: int, other: int) -> int:
        """UDIV, SDIV, UREM or SREM; by a power of two an addition at most: a quotient is rounded to zero."""
        width, by = self.width(one), self.constant_of(other)
        if by is None or by & (by - 1) or by == 0 or by >> (width - 1):
            return self.add(Operation(opcode, width, (one, other)))
        places = by.bit_length() - 1
        low = self.constant(by - 1, width)
        if opcode is Opcode.UDIV:
            return self.shift(Opcode.LSHR, one, self.constant(places, width))
        if opcode is Opcode.UREM:
            return self.logic(Opcode.AND, one, low)
        sign = self.shift(Opcode.ASHR, one, self.constant(width - 1, width))
        biased = self.arithmetic(Opcode.ADD, one, self.logic(Opcode.AND, sign, low))
        if opcode is Opcode.SDIV:
            return self.shift(Opcode.ASHR, biased, self.constant(places, width))
        return self.arithmetic(Opcode.SUB, one, self.logic(Opcode.AND, biased, self.invert(low)))

    def arithmetic(self, opcode: Opcode, one: int, other: int, binding: str = "") -> int:
        """ADD, SUB or MUL, as narrow as the operands allow."""
        width = self.width(one)
        a, b = self.constant_of(one), self.constant_of(other)
        if a is not None and b is not None:
            return self.constant({Opcode.ADD: a + b, Opcode.SUB: a - b, Opcode.MUL: a * b}[opcode], width)
        if opcode is not Opcode.SUB and a is not None:
            one, other, a, b = other, one, b, a
        if b == 0:
            return other if opcode is Opcode.MUL else one
        if opcode is Opcode.MUL and b is not None and b & (b - 1) == 0:
            return self.shift(Opcode.SHL, one, self.constant(b.bit_length() - 1, width))
        kept, extension = self._significant(opcode, one, other, width)
        if kept < width:
            narrow = self._plain(opcode, self.slice(one, 0, kept), self.slice(other, 0, kept), kept, binding)
            return self.extend(extension, narrow, width)
        return self._plain(opcode, one, other, width, binding)

    def _plain(self, opcode: Opcode, one: int, other: int, width: int, binding: str) -> int:
        # A product and what is added to it share a DSP block.
        whole = opcode is Opcode.MUL or self._is_block_product(one)
        if not whole and width > 1 and self._zeros[other] & 1 and self._trailing_zeros(other, width):
            low = self._trailing_zeros(other, width)
            high = self.arithmetic(opcode, self.slice(one, low, width - low), self.slice(other, low, width - low))
            return self.concat([self.slice(one, 0, low), high])
        if opcode in _COMMUTATIVE and self.constant_of(other) is None:
            one, other = min(one, other), max(one, other)
        return self.add(Operation(opcode, width, (one, other), binding=binding))

    def offset(self, index: int, by: int) -> int:
        """A value plus a constant; below the value's lowest bit that is not known to be 0, wiring."""
        width = self.width(index)
        low = self._trailing_zeros(index, width)
        if not low or self.constant_of(index) is not None:
            return self.arithmetic(Opcode.ADD, index, self.constant(by, width))
        high = self.arithmetic(Opcode.ADD, self.slice(index, low, width - low), self.constant(by >> low, width - low))
        return self.concat([self.constant(by, low), high])

    def _is_block_product(self, index: int) -> bool:
        operation = self.operations[index]
        while operation.opcode in (Opcode.SEXT, Opcode.ZEXT):
            operation = self.operations[operation.operands[0]]
        return operation.opcode is Opcode.MUL and operation.binding != "fabric"

    def _trailing_zeros(self, index: int, width: int) -> int:
        count = 0
        while count < width - 1 and self._zeros[index] >> count & 1:
            count += 1
        return count

    def _unsigned_width(self, index: int) -> int:
        width = self.width(index)
        zeros = self._zeros[index]
        while width and zeros >> (width - 1) & 1:
            width -= 1
        return width

    def _significant(self, opcode: Opcode, one: int, other: int, width: int) -> tuple[int, Opcode]:
        """Bits in which the result is complete, and how it goes on above them."""
        a, b = self._unsigned_width(one), self._unsigned_width(other)
        plain = a + b if opcode is Opcode.MUL else max(a, b) + 1
        signs = [width - self._signs[side] + 1 for side in (one, other)]
        extended = sum(signs) if opcode is Opcode.MUL else max(signs) + 1
        if opcode is not Opcode.SUB and plain <= min(extended, width - 1):
            return max(1, plain), Opcode.ZEXT
        return (extended, Opcode.SEXT) if extended < width else (width, Opcode.SEXT)

    def compare(self, opcode: Opcode, one: int, other: int) -> int:
        """A comparison, 1 bit."""
        width = self.width(one)
        a, b = self.constant_of(one), self.constant_of(other)
        if a is not None and b is not None:
            return self.constant(_compared(opcode, a, b, width), 1)
        if one == other:
            return self.constant(opcode in (Opcode.EQ, Opcode.ULE, Opcode.SLE), 1)
        simple = self._compare_simple(opcode, one, other, a, b, width)
        if simple is not None:
            return simple
        kept = self._compared_width(opcode, one, other, width)
        if kept < width:
            return self.compare(opcode, self.slice(one, 0, kept), self.slice(other, 0, kept))
        if opcode in (Opcode.EQ, Opcode.NE) and (low := self._common_zeros(one, other, width)):
            return self.compare(opcode, self.slice(one, low, width - low), self.slice(other, low, width - low))
        if opcode in (Opcode.EQ, Opcode.NE) and a is not None:
            one, other = other, one
        elif opcode in (Opcode.EQ, Opcode.NE) and b is None:
            one, other = min(one, other), max(one, other)
        return self.add(Operation(opcode, 1, (one, other)))

    def _compare_simple(
        self, opcode: Opcode, one: int, other: int, a: int | None, b: int | None, width: int
    ) -> int | None:
        if width == 1 and opcode in (Opcode.EQ, Opcode.NE):
            same = self.logic(Opcode.XOR, one, other)
            return same if opcode is Opcode.NE else self.invert(same)
        if opcode is Opcode.SLT and b == 0:
            return self.slice(one, width - 1, 1)
        if opcode is Opcode.SLT and a == mask_of(width):
            return self.invert(self.slice(other, width - 1, 1))
        if opcode is Opcode.ULT and b == 1:
            return self.compare(Opcode.EQ, one, self.constant(0, width))
        if opcode is Opcode.ULT and b == 0:
            return self.constant(0, 1)
        if opcode is Opcode.ULT and a == 0:
            return self.compare(Opcode.NE, other, self.constant(0, width))
        if b is not None and opcode in (Opcode.EQ, Opcode.NE) and b & self._zeros[one]:
            return self.constant(opcode is Opcode.NE, 1)
        low = (self._zeros[one] + 1 & ~self._zeros[one]).bit_length() - 1
        if b is not None and opcode in (Opcode.EQ, Opcode.NE) and 0 < low < width:
            # Bits that are zero in both decide nothing.
            return self.compare(opcode, self.slice(one, low, width - low), self.constant(b >> low, width - low))
        return None

    def _common_zeros(self, one: int, other: int, width: int) -> int:
        """Lowest bits that are 0 on both sides."""
        return min(self._trailing_zeros(one, width), self._trailing_zeros(other, width))

    def _compared_width(self, opcode: Opcode, one: int, other: int, width: int) -> int:
        plain = max(self._unsigned_width(one), self._unsigned_width(other), 1)
        extended = width - min(self._signs[one], self._signs[other]) + 1
        if opcode in (Opcode.SLT, Opcode.SLE):
            return min(extended, plain + 1) if plain + 1 < width else extended
        return min(plain, extended) if opcode in (Opcode.EQ, Opcode.NE) else plain

    # -- what is known of bits

    def _zero_bits(self, operation: Operation) -> int:
        width, operands = operation.width, operation.operands
        everything = mask_of(width)
        match operation.opcode:
            case Opcode.CONSTANT:
                return ~operation.value & everything
            case Opcode.ZEXT:
                inner = self.width(operands[0])
                return self._zeros[operands[0]] | (everything & ~mask_of(inner))
            case Opcode.SEXT:
                return self._zeros[operands[0]]
            case Opcode.SLICE:
                return (self._zeros[operands[0]] >> operation.value) & everything
            case Opcode.CONCAT:
                zeros, position = 0, 0
                for part in operands:
                    zeros |= self._zeros[part] << position
                    position += self.width(part)
                return zeros
            case Opcode.AND:
                return self._zeros[operands[0]] | self._zeros[operands[1]]
            case Opcode.OR | Opcode.XOR:
                return self._zeros[operands[0]] & self._zeros[operands[1]]
            case Opcode.SELECT:
                return self._zeros[operands[1]] & self._zeros[operands[2]]
            case Opcode.LSHR:
                return _leading(self._zeros[operands[0]], width)
            case Opcode.UDIV | Opcode.UREM:
                return _leading(self._zeros[operands[0]], width)
            case Opcode.POPCOUNT | Opcode.CLZ | Opcode.CTZ:
                return everything & ~mask_of(self.width(operands[0]).bit_length())
        return 0

    def _sign_bits(self, operation: Operation) -> int:
        width, operands = operation.width, operation.operands
        if width == 0:
            return 0
        match operation.opcode:
            case Opcode.CONSTANT:
                value = signed(operation.value, width)
                return width - (value.bit_length() if value >= 0 else (~value).bit_length())
            case Opcode.SEXT:
                return self._signs[operands[0]] + width - self.width(operands[0])
            case Opcode.SELECT:
                return min(self._signs[operands[1]], self._signs[operands[2]])
            case Opcode.AND | Opcode.OR | Opcode.XOR:
                return min(self._signs[operands[0]], self._signs[operands[1]])
            case Opcode.ADD | Opcode.SUB:
                return max(1, min(self._signs[operands[0]], self._signs[operands[1]]) - 1)
            case Opcode.ASHR:
                return self._signs[operands[0]]
            case Opcode.CONCAT:
                return min(self._signs[operands[-1]], self.width(operands[-1]))
            case Opcode.SLICE:
                inner = self.width(operands[0])
                hidden = inner - operation.value - width
                return min(width, max(1, self._signs[operands[0]] - hidden))
        zeros, count = self._zeros[len(self._signs)], 0
        while count < width and zeros >> (width - 1 - count) & 1:
            count += 1
        return max(1, count)


def _leading(zeros: int, width: int) -> int:
    count = 0
    while count < width and zeros >> (width - 1 - count) & 1:
        count += 1
    return mask_of(count) << (width - count)


def _compared(opcode: Opcode, a: int, b: int, width: int) -> bool:
    x, y = signed(a, width), signed(b, width)
    return {
        Opcode.EQ: a == b, Opcode.NE: a != b, Opcode.ULT: a < b, Opcode.ULE: a <= b,
        Opcode.SLT: x < y, Opcode.SLE: x <= y,
    }[opcode]  # fmt: skip
