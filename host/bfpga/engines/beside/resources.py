"""Resources that every engine beside the array takes alike: multipliers, and the ways from and to memory.

Only the standard library is imported.
"""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.engine_numbers import LaneMultiplier
from bfpga.engines.array.resources import ADDRESS_LUT, TRANSFER_ADDRESS_LUT, output_stage
from bfpga.engines.interface.resource_units import Resources, address_bits, bank_access, scaled
from bfpga.engines.output.resources import collector

#: A pair of packed products: the pixels are joined, and the upper product gets back what the lower one borrowed.
PACKED_PAIR_LUT = 25


def multipliers(config: SystolicConfig, kind: LaneMultiplier, lanes: int, groups: int) -> Resources:
    """``groups`` of ``lanes`` products with a factor in common; two of a group share a DSP block if packed."""
    bits, products = config.format.mantissa_bits, lanes * groups
    registers = products * 2 * bits
    if kind == "dsp_packed":
        pairs = -(-lanes // 2) * groups
        return Resources(pairs, 0, pairs * PACKED_PAIR_LUT, registers)
    if kind == "lut":
        return Resources(0, 0, products * bits * bits, 2 * registers)
    return Resources(products, 0, 0, registers)


def engine_ports(config: SystolicConfig, results: int, pixels: int) -> Resources:
    """An engine's way from and to the activation memory: ``pixels`` that come and ``results`` that leave in a clock.

    The output stage and its collector are one piece of C++, but the loops of an engine are hardware of their own:
    nothing is shared.
    """
    bank_bits = config.lanes * config.format.mantissa_bits + address_bits(config.activation_words)
    joined = Resources(lut=config.banks * bank_bits)
    result = output_stage(config) + bank_access(config) + Resources(lut=ADDRESS_LUT, ff=2 * 32)
    pixel = bank_access(config) + Resources(lut=TRANSFER_ADDRESS_LUT)
    return scaled(result, results) + scaled(pixel, pixels) + joined + collector(config, results)
