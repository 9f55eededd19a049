"""Payload TREE of a feature map: a quadtree in pre-order, one bit a cell (SC 2.3, SC R142).

The *root* is the smallest square of side leaf * 2**n that covers the piece. A node that is empty is one zero bit.
Another is a one bit and its quarters NW, NE, SW, SE that begin inside the piece or, where no halving is left, one bit
for each of its cells in raster order. The values of those bits follow.

Levels count from the leaves here: level 0 is the nodes that are not halved. Both directions work level by level on all
nodes of a level at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bfpga.errors import DataError
from bfpga.formats.arrays import BoolArray
from bfpga.formats.compressed.maps import ALL_LEVELS, LEAF_SIDES, inside
from bfpga.formats.compressed.words import (
    WORD,
    WORD_BYTES,
    IndexArray,
    ValueArray,
    WordArray,
    bytes_to_words,
    check_stored,
    pack_values,
    unpack_values,
    value_type,
    words_of,
)

_HEADER_WORDS = 2
#: Halvings of the root, 16 x 16 nodes at most, above which the decoder goes from node to node.
_WALKED_LEVELS = 4


@dataclass(frozen=True)
class TreeShape:
    """Squares of a tree over a piece: its root and the nodes that are not halved, by their sides in cells."""

    rows: int
    columns: int
    root: int
    side: int

    @staticmethod
    def of(rows: int, columns: int, leaf: int, levels: int) -> TreeShape:
        """Shape for a smallest side ``leaf`` and at most ``levels`` halvings."""
        root = leaf
        while root < max(rows, columns):
            root *= 2
        return TreeShape(rows, columns, root, max(leaf, root >> levels))

    @property
    def levels(self) -> int:
        """Halvings from the root to the nodes of level 0."""
        return (self.root // self.side).bit_length() - 1

    def leaves(self) -> tuple[int, int]:
        """Nodes of level 0 that begin inside the piece: down and across."""
        return -(-self.rows // self.side), -(-self.columns // self.side)


def tree_bytes(cells: ValueArray, value_bytes: int, leaf: int, levels: int = ALL_LEVELS) -> int:
    """Bytes of a TREE payload of the values (rows, columns)."""
    shape = TreeShape.of(cells.shape[0], cells.shape[1], leaf, levels)
    occupied = _halved_to(cells != 0, shape.side)
    bits = 1 + int(np.count_nonzero(occupied)) * shape.side**2
    for _ in range(shape.levels):
        down, across = occupied.shape
        occupied = _halved(occupied)
        quarters = _children(down) @ occupied.astype(np.int64) @ _children(across)
        bits += int(quarters)
    return WORD_BYTES * (_HEADER_WORDS + words_of(-(-bits // 8)) + words_of(np.count_nonzero(cells) * value_bytes))


def _children(count: int) -> IndexArray:
    """How many of ``count`` neighbours each pair of them has: 2, at the end perhaps 1."""
    children = np.full(-(-count // 2), 2, np.int64)
    children[-1] -= count % 2
    return children


def _even(grid: ValueArray) -> ValueArray:
    """A grid with a row and a column of zeros more where their number is odd."""
    rows, columns = grid.shape
    if rows % 2 == 0 and columns % 2 == 0:
        return grid
    padded = np.zeros((rows + rows % 2, columns + columns % 2), grid.dtype)
    padded[:rows, :columns] = grid
    return padded


def _halved(occupied: BoolArray) -> BoolArray:
    """Which squares of 2 x 2 hold something."""
    grid = _even(occupied)
    rows: BoolArray = grid[0::2] | grid[1::2]
    halved: BoolArray = rows[:, 0::2] | rows[:, 1::2]
    return halved


def _halved_to(occupied: BoolArray, side: int) -> BoolArray:
    """Which squares of a side, a power of two, hold something."""
    while side > 1:
        occupied, side = _halved(occupied), side // 2
    return occupied


# --- encoder


def encode_tree(cells: ValueArray, value_bytes: int, leaf: int, levels: int = ALL_LEVELS) -> WordArray:
    """A piece from ``check_piece`` as a TREE payload."""
    shape = TreeShape.of(cells.shape[0], cells.shape[1], leaf, levels)
    occupied = [_halved_to(cells != 0, shape.side)]
    sizes: list[IndexArray] = [np.where(occupied[0], 1 + shape.side**2, 1)]
    for level in range(shape.levels):
        occupied.append(_halved(occupied[level]))
        below = _even(sizes[level])
        rows = below[0::2] + below[1::2]
        sizes.append(1 + (rows[:, 0::2] + rows[:, 1::2]) * occupied[-1])
    starts = _starts(sizes)
    # Values in the place of their bits: reading them back in the order of the bits is the order of the payload.
    slots = np.zeros(int(sizes[-1][0, 0]), cells.dtype)
    filled = starts[0][occupied[0]]
    slots[filled[:, None] + np.arange(1, shape.side**2 + 1)] = _leaf_cells(cells, shape, occupied[0])
    bits: BoolArray = slots != 0
    values = slots[bits]
    for start, full in zip(starts, occupied, strict=True):
        bits[start[full]] = True
    header = np.array([bits.size, leaf | levels << 8 | (shape.root.bit_length() - 1) << 16], WORD)
    packed = bytes_to_words(np.packbits(bits, bitorder="little"))
    return np.concatenate([header, packed, pack_values(values, value_bytes)])


def _starts(sizes: list[IndexArray]) -> list[IndexArray]:
    """Position of every node in the bit string, level by level; meaningless where an ancestor is empty."""
    starts = [np.zeros((1, 1), np.int64)]
    for below in reversed(sizes[:-1]):
        size = _even(below)
        start = np.empty(size.shape, np.int64)
        start[0::2, 0::2] = starts[0] + 1
        start[0::2, 1::2] = start[0::2, 0::2] + size[0::2, 0::2]
        start[1::2, 0::2] = start[0::2, 1::2] + size[0::2, 1::2]
        start[1::2, 1::2] = start[1::2, 0::2] + size[1::2, 0::2]
        starts.insert(0, start[: below.shape[0], : below.shape[1]])
    return starts


def _leaf_cells(cells: ValueArray, shape: TreeShape, occupied: BoolArray) -> ValueArray:
    """Cells of the occupied nodes of level 0: (nodes, side * side), zero beyond the border."""
    down, across = shape.leaves()
    padded = np.zeros((down * shape.side, across * shape.side), cells.dtype)
    padded[: shape.rows, : shape.columns] = cells
    grid = padded.reshape(down, shape.side, across, shape.side).transpose(0, 2, 1, 3)
    return grid[occupied].reshape(-1, shape.side**2)


# --- decoder


def decode_tree(words: WordArray, rows: int, columns: int, value_bytes: int) -> ValueArray:
    """Inverse of ``encode_tree``: (rows, columns); ``DataError`` for a payload that no encoder writes."""
    what = f"TREE payload of {rows} x {columns} cells"
    shape, bits, values = _read(words, rows, columns, what)
    parser = _Parser(bits, shape, what)
    leaves = parser.occupied_leaves()
    places = leaves.start[:, None] + np.arange(1, shape.side**2 + 1)
    masks = bits[places]
    if not masks.any(axis=1).all():
        raise DataError(f"{what}: a node is marked as occupied, but holds no value")
    stored = np.zeros(bits.size, np.bool_)
    stored[places] = masks
    loaded = unpack_values(values, int(np.count_nonzero(masks)), value_bytes, what)
    check_stored(loaded, what)
    slots = np.zeros(bits.size, value_type(value_bytes))
    slots[stored] = loaded
    nodes = shape.leaves()
    grid = np.zeros((*nodes, shape.side, shape.side), slots.dtype)
    grid[leaves.row, leaves.column] = slots[places].reshape(-1, shape.side, shape.side)
    cells = grid.transpose(0, 2, 1, 3).reshape(nodes[0] * shape.side, nodes[1] * shape.side)
    return inside(cells, rows, columns, what)


def _read(words: WordArray, rows: int, columns: int, what: str) -> tuple[TreeShape, BoolArray, WordArray]:
    """Header, bit string and the words of the values."""
    if words.size < _HEADER_WORDS:
        raise DataError(f"{what} is cut off: its header takes {_HEADER_WORDS} words, there are {words.size}")
    count, header = int(words[0]), int(words[1])
    leaf, levels, root = header & 0xFF, header >> 8 & 0xFF, header >> 16
    if leaf not in LEAF_SIDES:
        raise DataError(f"{what}: its leaves have side {leaf}, it must be 1, 2, 4 or 8")
    shape = TreeShape.of(rows, columns, leaf, levels)
    if root != shape.root.bit_length() - 1:
        right = shape.root.bit_length() - 1
        raise DataError(f"{what}: the root field is {root}, it must be {right} (side {shape.root})")
    section = _HEADER_WORDS + words_of(-(-count // 8))
    if words.size < section:
        raise DataError(f"{what} is cut off: {count} bits end after {section} words, there are {words.size}")
    padded = np.unpackbits(words[_HEADER_WORDS:section].view(np.uint8), bitorder="little").view(np.bool_)
    if padded[count:].any():
        raise DataError(f"{what}: the bits that pad the tree are not zero")
    return shape, padded[:count], words[section:]


class _Nodes(NamedTuple):
    """Nodes of one level: where each starts in the bit string, and its place among the nodes of its level."""

    start: IndexArray
    row: IndexArray
    column: IndexArray


_NO_NODES = _Nodes(*(np.zeros(0, np.int64) for _ in range(3)))


class _Parser:
    """Finds the nodes of a bit string.

    Where a node ends depends on what it holds, so a reader of one bit after the other would be slow here. Instead,
    every position of the string is taken for the start of a node: the end of a node of level n + 1 is found by going
    over its quarters, which are jumps in the table of level n. From the top down, the tables then give where quarters
    start. In the first `_WALKED_LEVELS` halvings of the root there are so few nodes that going from one to the next is
    faster.

    A node at the lower or right border may have fewer quarters, and so may its quarters at the border: `cut` nodes have
    tables of their own. Two entries behind the string stand for its end and for beyond its end.
    """

    def __init__(self, bits: BoolArray, shape: TreeShape, what: str) -> None:
        self._shape, self._what = shape, what
        self._count = bits.size
        self._table_level = max(0, shape.levels - _WALKED_LEVELS)
        self._ones: IndexArray = np.flatnonzero(bits)
        self._bits = np.concatenate([bits, np.zeros(2, np.bool_)])
        self._after = np.minimum(np.arange(1, bits.size + 3), bits.size + 1)
        self._ends: dict[tuple[int, bool, bool], IndexArray] = {}

    def _is_cut(self, level: int, axis: int) -> bool:
        """Whether the last node of a level lacks leaves."""
        return self._shape.leaves()[axis] % (1 << level) != 0

    def _halves(self, level: int, cut: bool, axis: int) -> tuple[bool, ...]:
        """The halves of a node along an axis that begin inside the piece: which of them are cut."""
        if not cut:
            return False, False
        last = self._is_cut(level - 1, axis)
        below = -(-self._shape.leaves()[axis] >> (level - 1))
        return (last,) if below % 2 else (False, last)

    def _quarters(self, level: int, cut: tuple[bool, bool]) -> list[tuple[int, int, bool, bool]]:
        """Row and column of every quarter of a node, and whether it is cut along either."""
        return [
            (down, across, cut_rows, cut_columns)
            for down, cut_rows in enumerate(self._halves(level, cut[0], 0))
            for across, cut_columns in enumerate(self._halves(level, cut[1], 1))
        ]

    def _end(self, level: int, cut_rows: bool, cut_columns: bool) -> IndexArray:
        """Where a node ends, for every position it could start at."""
        key = (level, cut_rows, cut_columns)
        if key not in self._ends:
            cursor = self._ones + 1
            if level == 0:
                cursor = np.minimum(cursor + self._shape.side**2, self._count + 1)
            else:
                for _, _, *cut in self._quarters(level, (cut_rows, cut_columns)):
                    cursor = self._end(level - 1, *cut).take(cursor, mode="clip")
            end = self._after.copy()
            end[self._ones] = cursor
            self._ends[key] = end
        return self._ends[key]

    def occupied_leaves(self) -> _Nodes:
        """Every node of level 0 that is not empty."""
        cut = (self._is_cut(self._shape.levels, 0), self._is_cut(self._shape.levels, 1))
        found: dict[tuple[bool, bool], list[tuple[int, int, int]]] = {}
        end = self._walk(self._shape.levels, cut, (0, 0, 0), found)
        if end != self._count:
            where = "goes on" if end > self._count else f"ends after {end}"
            raise DataError(f"{self._what}: it has {self._count} bits, but its tree {where}")
        groups = {cut: [_Nodes(*np.array(nodes).T)] for cut, nodes in found.items()}
        for level in range(self._table_level, 0, -1):
            groups = self._descend(level, groups)
        return self._occupied(groups.get((False, False), []))

    def _walk(
        self,
        level: int,
        cut: tuple[bool, bool],
        node: tuple[int, int, int],
        found: dict[tuple[bool, bool], list[tuple[int, int, int]]],
    ) -> int:
        """Goes through the few nodes above the tables, notes where those of the tables' top level start."""
        position, row, column = node
        if level == self._table_level:
            found.setdefault(cut, []).append(node)
            return int(self._end(level, *cut)[position])
        if position >= self._count or not self._bits[position]:
            return min(position, self._count) + 1
        cursor, some = position + 1, False
        for down, across, *cuts in self._quarters(level, cut):
            some |= bool(self._bits[cursor])
            quarter = (cursor, 2 * row + down, 2 * column + across)
            cursor = self._walk(level - 1, (cuts[0], cuts[1]), quarter, found)
        self._check_occupied(some or cursor > self._count)
        return cursor

    def _check_occupied(self, some: bool) -> None:
        if not some:
            raise DataError(f"{self._what}: a node is marked as occupied, but holds no value")

    def _occupied(self, groups: list[_Nodes]) -> _Nodes:
        nodes = [np.concatenate(column) for column in zip(_NO_NODES, *groups, strict=True)]
        occupied = np.flatnonzero(self._bits[nodes[0]])
        return _Nodes(*(column[occupied] for column in nodes))

    def _descend(
        self, level: int, groups: dict[tuple[bool, bool], list[_Nodes]]
    ) -> dict[tuple[bool, bool], list[_Nodes]]:
        """The quarters of the occupied nodes of a level, by how they are cut."""
        below: dict[tuple[bool, bool], list[_Nodes]] = {}
        for cut, group in groups.items():
            nodes = self._occupied(group)
            cursor = nodes.start + 1
            some = np.zeros(cursor.size, np.bool_)
            for down, across, *cuts in self._quarters(level, cut):
                quarter = _Nodes(cursor, 2 * nodes.row + down, 2 * nodes.column + across)
                below.setdefault((cuts[0], cuts[1]), []).append(quarter)
                some |= self._bits[cursor]
                cursor = self._end(level - 1, *cuts)[cursor]
            self._check_occupied(bool(some.all()))
        return below
