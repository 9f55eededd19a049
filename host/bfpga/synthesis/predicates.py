"""Which enables of a loop body exclude each other: sums of products of its 1-bit conditions, kept small."""

from __future__ import annotations

from bfpga.synthesis.addresses import unknown_cone
from bfpga.synthesis.body import LoopBody, Opcode

#: A product of literals (operation, word, equal): the operation has this word, or has another.
Product = frozenset[tuple[int, int, bool]]
#: Products of one enable before it counts as unknown.
_MOST_PRODUCTS = 16
_UNKNOWN = (frozenset[tuple[int, int, bool]](),)


class Predicates:
    """Products of literals of each 1-bit operation; an enable without any is never true.

    A literal is (operation, word, equal): the value of ``operation`` is ``word``, or is not. A condition of 1 bit has
    word 1. What does not fit counts as unknown, which excludes nothing.
    """

    def __init__(self, body: LoopBody) -> None:
        self._body = body
        self._operations = body.operations
        self._seen: set[int] = set()
        self._products: dict[tuple[int, bool], tuple[Product, ...]] = {}

    def exclusive(self, first: int, second: int) -> bool:
        """True if the two 1-bit operations are never both 1 in an iteration; -1 is an enable that is always 1."""
        if first < 0 or second < 0:
            return False
        return all(_contradict(a, b) for a in self.products(first) for b in self.products(second))

    def products(self, index: int, value: bool = True) -> tuple[Product, ...]:
        """Products of literals one of which holds where the 1-bit operation ``index`` has ``value``."""
        if index not in self._seen:
            # In program order, so that no chain of conditions is too deep for recursion.
            for operation in unknown_cone(self._body, index, self._seen):
                self._seen.add(operation)
                for either in (True, False):
                    self._products[operation, either] = self._find(operation, either)
        return self._products[index, value]

    def _find(self, index: int, value: bool) -> tuple[Product, ...]:
        operation = self._operations[index]
        operands = operation.operands
        if operation.width != 1:
            return _UNKNOWN
        if operation.opcode is Opcode.CONSTANT:
            return _UNKNOWN if bool(operation.value) == value else ()
        if operation.opcode in (Opcode.AND, Opcode.OR):
            if (operation.opcode is Opcode.AND) == value:
                return _product(self.products(operands[0], value), self.products(operands[1], value))
            return _sum(self.products(operands[0], value), self.products(operands[1], value))
        inverted = self._inverted(index)
        if inverted is not None:
            return self.products(inverted, not value)
        if operation.opcode is Opcode.SELECT:
            branches = (
                _product(self.products(operands[0], condition), self.products(operands[2 - condition], value))
                for condition in (True, False)
            )
            return _sum(*branches)
        if operation.opcode in (Opcode.EQ, Opcode.NE):
            word = self._operations[operands[1]]
            if word.opcode is Opcode.CONSTANT:
                equal = (operation.opcode is Opcode.EQ) == value
                return (frozenset({(operands[0], word.value, equal)}),)
        return (frozenset({(index, 1, value)}),)

    def _inverted(self, index: int) -> int | None:
        """The operation of which the 1-bit ``index`` is the inverse, None if it is none."""
        operation = self._operations[index]
        if operation.opcode is not Opcode.XOR:
            return None
        for position in (0, 1):
            other = self._operations[operation.operands[position]]
            if other.opcode is Opcode.CONSTANT and other.value == 1:
                return operation.operands[1 - position]
        return None


def _product(first: tuple[Product, ...], second: tuple[Product, ...]) -> tuple[Product, ...]:
    """Both hold; the longer side alone if there were too many products, which excludes less and never too much."""
    if len(first) * len(second) > _MOST_PRODUCTS:
        return min(first, second, key=len)
    return tuple({a | b for a in first for b in second if not _contradict(a, b)})


def _sum(first: tuple[Product, ...], second: tuple[Product, ...]) -> tuple[Product, ...]:
    either = tuple({*first, *second})
    return either if len(either) <= _MOST_PRODUCTS else _UNKNOWN


def _contradict(first: Product, second: Product) -> bool:
    """True if a literal of one cannot hold together with a literal of the other."""
    if len(first) > len(second):
        first, second = second, first
    for operation, word, equal in first:
        if (operation, word, not equal) in second:
            return True
        if equal and any(other == operation and same and value != word for other, value, same in second):
            return True
    return False
