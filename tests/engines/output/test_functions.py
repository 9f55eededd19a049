"""Every function of the function unit against floating point: how far its mantissas may be off."""

from __future__ import annotations

import numpy as np
import pytest
from function_errors import error_in_last_places

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import FUNCTION_NAMES, Function
from bfpga.engines.output.stage import evaluate

FUNCTIONS = [function for function in Function if function.row.argument is None]
#: Largest error in units of the last place: half of one by rounding, and with 16 bits what tables and their grid lose.
WORST = {8: 0.6, 16: 22.0}


@pytest.mark.parametrize("bits", WORST)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.key)
def test_mantissas_are_off_by_little(function: Function, bits: int) -> None:
    """BFP 4.4"""
    assert error_in_last_places(function, bits) <= WORST[bits]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.key)
@pytest.mark.parametrize("exponent", [-40, -20, -14, -13, -10, -5, 0, 3])
def test_values_far_out_are_those_of_the_limit(function: Function, exponent: int) -> None:
    """Tails: constants, zero, or the argument itself, to the last bit."""
    row, config = function.row, KernelConfig(accumulator_bits=58, functions=FUNCTION_NAMES)
    magnitude = max(1, 40 << max(0, -exponent))
    acc = np.array([-3 * magnitude, -magnitude, magnitude, 3 * magnitude + 1])
    stage = evaluate(acc[None, None], [exponent], config, function=function)
    exact = np.round(np.ldexp(row.plain(np.ldexp(acc.astype(np.float64), exponent), 0.0), -min(exponent, -14)))
    found = np.ldexp(stage.v[0, 0].astype(np.float64), int(np.ravel(stage.e3)[0]) - min(exponent, -14))
    slack = 11.0 if function in (Function.SIGMOID, Function.TANH) else 0.0  # they end a little before 1
    if row.table is not None and row.table.holds == "above_relu":
        slack = 0.5  # the argument is rounded to the unit of the table
    assert np.abs(found - exact).max() <= np.ldexp(slack, max(0, -14 - exponent))
