"""What crosses the streams of a kernel with compressed maps: frames towards it, packed tensors from it.

All other code, checksums included, handles plain streams: what is sent is compressed after it, what comes back is
expanded before it. The flag COMPRESSED of a descriptor marks the tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, Descriptor, Flag, Operation
from bfpga.engines.kernel.cycles import tensor_beats
from bfpga.engines.kernel.records import record_bytes
from bfpga.errors import DataError
from bfpga.formats.map_beats import MapForm, Octets, pack_map, unpack_map

#: Of the first word of a frame: whether it is compressed, whether it is the last one of its start.
FRAME_PACKED, FRAME_LAST = 1 << 30, 1 << 31
_WORD_BYTES = 4


def map_form(config: KernelConfig) -> MapForm:
    """How the tensors of a kernel are compressed."""
    return MapForm(config.stream_bits, config.map_value_bits)


def sent_compressed(descriptor: Descriptor) -> bool:
    """Whether a LOAD or a STORE moves its tensor without zeros."""
    return bool(descriptor.flags & Flag.COMPRESSED)


@dataclass(frozen=True)
class _Part:
    """Bytes [start, end) of a plain stream; packed: they are a compressed tensor."""

    start: int
    end: int
    packed: bool


class MapStreams:
    """The streams of a start of a kernel with compressed maps; None of a kernel without them is needed."""

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        self.form = map_form(config)

    @staticmethod
    def of(config: KernelConfig) -> MapStreams | None:
        """Those of a kernel; None where streams are plain."""
        return MapStreams(config) if config.compressed_maps else None

    def sent(self, packet: bytes | npt.NDArray[np.uint8], descriptors: int) -> Octets:
        """The input stream that brings a plain one of so many descriptors, frame by frame.

        DataError for a packet that is longer or shorter than its descriptors say.
        """
        data = np.frombuffer(packet, np.uint8)
        parts = list(self._frames(data, descriptors))
        found = []
        for part in parts:
            plain = data[part.start : part.end]
            word = len(plain) // self.form.octets | FRAME_PACKED * part.packed | FRAME_LAST * (part is parts[-1])
            head = np.zeros(self.form.octets, np.uint8)
            head[:_WORD_BYTES] = np.array([word], "<u4").view(np.uint8)
            found += [head, pack_map(plain, self.form) if part.packed else plain]
        return np.concatenate(found) if found else data

    def plain_input(self, sent: bytes | bytearray) -> bytes:
        """The plain input stream of what was sent, as far as its frames are whole."""
        data, place, found = np.frombuffer(bytes(sent), np.uint8), 0, []
        while place + self.form.octets <= len(data):
            word = int(data[place : place + _WORD_BYTES].view("<u4")[0])
            place += self.form.octets
            beats, length = word & (FRAME_PACKED - 1), (word & (FRAME_PACKED - 1)) * self.form.octets
            try:
                part = data[place : place + length]
                if word & FRAME_PACKED:
                    part, length = unpack_map(data[place:], beats, self.form)
            except DataError:
                break
            found.append(part)
            place += length
        return b"".join(part.tobytes() for part in found)

    def most_output(self, packet: bytes | npt.NDArray[np.uint8], descriptors: int) -> int:
        """Bytes of the output of a start at most."""
        return sum(
            self.form.octets * (1 + (self.form.most_beats(beats) if packed else beats)) + records
            for beats, packed, records in self._stored(np.frombuffer(packet, np.uint8), descriptors)
        )

    def received(
        self, output: bytes | npt.NDArray[np.uint8], packet: bytes | npt.NDArray[np.uint8], descriptors: int
    ) -> bytes:
        """The plain output stream of a start, from what came; packet: its plain input.

        DataError if that is not what the stores of the start send.
        """
        data, place, found = np.frombuffer(output, np.uint8), 0, []
        for beats, packed, records in self._stored(np.frombuffer(packet, np.uint8), descriptors):
            length = self.form.octets * (1 if packed else 1 + beats)
            if place + length > len(data):
                raise DataError(f"the kernel sent {len(data)} bytes; its stores send more")
            found.append(data[place : place + length])
            place += length
            if packed:
                plain, length = unpack_map(data[place:], beats, self.form)
                found.append(plain)
                place += length
            found.append(data[place : place + records])
            place += records
        if place != len(data):
            raise DataError(f"the kernel sent {len(data)} bytes; its stores send {place}")
        return b"".join(part.tobytes() for part in found)

    def _frames(self, data: Octets, descriptors: int) -> Iterator[_Part]:
        """The parts of an input stream; what is between two compressed tensors is one of them."""
        begin = end = 0
        for descriptor, place in self._walk(data, descriptors):
            end = place
            if descriptor.operation != Operation.LOAD:
                continue
            tensor = place + self.form.octets
            end = tensor + tensor_beats(self.config, descriptor) * self.form.octets
            if sent_compressed(descriptor) and tensor < end:
                yield _Part(begin, tensor, False)
                yield _Part(tensor, end, True)
                begin = end
        if end != len(data):
            raise DataError(f"an input of {len(data)} bytes; its {descriptors} descriptors and tensors take {end}")
        if begin < end:
            yield _Part(begin, end, False)

    def _stored(self, data: Octets, descriptors: int) -> Iterator[tuple[int, bool, int]]:
        """Plain beats of each tensor that is stored, without its header; whether it is packed; bytes of records of maps
        after it, which never are."""
        for descriptor, _ in self._walk(data, descriptors):
            if descriptor.operation == Operation.STORE:
                beats = tensor_beats(self.config, descriptor)
                records = record_bytes(descriptor.told_words, self.config)
                yield beats, sent_compressed(descriptor) and beats > 0, records

    def _walk(self, data: Octets, descriptors: int) -> Iterator[tuple[Descriptor, int]]:
        """Descriptors of a plain input stream, each with the byte after it."""
        octets, place = self.form.octets, 0
        length = -(-DESCRIPTOR_WORDS * _WORD_BYTES // octets) * octets
        for number in range(descriptors):
            if place + length > len(data):
                raise DataError(f"an input of {len(data)} bytes ends before its descriptor {number}")
            descriptor = Descriptor.from_words(np.frombuffer(data, "<i4", DESCRIPTOR_WORDS, place))
            place += length
            yield descriptor, place
            if descriptor.operation == Operation.LOAD:
                place += (1 + tensor_beats(self.config, descriptor)) * octets
