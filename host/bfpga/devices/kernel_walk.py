"""A program on a kernel: step by step, each kernel start sample by sample. C simulation and boards share this walk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bfpga.devices.base import DeviceResult, LayerResult
from bfpga.devices.host import HostFunction, host_function
from bfpga.devices.matmul import decode_product, encode_operands, matrix_operations
from bfpga.devices.trace import with_trace_stores
from bfpga.devices.values import Values, check_inputs
from bfpga.engines.cycles import fetch_cycles
from bfpga.engines.descriptor import Flag, Operation
from bfpga.engines.exponents import LEARNING
from bfpga.engines.systolic import LayerCounters
from bfpga.formats.block_float import mantissa_dtype
from bfpga.network.program import (
    BlockTensor,
    HostNode,
    HostStep,
    KernelOperation,
    LaunchStep,
    MatMulNode,
    MatMulStep,
    Program,
)


class KernelRun(Protocol):
    """What one kernel start reports."""

    @property
    def cycles(self) -> int: ...
    @property
    def operation_cycles(self) -> Sequence[int]: ...
    @property
    def overflow(self) -> int: ...
    @property
    def underflow(self) -> int: ...
    @property
    def status(self) -> int: ...


class Kernel(Protocol):
    """One kernel whose memories and policy slots last from start to start."""

    def run_operations(
        self,
        operations: Sequence[KernelOperation],
        tensors: Mapping[str, BlockTensor],
        sample: int = 0,
        clear_policies: bool = False,
    ) -> KernelRun:
        """One start: loads read rows of ``sample`` from ``tensors``, stores write them there."""
        ...

    def close(self) -> None:
        """Release the kernel."""
        ...


class KernelDevice:
    """One program open on a kernel. Resident weights are loaded here, once."""

    def __init__(self, program: Program, kernel: Kernel, name: str) -> None:
        self.program = program
        self.kernel = kernel
        self.name = name
        self.setup_cycles = 0
        self._clear = True
        self._in_use: set[int] = set()
        self._slots = {node.name: node.policy.slot for node in program.nodes if not isinstance(node, HostNode)}
        self._host: dict[int, HostFunction] = {
            index: host_function(node) for index, node in enumerate(program.nodes) if isinstance(node, HostNode)
        }
        if program.setup.operations:
            self.setup_cycles = kernel.run_operations(program.setup.operations, {}).cycles

    def run(
        self, inputs: Mapping[str, npt.NDArray[np.floating[Any]]], *, trace: bool = False, statistics: bool = True
    ) -> DeviceResult:
        """Run a batch; see ``Device.run``. Counters cost nothing here, they are always collected."""
        values = Values(self.program, check_inputs(self.program, inputs))
        layers: dict[str, LayerResult] = {}
        for node in self.program.nodes:
            macs = 0 if isinstance(node, HostNode) else node.macs * values.samples
            engine = "host" if isinstance(node, HostNode) else "systolic_array"
            layers[node.name] = LayerResult(node.name, engine, macs)
        result = DeviceResult({}, values.samples, layers=list(layers.values()))
        for step in self.program.steps:
            start = perf_counter()
            if isinstance(step, HostStep):
                self._host_step(step, values)
            elif isinstance(step, LaunchStep):
                self._launches(step, values, layers, result, trace)
            else:
                self._products(step, values, layers, result)
            part = "host" if isinstance(step, HostStep) else "array"
            result.seconds[part] = result.seconds.get(part, 0.0) + perf_counter() - start
        result.cycles = sum(layer.cycles for layer in layers.values())
        result.outputs = values.outputs()
        if trace:
            made = {node.output for node in self.program.nodes if not isinstance(node, HostNode)}
            result.tensors.update({name: tensor for name, tensor in values.array.items() if name in made})
        return result

    def _host_step(self, step: HostStep, values: Values) -> None:
        node = self.program.nodes[step.node]
        assert isinstance(node, HostNode)
        values.host.update(self._host[step.node]({name: values.on_host(name) for name in node.inputs}))

    def _launches(
        self, step: LaunchStep, values: Values, layers: dict[str, LayerResult], result: DeviceResult, trace: bool
    ) -> None:
        for sample in range(values.samples):
            operations = self._due(step.operations)
            counted = {id(operation) for operation in operations}
            if trace:
                operations = with_trace_stores(self.program, operations)
            tensors = _tensors(operations, values)
            self._start(operations, tensors, sample, layers, result, counted)

    def _products(self, step: MatMulStep, values: Values, layers: dict[str, LayerResult], result: DeviceResult) -> None:
        node = self.program.nodes[step.node]
        assert isinstance(node, MatMulNode)
        first, second = (values.on_host(name) for name in node.inputs)
        operands = encode_operands(node, first, second, self.program)
        matrices = len(operands.first.mantissa)
        kind = mantissa_dtype(self.program.config.format.mantissa_bits)
        product = BlockTensor(np.zeros((matrices, node.rows, 1, node.columns), kind), np.zeros(matrices, np.int32))
        tensors = {node.inputs[0]: operands.first, node.output: product}
        for matrix in range(matrices):
            operations = matrix_operations(self._due(step.operations), node, operands, matrix, self.program.config)
            counted = {id(operation) for operation in operations}
            self._start(operations, tensors, matrix, layers, result, counted)
        values.host[node.output] = decode_product(node, product, self.program)
        values.array[node.output] = product

    def _due(self, operations: Iterable[KernelOperation]) -> list[KernelOperation]:
        """Measuring passes are due only while the slot of their layer is unused (BFP R38)."""
        return [item for item in operations if not item.first_only or self._slots[item.layer] not in self._in_use]

    def _start(
        self,
        operations: Sequence[KernelOperation],
        tensors: Mapping[str, BlockTensor],
        sample: int,
        layers: dict[str, LayerResult],
        result: DeviceResult,
        counted: set[int],
    ) -> None:
        """One kernel start, its clocks by layer, and the slots that are in use afterwards."""
        run = self.kernel.run_operations(operations, tensors, sample, self._clear)
        self._clear = False
        fetch = fetch_cycles(self.program.config)
        for operation, cycles in zip(operations, run.operation_cycles, strict=True):
            if id(operation) in counted:
                layers[operation.layer].cycles += cycles + fetch
            descriptor = operation.descriptor
            if descriptor.flags & Flag.LAST and descriptor.policy in LEARNING:
                self._in_use.add(descriptor.policy_slot)
        result.counters.include(LayerCounters(run.overflow, run.underflow, run.status))

    def reset(self) -> None:
        """Forget what policy slots learned, at the next kernel start."""
        self._clear = True
        self._in_use.clear()

    def close(self) -> None:
        """Release the kernel."""
        self.kernel.close()


def _tensors(operations: Iterable[KernelOperation], values: Values) -> dict[str, BlockTensor]:
    """The tensors that loads read and stores write."""
    result = {}
    for operation in operations:
        if operation.transfer is not None:
            name = operation.transfer.tensor
            loads = operation.descriptor.operation == Operation.LOAD
            known = name in values.array or (loads and name in values.host)
            result[name] = values.on_array(name) if known else values.allocate(name)
    return result
