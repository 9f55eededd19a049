"""The program memory of a kernel as its device fills it: which starts of a program are there, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import DESCRIPTOR_WORDS
from bfpga.contract.program import KernelOperation, Program
from bfpga.engines.kernel.order import SampleRow
from bfpga.engines.kernel.program_memory import may_be_kept
from bfpga.program.cycles import sample_starts
from bfpga.program.packets import SamplePackets
from bfpga.program.stream_work import NUMPY_WORK, StreamWork


class KeptPrograms:
    """Starts get their places one after the other, as long as there is room; the others are sent with every sample."""

    def __init__(self, config: KernelConfig, work: StreamWork = NUMPY_WORK) -> None:
        self.config = config
        self._work = work
        self._used = 0
        #: First descriptors of those that are in the memory.
        self._there: set[int] = set()

    def packets(self, operations: Sequence[KernelOperation], ahead: int = 0) -> SamplePackets:
        """The streams of a start that many samples share. One that only a first sample has is not kept."""
        room = self.config.program_descriptors - self._used
        fits = len(operations) <= room and may_be_kept(self.config, operations, SampleRow.of(operations, ahead))
        if not fits or any(operation.first_only for operation in operations):
            return self.sent_packets(operations, ahead)
        base, self._used = self._used, self._used + len(operations)
        return SamplePackets(operations, self.config, ahead, base, self._work)

    def sent_packets(self, operations: Sequence[KernelOperation], ahead: int = 0) -> SamplePackets:
        """Those of a start whose descriptors come with every sample."""
        return SamplePackets(operations, self.config, ahead, work=self._work)

    def sends(self, packets: SamplePackets) -> bool:
        """Whether the next start brings its program, which is there from then on."""
        if packets.kept is None or packets.kept.base in self._there:
            return False
        self._there.add(packets.kept.base)
        return True

    def forget(self) -> None:
        """What the memory holds is not known any more."""
        self._there.clear()


def kept_operations(program: Program) -> set[int]:
    """Operations of the program memory, each by the identity of its descriptor."""
    found: set[int] = set()
    if not program.config.program_descriptors:
        return found
    for _, packets in _starts(program):
        found.update(id(item.descriptor) for item in packets.operations if packets.kept is not None)
    return found


def kept_text(program: Program) -> str:
    """What the program memory does for a program: descriptors that stay, and bytes that a sample sends with it."""
    kept = count = sent = without = 0
    for times, packets in _starts(program):
        number = len(packets.operations)
        stays = number if packets.kept is not None else 0
        kept, count, sent = kept + stays, count + number, sent + times * packets.input_bytes
        without += times * packets.input_bytes + stays * DESCRIPTOR_WORDS * 4
    rest = f"; the other {count - kept} come with every sample" if kept < count else ""
    return (
        f"program memory: {kept} of {count} descriptors stay on the chip, which has room for "
        f"{program.config.program_descriptors}; a sample sends {sent:,} bytes, {without:,} without it{rest}"
    )


def _starts(program: Program) -> Iterator[tuple[int, SamplePackets]]:
    """The streams of the starts of a sample, each with the number of times that the sample runs it."""
    places = KeptPrograms(program.config)
    for start in sample_starts(program):
        packets = places.packets if start.shared else places.sent_packets
        yield start.times, packets(start.operations, start.ahead)
