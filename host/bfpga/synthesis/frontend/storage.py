"""Which arrays are memories and which are registers, as the pragmas and the tool's defaults say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bfpga.synthesis.body import Place, Waiver
from bfpga.synthesis.frontend.flatten import Note
from bfpga.synthesis.frontend.ir import Layouts
from bfpga.synthesis.frontend.pointers import Pointer, Pointers, Term, UnknownPointerError

#: Arrays of so many elements or fewer become registers unless a pragma says otherwise (the tool's default).
REGISTER_ELEMENTS = 4
#: Bytes around a place in which the array is looked for that an index plus a constant means.
_REACH = 64
_NUMBER = re.compile(r"\b(factor|dim|distance)\s*=\s*(\d+)", re.IGNORECASE)
_WORD = re.compile(r"\b(type|impl|core|class|direction|dependent)\s*=\s*(\w+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Split:
    """How one dimension is partitioned: "complete", "cyclic" or "block" in ``factor`` banks; "reshape" is one word."""

    style: str
    factor: int = 0


@dataclass(slots=True)
class Array:
    """An array of a variable: ``extents`` and byte ``strides`` of its dimensions, from ``offset`` on.

    ``element``: bytes of what an index of all dimensions names. ``splits``: of the dimensions by number.
    """

    root: str
    offset: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    name: str
    splits: dict[int, Split] = field(default_factory=dict)
    ports: str = "auto"
    implementation: str = "auto"
    waivers: list[Waiver] = field(default_factory=list)
    bound: bool = False
    indexed: bool = False
    #: Part of a variable that is copied as a whole, which takes registers.
    copied: bool = False
    place: Place | None = None

    @property
    def element(self) -> int:
        """Bytes of an element."""
        return self.strides[-1]

    @property
    def size(self) -> int:
        """Bytes of the array."""
        return self.extents[0] * self.strides[0]

    @property
    def elements(self) -> int:
        """Elements of the array."""
        return self.size // self.element

    def word_bytes(self) -> int:
        """Bytes of a word of a bank: an element, or what ARRAY_RESHAPE puts side by side."""
        size = self.element
        for dimension, extent in enumerate(self.extents):
            if dimension in self.splits and self.splits[dimension].style == "reshape":
                size *= extent
        return size

    def address_dimensions(self) -> list[int]:
        """Dimensions that address a word of a bank."""
        return [
            d for d in range(len(self.extents)) if self.splits.get(d, Split("")).style not in ("complete", "reshape")
        ]

    def is_memory(self) -> bool:
        """Whether the array is a memory; otherwise each element is a register."""
        if not self.address_dimensions():
            return False
        return self.bound or (self.indexed and not self.copied and self.elements > REGISTER_ELEMENTS)

    def holds(self, offset: int) -> bool:
        """Whether a byte of the variable is one of the array's."""
        return self.offset <= offset < self.offset + self.size

    def is_parted_by(self, offset: int, size: int) -> bool:
        """Whether an access of ``size`` bytes touches the array, and not one element of it."""
        first = offset - self.offset
        if first >= self.size or first + size <= 0:
            return False
        return first < 0 or first // self.element != (first + size - 1) // self.element


def _fits(array: Array, term: Term) -> bool:
    """Whether a term may be an index of an array."""
    return any(stride > 0 and term.stride % stride == 0 for stride in array.strides) and term.stride <= array.strides[0]


def _waiver(text: str, words: dict[str, str], numbers: dict[str, int], place: Place) -> list[Waiver]:
    """What a DEPENDENCE pragma waives: nothing where it says `true` without a distance."""
    style = words.get("type") or ("intra" if re.search(r"\bintra\b", text, re.IGNORECASE) else "inter")
    direction = words.get("direction") or next((d for d in ("RAW", "WAR", "WAW") if re.search(rf"\b{d}\b", text)), "")
    if re.search(r"\bfalse\b", text, re.IGNORECASE):
        return [Waiver(style, direction.upper(), place)]
    if style == "inter" and (distance := numbers.get("distance", 0)) > 1:
        return [Waiver(style, direction.upper(), place, distance)]
    return []


