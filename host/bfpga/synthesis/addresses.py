"""Whether two addresses can be equal, and after how many iterations: addresses as sums of registers and constants."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from math import gcd

from bfpga.synthesis.body import LoopBody, Opcode
from bfpga.synthesis.graph import signed

#: Terms of a sum, and different steps of a register, before they count as unknown.
_MOST_TERMS = 12
_MOST_STEPS = 16
#: Bits of a sum from which nothing was cut off.
_UNBOUNDED = 1 << 16


@dataclass(frozen=True, slots=True)
class Linear:
    """``constant`` + sum of factor * operation, modulo 2^``bits``; ``terms``: (operation, factor) in order."""

    constant: int
    terms: tuple[tuple[int, int], ...] = ()
    bits: int = _UNBOUNDED


@dataclass(frozen=True, slots=True)
class Induction:
    """A register that grows by ``least`` to ``most`` an iteration, both of one sign.

    ``period``: iterations after which it starts again (0: never).
    """

    least: int
    most: int
    period: int = 0


class Addresses:
    """Distances between the accesses of a body's memories.

    Sums are taken modulo the width of the address and of what was cut off on the way to it. A narrower counter that is
    extended is taken as never wrapping around: what repeats after all of its values is far enough.
    """

    def __init__(self, body: LoopBody) -> None:
        self._body = body
        self._linear: dict[int, Linear] = {}
        #: What is known of selections: those of a loop with many cases share most of their operands.
        self._known_steps: dict[tuple[int, int], set[int]] = {}
        self._known_constants: dict[int, set[int]] = {}
        self._inductions = {
            register.current: self._induction(register.current, register.next) for register in body.registers
        }

    def linear(self, index: int) -> Linear:
        """The operation ``index`` as a sum."""
        if index not in self._linear:
            for operation in unknown_cone(self._body, index, self._linear):
                self._linear[operation] = self._find(operation)
        return self._linear[index]

    def distance(self, source: int, target: int, least: int) -> int | None:
        """Fewest iterations, ``least`` or more, after which ``target`` may use the address that ``source`` used.

        None: never. Memory accesses have their address first in their operands.
        """
        operations = self._body.operations
        first, second = (self.linear(operations[access].operands[0]) for access in (source, target))
        widths = [operations[operations[access].operands[0]].width for access in (source, target)]
        words = 1 << min(*widths, first.bits, second.bits)
        difference = first.constant - second.constant
        if least == 0:
            # One iteration: equal terms leave the constants, anything else may be equal.
            return 0 if first.terms != second.terms or difference % words == 0 else None
        if first.terms != second.terms:
            return least
        growths: list[Induction] = []
        for term, factor in first.terms:
            if operations[term].opcode is Opcode.INVARIANT:
                continue
            induction = self._inductions.get(term)
            if induction is None:
                return least
            slowest, fastest = sorted((induction.least * factor, induction.most * factor))
            growths.append(Induction(slowest, fastest, induction.period))
        return _meeting(difference, growths, least, words)

    def _find(self, index: int) -> Linear:
        operation = self._body.operations[index]
        operands = operation.operands
        opcode = operation.opcode
        if opcode is Opcode.CONSTANT:
            return Linear(signed(operation.value, operation.width))
        if opcode in (Opcode.ZEXT, Opcode.SEXT) or (opcode is Opcode.SLICE and operation.value == 0):
            return self._find_extended(index)
        if opcode in (Opcode.ADD, Opcode.SUB):
            sign = 1 if opcode is Opcode.ADD else -1
            return self._bounded(index, _added(self.linear(operands[0]), self.linear(operands[1]), sign))
        if opcode is Opcode.XOR:
            return self._with_highest_bit(index)
        if opcode is Opcode.OR and self._is_disjoint(*operands):
            return self._bounded(index, _added(self.linear(operands[0]), self.linear(operands[1]), 1))
        if opcode in (Opcode.SHL, Opcode.MUL):
            factor = self._body.operations[operands[1]]
            if factor.opcode is Opcode.CONSTANT:
                by = 1 << factor.value if opcode is Opcode.SHL else signed(factor.value, factor.width)
                return self._bounded(index, _scaled(self.linear(operands[0]), by))
        if opcode is Opcode.CONCAT:
            return self._bounded(index, self._concatenated(operands))
        return Linear(0, ((index, 1),))

    def _with_highest_bit(self, index: int) -> Linear:
        """An exclusive or with the highest bit alone is its sum with that, modulo the width."""
        operation = self._body.operations[index]
        for value, mask in (operation.operands, operation.operands[::-1]):
            constant = self._body.operations[mask]
            if constant.opcode is Opcode.CONSTANT and constant.value == 1 << (operation.width - 1):
                whole = _added(self.linear(value), Linear(constant.value), 1)
                return replace(whole, bits=min(whole.bits, operation.width))
        return Linear(0, ((index, 1),))

    def _find_extended(self, index: int) -> Linear:
        """Extension and truncation keep a sum: a constant is read with the sign that its extension gives it."""
        operation = self._body.operations[index]
        inner = self._body.operations[operation.operands[0]]
        if inner.opcode is Opcode.CONSTANT:
            value = inner.value if operation.opcode is not Opcode.SEXT else signed(inner.value, inner.width)
            return Linear(value)
        if inner.opcode is Opcode.SELECT:
            # Its constants have the sign that the extension gives them.
            return Linear(0, ((index, 1),))
        whole = self.linear(operation.operands[0])
        return replace(whole, bits=min(whole.bits, operation.width)) if operation.width < inner.width else whole

    def _concatenated(self, operands: tuple[int, ...]) -> Linear:
        """Parts side by side; the low bits of a value below a sum of its high bits are a sum of the whole value."""
        lowest = self._body.operations[operands[0]]
        cut = lowest.opcode is Opcode.SLICE and lowest.value == 0
        total, position = Linear(0), 0
        for operand in operands:
            part = self._body.operations[operand]
            if part.opcode is Opcode.CONSTANT:
                value = Linear(part.value)
            elif cut and position == 0:
                value = Linear(0, ((operand, 1),))
            else:
                value = self.linear(operand)
            total = _added(total, _scaled(value, 1 << position), 1)
            position += part.width
        return self._joined(total, operands[0]) if cut else total

    def _joined(self, total: Linear, low: int) -> Linear:
        """``total`` with the low bits ``low`` of a value and its high bits, where both are there, as the value."""
        lowest = self._body.operations[low]
        for term, factor in total.terms:
            high = self._body.operations[term]
            if (
                high.opcode is Opcode.SLICE
                and (high.operands, high.value) == (lowest.operands, lowest.width)
                and factor == 1 << lowest.width
            ):
                rest = replace(total, terms=tuple(each for each in total.terms if each[0] not in (term, low)))
                if len(rest.terms) == len(total.terms) - 2:
                    whole = self.linear(lowest.operands[0])
                    return _added(rest, replace(whole, bits=min(whole.bits, high.value + high.width)), 1)
        # Alone, cut off bits are those of the value modulo their number.
        without = replace(total, terms=tuple(each for each in total.terms if each[0] != low))
        return _added(without, self.linear(low), 1)

    def _is_disjoint(self, first: int, second: int) -> bool:
        """True if an OR of the two is a sum: one is a constant below the trailing zeros of the other."""
        for value, mask in ((first, second), (second, first)):
            constant = self._body.operations[mask]
            if constant.opcode is Opcode.CONSTANT and constant.value < 1 << self._trailing_zeros(value):
                return True
        return False

    def _trailing_zeros(self, index: int) -> int:
        operation = self._body.operations[index]
        if operation.opcode is Opcode.SHL and self._body.operations[operation.operands[1]].opcode is Opcode.CONSTANT:
            return self._body.operations[operation.operands[1]].value
        if operation.opcode is Opcode.CONCAT:
            lowest = self._body.operations[operation.operands[0]]
            return lowest.width if lowest.opcode is Opcode.CONSTANT and lowest.value == 0 else 0
        if operation.opcode in (Opcode.ZEXT, Opcode.SEXT):
            return self._trailing_zeros(operation.operands[0])
        return 0

    def _bounded(self, index: int, total: Linear) -> Linear:
        return total if len(total.terms) <= _MOST_TERMS else Linear(0, ((index, 1),))

    def _induction(self, current: int, following: int) -> Induction | None:
        """How the register with STATE ``current`` grows, None if that is not known or it may stay."""
        operation = self._body.operations[following]
        if operation.opcode is Opcode.SELECT and (periodic := self._periodic(current, operation.operands)):
            return periodic
        steps = self._steps(current, following)
        if not steps or min(steps) <= 0 <= max(steps):
            return None
        return Induction(min(steps), max(steps))

    def _steps(self, current: int, following: int) -> set[int]:
        """What ``following`` may add to ``current``; empty if that is not a few constants."""
        key = current, following
        if key not in self._known_steps:
            self._known_steps[key] = self._find_steps(current, following)
        return self._known_steps[key]

    def _find_steps(self, current: int, following: int) -> set[int]:
        operation = self._body.operations[following]
        if operation.opcode is Opcode.SELECT:
            steps = [self._steps(current, operand) for operand in operation.operands[1:]]
            return steps[0] | steps[1] if all(steps) else set()
        if operation.opcode in (Opcode.ZEXT, Opcode.SEXT) or (
            operation.opcode is Opcode.SLICE and operation.value == 0
        ):
            return self._steps(current, operation.operands[0])
        step = _added(self.linear(following), Linear(0, ((current, 1),)), -1)
        sums = {step.constant}
        for term, factor in step.terms:
            values = self._constants(term)
            if not values or len(values) * len(sums) > _MOST_STEPS:
                return set()
            sums = {one + factor * other for one in sums for other in values}
        return sums

    def _constants(self, index: int) -> set[int]:
        """The values of an operation that is one of a few constants; empty if it is not."""
        if index not in self._known_constants:
            self._known_constants[index] = self._find_constants(index)
        return self._known_constants[index]

    def _find_constants(self, index: int) -> set[int]:
        operation = self._body.operations[index]
        if operation.opcode is Opcode.SELECT:
            choices = [self._constants(operand) for operand in operation.operands[1:]]
            return choices[0] | choices[1] if all(choices) else set()
        if operation.opcode is Opcode.CONSTANT:
            return {signed(operation.value, operation.width)}
        if operation.opcode is Opcode.ZEXT:
            inner = self._body.operations[operation.operands[0]]
            return {value % (1 << inner.width) for value in self._constants(operation.operands[0])}
        return {0, 1} if operation.width == 1 else set()

    def _periodic(self, current: int, operands: tuple[int, ...]) -> Induction | None:
        """A counter that returns to a constant when it reaches another: ``i == last ? first : i + step``."""
        operations = self._body.operations
        condition, if_true, if_false = (operations[operand] for operand in operands)
        if condition.opcode not in (Opcode.EQ, Opcode.NE) or Opcode.CONSTANT not in (if_true.opcode, if_false.opcode):
            return None
        reset, grown = (operands[1], operands[2]) if condition.opcode is Opcode.EQ else (operands[2], operands[1])
        if operations[reset].opcode is not Opcode.CONSTANT:
            return None
        step = _added(self.linear(grown), Linear(0, ((current, 1),)), -1)
        last = _added(self.linear(condition.operands[0]), self.linear(condition.operands[1]), -1)
        if step.terms or step.constant == 0 or last.terms != ((current, 1),):
            return None
        # The counter's last value is -last.constant.
        distance = -last.constant - signed(operations[reset].value, operations[reset].width)
        if distance % step.constant or distance // step.constant < 1:
            return None
        return Induction(step.constant, step.constant, distance // step.constant + 1)


def _meeting(difference: int, growths: list[Induction], least: int, words: int) -> int | None:
    """Fewest iterations d >= least in which the terms grow by ``difference``; None if there are none.

    ``words``: the address is taken modulo this power of two.
    """
    if not growths:
        return least if difference % words == 0 else None
    if len(growths) == 1 and growths[0].period:
        only = growths[0]
        if difference % only.least:
            return None
        return _at_least(difference // only.least % only.period, only.period, least)
    if any(growth.period for growth in growths):
        return least
    slowest, fastest = sum(growth.least for growth in growths), sum(growth.most for growth in growths)
    if slowest != fastest:
        return _reached(difference, slowest, fastest, least)
    if slowest == 0:
        return least if difference % words == 0 else None
    common = gcd(slowest, words)
    if difference % common:
        return None
    every = words // common
    first = difference // common * pow(slowest // common, -1, every) % every if every > 1 else 0
    return _at_least(first, every, least)


def _at_least(first: int, every: int, least: int) -> int:
    """The smallest of first, first + every, ... that is ``least`` or more."""
    return first + -(-max(least - first, 0) // every) * every


def _reached(difference: int, slowest: int, fastest: int, least: int) -> int | None:
    """Fewest iterations after which a sum of uneven steps of one sign may be ``difference``."""
    if slowest < 0 < fastest:
        return least
    if slowest < 0:
        difference, slowest, fastest = -difference, -fastest, -slowest
    if difference < least * slowest:
        return None
    return max(-(-difference // fastest), least)


def unknown_cone(body: LoopBody, index: int, known: Container[int]) -> list[int]:
    """``index`` and the operations that it is computed from, without those ``known`` and theirs, in program order."""
    cone = {index}
    waiting = [index]
    while waiting:
        for operand in body.operations[waiting.pop()].operands:
            if operand not in cone and operand not in known:
                cone.add(operand)
                waiting.append(operand)
    return sorted(cone)


def _added(first: Linear, second: Linear, sign: int) -> Linear:
    terms = dict(first.terms)
    for term, factor in second.terms:
        terms[term] = terms.get(term, 0) + sign * factor
    kept = tuple(sorted((term, factor) for term, factor in terms.items() if factor))
    return Linear(first.constant + sign * second.constant, kept, min(first.bits, second.bits))


def _scaled(value: Linear, factor: int) -> Linear:
    terms = tuple((term, by * factor) for term, by in value.terms if factor)
    zeros = (factor & -factor).bit_length() - 1 if factor else 0
    return Linear(value.constant * factor, terms, value.bits + zeros)
