"""Amounts of a device's resources, and what memories and selections take of them, whatever they are part of.

A selection among n costs n / 3 LUT a bit.
Only the standard library is imported.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: Shapes of one block memory of 36 Kbit: (depth, width).
BRAM36_SHAPES = ((512, 72), (1024, 36), (2048, 18), (4096, 9), (8192, 4), (16384, 2), (32768, 1))
#: Words and bits of an UltraRAM (UG573, chapter 2).
URAM_SHAPE = (4096, 72)
#: Bits of one column of look-up-table memory, and look-up tables of three such columns with a write and a read port.
LUTRAM_DEPTH, LUTRAM_LUT_PER_BIT = 64, 4 / 3
#: The same memory holds half the depth in half the tables: six columns in four tables.
SHALLOW_DEPTH = 32


@dataclass(frozen=True)
class Resources:
    """An amount of each kind of resource of a device."""

    dsp: int = 0
    bram36: int = 0
    lut: int = 0
    ff: int = 0
    uram: int = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.dsp + other.dsp, self.bram36 + other.bram36, self.lut + other.lut, self.ff + other.ff,
            self.uram + other.uram,
        )  # fmt: skip


@dataclass(frozen=True)
class ArrayResources:
    """The estimate of one kernel, part by part."""

    parts: dict[str, Resources] = field(default_factory=dict)

    @property
    def total(self) -> Resources:
        return sum(self.parts.values(), Resources())


def scaled(resources: Resources, factor: int) -> Resources:
    """``factor`` copies."""
    return Resources(
        resources.dsp * factor, resources.bram36 * factor, resources.lut * factor, resources.ff * factor,
        resources.uram * factor,
    )  # fmt: skip


def memory_blocks(depth: int, width: int) -> int:
    """Fewest block memories of 36 Kbit that hold ``depth`` words of ``width`` bits with one read and one write port."""
    return min(-(-depth // deep) * -(-width // wide) for deep, wide in BRAM36_SHAPES)


def ultra_blocks(depth: int, width: int) -> int:
    """UltraRAMs that hold ``depth`` words of ``width`` bits with one read and one write port."""
    return -(-depth // URAM_SHAPE[0]) * -(-width // URAM_SHAPE[1])


def half_blocks(depth: int, width: int) -> int:
    """The same in halves of 18 Kbit, each a memory of its own with half the width or half the depth."""
    return min(-(-depth // deep) * -(-width // (wide // 2)) for deep, wide in BRAM36_SHAPES if wide > 1)


def lut_memory_tables(depth: int, bits: int) -> int:
    """Tables of a memory of ``depth`` words of ``bits`` bits, without the selection among columns: RAM32M and RAM64M.

    It has a write port and a read port (UG474).
    """
    deep, width, tables = (SHALLOW_DEPTH, 6, 4) if depth <= SHALLOW_DEPTH else (LUTRAM_DEPTH, 3, 4)
    return tables * -(-depth // deep) * -(-bits // width)


def selection(inputs: int, bits: int) -> float:
    """Tables that select one of ``inputs`` numbers of ``bits`` bits."""
    return bits * inputs / 3 if inputs > 1 else 0


def address_bits(words: int) -> int:
    """Bits of the address of one of ``words`` words."""
    return max(1, (words - 1).bit_length())
