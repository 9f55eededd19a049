"""Records of maps that a kernel with a sparse cluster emits: how each was cut, and what each unit was given of it.

A record is words of 32 bits (contract/streams.py ``MAP_RECORD``, sparse_cluster/map_record.hpp). Those of maps
before a STORE follow its tensor, one after the other, in whole beats; a start emits those that its STOREs bring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bfpga.contract.arrays.sparse_cluster import TOLD_WORDS, map_array
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.predicates import predicate_of
from bfpga.contract.program import KernelOperation
from bfpga.contract.streams import CUT_WORDS, MAP_RECORD, BeatField
from bfpga.formats.arrays import BoolArray, Int64Array

_WORD_BYTES = 4


@dataclass(frozen=True)
class MapRecords:
    """Records of the maps of a layer; words: (samples, maps, words of a record), a map for each of its operations.

    Properties are (samples, maps), values (samples, maps, units).
    """

    words: Int64Array

    @property
    def moves(self) -> Int64Array:
        """Moves that limits made (SC R25)."""
        return self._field("moves")

    @property
    def reached(self) -> BoolArray:
        """Whether the threshold was met (SC R33); false of a map that was not counted."""
        return np.asarray(self._field("reached") != 0)

    @property
    def counted(self) -> BoolArray:
        """Whether the map was counted: the pieces of others are of equal size."""
        return np.asarray(self._field("counted") != 0)

    @property
    def largest(self) -> Int64Array:
        """Work of the piece with most of it; 0 of a map that was not counted."""
        return self.words[..., 1]

    @property
    def smallest(self) -> Int64Array:
        """Work of the piece with least of it; 0 of a map that was not counted."""
        return self.words[..., 2]

    @property
    def values(self) -> Int64Array:
        """Values other than zero that each unit was given, for all blocks of output channels (SC R56)."""
        return self.words[..., CUT_WORDS:]

    def text(self, sample: int, number: int) -> str:
        """A record in words."""
        at = sample, number
        cut = "in equal pieces"
        if self.counted[at]:
            met = "met" if self.reached[at] else "not met"
            cut = f"{self.moves[at]} moves, threshold {met}, work {self.smallest[at]} to {self.largest[at]}"
        return f"{cut}, values of units {self.values[at].tolist()}"

    def _field(self, name: str) -> Int64Array:
        item = MAP_RECORD[name]
        return (self.words[..., 0] >> item.first) & _mask(item)


def record_words(config: KernelConfig) -> int:
    """Words of a record; 0 of a kernel that cuts no maps."""
    return CUT_WORDS + map_array(config.array).units if config.array.cuts_maps else 0


def packed_record(
    moves: int, reached: bool, counted: bool, largest: int, smallest: int, values: Sequence[int]
) -> list[int]:
    """The words of a record."""
    facts = {"moves": moves, "reached": int(reached), "counted": int(counted)}
    first = sum((facts[name] & _mask(item)) << item.first for name, item in MAP_RECORD.items())
    return [first, largest, smallest, *values]


def record_sizes(operations: Sequence[KernelOperation], config: KernelConfig) -> list[int]:
    """Of every operation of a start the words of records that it emits, or, of a STORE, that it brings.

    There is no record of maps that no STORE follows, of more maps than fit between two of them, of operations
    that may be skipped and of those that only measure.
    """
    size, sizes = record_words(config), [0] * len(operations)
    waiting: list[int] = []
    for index, operation in enumerate(operations if size else ()):
        if operation.descriptor.operation == Operation.STORE:
            for item in waiting:
                sizes[item] = size
            sizes[index] = len(waiting) * size
            waiting.clear()
        elif _may_emit(operation) and (len(waiting) + 1) * size <= TOLD_WORDS:
            waiting.append(index)
    return sizes


def emits_record(operation: KernelOperation, words: int) -> bool:
    """Whether an operation with so many ``record_sizes`` emits the record of a map of its own."""
    return words > 0 and operation.descriptor.operation != Operation.STORE


def waits_for_store(operations: Sequence[KernelOperation], config: KernelConfig) -> bool:
    """Whether a start computes maps, and no STORE brings their records."""
    if not record_words(config) or any(item.descriptor.operation == Operation.STORE for item in operations):
        return False
    return any(map(_may_emit, operations))


def _may_emit(operation: KernelOperation) -> bool:
    descriptor = operation.descriptor
    return (
        descriptor.operation == Operation.GEMM
        and bool(descriptor.flags & Flag.CLUSTER)
        and not descriptor.flags & Flag.MEASURE
        and predicate_of(descriptor) is None
    )


def record_bytes(words: int, config: KernelConfig) -> int:
    """Bytes of so many words of records on the output stream."""
    beat = config.stream_bits // 8
    return -(-words * _WORD_BYTES // beat) * beat


def unpacked_records(data: npt.NDArray[np.uint8], config: KernelConfig) -> Int64Array:
    """The records of rows of bytes: (rows, records, words)."""
    numbers = np.ascontiguousarray(data).view("<u4").astype(np.int64)
    return numbers.reshape(len(data), -1, record_words(config))


def _mask(item: BeatField) -> int:
    return (1 << item.bits) - 1
