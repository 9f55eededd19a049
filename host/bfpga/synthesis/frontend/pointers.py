"""Pointers of the flat function: which variable, how many bytes into it, and by which indices."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from bfpga.errors import ToolError
from bfpga.synthesis.frontend.ir import Function, Instruction, Layouts, Module, phi_pairs, split_list, split_type

_FLAGS = re.compile(r"^(?:(?:inbounds|nuw|nusw|nneg|inrange\([^)]*\)) )*")


@dataclass(frozen=True, slots=True)
class Term:
    """``stride`` bytes times an index that is known at run time only; ``operand``: its IR text."""

    operand: str
    kind: str
    stride: int


@dataclass(frozen=True, slots=True)
class Pointer:
    """A place in variable ``root``.

    ``condition``: what has to hold, outermost first: (IR text of a condition, its value), or for a phi ("block from",
    True), the edge by which its block is entered. ``anchor``: the constant offset where the first index was applied.
    """

    root: str
    offset: int
    terms: tuple[Term, ...] = ()
    condition: tuple[tuple[str, bool], ...] = ()
    anchor: int | None = None


class UnknownPointerError(ToolError):
    """A pointer that the front end cannot follow."""


class Pointers:
    """Resolves the pointers of one function."""

    def __init__(self, module: Module, function: Function) -> None:
        self._layouts = Layouts(module.structures)
        self._arguments = function.arguments
        self._defined: dict[str, Instruction] = {}
        self._known: dict[str, tuple[Pointer, ...]] = {}
        self._block_of: dict[str, str] = {}
        self._under_way: set[str] = set()
        for block in function.blocks.values():
            for instruction in block.instructions:
                if (
                    instruction.opcode in ("getelementptr", "alloca", "select", "phi", "load", "freeze")
                    and instruction.result
                ):
                    self._defined[instruction.result] = instruction
                    self._block_of[instruction.result] = block.name

    def resolve(self, operand: str) -> tuple[Pointer, ...]:
        """Every place that an operand of type ptr may be.

        Raises:
            UnknownPointerError: it is computed in a way that no memory of hardware has.
        """
        operand = operand.strip()
        if operand not in self._known:
            self._known[operand] = self._resolved(operand)
        return self._known[operand]

    def _resolved(self, operand: str) -> tuple[Pointer, ...]:
        if operand.startswith("@"):
            return (Pointer(operand, 0),)
        if operand.startswith("getelementptr"):
            inner = operand[operand.index("(") + 1 : operand.rindex(")")]
            return self._element(inner)
        if operand in ("undef", "poison", "null"):
            return ()
        if operand in self._arguments:
            return (Pointer(operand, 0),)
        instruction = self._defined.get(operand)
        if instruction is None:
            raise UnknownPointerError(operand)
        if instruction.opcode == "alloca":
            return (Pointer(operand, 0),)
        if instruction.opcode == "getelementptr":
            return self._element(_FLAGS.sub("", instruction.text))
        if instruction.opcode == "select":
            return self._selected(instruction)
        if instruction.opcode == "phi":
            return self._merged(operand, instruction)
        if instruction.opcode == "freeze":
            return self.resolve(split_type(instruction.text)[1])
        raise UnknownPointerError(f"{operand} = {instruction.opcode} {instruction.text[:80]}")

    def _selected(self, instruction: Instruction) -> tuple[Pointer, ...]:
        condition, *arms = (split_type(part)[1] for part in split_list(instruction.text))
        return tuple(
            Pointer(place.root, place.offset, place.terms, ((condition, holds), *place.condition), place.anchor)
            for arm, holds in zip(arms, (True, False), strict=True)
            for place in self.resolve(arm)
        )

    def _merged(self, operand: str, instruction: Instruction) -> tuple[Pointer, ...]:
        if operand in self._under_way:
            raise UnknownPointerError(f"{operand} moves from iteration to iteration")
        self._under_way.add(operand)
        pairs = phi_pairs(split_type(instruction.text)[1])
        block = self._block_of[operand]
        places = tuple(
            Pointer(
                place.root, place.offset, place.terms, ((f"{block} {before}", True), *place.condition), place.anchor
            )
            for value, before in pairs
            for place in self.resolve(value)
        )
        self._under_way.discard(operand)
        return places

    def stepped(self, operand: str) -> tuple[Pointer, int] | None:
        """First place and step in bytes of a pointer that a loop moves on, or None."""
        self._under_way.clear()
        inner = self._defined.get(operand)
        offset = 0
        if inner is not None and inner.opcode == "getelementptr":
            kind, base, *indices = split_list(_FLAGS.sub("", inner.text))
            if kind != "i8" or len(indices) != 1 or not re.fullmatch(r"i64 -?\d+", indices[0]):
                return None
            offset, operand = int(indices[0].split()[1]), split_type(base)[1]
            inner = self._defined.get(operand)
        if inner is None or inner.opcode != "phi":
            return None
        values = [value for value, _ in phi_pairs(split_type(inner.text)[1])]
        step = next(
            (self._defined[v] for v in values if v in self._defined and self._defined[v].opcode == "getelementptr"),
            None,
        )
        start = [v for v in values if v not in self._defined]
        if step is None or len(start) != 1 or f"ptr {operand}," not in step.text:
            return None
        kind, _, *indices = split_list(_FLAGS.sub("", step.text))
        if len(indices) != 1 or not re.fullmatch(r"i\d+ \d+", indices[0]):
            return None
        (first,) = self.resolve(start[0])
        return Pointer(first.root, first.offset + offset), int(indices[0].split()[1]) * self._layouts.of(kind).size

    def _element(self, text: str) -> tuple[Pointer, ...]:
        kind, base, *indices = split_list(text)
        offset, terms = 0, []
        current = kind
        for number, index in enumerate(indices):
            index_kind, value = split_type(index)
            if number:
                array = self._layouts.array(current)
                if array is None:
                    begin, current = self._layouts.fields(current)[int(value)]
                    offset += begin
                    continue
                current = array[1]
            stride = self._layouts.of(current).size
            if re.fullmatch(r"-?\d+", value):
                offset += int(value) * stride
            elif value not in ("undef", "poison"):
                terms.append(Term(value, index_kind, stride))
        return tuple(
            Pointer(
                place.root,
                place.offset + offset,
                (*place.terms, *terms),
                place.condition,
                _anchor(place, offset, bool(terms)),
            )
            for place in self.resolve(split_type(base)[1])
        )

    def choices(self, place: Pointer) -> list[Pointer]:
        """The places that indices which are one of some constants mean, each with its condition."""
        found = [replace(place, terms=())]
        for term in place.terms:
            numbers = self._constants(term.operand)
            if numbers:
                found = [
                    replace(each, offset=each.offset + number * term.stride, condition=(*each.condition, *held))
                    for each in found
                    for number, held in numbers
                ]
            else:
                found = [replace(each, terms=(*each.terms, term)) for each in found]
        return found

    def _constants(self, operand: str) -> list[tuple[int, tuple[tuple[str, bool], ...]]]:
        """The constants that a value is selected from, each with its conditions; nothing for any other value."""
        if re.fullmatch(r"-?\d+", operand):
            return [(int(operand), ())]
        instruction = self._defined.get(operand)
        if instruction is None or instruction.opcode != "select":
            return []
        condition, *arms = (split_type(part)[1] for part in split_list(instruction.text))
        found = [(self._constants(arm), holds) for arm, holds in zip(arms, (True, False), strict=True)]
        if not all(numbers for numbers, _ in found):
            return []
        return [(number, ((condition, holds), *held)) for numbers, holds in found for number, held in numbers]


def _anchor(place: Pointer, offset: int, indexed: bool) -> int | None:
    if place.anchor is not None or not indexed:
        return place.anchor
    return place.offset + offset
