"""Reads and writes of a body's streams: a beat may have several parts, and a stream may be one of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bfpga.synthesis.body import LoopBody, Opcode, Operation, Place, Stream
from bfpga.synthesis.frontend.cells import Cells
from bfpga.synthesis.graph import Graph


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """A stream that an access may mean, and the byte of its port.

    ``condition``: that this one of several streams is chosen where the block is executed; ``enable``: both.
    """

    number: int
    offset: int
    condition: int
    enable: int


@dataclass(slots=True)
class _PendingBeat:
    block: str
    enable: int
    place: Place | None
    parts: dict[int, int] = field(default_factory=dict)

    def is_of(self, block: str, enable: int) -> bool:
        return (self.block, self.enable) == (block, enable)


@dataclass(frozen=True, slots=True)
class _ReadBeat:
    block: str
    enable: int
    offset: int

    def is_of(self, block: str, enable: int) -> bool:
        return (self.block, self.enable) == (block, enable)


class StreamAccesses:
    """The streams of a body that is being built."""

    def __init__(self, graph: Graph, body: LoopBody, cells: Cells) -> None:
        self._graph, self._body, self._cells = graph, body, cells
        self._outgoing: dict[int, _PendingBeat] = {}
        self._incoming: dict[int, _ReadBeat] = {}

    def number(self, root: str) -> int:
        """The number of the stream that a variable is."""
        name = self._cells.stream_name(root)
        for number, stream in enumerate(self._body.streams):
            if stream.name == name:
                return number
        self._body.streams.append(Stream(name, 0))
        return len(self._body.streams) - 1

    def read(self, places: Sequence[StreamPlace], block: str, width: int) -> int:
        """A volatile load of a block from one stream, or from the one of several that is chosen."""
        *others, last = places
        value = self._read(last, block, width)
        for place in others:
            value = self._graph.select(place.condition, self._read(place, block, width), value)
        return value

    def _read(self, place: StreamPlace, block: str, width: int) -> int:
        """A beat's data, then what else belongs to the beat (TLAST), or a question to the stream."""
        number, offset = place.number, place.offset
        stream = self._body.streams[number]
        asked = self._graph.place.function.rpartition("::")[2] if self._graph.place else ""
        if asked in ("empty", "full"):
            # The stream says what is; the operation says what may be done.
            return self._graph.extend(Opcode.ZEXT, self._graph.invert(self._status(number, asked)), width)
        last = self._incoming.get(number)
        self._incoming[number] = _ReadBeat(block, place.enable, offset)
        if last is not None and last.is_of(block, place.enable) and offset > last.offset:
            return self._graph.extend(Opcode.ZEXT, self._status(number, "last"), width)
        stream.width = max(stream.width, width)
        value = self._graph.add(Operation(Opcode.STREAM_READ, width, (place.enable,), stream=number), shared=False)
        stream.accesses.append(value)
        return value

    def _status(self, number: int, name: str) -> int:
        return self._graph.add(Operation(Opcode.STREAM_STATUS, 1, stream=number, name=name), shared=False)

    def write(self, places: Sequence[StreamPlace], block: str, data: int) -> None:
        """A volatile store of a block; the parts of a beat are stored one after the other."""
        for place in places:
            number, offset = place.number, place.offset
            pending = self._outgoing.get(number)
            if pending is not None and (not pending.is_of(block, place.enable) or offset <= max(pending.parts)):
                self._send(number)
                pending = None
            if pending is None:
                pending = self._outgoing[number] = _PendingBeat(block, place.enable, self._graph.place)
            pending.parts[offset] = data

    def flush(self) -> None:
        """Writes the beats whose parts have been stored."""
        for number in list(self._outgoing):
            self._send(number)

    def _send(self, number: int) -> None:
        """The beat whose parts have been stored is written."""
        pending = self._outgoing.pop(number, None)
        if pending is None:
            return
        stream = self._body.streams[number]
        data = self._graph.concat([pending.parts[offset] for offset in sorted(pending.parts)])
        stream.width = max(stream.width, self._graph.width(data))
        operation = Operation(Opcode.STREAM_WRITE, 0, (data, pending.enable), stream=number, place=pending.place)
        stream.accesses.append(self._graph.add(operation, shared=False))
