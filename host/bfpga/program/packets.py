"""The streams of several samples in one kernel start: packed and unpacked for all samples at once.

Descriptors do not change from sample to sample, so they are packed once into a template; only tensors are filled in,
and what operations wait for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import FIELDS, Flag, Operation
from bfpga.contract.program import BlockTensor, KernelOperation, Transfer
from bfpga.contract.streams import TENSOR_HEADER
from bfpga.engines.kernel.map_streams import MapStreams
from bfpga.engines.kernel.order import COUNT_WORDS, SampleRow, descriptor_words, start_counts, wrapped
from bfpga.engines.kernel.program_memory import KeptProgram, most_descriptors, streamed_header, with_tensor_beats
from bfpga.engines.kernel.records import emits_record, record_bytes, record_sizes, unpacked_records
from bfpga.engines.kernel.streams import (
    descriptor_bytes,
    in_stream_order,
    reported_choices,
    stored_bytes,
    transfer_of,
    unpack_rows,
    weight_stream,
)
from bfpga.errors import DataError
from bfpga.formats.arrays import Int32Array, Int64Array, IntArray
from bfpga.formats.containers import pack_elements
from bfpga.program.choices import work_of
from bfpga.program.cycles import longest_clocks, operation_clocks
from bfpga.program.host_order import EncodedSamples, Places
from bfpga.program.stream_work import NUMPY_WORK, StreamWork

Bytes = npt.NDArray[np.uint8]
_FLAGS = FIELDS.index("flags")
_WORD_BYTES = 4
#: The register that counts the descriptors of a start.
_MOST_DESCRIPTORS = (1 << 31) - 1
#: Streams without tensors that are kept: those of whole groups, and of the last one.
_KEPT_TEMPLATES = 2


@dataclass(frozen=True)
class _Place:
    """Place of a tensor's rows in the stream of one sample; ``next_row``: in the row of the next sample.

    record_words: of the records of maps that follow it, in whole beats up to ``end``.
    """

    operation: KernelOperation
    transfer: Transfer
    start: int
    end: int
    next_row: bool = False
    record_words: int = 0


@dataclass(frozen=True)
class SampleStream:
    """The input stream of a start, which writes itself where it is wanted.

    loaded: tensors by the start of their place. template: all but the tensors; memory that has it needs these alone.
    """

    packets: SamplePackets
    loaded: Mapping[int, BlockTensor | EncodedSamples]
    first: int
    last: int
    template: Bytes

    def __len__(self) -> int:
        return len(self.template)

    def write(self, memory: Bytes, has_template: bool = False) -> None:
        """Fill ``memory``, which is as long as the stream; ``has_template``: with another one of the same template."""
        if not has_template:
            memory[:] = self.template
        self.packets.fill(memory, self.loaded, self.first, self.last)

    def packed(self) -> Bytes:
        """Its bytes."""
        memory = np.empty(len(self), np.uint8)
        self.write(memory)
        return memory


class SamplePackets:
    """Input and output streams of a list of operations for any number of samples.

    input_bytes, output_bytes: of one sample. The stores of a start make one packet: only the last sample's last store
    ends it. weights: stream of one sample. cycles: of one sample by operation, after the cycle model; longest: of all
    operations, whatever the data. ahead: as for ``SampleRow``. maps: of a kernel with compressed maps, what the plain
    streams are on their way. kept: the operations in the program memory, which ``sends`` or not; None: a kernel has
    none, or they come among the tensors of every sample.
    """

    def __init__(
        self, operations: Sequence[KernelOperation], config: KernelConfig, ahead: int = 0, base: int | None = None,
        work: StreamWork = NUMPY_WORK,
    ) -> None:  # fmt: skip
        """base: of the operations in the program memory (``may_be_kept``); None: they are not kept."""
        self.config = config
        self._work = work
        self.operations = list(operations)
        self.ahead = ahead
        self._row = SampleRow.of(self.operations, ahead)
        self._record_sizes = record_sizes(self.operations, config)
        self.kept = None if base is None else KeptProgram(config, self.operations, self._row, base, self._record_sizes)
        self.weights = weight_stream(operations)
        self.maps = MapStreams.of(config)
        self.cycles = [operation_clocks(config, operation) for operation in operations]
        self.longest = sum(longest_clocks(config, operation) for operation in operations)
        self._loads: list[_Place] = []
        self._stores: list[_Place] = []
        #: First word of every descriptor in the stream of one sample, and the word after all.
        self._starts: list[int] = []
        #: By the start of a tensor, where its elements on the stream are among the mantissas of ``EncodedSamples``.
        self._sources: dict[int, Int32Array] = {}
        #: Streams without tensors by the number of samples and whether a program is sent, the last two of these.
        self._templates: dict[tuple[int, bool], Bytes] = {}
        self._template = np.frombuffer(self._packed(True), np.uint8)
        self._open_template = np.frombuffer(self._packed(False), np.uint8)
        self._place_stores()

    @property
    def input_bytes(self) -> int:
        return len(self._template)

    @property
    def most_samples(self) -> int:
        """Samples of a start at most: a program memory counts the descriptors that pass it."""
        passes = self.config.program_descriptors > 0 and self.kept is None
        return most_descriptors(self.config) // max(1, len(self.operations)) if passes else _MOST_DESCRIPTORS

    @property
    def output_bytes(self) -> int:
        return self._stores[-1].end if self._stores else 0

    def _packed(self, ends: bool) -> bytes:
        """Descriptors with zeros for the tensors; without ``ends`` no store ends the packet."""
        self._loads, self._starts, parts, size = [], [], [], 0
        operations = [self.operations[index] for index in self._row.order]
        previous = range(len(operations))[self._row.previous]
        sizes = [self._record_sizes[index] for index in self._row.order]
        all_words = descriptor_words(operations, self.config, sizes)
        if self.config.program_descriptors:
            all_words = with_tensor_beats(self.config, all_words, [item.descriptor for item in operations])
        for place, (operation, words) in enumerate(zip(operations, all_words, strict=True)):
            kind = operation.descriptor.operation
            if not ends and kind == Operation.STORE:
                words[_FLAGS] &= ~int(Flag.END_PACKET)
            self._starts.append(size // _WORD_BYTES)
            if self.kept is None:
                parts.append(descriptor_bytes(words, self.config))
                size += len(parts[-1])
            if kind == Operation.LOAD:
                length = _loaded_bytes(operation, self.config)
                transfer = transfer_of(operation)
                self._loads.append(_Place(operation, transfer, size, size + length, place in previous))
                parts.append(bytes(length))
                size += length
        self._starts.append(size // _WORD_BYTES)
        return b"".join(parts)

    def _place_stores(self) -> None:
        size = 0
        for operation, words in zip(self.operations, self._record_sizes, strict=True):
            if operation.descriptor.operation == Operation.STORE:
                end = size + stored_bytes(operation, self.config, words)
                self._stores.append(_Place(operation, transfer_of(operation), size, end, record_words=words))
                size = end

    def stream(
        self, tensors: Mapping[str, BlockTensor | EncodedSamples], first: int, last: int, sends: bool = True
    ) -> SampleStream:
        """Input stream of samples [first, last); DataError if a tensor has no data.

        sends: whether a program that is kept goes to its memory before.
        """
        loaded = {place.start: _tensor_of(place, tensors) for place in self._loads}
        return SampleStream(self, loaded, first, last, self._template_of(last - first, sends))

    def pack(
        self, tensors: Mapping[str, BlockTensor | EncodedSamples], first: int, last: int, sends: bool = True
    ) -> Bytes:
        """The bytes of ``stream``."""
        return self.stream(tensors, first, last, sends).packed()

    def opening_clocks(self, sends: bool) -> int:
        """Clocks of a start before its first descriptor: those of the program memory, a beat each."""
        return len(self.kept.opening(0, sends)) * 8 // self.config.stream_bits if self.kept is not None else 0

    def _template_of(self, samples: int, sends: bool) -> Bytes:
        """The stream of a start with zeros for the tensors."""
        key = samples, sends and self.kept is not None
        if key not in self._templates:
            if len(self._templates) == _KEPT_TEMPLATES:
                self._templates.pop(next(iter(self._templates)))
            self._templates[key] = np.concatenate([self._head(samples, sends), self._descriptors(samples)])
        return self._templates[key]

    def _head(self, samples: int, sends: bool) -> Bytes:
        """What a kernel with a program memory hears first."""
        head = b""
        if self.kept is not None:
            head = self.kept.opening(samples, sends)
        elif self.config.program_descriptors and self.operations:
            head = streamed_header(self.config, samples * len(self.operations))
        return np.frombuffer(head, np.uint8)

    def _descriptors(self, samples: int) -> Bytes:
        """The descriptors of a start, each with zeros for its tensor; zeros alone of a program that is kept."""
        if self.kept is not None:
            return np.zeros(samples * self.input_bytes, np.uint8)
        packets = np.empty((samples + self._row.extra_rows, self.input_bytes), np.uint8)
        packets[:-1], packets[-1] = self._open_template, self._template
        if self.operations:
            self._order(packets, samples)
        return self._joined(packets)

    def _order(self, packets: Bytes, samples: int) -> None:
        """What the operations of every sample wait for: earlier samples of the start are still being computed."""
        places = np.array(self._starts[:-1])[:, None] + COUNT_WORDS
        counts = start_counts(self.operations, self.config, samples, self._row)
        packets.view("<i4")[:, places] = wrapped(counts)

    @property
    def _previous(self) -> tuple[int, int]:
        """Bytes of a row between which the operations of the previous sample are."""
        if not self._row.extra_rows:
            return 0, 0
        previous = self._row.previous
        return _WORD_BYTES * self._starts[previous.start], _WORD_BYTES * self._starts[previous.stop]

    def _joined(self, packets: Bytes) -> Bytes:
        """Rows one after the other, the first and the last without what they lack."""
        start, end = self._previous
        if start == end:
            return packets.reshape(-1)
        first, last = np.delete(packets[0], slice(start, end)), packets[-1, start:end]
        return np.concatenate([first, packets[1:-1].reshape(-1), last])

    def _spans(self, place: _Place, samples: int) -> list[tuple[int, int, int]]:
        """(first sample, end, byte in ``_joined`` of the first one's): samples whose tensors are a row apart."""
        start, end = self._previous
        row, shift = self.input_bytes, end - start
        if place.next_row:  # the last sample's is in a row that begins with it
            last = samples * row - end + place.start
            return [(0, samples - 1, row - shift + place.start), (samples - 1, samples, last)]
        if place.start < start:  # the first row lacks what comes after it
            return [(0, 1, place.start), (1, samples, row - shift + place.start)]
        return [(0, samples, place.start - shift)]

    def fill(self, stream: Bytes, loaded: Mapping[int, BlockTensor | EncodedSamples], first: int, last: int) -> None:
        """Tensors of samples [first, last) go to their places. loaded: by the start of their place."""
        size = self.input_bytes
        tail = stream[len(stream) - (last - first) * size :]
        for place in self._loads:
            for begin, end, offset in self._spans(place, last - first):
                if begin < end:
                    rows = as_strided(tail[offset:], (end - begin, place.end - place.start), (size, 1))
                    self._load(rows, place, loaded[place.start], first + begin, first + end)

    def sent(self, samples: int) -> list[int]:
        """Operations of a start of ``samples`` samples in the order of the stream, by their index in ``operations``."""
        return [self._row.order[place] for _, place in self._row.walk(samples)]

    def sent_clocks(self, choices: Sequence[int]) -> list[int]:
        """Clocks of the operations of ``sent`` after the cycle model. choices: each sample's, from the registers."""
        return [
            work_of(self.config, self.operations[index].descriptor, self.cycles[index], choices[sample])
            for index, sample in self._row.sent(len(choices))
        ]

    @property
    def skips(self) -> bool:
        """Whether counts decide which operations run."""
        return bool(self.config.count_registers)

    def layer_clocks(self, samples: int, total: int) -> dict[str, int]:
        """Clocks of the layers of a start that took ``total``, after the cycle model, if all operations run.

        The layer of the operation that was sent last bears a difference, as in ``shared_cycles``.
        """
        clocks: dict[str, int] = {}
        for operation, cycles in zip(self.operations, self.cycles, strict=True):
            clocks[operation.layer] = clocks.get(operation.layer, 0) + samples * cycles
        if self.operations:
            order = self._row.order
            last = self._row.previous.stop - 1 if self._row.extra_rows else len(order) - 1
            clocks[self.operations[order[last]].layer] += total - samples * sum(self.cycles)
        return clocks

    def choices(self, output: bytes | Bytes, samples: int) -> list[int]:
        """What count registers reported for each sample, a bit each: with its last stored tensor."""
        if not self._stores or not self.skips:
            return [0] * samples
        start, beat = self._stores[-1].start, self.config.stream_bits // 8
        data = np.frombuffer(output, np.uint8).reshape(samples, -1)
        found: list[int] = reported_choices(data[:, start : start + beat], self.config).tolist()
        return found

    @property
    def recorded(self) -> list[KernelOperation]:
        """The operations whose maps are recorded, in the order of a sample's records."""
        sizes = zip(self.operations, self._record_sizes, strict=True)
        return [item for item, words in sizes if emits_record(item, words)]

    def records(self, output: bytes | Bytes, samples: int) -> Int64Array:
        """Records of the maps of ``recorded``: (samples, maps, words)."""
        data = np.frombuffer(output, np.uint8).reshape(samples, -1)
        parts = [np.zeros((samples, 0), np.uint8)]
        for place in self._stores:
            start = place.end - record_bytes(place.record_words, self.config)
            parts.append(data[:, start : start + _WORD_BYTES * place.record_words])
        return unpacked_records(np.concatenate(parts, axis=1), self.config)

    def _load(
        self, rows: Bytes, place: _Place, tensor: BlockTensor | EncodedSamples, first: int, last: int
    ) -> None:
        """Header and elements of every sample go to its row (samples, bytes)."""
        count, beat = last - first, self.config.stream_bits // 8
        exponent = TENSOR_HEADER["exponent"]
        rows[:, exponent.octets] = exponent.packed(tensor.exponent[first:last])
        if isinstance(tensor, EncodedSamples) and 8 * tensor.mantissa.itemsize == self.config.format.container_bits:
            source, kind = self._source(place, tensor.places), tensor.mantissa.dtype
            target = rows[:, beat : beat + len(source) * kind.itemsize].view(kind)
            self._work.place(tensor.mantissa[first:last], source, target)
            return
        bits = _loaded_bits(place.operation, self.config)
        # Samples that end within a byte (4-bit mantissas on the narrowest array) cannot be packed side by side.
        step = 1 if bits % 8 else max(count, 1)
        size = -(-bits // 8)
        target = rows[:, beat : beat + size]
        for start in range(0, count, step):
            elements = self._elements(place, tensor, first + start, first + start + step)
            packed = np.frombuffer(pack_elements(elements, self.config.format.container_bits), np.uint8)
            target[start : start + step] = packed.reshape(-1, size)

    def _elements(self, place: _Place, tensor: BlockTensor | EncodedSamples, first: int, last: int) -> IntArray:
        """The elements of a load in the order of the stream, sample after sample."""
        if isinstance(tensor, EncodedSamples):
            return np.take(tensor.mantissa[first:last], self._source(place, tensor.places), axis=1, mode="clip")
        part = tensor.mantissa[first:last, place.transfer.y0 : place.transfer.y1]
        return self._walked(place, part)

    def _source(self, place: _Place, places: Places) -> Int32Array:
        """Which mantissa each element of a load is; zeros are the first one. places: of the whole tensor."""
        if place.start not in self._sources:
            part = places[None, place.transfer.y0 : place.transfer.y1]
            self._sources[place.start] = np.ascontiguousarray(self._walked(place, part).reshape(-1), np.int32)
        return self._sources[place.start]

    def _walked(self, place: _Place, part: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Rows (samples, rows, columns, channels) as a load sends them, filled with zeros."""
        walked = part.reshape(-1, place.operation.descriptor.output_width, part.shape[-1])
        return in_stream_order(walked, self.config)

    def unpack(self, output: bytes | Bytes, tensors: Mapping[str, BlockTensor], first: int, last: int) -> None:
        """Write an output stream of samples [first, last) into the tensors; DataError if its length does not fit."""
        data = np.frombuffer(output, np.uint8)
        if data.size != (last - first) * self.output_bytes:
            raise DataError(
                f"the kernel sent {data.size} bytes; its stores send {self.output_bytes} for each of "
                f"{last - first} samples"
            )
        samples = data.reshape(last - first, -1)
        for place in self._stores:
            self._store(place, samples[:, place.start : place.end], tensors[place.transfer.tensor], first, last)

    def _store(self, place: _Place, data: Bytes, tensor: BlockTensor, first: int, last: int) -> None:
        descriptor, config, count = place.operation.descriptor, self.config, last - first
        rows, width = descriptor.output_pixels // descriptor.output_width, descriptor.output_width
        words, beat = descriptor.input_pixel_words, config.stream_bits // 8
        bits = _elements(config, rows, width, words) * config.format.container_bits
        step = 1 if bits % 8 else count
        target: npt.NDArray[Any] = tensor.mantissa[first:last, place.transfer.y0 : place.transfer.y1]
        for start in range(0, count, step):
            elements = np.ascontiguousarray(data[start : start + step, beat : beat + -(-bits // 8)]).reshape(-1)
            walked = unpack_rows(elements, config, step * rows, width, words)
            part = target[start : start + step]
            part[...] = walked.reshape(*part.shape[:2], -1, walked.shape[-1])[..., : part.shape[-1]]
        tensor.exponent[first:last] = TENSOR_HEADER["exponent"].unpacked(data)


def _tensor_of(
    place: _Place, tensors: Mapping[str, BlockTensor | EncodedSamples]
) -> BlockTensor | EncodedSamples:
    if place.transfer.tensor not in tensors:
        raise DataError(f"layer {place.operation.layer}: tensor {place.transfer.tensor} has no data to load")
    return tensors[place.transfer.tensor]


def _elements(config: KernelConfig, rows: int, width: int, words: int) -> int:
    """Elements on the stream: rows are filled up to whole groups of pixels."""
    return rows * -(-width // config.transfer_pixels) * config.transfer_pixels * words * config.lanes


def _loaded_bits(operation: KernelOperation, config: KernelConfig) -> int:
    """Bits of a load's elements before they are padded to whole beats."""
    descriptor = operation.descriptor
    rows, width = descriptor.output_pixels // descriptor.output_width, descriptor.output_width
    return _elements(config, rows, width, descriptor.output_pixel_words) * config.format.container_bits


def _loaded_bytes(operation: KernelOperation, config: KernelConfig) -> int:
    beats = 1 + -(-_loaded_bits(operation, config) // config.stream_bits)
    return beats * config.stream_bits // 8
