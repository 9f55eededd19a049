"""What a loop's loads and stores touch: registers byte by byte, words of memories, streams."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from bfpga.errors import ToolError
from bfpga.synthesis.body import BankOrigin, Memory, Place
from bfpga.synthesis.frontend.initializers import initial_bytes
from bfpga.synthesis.frontend.ir import Function, Instruction, Layouts, Module, pointer_operand, split_list, split_type
from bfpga.synthesis.frontend.places import VariableNames
from bfpga.synthesis.frontend.pointers import Pointer, Pointers, Term
from bfpga.synthesis.frontend.storage import Array, Storage

_FLAGS = re.compile(r"^(?:(?:nuw|nsw|volatile|disjoint|nneg) )*")
_WIDTHS = {"float": 4, "double": 8, "half": 2}


@dataclass(frozen=True, slots=True)
class Index:
    """Index of a dimension: ``constant`` plus scaled terms; ``extent`` elements of ``stride`` bytes."""

    extent: int
    stride: int
    constant: int
    terms: tuple[tuple[Term, int], ...] = ()


@dataclass(frozen=True, slots=True)
class RegisterAccess:
    """Bytes of a variable in registers; ``indices``: the dimensions that are indexed at run time."""

    root: str
    offset: int
    indices: tuple[Index, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """A word of a memory: an index for every dimension, and the byte of the word."""

    array: Array
    indices: tuple[Index, ...]
    within: int


Access = RegisterAccess | MemoryAccess
Condition = tuple[tuple[str, bool], ...]


class UnknownAccessError(ToolError):
    """An address that is not understood."""


@dataclass(frozen=True, slots=True)
class _Use:
    operand: str
    size: int
    writes: bool


class Cells:
    """The accesses of one function; ``scan`` prepares them for one loop."""

    def __init__(
        self, module: Module, pointers: Pointers, storage: Storage, types: dict[str, str], names: VariableNames,
        streams: dict[str, str], bindings: dict[tuple[str, int], str],
    ) -> None:  # fmt: skip
        self._module, self._pointers, self._storage, self._types = module, pointers, storage, types
        self._names, self._streams, self._bindings = names, streams, bindings
        self._layouts = Layouts(module.structures)
        self._defined: dict[str, Instruction] = {}
        self._cuts: dict[str, list[int]] = {}
        self._written: set[tuple[str, int]] = set()
        self._carried: set[str] = set()
        self._constants: dict[str, bytes] = {}
        self._read: dict[str, tuple[_Use, ...]] = {}

    # -- the function

    def settle(self, function: Function) -> None:
        """Decides which arrays are registers because some code copies a variable that they are part of."""
        spans: dict[str, set[tuple[int, int]]] = {}
        for use in self._uses(function, function.blocks):
            for access, _ in self._known_accesses(use.operand):
                for root, offset in _touched(access):
                    spans.setdefault(root, set()).add((offset, use.size))
        for array in self._storage.arrays():
            array.copied = any(array.is_parted_by(*span) for span in spans.get(array.root, ()))

    # -- the loop

    def scan(self, function: Function, blocks: set[str], pieces_of: set[str] | None = None) -> None:
        """Finds which bytes of variables the blocks read and write together.

        ``pieces_of``: blocks whose accesses part the variables, so that several bodies agree on the pieces.
        """
        self._defined = {i.result: i for b in function.blocks.values() for i in b.instructions if i.result}
        edges: dict[str, set[int]] = {}
        writes: list[tuple[str, int, int]] = []
        for name in function.blocks:
            if name not in (pieces_of or blocks):
                continue
            for use in self._uses(function, (name,)):
                for access, _ in self._known_accesses(use.operand):
                    for root, offset in _touched(access):
                        inside = self._borders(root, offset, use.size)
                        edges.setdefault(root, set()).update((offset, offset + use.size), inside)
                        if use.writes and name in blocks:
                            writes.append((root, offset, use.size))
        self._cuts = {root: sorted(cuts) for root, cuts in edges.items()}
        self._written = {key for root, offset, size in writes for key in self.atoms(root, offset, size)}
        self._carried = {root for root in self._cuts if root.startswith("@")} | self._roots_outside(function, blocks)
        if pieces_of:
            self._carried |= set(function.arguments)

    def _roots_outside(self, function: Function, blocks: set[str]) -> set[str]:
        roots: set[str] = set()
        outside = [name for name in function.blocks if name not in blocks]
        for use in self._uses(function, outside):
            roots.update(place.root for place in self._places(use.operand))
        return roots

    def _uses(self, function: Function, names: Iterable[str]) -> Iterator[_Use]:
        """What the blocks of these names load and store. Each is read once, though every loop asks for all."""
        for name in names:
            if name not in self._read:
                instructions = function.blocks[name].instructions
                self._read[name] = tuple(use for each in instructions for use in _of_instruction(each))
            yield from self._read[name]

    def _borders(self, root: str, offset: int, size: int) -> list[int]:
        """Where the fields of a copied structure begin."""
        kind = self._names.of_global(root.lstrip("@").strip('"'))
        return self._names.borders(kind, offset, size) if kind is not None and size > 1 else []

    def _places(self, operand: str) -> tuple[Pointer, ...]:
        try:
            return self._pointers.resolve(operand)
        except ToolError:
            return ()

    # -- accesses

    def is_known(self, operand: str) -> bool:
        """Whether an access can be followed; those of loops that set up whole arrays cannot."""
        return bool(self._known_accesses(operand))

    def _known_accesses(self, operand: str) -> list[tuple[Access, Condition]]:
        try:
            return self.accesses(operand)
        except ToolError:
            return []

    def resolve(self, operand: str) -> tuple[Pointer, ...]:
        """Places of a pointer operand."""
        return self._pointers.resolve(operand)

    def accesses(self, operand: str) -> list[tuple[Access, Condition]]:
        """What a load or store touches, with the condition of each alternative."""
        places = [each for place in self._pointers.resolve(operand) for each in self._apart(place)]
        return [(self._access(place), place.condition) for place in places]

    def _apart(self, place: Pointer) -> list[Pointer]:
        """A place, or several: fields of which one is chosen are no elements of an array."""
        choices = self._pointers.choices(place)
        is_element = len(choices) == 1 or self._storage.holds(place, [each.offset for each in choices])
        return [place] if is_element else choices

    def _access(self, place: Pointer) -> Access:
        arrays = self._storage.access(place)
        constants = _constants(arrays, place)
        for array, numbers in zip(arrays, constants, strict=True):
            if array.is_memory():
                return self._memory_access(array, place, numbers)
        indices, constant = [], place.offset
        left = list(place.terms)
        for array, numbers in zip(arrays, constants, strict=True):
            found, left = self._array_indices(array, left)
            for dimension, terms in found.items():
                extent, stride, number = array.extents[dimension], array.strides[dimension], numbers[dimension]
                constant -= number * stride
                indices.append(Index(extent, stride, _within(number, extent), tuple(terms)))
        if left:
            raise UnknownAccessError(
                f"index {left[0].operand} of {place.root.lstrip('%@')} in steps of {left[0].stride} bytes"
            )
        return RegisterAccess(place.root, constant, tuple(indices))

    def _array_indices(self, array: Array, terms: list[Term]) -> tuple[dict[int, list[tuple[Term, int]]], list[Term]]:
        """Terms by dimension, and those that belong to other arrays."""
        found: dict[int, list[tuple[Term, int]]] = {}
        left = []
        for term in terms:
            dimension = self._dimension(array, term.stride)
            if dimension is None:
                pieces = self._decomposed(array, term)
                if pieces is None:
                    left.append(term)
                    continue
                for d, piece, scale in pieces:
                    found.setdefault(d, []).append((piece, scale))
            else:
                found.setdefault(dimension, []).append((term, term.stride // array.strides[dimension]))
        return found, left

    def _dimension(self, array: Array, stride: int) -> int | None:
        for d, own in enumerate(array.strides):
            if own == stride:
                return d
        for d, own in enumerate(array.strides):
            if stride > 0 and stride % own == 0 and stride < array.size and (d == 0 or stride < array.strides[d - 1]):
                return d
        return None

    def _decomposed(self, array: Array, term: Term) -> list[tuple[int, Term, int]] | None:
        """A byte index as indices of dimensions: sums and multiples are followed to what computes them."""
        instruction = self._defined.get(term.operand)
        if instruction is None:
            return None
        text = _FLAGS.sub("", instruction.text)
        kind, rest = split_type(text)
        parts = split_list(rest)
        if instruction.opcode in ("shl", "mul") and re.fullmatch(r"\d+", parts[-1]):
            factor = 1 << int(parts[1]) if instruction.opcode == "shl" else int(parts[1])
            return self._decomposed_term(array, Term(parts[0], kind, term.stride * factor))
        if instruction.opcode in ("add", "or") and not re.fullmatch(r"-?\d+", parts[-1]):
            pieces = [self._decomposed_term(array, Term(part, kind, term.stride)) for part in parts]
            return None if any(p is None for p in pieces) else [x for p in pieces if p is not None for x in p]
        return None

    def _decomposed_term(self, array: Array, term: Term) -> list[tuple[int, Term, int]] | None:
        dimension = self._dimension(array, term.stride)
        if dimension is not None:
            return [(dimension, term, term.stride // array.strides[dimension])]
        return self._decomposed(array, term)

    def _memory_access(self, array: Array, place: Pointer, numbers: list[int]) -> MemoryAccess:
        found, left = self._array_indices(array, list(place.terms))
        if left:
            raise UnknownAccessError(f"index {left[0].operand} of {array.name} in steps of {left[0].stride} bytes")
        rest = place.offset - array.offset
        indices, within, reshaped = [], 0, array.element
        for dimension, number in enumerate(numbers):
            extent, stride = array.extents[dimension], array.strides[dimension]
            if dimension not in found:
                number = min(max(number, 0), extent - 1)
            rest -= number * stride
            indices.append(Index(extent, stride, number, tuple(found.get(dimension, ()))))
        for dimension in range(len(array.extents) - 1, -1, -1):
            split = array.splits.get(dimension)
            if split is not None and split.style == "reshape":
                if indices[dimension].terms:
                    raise UnknownAccessError(
                        f"{array.name} is reshaped along dimension {dimension + 1}, which is indexed"
                    )
                within += indices[dimension].constant * reshaped
                reshaped *= array.extents[dimension]
        return MemoryAccess(array, tuple(indices), within + rest)

    # -- registers

    def atoms(self, root: str, offset: int, size: int) -> list[tuple[str, int]]:
        """The pieces of ``size`` bytes of a variable that are always accessed whole, as (root, offset)."""
        cuts = self._cuts.get(root, [])
        inside = cuts[bisect_left(cuts, offset) : bisect_left(cuts, offset + size)]
        if not inside or inside[0] != offset:
            inside.insert(0, offset)
        return [(root, cut) for cut in inside]

    def atom_size(self, key: tuple[str, int]) -> int:
        """Bytes of a piece."""
        root, offset = key
        cuts = self._cuts[root]
        following = bisect_right(cuts, offset)
        return cuts[following] - offset if following < len(cuts) else 1

    def all_atoms(self, root: str) -> list[tuple[str, int]]:
        """All pieces of a variable."""
        return [(root, cut) for cut in self._cuts.get(root, [])[:-1]]

    def is_written(self, key: tuple[str, int]) -> bool:
        """Whether the loop writes a piece."""
        return key in self._written

    def is_carried(self, key: tuple[str, int]) -> bool:
        """Whether a piece keeps its value from iteration to iteration, or beyond the loop."""
        return key[0] in self._carried

    def atom_name(self, key: tuple[str, int]) -> str:
        """What the source calls a piece."""
        root, offset = key
        kind = self._names.of_global(root.lstrip("@").strip('"'))
        path = self._names.path(kind, offset) if kind is not None else ""
        return path or f"{root.lstrip('%@')}+{offset}"

    def exact_bits(self, key: tuple[str, int]) -> tuple[int, bool] | None:
        """Bits that a piece has by its type, and whether it has a sign; None if it has all bits of its bytes."""
        kind = self._names.of_global(key[0].lstrip("@").strip('"'))
        found = self._names.exact_bits(kind, key[1]) if kind is not None else None
        whole = 8 * self.atom_size(key)
        # A piece that holds more than one variable has all of its bits.
        return found if found is not None and found[0] < whole <= 8 * self._layouts.of(f"i{found[0]}").size else None

    def value_name(self, result: str) -> str:
        """A name for a value that is carried without a variable."""
        return result.lstrip("%").strip('"')

    def constant_bytes(self, key: tuple[str, int]) -> bytes | None:
        """Contents of a piece of a constant table."""
        root, offset = key
        text = self._module.globals.get(root, "")
        if not re.search(r"\bconstant\b", text):
            return None
        if root not in self._constants:
            self._constants[root] = initial_bytes(self._layouts, text)
        return self._constants[root][offset : offset + self.atom_size(key)]

    # -- memories, streams

    def memory(self, array: Array, bank: tuple[int, ...]) -> Memory:
        """The memory that a bank of an array is."""
        words, width = 1, 8 * array.element
        for dimension, extent in enumerate(array.extents):
            split = array.splits.get(dimension)
            if split is None or split.style not in ("complete", "reshape"):
                factor = split.factor if split and split.factor else 1
                words *= -(-extent // factor)
            elif split.style == "reshape":
                width *= extent
        name = self._memory_name(array) + "".join(f"[{number}]" for number in bank)
        text = self._module.globals.get(array.root, "")
        initial: tuple[int, ...] = ()
        if re.search(r"\bconstant\b", text):
            contents = initial_bytes(self._layouts, text)
            size = array.element
            initial = tuple(
                int.from_bytes(contents[array.offset + k * size : array.offset + (k + 1) * size], "little")
                for k in range(words)
            )
        bits = self._word_bits(array) * (width // (8 * array.element))
        return Memory(
            name,
            words,
            width,
            [],
            array.ports,
            array.implementation,
            list(array.waivers),
            initial,
            array.place,
            bits,
            BankOrigin(array.root, array.offset, array.extents, array.strides, _styles(array), bank),
        )

    def _word_bits(self, array: Array) -> int:
        kind = self._names.of_global(array.root.lstrip("@").strip('"'))
        return self._names.element_bits(kind, array.offset, array.element) if kind is not None else 0

    def _memory_name(self, array: Array) -> str:
        kind = self._names.of_global(array.root.lstrip("@").strip('"'))
        path = self._names.path(kind, array.offset, array.size) if kind is not None else ""
        return path or array.name.lstrip("%@")

    def stream_name(self, root: str) -> str:
        """Name of a stream."""
        return self._streams.get(root, root.lstrip("%@"))

    def binding(self, place: Place) -> str:
        """What BIND_OP says of a product: "", "dsp" or "fabric"."""
        return self._bindings.get((place.file, place.line), "")


def _styles(array: Array) -> tuple[str, ...]:
    return tuple(array.splits[d].style if d in array.splits else "" for d in range(len(array.extents)))


def _constants(arrays: list[Array], place: Pointer) -> list[list[int]]:
    """Constant part of the index of each dimension of each array.

    An index less a constant points in front of the row that it is meant in: steps back are counted from the place
    where the index was applied, and go as few rows back as they can.
    """
    back = 0
    if arrays and place.terms and place.anchor is not None and arrays[-1].holds(place.anchor):
        element = arrays[-1].element
        back = max(0, -((place.offset - place.anchor) // element) * element)
    applied, found = place.offset + back, []
    for array in arrays:
        rest, numbers = applied - array.offset, []
        for stride in array.strides:
            number, rest = divmod(rest, stride)
            rows = (2 * back + stride - 1) // (2 * stride)
            back -= rows * stride
            numbers.append(number - rows)
        found.append(numbers)
    return found


def _within(number: int, extent: int) -> int:
    """A number as the bits of an index of ``extent`` elements hold it."""
    return number % (1 << (extent - 1).bit_length())


def _touched(access: Access) -> Iterator[tuple[str, int]]:
    """First bytes of what a register access may touch."""
    if isinstance(access, RegisterAccess):
        offsets = [access.offset]
        for index in access.indices:
            offsets = [offset + n * index.stride for offset in offsets for n in range(index.extent)]
        for offset in offsets:
            yield access.root, offset


def _of_instruction(instruction: Instruction) -> Iterator[_Use]:
    text = instruction.text
    if instruction.opcode == "load" and not text.startswith(("volatile", "ptr,")):
        kind, pointer = split_list(text)[:2]
        yield _Use(split_type(pointer)[1], _bytes(kind), False)
    elif instruction.opcode == "store" and not text.startswith(("volatile", "ptr ")):
        value, pointer = split_list(text)[:2]
        yield _Use(split_type(pointer)[1], _bytes(split_type(value)[0]), True)
    elif instruction.opcode == "call" and ("@llvm.memcpy" in text or "@llvm.memmove" in text or "@llvm.memset" in text):
        target, source, count = split_list(text[text.index("(") + 1 : text.rindex(")")])[:3]
        size = int(count.split()[-1])
        yield _Use(pointer_operand(target), size, True)
        if "@llvm.memset" not in text:
            yield _Use(pointer_operand(source), size, False)


def _bytes(kind: str) -> int:
    return _WIDTHS[kind] if kind in _WIDTHS else -(-int(kind[1:]) // 8)


def shifted(index: Index, by: int) -> Index:
    """An index some elements on."""
    return replace(index, constant=index.constant + by)
