"""The pieces of a layer on a skip array: runs of output channels, each with its window, its entry words and its cycles.

A piece is found again as long as the weights of its layer are there: plans and schedules ask for it many times.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from functools import cached_property

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode
from bfpga.engines.skip_array.cycles import PassClocks, pass_clocks
from bfpga.engines.skip_array.entries import EntryWords, entry_words, pack_entries
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.engines.skip_array.windows import ChunkKernels, PieceWindow, chunk_kernels, piece_window
from bfpga.errors import ProgramError
from bfpga.formats.arrays import IntArray


@dataclass(frozen=True)
class Piece:
    """Output channels that one operation computes. chunks: their kernels without the weights."""

    shape: SkipShape
    window: PieceWindow
    chunks: ChunkKernels
    entries: EntryWords

    @property
    def words(self) -> int:
        """Entry words."""
        return len(self.entries.words)

    @cached_property
    def packed(self) -> bytes:
        """The entry words on the weight stream."""
        return pack_entries(self.entries.words, self.shape)

    @property
    def chunk_steps(self) -> int:
        """Steps of every chunk but the last."""
        return int(self.chunks.steps[0])

    @property
    def held(self) -> int:
        """Chunks that the array holds at a time."""
        return self.shape.held(self.chunk_steps, self.window.apart)

    def clocks(self, slots: int = 1, single: bool = False, slid: int | None = None) -> PassClocks:
        """Cycles of a pass. slots: in which the words of a step reach all columns; single: of one half; slid: steps
        that a window has beyond that of the pass before, if that is all that comes."""
        return pass_clocks(self.chunks, self.entries, self.shape, slots, single, slid)


_Key = tuple[int, int, int, SkipShape]
_FOUND: dict[int, dict[_Key, Piece]] = {}


def piece_of(node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> Piece:
    """The piece of output channels [m0, m1) of a layer; ProgramError if it has no weights."""
    if node.weights is None:
        raise ProgramError(f"layer {node.name}: a layer without weights has no entries")
    pieces = _pieces(node.weights)
    key = (node.groups, m0, m1, SkipShape.of(config))
    if key not in pieces:
        pieces[key] = _made(node.weights, *key)
    return pieces[key]


def _pieces(weights: IntArray) -> dict[_Key, Piece]:
    """The known pieces of a layer with these weights."""
    number = id(weights)
    if number not in _FOUND:
        _FOUND[number] = {}
        weakref.finalize(weights, _FOUND.pop, number, None)
    return _FOUND[number]


def _made(weights: IntArray, groups: int, m0: int, m1: int, shape: SkipShape) -> Piece:
    window = piece_window(weights, groups, m0, m1, shape)
    chunks = chunk_kernels(weights, groups, m0, m1, window, shape)
    entries = entry_words(chunks, shape)
    return Piece(shape, window, replace(chunks, weights=chunks.weights[:, :, :0]), entries)


def plain_bytes(node: ArrayNode, config: KernelConfig) -> int:
    """Bytes of a layer's weights with their zeros."""
    return 0 if node.weights is None else node.weights.size * config.weight_bits // 8
