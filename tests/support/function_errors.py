"""How far the function unit's mantissas are from functions in floating point."""

from __future__ import annotations

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import FUNCTION_NAMES, Function
from bfpga.engines.output.stage import evaluate, requantize
from bfpga.formats.block_float import exponent_from_lead
from bfpga.formats.block_format import BlockFormat

#: Arguments: every number from -8 to 8 in units of 2^-12.
UNIT = -12
ARGUMENTS = np.arange(-8 << 12, (8 << 12) + 1)


def error_in_last_places(function: Function, mantissa_bits: int) -> float:
    """The largest error of a mantissa in units of the last place, with the exponent that the results need."""
    config = KernelConfig(format=BlockFormat(mantissa_bits), accumulator_bits=48, functions=FUNCTION_NAMES)
    exact = function.row.plain(np.ldexp(ARGUMENTS.astype(np.float64), UNIT), 0.0)
    lead = np.array([int(np.frexp(np.abs(exact).max())[1]) - 1])
    exponent, _ = exponent_from_lead(lead, np.array([True]), config.format)
    stage = evaluate(ARGUMENTS[None, None], [UNIT], config, function=function)
    mantissa, _, _ = requantize(stage.v, stage.e3, exponent, config.format)
    fits = np.abs(exact) < np.ldexp(float(config.format.mantissa_max), int(exponent[0]))  # the others saturate
    return float(np.abs(mantissa[0, 0] - np.ldexp(exact, -int(exponent[0])))[fits].max())
