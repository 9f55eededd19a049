"""The FIFOs of streams between IPs in Verilog: a module for each kind of memory."""

from __future__ import annotations

from bfpga.contract.process_stream import ProcessStream
from bfpga.vendor.source_text import source_environment

#: What memories are called in `ram_style`.
DISTRIBUTED, BLOCK = "distributed", "block"


def fifo_verilog() -> str:
    """The modules, `bfpga_fifo_distributed` and `bfpga_fifo_block`; WIDTH and ADDRESS are parameters."""
    template = source_environment("kernels/rtl").get_template("fifo.v.j2")
    return template.render(styles=(DISTRIBUTED, BLOCK))


def fifo_module(stream: ProcessStream) -> str:
    """The module of a stream's FIFO."""
    return f"bfpga_fifo_{BLOCK if stream.is_in_blocks else DISTRIBUTED}"


def fifo_address_bits(stream: ProcessStream) -> int:
    """Bits that number the words of a stream's FIFO."""
    return (stream.fifo_words - 1).bit_length()
