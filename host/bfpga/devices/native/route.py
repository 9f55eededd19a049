"""The native layers of one program: what runs where, and calls of the C++ side."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import (
    ArrayNode,
    BlockTensor,
    HostNode,
    MatMulNode,
    Program,
    TensorSpec,
    values_read,
)
from bfpga.devices.matmul import MatMulOperands, decode_product, encode_operands
from bfpga.devices.native.library import InstructionSet, load
from bfpga.devices.native.plan import Description, layer_of, memory_strides, static_exponents, stretches
from bfpga.devices.native.records import ENTERED, NO_MEMORY, Choose, CounterRecord, Learn, PortRecord
from bfpga.devices.values import Values
from bfpga.engines.kernel.arithmetic import COUNTER_MASK, LayerCounters
from bfpga.engines.output.exponents import PolicyRegisters
from bfpga.errors import DeviceError
from bfpga.formats.block_float import mantissa_dtype
from bfpga.program.layout import onnx_shape
from bfpga.scale.threads import thread_count

Counted = dict[int, LayerCounters]


class Plan:
    """A run of layers on the C++ side. ``DeviceError`` without memory for it."""

    def __init__(self, description: Description, item: InstructionSet, registers: PolicyRegisters) -> None:
        self.description = description
        self._library = load(item)
        self._plan = self._library.bfpga_native_open(ctypes.byref(description.record))
        if not self._plan:
            raise DeviceError("there is no memory for the native layers of the emulator")
        self.ports = (PortRecord * (2 * len(description.tensors)))()
        self._counters = (CounterRecord * len(description.layers))()
        self._choose, self._learn = Choose(), Learn()
        if description.learns:
            self._choose, self._learn = _callbacks(description.layers, registers)

    def __del__(self) -> None:
        if getattr(self, "_plan", None):
            self._library.bfpga_native_close(self._plan)
            self._plan = None

    def run(self, samples: int, threads: int) -> tuple[int, list[LayerCounters]]:
        """What a run returned and counted; its ports are set."""
        found = self._library.bfpga_native_run(
            self._plan, self.ports, samples, threads, self._choose, self._learn, self._counters
        )
        if found == NO_MEMORY:
            raise DeviceError(f"there is no memory for {samples} samples in the native layers of the emulator")
        counted = [
            LayerCounters(
                c.overflows & COUNTER_MASK, c.underflows & COUNTER_MASK, c.status, c.saturated_samples, c.most_saturated
            )
            for c in self._counters
        ]
        return found, counted


def _callbacks(layers: Sequence[ArrayNode], registers: PolicyRegisters) -> tuple[Any, Any]:
    """The policy registers as the C++ side reads them."""

    def choose(layer: int, lead: int, nonzero: int, exponent: Any) -> int:
        policy = layers[layer].policy
        found, status = registers.choose(
            policy.policy, policy.slot, policy.exponent, policy.preset, lead if nonzero else None
        )
        exponent[0] = found
        return status

    def learn(layer: int, exponent: int, lead: int, nonzero: int, overflows: int, drained: Any, count: int) -> int:
        policy = layers[layer].policy
        seen = np.ctypeslib.as_array(drained, (count,)).copy() if count else None
        return registers.learn(
            policy.policy, policy.slot, exponent, window=policy.window, factor=policy.factor,
            lead=lead if nonzero else None, margin=policy.margin, overflows=overflows, drained=seen,
        )  # fmt: skip

    return Choose(choose), Learn(learn)


def _set_tensor(port: PortRecord, mantissa: npt.NDArray[Any], exponent: npt.NDArray[Any]) -> None:
    port.mantissas, port.exponents = mantissa.ctypes.data, exponent.ctypes.data


class _Edge:
    """A tensor at the edge of a run: its layout, and its readers outside."""

    def __init__(self, spec: TensorSpec, known: int | None, number: int) -> None:
        self.spec = spec
        self.known = known
        self.number = number
        self.shape = onnx_shape(spec)
        # Remainders and parts of the values are in channels of their own, folded columns too: numpy puts them there.
        plain = not spec.remainder and spec.folded is None and spec.parts == 1
        self.strides = memory_strides(spec) if plain else None
        #: What channels are scaled by. Values that enter with such factors are left to numpy.
        self.factors = np.exp2(np.asarray(spec.channel_shift, np.float32)) if spec.channel_shift else None
        self.size = spec.height * spec.width * spec.channels
        self.on_host = self.on_array = self.enters = False

    def set_values(self, port: PortRecord, values: npt.NDArray[Any]) -> None:
        assert self.strides is not None
        port.values = values.ctypes.data
        port.sample_stride = self.size
        port.stride_y, port.stride_x, port.stride_c = self.strides
        port.factors = None if self.factors is None else self.factors.ctypes.data


class Segment:
    """A run of native layers with what enters and leaves."""

    def __init__(self, program: Program, indices: list[int], plan: Plan, exponents: Mapping[str, int]) -> None:
        self.program = program
        self.indices = indices
        self.plan = plan
        description = plan.description
        made = {node.output for node in description.layers}
        fmt = program.config.format
        encodes = fmt.rounding == "rne" and fmt.saturation != "wrap"
        self._dtype = mantissa_dtype(fmt.mantissa_bits)
        edges = {
            name: _Edge(program.tensors[name], exponents.get(name), number)
            for number, name in enumerate(description.tensors)
        }
        read: dict[str, list[int]] = {}
        for index, node in enumerate(program.nodes):
            for name in values_read(node):
                read.setdefault(name, []).append(index)
        self.inputs = {name: edge for name, edge in edges.items() if name not in made}
        for edge in self.inputs.values():
            edge.enters = encodes and edge.strides is not None and edge.factors is None
        self.made = {name: edges[name] for name in dict.fromkeys(node.output for node in description.layers)}
        inside = set(indices)
        for name, edge in self.made.items():
            readers = [program.nodes[index] for index in read.get(name, []) if index not in inside]
            edge.on_host = name in program.leaving or any(isinstance(node, (HostNode, MatMulNode)) for node in readers)
            edge.on_array = any(isinstance(node, ArrayNode) for node in readers)
            if edge.on_host and edge.strides is None:
                edge.on_array = True
        self.leaving = {name: edge for name, edge in self.made.items() if edge.on_host or edge.on_array}

    def run(self, values: Values, threads: int, trace: dict[str, BlockTensor] | None) -> Counted:
        """Compute the layers for all samples; results that others read become values."""
        samples = values.samples
        leaving = self._leave(samples, self.leaving if trace is None else self.made, trace is not None)
        entering = self._enter(values, False)
        found, counted = self.plan.run(samples, threads)
        if found != ENTERED:  # numbers that numpy encodes, or refuses with a message
            entering = self._enter(values, True)
            found, counted = self.plan.run(samples, threads)
        del entering
        for name, (host, tensor) in leaving.items():
            if host is not None:
                values.host[name] = host
            if tensor is not None:
                values.array[name] = tensor
                if trace is not None:
                    trace[name] = tensor
        return dict(zip(self.indices, counted, strict=True))

    def _enter(self, values: Values, encoded: bool) -> list[npt.NDArray[Any]]:
        """Set the ports of what enters; encoded: as mantissas. Returns what has to live until the run is over."""
        kept: list[npt.NDArray[Any]] = []
        for name, edge in self.inputs.items():
            port = self.plan.ports[2 * edge.number]
            port.values = port.mantissas = None
            if name not in values.array and not encoded and edge.enters:
                x = values.on_host(name)
                if x.dtype == np.float32 and x.shape[1:] == edge.shape:
                    x = np.ascontiguousarray(x)
                    edge.set_values(port, x)
                    port.find = edge.known is None
                    kept.append(x)
                    continue
            tensor = values.on_array(name)
            mantissa = np.ascontiguousarray(tensor.mantissa, self._dtype)
            exponent = np.ascontiguousarray(tensor.exponent, np.int32)
            _set_tensor(port, mantissa, exponent)
            kept += [mantissa, exponent]
        return kept

    def _leave(
        self, samples: int, edges: Mapping[str, _Edge], everything: bool
    ) -> dict[str, tuple[npt.NDArray[np.float32] | None, BlockTensor | None]]:
        """Room for what leaves, with its ports set."""
        result: dict[str, tuple[npt.NDArray[np.float32] | None, BlockTensor | None]] = {}
        for edge in self.made.values():
            port = self.plan.ports[2 * edge.number + 1]
            port.values = port.mantissas = port.exponents = None
        for name, edge in edges.items():
            port, spec = self.plan.ports[2 * edge.number + 1], edge.spec
            host = tensor = None
            if edge.on_host and edge.strides is not None:
                host = np.empty((samples, *edge.shape), np.float32)
                edge.set_values(port, host)
            if edge.on_array or everything:
                mantissa = np.empty((samples, spec.height, spec.width, spec.channels), self._dtype)
                tensor = BlockTensor(mantissa, np.empty(samples, np.int32))
                _set_tensor(port, mantissa, tensor.exponent)
            result[name] = host, tensor
        return result


class Product:
    """A product of two activations: one matrix of it is a sample of the C++ side."""

    def __init__(self, program: Program, node: MatMulNode, plan: Plan) -> None:
        self.program = program
        self.node = node
        self.plan = plan

    def run(self, values: Values, threads: int, trace: dict[str, BlockTensor] | None) -> LayerCounters:
        """Compute the product; its result becomes a value of the host."""
        node, dtype = self.node, mantissa_dtype(self.program.config.format.mantissa_bits)
        first, second = (values.on_host(name) for name in node.inputs)
        operands: MatMulOperands = encode_operands(node, first, second, self.program)
        count = len(operands.first.mantissa)
        result = BlockTensor(np.empty((count, node.rows, 1, node.columns), dtype), np.empty(count, np.int32))
        kept = []
        for number, tensor in enumerate(operands):
            mantissa = np.ascontiguousarray(tensor.mantissa, dtype)
            exponent = np.ascontiguousarray(tensor.exponent, np.int32)
            _set_tensor(self.plan.ports[2 * number], mantissa, exponent)
            kept += [mantissa, exponent]
        _set_tensor(self.plan.ports[2 * len(operands) + 1], result.mantissa, result.exponent)
        _, counted = self.plan.run(count, threads)
        values.host[node.output] = decode_product(node, result, self.program)
        if trace is not None:
            trace[node.output] = result
        return counted[0]


def _operands(node: MatMulNode) -> dict[str, TensorSpec]:
    """The tensors of one matrix: both operands and the result."""
    first, second, result = f"{node.name}.first", f"{node.name}.second", node.output
    return {
        first: TensorSpec(first, node.rows, 1, node.inner),
        second: TensorSpec(second, 1, node.columns, node.inner),
        result: TensorSpec(result, node.rows, 1, node.columns),
    }


class NativeRoute:
    """The native layers of a program.

    reasons: why layers stay with the engines in numpy, by name. item: the instruction set; None if none is native.
    ToolError if the library cannot be built.
    """

    def __init__(self, program: Program, registers: PolicyRegisters, wanted: str | None, threads: int | None) -> None:
        self.program = program
        self.threads = thread_count(threads)
        self.reasons: dict[str, str] = {}
        self.segments: dict[int, Segment] = {}
        self.products: dict[int, Product] = {}
        self.covered: set[int] = set()
        self.item: InstructionSet | None = None
        exponents = static_exponents(program)
        for stretch in stretches(program, wanted, self.reasons):
            self.item = stretch.item
            self.covered.update(stretch.indices)
            layers = [layer_of(program, index) for index in stretch.indices]
            node = program.nodes[stretch.indices[0]]
            if isinstance(node, MatMulNode):
                plan = Plan(Description(program, layers, {}, _operands(node)), stretch.item, registers)
                self.products[stretch.indices[0]] = Product(program, node, plan)
            else:
                plan = Plan(Description(program, layers, exponents), stretch.item, registers)
                self.segments[stretch.indices[0]] = Segment(program, stretch.indices, plan, exponents)

        self.starts = {*self.segments, *self.products}

    def run(self, index: int, values: Values, trace: dict[str, BlockTensor] | None) -> Counted:
        """Run what begins at node ``index``; what its layers counted, by node."""
        if index in self.segments:
            return self.segments[index].run(values, self.threads, trace)
        return {index: self.products[index].run(values, self.threads, trace)}
