"""Clocks of a layer whose engine skips zeros of inputs, counted from its input as the kernel's descriptors take it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bfpga.contract.program import ArrayNode, KernelOperation, Program
from bfpga.engines.beside.embedded_kernels import embedded_weights
from bfpga.engines.beside.engine import InputCycles
from bfpga.engines.beside.tiles import InputRectangle, input_rectangle
from bfpga.formats.arrays import Int64Array, IntArray
from bfpga.program.cycles import depends_on_data, step_operations


@dataclass
class _Strip:
    """One operation with its part of the input; measuring and computing it take the same clocks.

    always, first: how often every sample, and the first one of an unused policy slot, executes it. expected: clocks
    that the program's own figures have for one execution.
    """

    cycles: Callable[[IntArray], Int64Array]
    rectangle: InputRectangle
    expected: int
    always: int = 0
    first: int = 0


class LayerCycles:
    """A layer's operations. SC R131: what a layer takes follows from the samples at hand."""

    def __init__(self, program: Program, node: ArrayNode, engine: InputCycles) -> None:
        self._strips: dict[int, _Strip] = {}
        operations = (item for step in program.steps for item in step_operations(program, step))
        own = [(item, times) for item, times in operations if item.layer == node.name and depends_on_data(item)]
        # A node's tiles are computed in their order, and measured in it before.
        for number, (operation, times) in enumerate(own):
            tile = number % len(node.tiles)
            strip = self._strips.setdefault(tile, self._strip(program, node, engine, operation, tile))
            if operation.first_only:
                strip.first += 1
            else:
                strip.always += times

    @staticmethod
    def _strip(
        program: Program, node: ArrayNode, engine: InputCycles, operation: KernelOperation, tile: int
    ) -> _Strip:
        part, image = node.tiles[tile], program.tensors[node.inputs[0]]
        weights = embedded_weights(node, image, part.m0, part.m1)
        cycles = engine.counter(program.config, operation.descriptor, weights)
        return _Strip(cycles, input_rectangle(node.window, image, part), operation.clocks)

    def beyond_expected(self, x: IntArray, measured: bool) -> int:
        """Clocks of all samples beyond those that the program's figures expect, less than zero if it took fewer.

        x: (samples, height, width, channels), zero where the mantissas of the layer's input are. measured: its policy
        slot was unused, so the first sample is measured before it is computed.
        """
        total = 0
        for strip in self._strips.values():
            part = strip.rectangle
            beyond = strip.cycles(x[:, part.y0 : part.y1, part.x0 : part.x1]) - strip.expected
            total += strip.always * int(beyond.sum())
            total += strip.first * int(beyond[0]) if measured else 0
        return total
