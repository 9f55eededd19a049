"""Layers of the process `rows`: their accumulators, and what their descriptors hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bfpga.contract.descriptor import Descriptor
from bfpga.contract.program import ArrayNode
from bfpga.contract.rows import RowOperation
from bfpga.engines.rows.arithmetic import RowResults, normalized, products, softmax
from bfpga.engines.rows.settings import Gains, RowSettings
from bfpga.formats.arrays import Int64Array, IntArray

#: A tensor: mantissas (samples, height, width, channels) and exponents (samples,).
Operand = tuple[IntArray, IntArray]


def row_results(layer: ArrayNode) -> Callable[[Sequence[Operand]], tuple[Int64Array, Int64Array]]:
    """The function from the operands of a layer to its accumulators (samples, pixels, channels) and their exponents."""
    work = layer.rows
    assert work is not None
    settings = RowSettings.of_layer(work, layer.channels)

    def of_rows(rows: list[Int64Array], exponents: list[Int64Array]) -> RowResults:
        if work.operation is RowOperation.SOFTMAX:
            return softmax(rows[0], exponents[0])
        if work.operation is RowOperation.PRODUCT:
            return products(rows[0], rows[1], sum(exponents))
        assert work.gains is not None
        return normalized(rows[0], exponents[0], settings, Gains(np.asarray(work.gains, np.int64), 0))

    def results(operands: Sequence[Operand]) -> tuple[Int64Array, Int64Array]:
        samples, pixels = len(operands[0][0]), layer.window.output_height * layer.window.output_width
        rows = [np.asarray(mantissa, np.int64).reshape(-1, layer.channels) for mantissa, _ in operands]
        exponents = [np.repeat(np.asarray(exponent, np.int64), pixels)[:, None] for _, exponent in operands]
        found = of_rows(rows, exponents).accumulators.reshape(samples, pixels, layer.channels)
        own: Int64Array = np.full(samples, work.exponent, np.int64)
        if work.operation is RowOperation.PRODUCT:
            own = own + sum(np.asarray(exponent, np.int64) for _, exponent in operands)
        return found, own

    return results


def fill_row_fields(layer: ArrayNode, result: Descriptor) -> None:
    """What a descriptor says of rows alone."""
    work = layer.rows
    assert work is not None
    settings = RowSettings.of_layer(work, layer.channels)
    result.blocks = work.operation.passes
    result.row_operation, result.row_exponent = int(work.operation), work.exponent
    result.row_inverse, result.row_magnitude = settings.inverse, settings.magnitude
    result.row_epsilon, result.row_epsilon_exponent = settings.epsilon
