"""One start of a kernel: what it is given and what it gives back, on every device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from bfpga.devices.measured_clocks import MeasuredClocks
from bfpga.engines.kernel.map_streams import MapStreams
from bfpga.formats.arrays import Int64Array
from bfpga.program.packets import SampleStream

#: Bytes of a stream; an array is contiguous.
Octets = bytes | npt.NDArray[np.uint8]


@dataclass(frozen=True)
class KernelStart:
    """The streams and registers of one start.

    The weight stream is ``weights``, sent ``weight_repeats`` times; starts that give the same object let a board keep
    it in its memory. ``output_bytes``: length of the output stream, one packet. ``predicted_cycles``: the most
    that the cycle model says, 0 if unknown. ``maps``: what turns these plain streams into those that a kernel with
    compressed maps reads and writes; checksums and ``output_bytes`` are of the plain ones. ``packet``: the input
    stream, or what writes it to where a kernel reads it.
    """

    descriptors: int
    packet: Octets | SampleStream
    weights: Octets = b""
    weight_repeats: int = 1
    output_bytes: int = 0
    clear_policies: bool = False
    predicted_cycles: int = 0
    maps: MapStreams | None = None

    def input(self) -> Octets:
        """The bytes of the input stream."""
        return self.packet.packed() if isinstance(self.packet, SampleStream) else self.packet


@dataclass(frozen=True)
class KernelResult:
    """What one kernel start gave: the output stream, clocks (total and of each operation), counters, status bits.

    ``operation_cycles`` is None where only the total is known, as on a board.
    """

    output: bytes
    cycles: int
    operation_cycles: list[int] | None
    overflow: int
    underflow: int
    status: int
    #: Output packets that were ended by TLAST.
    packets: int = 0
    #: Checksums of the input, weight and output stream, as the kernel saw them.
    checksums: tuple[int, int, int] = (0, 0, 0)
    #: What count registers reported with each stored tensor, a bit each; empty if not decoded.
    choices: tuple[int, ...] = ()
    #: Records of maps that operations emitted, each with its layer; empty of most kernels, and if not decoded.
    records: tuple[tuple[str, Int64Array], ...] = ()
    #: What a clock counter measured; None where there is none.
    measured: MeasuredClocks | None = None


class StreamingKernel(Protocol):
    """What executes kernel starts: a C simulation, a virtual, a local or a remote board.

    ``depth`` starts may begin before the oldest is finished; a kernel of depth 2 packs one while another runs.
    ``seconds``: wall clock since it was opened by part of the work (pack, transfer, compute, unpack), where known.
    After a DeviceError no start is pending; memories and policies of the kernel are then unknown.
    """

    depth: int
    seconds: dict[str, float]

    def begin(self, start: KernelStart) -> None:
        """Take a start; it runs as soon as the hardware is free."""
        ...

    def finish(self) -> KernelResult:
        """Result of the oldest start that was begun."""
        ...

    def cancel(self) -> None:
        """Give up all starts in flight; memories and policies of the kernel are then unknown."""
        ...

    def close(self) -> None:
        """Release the kernel."""
        ...
