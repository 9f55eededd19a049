"""Energy of a sample: a model with public figures, for comparing accelerators on one board. Nothing was measured.

power = processing system + leakage of the logic + (DSP blocks, block memories, tables in use) x clock; energy = power x
time + what the DDR memory takes for every byte.
"""

from __future__ import annotations

from dataclasses import dataclass

from bfpga.accelerator.boards import Board
from bfpga.engines.interface.resource_units import Resources


@dataclass(frozen=True)
class PowerFigures:
    """``system``: watts of the processing system and the leakage of the logic. Microwatts at each MHz: of a DSP block,
    a block memory and a look-up table with its register. ``byte``: nanojoules of a byte in DDR memory."""

    system: float
    dsp: float
    bram36: float
    lut: float
    byte: float


#: Processing system and leakage are what `report_power` says of such designs in published theses and papers (about
#: 1.5 W and 0.15 W for a XC7Z020 with DDR3, 2.7 W and 0.65 W for a ZU7EV with DDR4). A DSP block, a block memory and a
#: table at 12.5 % toggle rate are of the size that AMD's power estimator (UG440) gives for 28 and 16 nm. DDR3: 70
#: pJ/bit at full load (Malladi et al., ISCA 2012); DDR4 at 1.2 V instead of 1.5 V about two thirds of it.
FIGURES = {
    "zynq7": PowerFigures(system=1.65, dsp=12.0, bram36=24.0, lut=0.12, byte=0.56),
    "zynqmp": PowerFigures(system=3.35, dsp=8.0, bram36=16.0, lut=0.08, byte=0.37),
}

#: Block memories that an UltraRAM is taken for: as many bits pass its ports in a clock. No figure for it was found.
ULTRA_BLOCKS = 1


def board_watts(used: Resources, board: Board, clock_mhz: float) -> float:
    """Watts of the device while a kernel works; the same while the host computes, whose kernel keeps its clock.

    used: what the design takes of the device.
    """
    figures = FIGURES[board.processing_system]
    blocks = used.bram36 + ULTRA_BLOCKS * used.uram
    dynamic = used.dsp * figures.dsp + blocks * figures.bram36 + used.lut * figures.lut
    return figures.system + 1e-6 * clock_mhz * dynamic


def sample_joules(used: Resources, board: Board, clock_mhz: float, seconds: float, moved: float) -> float:
    """Joules of one sample that takes ``seconds`` and moves ``moved`` bytes between memory and kernel."""
    return board_watts(used, board, clock_mhz) * seconds + 1e-9 * FIGURES[board.processing_system].byte * moved
