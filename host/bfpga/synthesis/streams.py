"""Cells of the FIFOs in the streams between the IPs of a kernel, from their words and bits."""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig
from bfpga.engines.interface.resource_units import address_bits, half_blocks
from bfpga.estimate.hardware import Area
from bfpga.synthesis.memories import lut_memory
from bfpga.vendor.kernel_ips import fifo_parameters, inner_streams


def streams_area(config: SystolicConfig) -> Area:
    """All FIFOs between the IPs; none where the kernel is one IP."""
    return sum((fifo_area(fifo_parameters(stream)) for stream in inner_streams(config)), Area())


def fifo_area(parameters: dict[str, str]) -> Area:
    """A FIFO with the parameters of its IP (PG085): its memory, a register behind that, two pointers and a count.

    A pointer takes a look-up table a bit, the count two (up or down), full and empty are compared with it.
    """
    depth, bits = int(parameters["FIFO_DEPTH"]), 8 * int(parameters["TDATA_NUM_BYTES"])
    pointer = address_bits(depth)
    control = Area(lut=4 * pointer + 2 * -(-pointer // 6) + 4, ff=3 * pointer + 4)
    if parameters["FIFO_MEMORY_TYPE"] == "distributed":
        return control + Area(lut_memory=lut_memory(depth, bits), ff=bits)
    return control + Area(bram18=half_blocks(depth, bits))
