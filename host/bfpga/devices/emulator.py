"""The emulator: a program's nodes in numpy, whole batches at a time, bit for bit what a kernel computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.compiler.schedule.matmul import product_node
from bfpga.contract.program import ArrayNode, BlockTensor, HostNode, MatMulNode, Node, Program
from bfpga.devices.base import DeviceResult, HostArray, LayerResult, engine_of
from bfpga.devices.graph_route import GraphRoute, available
from bfpga.devices.host import HostFunction, host_function
from bfpga.devices.input_cycles import LayerCycles
from bfpga.devices.matmul import decode_product, encode_operands, matrix_tiles
from bfpga.devices.values import Values, check_inputs
from bfpga.engines.array.accumulators import Block, activation_products
from bfpga.engines.array.arithmetic import LayerCounters, LayerEngine
from bfpga.engines.output.exponents import PolicyRegisters
from bfpga.engines.registry import engine_beside
from bfpga.program.cycles import CycleCount, ProgramCycles, program_cycles


class Emulator:
    """One program on an emulated array (BFP R81)."""

    name = "emulator"

    def __init__(self, program: Program) -> None:
        self.program = program
        self.registers = PolicyRegisters(program.config.policy_slots, program.config.format)
        self.engines: dict[int, LayerEngine] = {}
        self.counted: dict[int, LayerCycles] = {}
        self.host: dict[int, HostFunction] = {}
        self.cycles: ProgramCycles = program_cycles(program)
        self._route: GraphRoute | None = None
        self._route_tried = False
        for index, node in enumerate(program.nodes):
            self._prepare(index, node)

    def _prepare(self, index: int, node: Node) -> None:
        if isinstance(node, HostNode):
            self.host[index] = host_function(node)
            return
        config = self.program.config
        if isinstance(node, MatMulNode):
            layer = product_node(node)
            layer.tiles = matrix_tiles(self.program, index, node)
            products = activation_products(node.inner, config.format)
            self.engines[index] = LayerEngine(layer, config, self.registers, products)
        else:
            self.engines[index] = LayerEngine(node, config, self.registers)
            engine = engine_beside(node)
            if engine is not None and engine.by_inputs is not None:
                self.counted[index] = LayerCycles(self.program, node, engine.by_inputs)

    def run(
        self, inputs: Mapping[str, npt.NDArray[np.floating[Any]]], *, trace: bool = False, statistics: bool = True
    ) -> DeviceResult:
        """Run a batch; see ``Device.run``. Without trace and statistics the fast route is taken where it is exact."""
        checked = check_inputs(self.program, inputs)
        route = None if trace or statistics else self._fast_route(checked)
        return self._compute(checked, route, trace)

    def _compute(self, inputs: Mapping[str, HostArray], route: GraphRoute | None, trace: bool) -> DeviceResult:
        values = Values(self.program, inputs)
        result = DeviceResult({}, values.samples)
        uses = self._uses()
        measured = self._measured()
        for index, node in enumerate(self.program.nodes):
            with _timed(result.seconds, "host" if isinstance(node, HostNode) else "array"):
                counters = None
                if route is None or index not in route.covered:
                    counters = self._node(index, node, values, result.tensors if trace else None)
                elif index in route.starts:
                    route.run(index, values)
            result.layers.append(self._layer_result(index, node, counters, values, measured))
            for name in node.inputs:
                uses[name] -= 1
                if not uses[name]:
                    values.drop(name)
        result.cycles = sum(layer.cycles for layer in result.layers)
        result.outputs = values.outputs()
        return result

    def _fast_route(self, inputs: Mapping[str, HostArray]) -> GraphRoute | None:
        """The fast route, built at first use and believed only if it repeats the engines' bits on a probe."""
        if not self._route_tried:
            self._route_tried = True
            route = GraphRoute(self.program) if available() else None
            if route is not None and route.starts and self._repeats(route, inputs):
                self._route = route
        return self._route

    def _repeats(self, route: GraphRoute, inputs: Mapping[str, HostArray]) -> bool:
        """One sample of the data and one of extreme values through both ways; policy slots are left as they were."""
        generator = np.random.default_rng(0)
        probe = {}
        for name, value in inputs.items():
            extreme = np.sign(generator.standard_normal(value[:1].shape)) * np.float32(1 << 20)
            probe[name] = np.concatenate([value[:1], extreme.astype(np.float32)])
        slots = deepcopy(self.registers.slots)
        expected = self._compute(probe, None, False).outputs
        self.registers.slots = deepcopy(slots)
        found = self._compute(probe, route, False).outputs
        self.registers.slots = slots
        return all(np.array_equal(expected[name], found[name], equal_nan=True) for name in expected)

    def _uses(self) -> Counter[str]:
        """How often each value is read; outputs are read by the caller too."""
        uses = Counter(self.program.outputs.keys())
        for node in self.program.nodes:
            uses.update(node.inputs)
        return uses

    def _node(
        self, index: int, node: Node, values: Values, trace: dict[str, BlockTensor] | None
    ) -> LayerCounters | None:
        if isinstance(node, HostNode):
            results = self.host[index]({name: values.on_host(name) for name in node.inputs})
            values.host.update(results)
            return None
        if isinstance(node, MatMulNode):
            operands = encode_operands(
                node, values.on_host(node.inputs[0]), values.on_host(node.inputs[1]), self.program
            )
            output, counters = self.engines[index].run(_blocks(operands))
            tensor = BlockTensor(*output)
            values.host[node.output] = decode_product(node, tensor, self.program)
        else:
            output, counters = self.engines[index].run(_blocks([values.on_array(name) for name in node.inputs]))
            tensor = self._keep(node, output, values)
        if trace is not None:
            trace[node.output] = tensor
        return counters

    def _keep(self, node: ArrayNode, output: Block, values: Values) -> BlockTensor:
        """Store a layer's result: as its tensor, or into its channels of a concatenated one."""
        if node.channels == self.program.tensors[node.output].channels:
            values.array[node.output] = BlockTensor(*output)
            return values.array[node.output]
        tensor = values.allocate(node.output)
        tensor.mantissa[..., node.channel_offset : node.channel_offset + node.channels] = output.mantissa
        tensor.exponent[...] = output.exponent
        return tensor

    def _measured(self) -> set[str]:
        """Layers whose first sample of this run is measured before it is computed: their policy slot is unused."""
        return {
            node.name
            for node in self.program.nodes
            if not isinstance(node, HostNode) and not self.registers.in_use(node.policy.slot)
        }

    def _layer_result(
        self, index: int, node: Node, counters: LayerCounters | None, values: Values, measured: set[str]
    ) -> LayerResult:
        if isinstance(node, HostNode):
            return LayerResult(node.name, "host")
        samples = values.samples
        cycles = samples * self.cycles.layers.get(node.name, CycleCount()).total
        if node.name in measured and node.name in self.cycles.first_sample:
            cycles += self.cycles.first_sample[node.name].total
        if index in self.counted:
            cycles += self.counted[index].beyond_expected(values.nonzero(node.inputs[0]), node.name in measured)
        return LayerResult(node.name, engine_of(node), samples * node.macs, cycles, counters)

    def reset(self) -> None:
        """Forget what policy slots learned."""
        self.registers.reset()

    def close(self) -> None:
        """Nothing is held open."""


@contextmanager
def _timed(seconds: dict[str, float], part: str) -> Iterator[None]:
    start = perf_counter()
    try:
        yield
    finally:
        seconds[part] = seconds.get(part, 0.0) + perf_counter() - start


def _blocks(tensors: Sequence[BlockTensor]) -> list[Block]:
    """Tensors of a program as the engines take them."""
    return [Block(tensor.mantissa, tensor.exponent) for tensor in tensors]
