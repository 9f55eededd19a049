"""The emulator: a program's nodes for whole batches, bit for bit what a kernel computes, with all that it counts.

Layers run as compiled C++ (``devices/native``) where this machine can build it; the engines in numpy compute the others
and are what the compiled ones are compared with.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import ArrayNode, BlockTensor, HostNode, MatMulNode, Node, Program, values_read
from bfpga.devices.base import DeviceResult, HostArray, LayerResult
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.factors import factor_block
from bfpga.devices.host import host_function
from bfpga.devices.matmul import decode_product, encode_operands
from bfpga.devices.native.library import NUMPY, SET_VARIABLE
from bfpga.devices.native.plan import layer_of
from bfpga.devices.native.route import Counted, NativeRoute
from bfpga.devices.values import Values, check_inputs
from bfpga.engines.kernel.accumulators import Block, activation_products, scaled_products
from bfpga.engines.kernel.arithmetic import LayerCounters, LayerEngine
from bfpga.engines.output.exponents import PolicyRegisters
from bfpga.engines.sparse_cluster.partition.map_records import layer_records
from bfpga.errors import ToolError
from bfpga.formats.arrays import Int64Array
from bfpga.program.choices import RunTimeChoices
from bfpga.program.cycles import CycleCount, ProgramCycles, operation_clocks, program_cycles
from bfpga.program.places import place_of

#: Seed of the extreme values of a probe.
PROBE_SEED = 0


class Emulator:
    """One program on an emulated array (BFP R81)."""

    name = "emulator"

    def __init__(
        self, program: Program, instructions: str | None = None, threads: int | None = None, *, probe: bool = True
    ) -> None:
        """instructions: a set of ``devices.native.library``, or `numpy`; by default that of $BFPGA_NATIVE, or the best.

        threads: that share samples; by default $BFPGA_THREADS, or one a core. probe: compare native layers with the
        engines at the first run. ConfigurationError for a set that this machine lacks, and for no number of threads.
        """
        self.program = program
        self.registers = PolicyRegisters(program.config.policy_slots, program.config.format)
        self.choices = RunTimeChoices(program)
        self.cycles: ProgramCycles = program_cycles(program, operation_clocks)
        #: Why layers are not native; empty before the first run, and where all of them are.
        self.note = ""
        self._engines: dict[int, LayerEngine] = {}
        self._probed = not probe
        self._last_uses = self._find_last_uses()
        self.native = self._native_route(instructions, threads)
        self.host = {
            index: host_function(node) for index, node in enumerate(program.nodes) if isinstance(node, HostNode)
        }
        #: Layers whose first sample of a run is measured before it is computed while their policy slot is unused.
        self._measurable = [
            (node.name, node.policy.slot)
            for node in program.nodes
            if not isinstance(node, HostNode) and node.name in self.cycles.first_sample
        ]
        #: Name, engine and cycles of one sample of each layer.
        self._facts = [
            (node.name, place_of(node), self.cycles.layers.get(node.name, CycleCount()).total)
            for node in program.nodes
        ]

    def _native_route(self, instructions: str | None, threads: int | None) -> NativeRoute | None:
        """The native layers; None without a compiler, or where the engines in numpy are wanted."""
        if (instructions or os.environ.get(SET_VARIABLE)) == NUMPY:
            self.note = "the engines in numpy compute all layers, as asked for"
            return None
        try:
            route = NativeRoute(self.program, self.registers, instructions, threads)
        except ToolError as error:
            self.note = f"the engines in numpy compute all layers: {str(error).splitlines()[0]}"
            return None
        if route.reasons:
            name, reason = next(iter(route.reasons.items()))
            self.note = f"the engines in numpy compute {len(route.reasons)} layers, {name} first: {reason}"
        return route if route.covered else None

    def _engine(self, index: int) -> LayerEngine:
        """The engine in numpy of a node, prepared at first use."""
        if index not in self._engines:
            node, config = self.program.nodes[index], self.program.config
            layer, products = layer_of(self.program, index), None
            if layer.factors:
                products = scaled_products(config.format)
            if isinstance(node, MatMulNode):
                products = activation_products(node.inner, config.format)
            self._engines[index] = LayerEngine(layer, config, self.registers, products)
        return self._engines[index]

    def run(
        self, inputs: Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any], *, trace: bool = False
    ) -> DeviceResult:
        """Run a batch; see ``Device.run``. A single input needs no name. The counters are always complete."""
        checked = check_inputs(self.program, inputs)
        if self.native is not None and not self._probed:
            self._probe(checked)
        return self._compute(checked, self.native, trace, trace and self.program.config.array.cuts_maps)

    def _compute(
        self, inputs: Mapping[str, HostArray], native: NativeRoute | None, trace: bool, cuts: bool = False
    ) -> DeviceResult:
        """cuts: whether to report how a cluster's kernel would cut and share out its maps."""
        values = Values(self.program, inputs)
        result = DeviceResult({}, values.samples)
        measured = {name for name, slot in self._measurable if not self.registers.in_use(slot)}
        # What is counted has to be seen, wherever it is computed.
        tensors: dict[str, BlockTensor] | None = {} if self.choices else None
        tensors = result.tensors if trace else tensors
        reported = np.zeros(values.samples, np.int64)
        counted: Counted = {}
        for index, node in enumerate(self.program.nodes):
            counters = counted.get(index)
            if counters is None:
                start = perf_counter()
                if native is not None and index in native.starts:
                    counted.update(native.run(index, values, tensors))
                    counters = counted[index]
                else:
                    counters = self._node(index, node, values, tensors)
                part = "host" if isinstance(node, HostNode) else "array"
                result.seconds[part] = result.seconds.get(part, 0.0) + perf_counter() - start
            result.layers.append(self._layer_result(index, node, counters, values, measured))
            if tensors is not None and isinstance(node, ArrayNode):
                self._choose(node, tensors, reported, result.layers[-1])
                if cuts and node.kind == "gemm":
                    x = tensors.get(node.inputs[0]) or values.on_array(node.inputs[0])
                    result.layers[-1].maps = layer_records(node, np.asarray(x.mantissa) != 0, self.program.config)
            for name in self._last_uses[index]:
                values.drop(name)
        result.cycles = sum(layer.cycles for layer in result.layers)
        result.outputs = values.outputs()
        return result

    def _choose(
        self, node: ArrayNode, tensors: Mapping[str, BlockTensor], reported: Int64Array, layer: LayerResult
    ) -> None:
        """Count a layer's result, and the work of the way that each sample of a layer with two of them took."""
        if node.name in self.choices.choices:
            layer.cycles += self.choices.beyond_expected(node.name, reported)
            layer.choices = self.choices.taken(node.name, reported.tolist())
        if node.name in self.choices.counts:
            reported |= self.choices.reported(node, tensors[node.output])

    def _probe(self, inputs: Mapping[str, HostArray]) -> None:
        """The native layers are believed if they repeat the engines on a sample of the data and on one of extremes."""
        self._probed = True
        generator = np.random.default_rng(PROBE_SEED)
        probe = {}
        for name, value in inputs.items():
            extreme = np.sign(generator.standard_normal(value[:1].shape)) * np.float32(1 << 20)
            probe[name] = np.concatenate([value[:1], extreme.astype(np.float32)])
        slots = deepcopy(self.registers.slots)
        try:
            expected = self._compute(probe, None, True)
        except Exception:
            if not self.host:
                raise
            # An operator of the host may have no result for extremes: an index that is no row of a table.
            probe = {name: value[:1] for name, value in inputs.items()}
            self.registers.slots = deepcopy(slots)
            expected = self._compute(probe, None, True)
        self.registers.slots = deepcopy(slots)
        found = self._compute(probe, self.native, True)
        self.registers.slots = slots
        mismatch = first_mismatch(self.program, expected, found)
        if mismatch is not None:
            self.native = None
            self.note = f"the engines in numpy compute all layers: native ones differ at their probe, {mismatch}"

    def _find_last_uses(self) -> list[list[str]]:
        """For each node the values that nothing reads after it; outputs are read by the caller."""
        last = {name: index for index, node in enumerate(self.program.nodes) for name in values_read(node)}
        found: list[list[str]] = [[] for _ in self.program.nodes]
        leaving = self.program.leaving
        for name, index in last.items():
            if name not in leaving:
                found[index].append(name)
        return found

    def _node(
        self, index: int, node: Node, values: Values, trace: dict[str, BlockTensor] | None
    ) -> LayerCounters | None:
        if isinstance(node, HostNode):
            results = self.host[index]({name: values.on_host(name) for name in node.inputs})
            values.host.update(results)
            return None
        if isinstance(node, MatMulNode):
            matrices = encode_operands(
                node, values.on_host(node.inputs[0]), values.on_host(node.inputs[1]), self.program
            )
            output, counters = self._engine(index).run(_blocks(matrices))
            tensor = BlockTensor(*output)
            values.host[node.output] = decode_product(node, tensor, self.program)
        else:
            operands = [values.on_array(name) for name in node.inputs]
            factors = [factor_block(node, values)] if node.factors else []
            output, counters = self._engine(index).run(_blocks([*operands, *factors]))
            tensor = self._keep(node, output, values)
        if trace is not None:
            trace[node.output] = tensor
        return counters

    def _keep(self, node: ArrayNode, output: Block, values: Values) -> BlockTensor:
        """Store a layer's result: as its tensor, or into its channels and pixels of a shared one."""
        if node.covers(self.program.tensors[node.output]):
            values.array[node.output] = BlockTensor(*output)
            return values.array[node.output]
        tensor = values.allocate(node.output)
        window, channels = node.window, slice(node.channel_offset, node.channel_offset + node.channels)
        rows, columns = window.pixels_of(0, window.output_height, 1, 0, window.output_width)
        tensor.mantissa[:, rows, columns, channels] = output.mantissa
        tensor.exponent[...] = output.exponent
        return tensor

    def _layer_result(
        self, index: int, node: Node, counters: LayerCounters | None, values: Values, measured: set[str]
    ) -> LayerResult:
        name, engine, one = self._facts[index]
        if isinstance(node, HostNode):
            return LayerResult(name, engine)
        samples = values.samples
        cycles = samples * one
        if name in measured:
            cycles += self.cycles.first_sample.get(name, CycleCount()).total
        return LayerResult(name, engine, samples * node.macs, cycles, counters)

    def reset(self) -> None:
        """Forget what policy slots learned."""
        self.registers.reset()

    def close(self) -> None:
        """Nothing is held open."""


def _blocks(tensors: Sequence[BlockTensor]) -> list[Block]:
    """Tensors of a program as the engines take them."""
    return [Block(tensor.mantissa, tensor.exponent) for tensor in tensors]
