"""The program memory of a kernel as its device fills it: which starts of a program are there, and where."""

from __future__ import annotations

from collections.abc import Sequence

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import KernelOperation
from bfpga.engines.kernel.order import SampleRow
from bfpga.engines.kernel.program_memory import may_be_kept
from bfpga.program.packets import SamplePackets


class KeptPrograms:
    """Starts get their places one after the other, as long as there is room; the others are sent with every sample."""

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        self._used = 0
        #: First descriptors of those that are in the memory.
        self._there: set[int] = set()

    def packets(self, operations: Sequence[KernelOperation], ahead: int = 0) -> SamplePackets:
        """The streams of a start that many samples share. One that only a first sample has is not kept."""
        room = self.config.program_descriptors - self._used
        fits = len(operations) <= room and may_be_kept(self.config, operations, SampleRow.of(operations, ahead))
        if not fits or any(operation.first_only for operation in operations):
            return SamplePackets(operations, self.config, ahead)
        base, self._used = self._used, self._used + len(operations)
        return SamplePackets(operations, self.config, ahead, base)

    def sends(self, packets: SamplePackets) -> bool:
        """Whether the next start brings its program, which is there from then on."""
        if packets.kept is None or packets.kept.base in self._there:
            return False
        self._there.add(packets.kept.base)
        return True

    def forget(self) -> None:
        """What the memory holds is not known any more."""
        self._there.clear()