class Storage:
    """The arrays of a function's variables."""

    def __init__(self, layouts: Layouts, types: dict[str, str], names: dict[str, str]) -> None:
        self._layouts = layouts
        self._types = types
        self._names = names
        self._arrays: dict[tuple[str, int, tuple[int, ...], tuple[int, ...]], Array] = {}
        self._of_root: dict[str, list[Array]] = {}

    def arrays(self) -> list[Array]:
        """All arrays that are known."""
        return list(self._arrays.values())

    def note(self, note: Note, pointers: Pointers) -> None:
        """Enters a pragma."""
        for place in self._noted_places(note, pointers):
            for root in self._roots(place.root):
                if not place.terms and note.extents:
                    self._apply(self._noted(root, place.offset if root == place.root else 0, note), note)

    def _noted_places(self, note: Note, pointers: Pointers) -> tuple[Pointer, ...]:
        """Place of a pragma's variable; in a constructor of array elements, that of every element."""
        try:
            return pointers.resolve(note.pointer)
        except UnknownPointerError:
            stepped = pointers.stepped(note.pointer)
            if stepped is None:
                return ()
            first, stride = stepped
            arrays = self._from_types(Pointer(first.root, first.offset))
            counts = [a.extents[d] for a in arrays for d, own in enumerate(a.strides) if own == stride]
            return tuple(Pointer(first.root, first.offset + k * stride) for k in range(counts[0] if counts else 0))

    def _roots(self, name: str) -> list[str]:
        """A variable and what is left of it in parts."""
        return [root for root in self._types if root == name or root.startswith(f"{name}.sroa.")] or [name]

    def _noted(self, root: str, offset: int, note: Note) -> Array:
        strides, size = [], note.size
        for extent in note.extents:
            size //= extent
            strides.append(size)
        return self._array(root, offset, note.extents, tuple(strides))

    def _array(self, root: str, offset: int, extents: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        key = (root, offset, extents, strides)
        if key not in self._arrays:
            array = Array(root, offset, extents, strides, self._names.get(root, root.lstrip("%@")))
            self._arrays[key] = array
            self._of_root.setdefault(root, []).append(array)
        return self._arrays[key]

    def _apply(self, array: Array, note: Note) -> None:
        kind, _, rest = note.text.partition(" ")
        words = {name.lower(): value.lower() for name, value in _WORD.findall(rest)}
        numbers = {name.lower(): int(value) for name, value in _NUMBER.findall(rest)}
        place = Place(note.file, note.line, "")
        array.place = array.place or place
        if kind in ("ARRAY_PARTITION", "ARRAY_RESHAPE"):
            style = words.get("type") or next(
                (s for s in ("cyclic", "block") if re.search(rf"\b{s}\b", rest)), "complete"
            )
            split = Split(
                "reshape" if kind == "ARRAY_RESHAPE" and style == "complete" else style, numbers.get("factor", 0)
            )
            dimension = numbers.get("dim", 1)
            for d in range(len(array.extents)) if dimension == 0 else [dimension - 1]:
                array.splits[d] = split
        elif kind in ("BIND_STORAGE", "RESOURCE"):
            array.bound = True
            array.ports = words.get("type", array.ports)
            array.implementation = words.get("impl", array.implementation)
        elif kind == "DEPENDENCE":
            array.waivers += _waiver(rest, words, numbers, place)

    def access(self, pointer: Pointer) -> list[Array]:
        """The arrays that a pointer goes through, outermost first; unknown ones are entered from the types."""
        found = self._levels(pointer)
        for term in pointer.terms:
            # An index in bytes fits no array before it is taken apart; it is one of the innermost.
            for array in [array for array in found if _fits(array, term)] or found[-1:]:
                array.indexed = True
        return found

    def holds(self, pointer: Pointer, offsets: list[int]) -> bool:
        """Whether the innermost array that a pointer goes through has all of these places."""
        found = self._levels(pointer)
        return bool(found) and all(map(found[-1].holds, offsets))

    def _levels(self, pointer: Pointer) -> list[Array]:
        """Arrays around a place; an index plus a constant may point outside of its array's bounds."""
        best: list[Array] = []
        for offset in self._near(pointer):
            found = self._levels_at(Pointer(pointer.root, offset, pointer.terms))
            if all(any(_fits(array, term) for array in found) for term in pointer.terms):
                return found
            best = best or found
        return best

    def _near(self, pointer: Pointer) -> list[int]:
        if not pointer.terms:
            return [pointer.offset]
        near = [
            offset for by in range(1, _REACH) for offset in (pointer.offset - by, pointer.offset + by) if offset >= 0
        ]
        anchor = pointer.offset if pointer.anchor is None else pointer.anchor
        # A constant behind the index means a field or an element further on, one before it an element in front.
        first = [pointer.offset, anchor] if pointer.offset >= anchor else [anchor, pointer.offset]
        return [*(place for place in first if place >= 0), *near]

    def _levels_at(self, pointer: Pointer) -> list[Array]:
        noted = [a for a in self._of_root.get(pointer.root, []) if a.holds(pointer.offset)]
        found = sorted(noted, key=lambda a: -a.size)
        if any(not any(_fits(array, term) for array in found) for term in pointer.terms):
            for array in self._from_types(pointer):
                if not any(a.strides[-1] <= array.strides[-1] for a in found):
                    found.append(array)
        return found

    def _from_types(self, pointer: Pointer) -> list[Array]:
        """Arrays on the way through the variable's type."""
        found: list[Array] = []
        kind, begin = self._types.get(pointer.root, ""), 0
        while kind:
            array = self._layouts.array(kind)
            if array is not None:
                start, extents, strides = begin, [], []
                while array is not None:
                    stride = self._layouts.of(array[1]).size
                    extents.append(array[0])
                    strides.append(stride)
                    kind = array[1]
                    begin += min(array[0] - 1, max(0, (pointer.offset - begin) // stride)) * stride if stride else 0
                    array = self._layouts.array(kind)
                found.append(self._array(pointer.root, start, tuple(extents), tuple(strides)))
            elif self._layouts.is_structure(kind):
                inside = [
                    (o, k)
                    for o, k in self._layouts.fields(kind)
                    if begin + o <= pointer.offset < begin + o + self._layouts.of(k).size
                ]
                if not inside:
                    break
                begin, kind = begin + inside[-1][0], inside[-1][1]
            else:
                break
        return found
