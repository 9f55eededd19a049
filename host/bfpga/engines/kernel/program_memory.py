"""What crosses the input of a kernel with a program memory: a header, descriptors that are not there yet, tensors.

docs/kernel.md describes the process; `bfpga/processes/program/program.hpp` is the other side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, FIELDS, Descriptor, Flag, Operation
from bfpga.contract.program import KernelOperation
from bfpga.contract.program_header import (
    ADDRESS_BITS,
    HEADER_LENGTH,
    HEADER_WORDS,
    PERIODS,
    TENSOR_BITS,
    TENSOR_FIRST,
)
from bfpga.engines.kernel.cycles import tensor_beats
from bfpga.engines.kernel.order import COUNT_BITS, COUNT_WORDS, SampleRow, descriptor_words, repeated_row
from bfpga.errors import ProgramError
from bfpga.formats.arrays import IntArray

Octets = npt.NDArray[np.uint8]
_WORD_BYTES = 4
_HEADER_BYTES, _DESCRIPTOR_BYTES = _WORD_BYTES * HEADER_LENGTH, _WORD_BYTES * DESCRIPTOR_WORDS
_FLAGS = FIELDS.index("flags")
_OPERATIONS = frozenset(int(item) for item in Operation if item is not Operation.NONE)


def descriptor_beats(config: KernelConfig) -> int:
    """Beats of a descriptor on the input stream."""
    return DESCRIPTOR_WORDS * 32 // config.stream_bits


def loaded_beats(config: KernelConfig, descriptor: Descriptor) -> int:
    """Beats that follow a descriptor on the input stream: header and elements of a LOAD."""
    return 1 + tensor_beats(config, descriptor) if descriptor.operation == Operation.LOAD else 0


def with_tensor_beats(config: KernelConfig, words: IntArray, descriptors: Sequence[Descriptor]) -> IntArray:
    """Words of descriptors as a program memory reads them: the first one says how many beats follow.

    ProgramError for a tensor that is too long to be told.
    """
    beats = np.array([loaded_beats(config, item) for item in descriptors], np.int64)
    if beats.max(initial=0) >= 1 << TENSOR_BITS:
        raise ProgramError(f"a tensor of {beats.max()} beats; a program memory counts {(1 << TENSOR_BITS) - 1}")
    marked = words.copy()
    marked[:, 0] = (marked[:, 0] | beats << TENSOR_FIRST).astype(np.uint32).view(np.int32)
    return marked


def header_bytes(**fields: int) -> bytes:
    """A header; fields that are not given are zero."""
    words = np.zeros(HEADER_LENGTH, "<i4")
    for name, value in fields.items():
        words[HEADER_WORDS.index(name)] = value
    return words.tobytes()


def streamed_header(config: KernelConfig, descriptors: int) -> bytes:
    """The header of a start whose descriptors the host sends among its tensors.

    ProgramError for more than a start may have.
    """
    end = descriptors * descriptor_beats(config)
    if end >= 1 << ADDRESS_BITS:
        raise ProgramError(f"a start of {descriptors} descriptors; a program memory counts {most_descriptors(config)}")
    return header_bytes(end=end, rows=1, streamed=1)


def most_descriptors(config: KernelConfig) -> int:
    """Descriptors of a start at most that the host sends itself."""
    return ((1 << ADDRESS_BITS) - 1) // descriptor_beats(config)


@dataclass(frozen=True)
class KeptProgram:
    """The row of operations of a start in the program memory, from descriptor ``base`` on."""

    config: KernelConfig
    operations: Sequence[KernelOperation]
    row: SampleRow
    base: int
    #: Of every operation words of the records of its map (``record_sizes``).
    record_sizes: Sequence[int]

    @cached_property
    def image(self) -> bytes:
        """Its descriptors as they are kept."""
        ordered = [self.operations[index] for index in self.row.order]
        words = descriptor_words(ordered, self.config, [self.record_sizes[index] for index in self.row.order])
        words[:, COUNT_WORDS] = self._counts[0]
        return with_tensor_beats(self.config, words, [item.descriptor for item in ordered]).astype("<i4").tobytes()

    @cached_property
    def _counts(self) -> tuple[IntArray, IntArray]:
        counts = repeated_row(self.operations, self.config, self.row)
        if counts is None:
            raise ProgramError("operations whose rows differ are not kept")
        return counts

    @property
    def length(self) -> int:
        """Descriptors."""
        return len(self.row.order)

    def opening(self, samples: int, sends: bool) -> bytes:
        """What a start begins with. sends: whether the program is not there yet."""
        return self._header(samples, sends) + self.image * sends

    def _header(self, samples: int, sends: bool) -> bytes:
        beats, row = descriptor_beats(self.config), self.row
        fields = {
            "sent": beats * len(row.order) * sends,
            "base": beats * self.base,
            "previous": beats * (self.base + row.previous.start),
            "rest": beats * (self.base + row.previous.stop),
            "end": beats * (self.base + len(row.order)),
            "rows": samples + row.extra_rows,
        }
        return header_bytes(**fields, **dict(zip(PERIODS, self._counts[1].tolist(), strict=True)))


def may_be_kept(config: KernelConfig, operations: Sequence[KernelOperation], row: SampleRow) -> bool:
    """Whether the operations of a sample fit the program memory, in an order that it can repeat."""
    if not 0 < len(operations) <= config.program_descriptors:
        return False
    ends = row.previous.stop == len(row.order) and row.extra_rows > 0
    return not ends and repeated_row(operations, config, row) is not None


class ProgramMemory:
    """What a program memory holds, and what the sequencer gets of a start: for a model of the kernel."""

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        self._words = np.zeros((config.program_descriptors, DESCRIPTOR_WORDS), np.int32)

    def opening_beats(self, packet: bytes | bytearray) -> int:
        """Beats of a start before its first descriptor or tensor."""
        return (_HEADER_BYTES * 8 + self.config.stream_bits * self._head(packet)["sent"]) // self.config.stream_bits

    def samples(self, packet: bytes | bytearray) -> int:
        """Samples for which a start repeats what the memory holds; 0: it does not."""
        head = self._head(packet)
        return 0 if head["streamed"] else head["rows"] - (head["previous"] != head["rest"])

    def descriptors(self, packet: bytes | bytearray, samples: int | None = None) -> Iterator[Descriptor]:
        """Those of a start, in their order, from what crossed the input stream; what came to the memory stays there.

        samples: of the start at most, by default as many as its header says. A packet that lost beats may say anything:
        it ends where it is too short, or where there is no operation.
        """
        for words in self._descriptors(packet, samples):
            if int(words[0]) not in _OPERATIONS:
                return
            yield Descriptor.from_words(words.tolist())

    def _head(self, packet: bytes | bytearray) -> dict[str, int]:
        words = np.frombuffer(bytes(packet[:_HEADER_BYTES]).ljust(_HEADER_BYTES, b"\0"), "<i4")
        return dict(zip(HEADER_WORDS, words.tolist(), strict=False))

    def _descriptors(self, packet: bytes | bytearray, samples: int | None) -> Iterator[IntArray]:
        place, beats, head = _HEADER_BYTES, descriptor_beats(self.config), self._head(packet)
        if head["streamed"]:
            yield from self._streamed(packet, place)
            return
        first, previous, rest, end = (head[name] // beats for name in ("base", "previous", "rest", "end"))
        sent = head["sent"] // beats
        if not 0 <= first <= previous <= rest <= end <= len(self._words) or first + sent > len(self._words):
            return
        whole = max(0, min(sent, (len(packet) - place) // _DESCRIPTOR_BYTES))
        kept = np.frombuffer(packet, "<i4", whole * DESCRIPTOR_WORDS, place) if whole else np.zeros(0, np.int32)
        self._words[first : first + whole] = kept.reshape(-1, DESCRIPTOR_WORDS)
        yield from self._walked(head, range(first, end), range(previous, rest), samples)

    def _walked(self, head: dict[str, int], all_: range, previous: range, samples: int | None) -> Iterator[IntArray]:
        period = np.array([head[name] for name in PERIODS])
        count = head["rows"] if samples is None else min(samples + bool(previous), head["rows"])
        for row in range(count):
            last = row == count - 1
            for place in previous if previous and last else all_:
                if row == 0 and place in previous:
                    continue
                words = self._words[place].copy()
                words[0] &= (1 << TENSOR_FIRST) - 1
                words[COUNT_WORDS] = (words[COUNT_WORDS] + row * period) & ((1 << COUNT_BITS) - 1)
                if not last:
                    words[_FLAGS] &= ~int(Flag.END_PACKET)
                yield words

    def _streamed(self, packet: bytes | bytearray, place: int) -> Iterator[IntArray]:
        beat = self.config.stream_bits // 8
        while place + _DESCRIPTOR_BYTES <= len(packet):
            words = np.frombuffer(packet, "<i4", DESCRIPTOR_WORDS, place).copy()
            place += _DESCRIPTOR_BYTES + beat * (int(words[0]) >> TENSOR_FIRST & (1 << TENSOR_BITS) - 1)
            words[0] &= (1 << TENSOR_FIRST) - 1
            yield words


