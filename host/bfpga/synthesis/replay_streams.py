"""The streams of an IP whose flat code is replayed: recorded words are read, and what is written is compared."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field

from bfpga.errors import BfpgaError
from bfpga.synthesis.graph import mask_of
from bfpga.synthesis.traffic import Traffic, Transfer
from bfpga.vendor.kernel_ips import StreamPort

#: Bytes that represent a stream; its code reads and writes none of them, they only identify it.
_SPACE = 4096


class ReplayDifferenceError(BfpgaError):
    """The graph and the code do not do the same, or the code does other than the C simulation."""


@dataclass
class StreamLog:
    """What passed the streams since the log was emptied, by stream.

    ``read``: words; ``asked``: by stream and question, answers to "is it empty?" and "is it full?"; ``written``: words,
    with TLAST above the data.
    """

    read: dict[str, list[int]] = field(default_factory=dict)
    asked: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    written: dict[str, list[int]] = field(default_factory=dict)


class ReplayedStreams:
    """The streams of an IP in the order of its parameters, as `ports/visible_stream.hpp` lays them out."""

    def __init__(self, ports: Sequence[StreamPort], traffic: Traffic) -> None:
        self._ports = list(ports)
        self._spaces = [ctypes.create_string_buffer(_SPACE) for _ in ports]
        self._incoming = {name: list(words) for name, words in traffic.incoming.items()}
        self._outgoing = {name: list(words) for name, words in traffic.outgoing.items()}
        self._taken = dict.fromkeys(self._incoming, 0)
        self._given = dict.fromkeys(self._outgoing, 0)
        self.log = StreamLog()

    @property
    def addresses(self) -> list[int]:
        """What the IP gets as its streams."""
        return [ctypes.addressof(space) for space in self._spaces]

    def load(self, address: int) -> int:
        """A volatile load: a word, its TLAST, or whether there is none, or no room.

        Raises:
            ReplayDifferenceError: the code reads where the C simulation did not.
        """
        port, offset = self._at(address)
        if offset == 0:
            return self._word(port.name)
        if port.packets and offset == port.bits // 8:
            return 1
        written = offset != 2 * _port_bytes(port)
        answer = int(self._next(port.name, written) is None)
        (self._given if written else self._taken)[port.name] += answer
        self.log.asked.setdefault((port.name, "full" if written else "empty"), []).append(answer)
        return answer

    def store(self, address: int, value: int) -> None:
        """A volatile store: a word, or the TLAST that belongs to the last one.

        Raises:
            ReplayDifferenceError: the C simulation has written another word.
        """
        port, offset = self._at(address)
        words = self.log.written.setdefault(port.name, [])
        if port.packets and offset == _port_bytes(port) + port.bits // 8:
            words[-1] |= (value & 1) << port.bits
            return
        word, number = value & mask_of(port.bits), self._given[port.name]
        recorded = self._outgoing[port.name][number : number + 1]
        if recorded != [word]:
            other = "no more" if not recorded else "refused" if recorded[0] is None else f"{recorded[0]:#x}"
            raise ReplayDifferenceError(f"word {number} of {port.name} is {word:#x}, in the C simulation {other}")
        self._given[port.name] += 1
        words.append(word)

    def check_end(self) -> None:
        """All calls have returned.

        Raises:
            ReplayDifferenceError: the C simulation has read or written more.
        """
        for moved, recorded in ((self._taken, self._incoming), (self._given, self._outgoing)):
            for name, count in moved.items():
                if count != len(recorded[name]):
                    raise ReplayDifferenceError(f"{count} of {len(recorded[name])} recorded words passed {name}")

    def beat(self, name: str, value: int) -> int:
        """The bits of a word of a stream that its other end sees: data and, of packets, TLAST."""
        port = next(port for port in self._ports if port.name == name)
        return value & mask_of(port.bits + port.packets)

    def _word(self, name: str) -> int:
        word = self._next(name)
        if word is None:
            raise ReplayDifferenceError(f"the code reads {name} where the C simulation found it empty")
        self._taken[name] += 1
        self.log.read.setdefault(name, []).append(word)
        return word

    def _next(self, name: str, written: bool = False) -> Transfer:
        words, number = (self._outgoing, self._given) if written else (self._incoming, self._taken)
        if number[name] == len(words[name]):
            does = "writes" if written else "reads"
            raise ReplayDifferenceError(f"the code {does} more than the {number[name]} recorded words of {name}")
        return words[name][number[name]]

    def _at(self, address: int) -> tuple[StreamPort, int]:
        for port, begin in zip(self._ports, self.addresses, strict=True):
            if begin <= address < begin + _SPACE:
                return port, address - begin
        raise ReplayDifferenceError(f"a stream access at {address:#x}")


def _port_bytes(port: StreamPort) -> int:
    """Size of a `VisiblePort`: an integer of whole bytes as clang stores it, for packets with TLAST after it."""
    octets = port.bits // 8
    size = 1 << (octets - 1).bit_length() if octets <= 8 else -(-octets // 8) * 8
    return size + min(size, 8) if port.packets else size
