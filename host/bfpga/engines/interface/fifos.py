"""Resources of the FIFOs in the streams between the IPs of a kernel, from their words and bits (PG085).

Only the standard library and numpy are imported.
"""

from __future__ import annotations

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.position_stream import core_fifos
from bfpga.contract.process_stream import ProcessStream
from bfpga.engines.interface.resource_units import address_bits, half_blocks, lut_memory_tables

#: A FIFO: look-up tables that compute and that store, flip-flops, halves of block memories.
Cells = tuple[int, int, int, int]


def stream_cells(config: KernelConfig) -> Cells:
    """All FIFOs between the IPs, and that of the exponents to the next core."""
    cells = [fifo_cells(stream) for stream in core_fifos(config)]
    lut, stored, ff, halves = (sum(column) for column in zip(*cells, strict=True))
    return lut, stored, ff, halves


def fifo_cells(stream: ProcessStream) -> Cells:
    """A FIFO: its memory, an output register, two pointers and a count of the words.

    A pointer takes a table a bit, the count two (up or down), and full and empty are compared with it.
    """
    bits, pointer = 8 * stream.octets, address_bits(stream.fifo_words)
    lut, ff = 4 * pointer + 2 * -(-pointer // 6) + 4, 3 * pointer + 4
    if stream.is_in_blocks:
        return lut, 0, ff, half_blocks(stream.fifo_words, bits)
    return lut, lut_memory_tables(stream.fifo_words, bits), ff + bits, 0
