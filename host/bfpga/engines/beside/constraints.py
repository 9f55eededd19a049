"""What every engine beside the array asks of its own numbers and of the array's (docs/engines.md)."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.engine_numbers import OPERAND_BITS, SUM_BITS, EngineNumbers
from bfpga.engines.interface.engine import Finding


def array_findings(config: SystolicConfig) -> Iterator[Finding]:
    """What every other engine asks of the array, whose number format and weights it shares."""
    names = " and ".join(config.engines[1:])
    bits, (least, most) = config.accumulator_bits, SUM_BITS
    if config.format.mantissa_bits > OPERAND_BITS:
        text = (
            f"has mantissas of {config.format.mantissa_bits} bits; beside {names} at most {OPERAND_BITS} are possible"
        )
        yield Finding("format", text)
    if not least <= bits <= most:
        yield Finding("accumulator_bits", f"is {bits}; must be {least}..{most} beside {names}")
    if config.multiplier == "shift":
        text = f"is shift, whose weights are not linear; {names} beside it takes no others: must be dsp or dsp_packed"
        yield Finding("multiplier", text)


def common_findings(config: SystolicConfig, build: EngineNumbers) -> Iterator[Finding]:
    """Kernels leave in words of the array's lanes; two 8-bit products share a DSP block."""
    if build.kernels_in_flight % config.lanes:
        text = f"is {build.kernels_in_flight}; must be a multiple of the systolic_array's lanes = {config.lanes}"
        yield Finding("kernels_in_flight", text, build.engine)
    if build.multiplier == "dsp_packed" and config.format.mantissa_bits > 8:
        bits = config.format.mantissa_bits
        text = f"is dsp_packed, which needs mantissas of 8 bits or less, not {bits}; must be dsp"
        yield Finding("multiplier", text, build.engine)
