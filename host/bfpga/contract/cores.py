"""The cores of an overlay: copies of one kernel, each with DMA engines, a clock counter and addresses of its own.

Block design, manifest and driver go through the same records. The first core's cells have the names of an overlay with
one, those of the others end in their number. Only the standard library is imported: a board loads this module too.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Cells of the first core: the kernel as the host sees it, what counts its clocks, its DMA engines.
KERNEL, CLOCK_COUNTER, TENSOR_DMA, WEIGHT_DMA = "accelerator", "clock_counter", "tensor_dma", "weight_dma"
#: Registers of a core hang on one SmartConnect of 16 masters, with those of one interrupt controller (PG247).
MOST_CORES = 3


@dataclass(frozen=True)
class Core:
    """One core by its number, and what its cells are called."""

    index: int

    def cell(self, name: str) -> str:
        """The core's copy of a cell of the first core."""
        return f"{name}_{self.index}" if self.index else name

    @property
    def kernel(self) -> str:
        """The cell with the kernel's registers."""
        return self.cell(KERNEL)

    @property
    def clock_counter(self) -> str:
        return self.cell(CLOCK_COUNTER)

    @property
    def tensor_dma(self) -> str:
        return self.cell(TENSOR_DMA)

    @property
    def weight_dma(self) -> str:
        return self.cell(WEIGHT_DMA)

    @property
    def registers(self) -> tuple[str, ...]:
        """Its cells with registers."""
        return self.kernel, self.tensor_dma, self.weight_dma, self.clock_counter

    @property
    def interrupts(self) -> tuple[str, ...]:
        """Its interrupts as `cell/pin`, in the order of the controller's inputs."""
        return (
            f"{self.tensor_dma}/mm2s_introut",
            f"{self.tensor_dma}/s2mm_introut",
            f"{self.weight_dma}/mm2s_introut",
            f"{self.kernel}/interrupt",
        )


def cores_of(count: int) -> tuple[Core, ...]:
    """The records of so many cores."""
    return tuple(map(Core, range(count)))
