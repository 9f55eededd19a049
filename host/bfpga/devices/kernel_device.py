"""A program on a kernel: its steps sample by sample, through the streams that a board's DMA carries.

Whatever executes kernel starts serves: the C simulation now, a virtual or real board by the same interface. The kernel
keeps weights and policy slots from start to start; tensors cross the streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bfpga.compiler.schedule.matmul import product_node
from bfpga.contract.descriptor import Descriptor, Flag, LeadRule, Operation
from bfpga.contract.predicates import predicate_of
from bfpga.contract.program import (
    ArrayNode,
    BlockTensor,
    HostNode,
    HostStep,
    KernelOperation,
    LaunchStep,
    MatMulNode,
    MatMulStep,
    Program,
    Tile,
    Transfer,
)
from bfpga.devices.base import DeviceResult, LayerResult
from bfpga.devices.factors import Factors
from bfpga.devices.host import host_function
from bfpga.devices.host_batches import HostFunction
from bfpga.devices.kernel_start import KernelResult
from bfpga.devices.matmul import MatMulOperands, decode_product, encode_operands
from bfpga.devices.measured_clocks import MeasuredClocks
from bfpga.devices.told_statistics import cut_behind, ends_of_passes, read_histogram
from bfpga.devices.values import Values, check_inputs
from bfpga.engines.kernel.arithmetic import COUNTER_MASK, LayerCounters
from bfpga.engines.kernel.cycles import ARRAY_OPERATIONS
from bfpga.engines.kernel.pitch import split
from bfpga.engines.kernel.records import MapRecords
from bfpga.engines.kernel.streams import pack_parameters, pack_weights
from bfpga.engines.output.exponents import LEARNING
from bfpga.formats.arrays import Int64Array
from bfpga.program.choices import RunTimeChoices
from bfpga.program.places import place_of


class Kernel(Protocol):
    """What executes kernel starts."""

    def run_operations(
        self,
        operations: Sequence[KernelOperation],
        tensors: Mapping[str, BlockTensor],
        sample: int = 0,
        clear_policies: bool = False,
    ) -> KernelResult:
        """One start: loads come from ``tensors``, stores go into ``tensors`` (rows of ``sample``).

        The result has the clocks of every operation.
        """
        ...

    def close(self) -> None:
        """Release the kernel."""
        ...


@dataclass
class Tally:
    """What the starts of a run counted, by layer."""

    cycles: dict[str, int] = field(default_factory=dict)
    counters: dict[str, LayerCounters] = field(default_factory=dict)
    measured: MeasuredClocks | None = None
    #: Of each layer the records of its maps, sample after sample (engines/kernel/records.py).
    maps: dict[str, list[Int64Array]] = field(default_factory=dict)
    #: Of each sample what count registers reported, a bit each; the last one's while samples are run one by one.
    choices: list[int] = field(default_factory=list)

    def add(self, operations: Sequence[KernelOperation], result: KernelResult) -> None:
        assert result.operation_cycles is not None
        clocks: dict[str, int] = {}
        for operation, cycles in zip(operations, result.operation_cycles, strict=True):
            clocks[operation.layer] = clocks.get(operation.layer, 0) + cycles
        self.add_clocks(clocks, result.measured)

    def add_clocks(self, clocks: Mapping[str, int], measured: MeasuredClocks | None) -> None:
        """Note a start. clocks: of all layers that have a part in it."""
        if measured is not None:
            self.measured = measured + (self.measured or MeasuredClocks())
        for layer, cycles in clocks.items():
            self.cycles[layer] = self.cycles.get(layer, 0) + cycles
            self.counters.setdefault(layer, LayerCounters())

    def add_records(self, records: Iterable[tuple[str, Int64Array]]) -> None:
        """Note records of maps, each with its layer."""
        for layer, record in records:
            self.maps.setdefault(layer, []).append(record)

    def count(self, layer: str, result: KernelResult) -> None:
        counters = self.counters[layer]
        counters.overflows = (counters.overflows + result.overflow) & COUNTER_MASK
        counters.underflows = (counters.underflows + result.underflow) & COUNTER_MASK
        counters.status |= result.status


class _Trace:
    """Tensors the array computed, sample after sample."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.tensors: dict[str, BlockTensor] = {}
        self._begun: set[str] = set()

    def next_sample(self) -> None:
        self._begun.clear()

    def of_sample(self, name: str) -> BlockTensor:
        """The tensor whose last sample is the one at hand."""
        if name not in self._begun:
            self._begun.add(name)
            self.append(name, _empty(self.program, name, self.program.tensors[name].height))
        return self.tensors[name]

    def append(self, name: str, tensor: BlockTensor) -> None:
        if name in self.tensors:
            known = self.tensors[name]
            mantissa = np.concatenate([known.mantissa, tensor.mantissa])
            tensor = BlockTensor(mantissa, np.concatenate([known.exponent, tensor.exponent]))
        self.tensors[name] = tensor


class KernelDevice:
    """One program on one kernel. ``name`` is what the user calls the device."""

    def __init__(self, program: Program, kernel: Kernel, name: str) -> None:
        self.program = program
        self.kernel = kernel
        self.name = name
        self._host: dict[int, HostFunction] = {
            index: host_function(node) for index, node in enumerate(program.nodes) if isinstance(node, HostNode)
        }
        self._learning = {
            node.name: node.policy.slot
            for node in program.nodes
            if not isinstance(node, HostNode) and node.policy.policy in LEARNING
        }
        self._factors = Factors(program)
        self.choices = RunTimeChoices(program)
        self._in_use: set[int] = set()
        self._loaded = False
        self._load()

    def _load(self) -> None:
        """Resident weights go to the kernel and what policies learned is forgotten, unless all is as it was left."""
        if not self._loaded:
            self._in_use.clear()
            self.kernel.run_operations(self.program.setup.operations, {}, clear_policies=True)
            self._loaded = True

    @contextmanager
    def _kernel_in_use(self) -> Iterator[None]:
        """After an error, or an interrupt from the keyboard, the kernel is loaded again before the next run."""
        try:
            self._load()
            yield
        except BaseException:
            self._loaded = False
            self._cancel()
            raise

    def _cancel(self) -> None:
        """No start stays in flight; a kernel that runs one at a time has none."""

    def run(self, inputs: Mapping[str, npt.NDArray[np.floating[Any]]], *, trace: bool = False) -> DeviceResult:
        """Run a batch; see ``Device.run``.

        With ``trace`` every operation is a start of its own, what it computed is stored, and what the collector counted
        is read, so that tensors and counters are known layer by layer; counters of layers that share a start are
        otherwise those of the start.
        """
        values = Values(self.program, check_inputs(self.program, inputs))
        with self._kernel_in_use():
            return self._run_one_by_one(values, trace)

    def _run_one_by_one(self, values: Values, trace: bool) -> DeviceResult:
        result = DeviceResult({}, values.samples)
        tally, tracer = Tally(), _Trace(self.program)
        # Policies learn from sample to sample, so a sample is finished before the next begins.
        parts = [_sample(values, number, self.program) for number in range(values.samples)]
        for part in parts:
            tally.choices.append(0)
            self._run_sample(part, tally, tracer if trace else None, result.seconds)
        result.tensors = tracer.tensors
        outputs = [part.outputs() for part in parts]
        result.outputs = {name: np.concatenate([output[name] for output in outputs]) for name in self.program.outputs}
        self._report(result, tally, trace)
        return result

    def _report(self, result: DeviceResult, tally: Tally, trace: bool) -> None:
        result.layers = [self._layer(node, tally, result.samples, trace) for node in self.program.nodes]
        for layer in result.layers:
            layer.choices = self.choices.taken(layer.name, tally.choices)
        result.cycles = sum(tally.cycles.values())
        result.measured = tally.measured

    def reset(self) -> None:
        """Forget what policy slots learned."""
        with self._kernel_in_use():
            self._in_use.clear()
            self.kernel.run_operations([], {}, clear_policies=True)

    def close(self) -> None:
        """Release the kernel."""
        self.kernel.close()

    def _layer(self, node: ArrayNode | MatMulNode | HostNode, tally: Tally, samples: int, trace: bool) -> LayerResult:
        if isinstance(node, HostNode):
            return LayerResult(node.name, "host")
        counters = tally.counters.get(node.name) if trace else None
        cycles = tally.cycles.get(node.name, 0)
        layer = LayerResult(node.name, place_of(node), samples * node.macs, cycles, counters)
        layer.maps = _maps(node, tally, samples)
        return layer

    def _run_sample(self, values: Values, tally: Tally, trace: _Trace | None, seconds: dict[str, float]) -> None:
        if trace is not None:
            trace.next_sample()
        for step in self.program.steps:
            start = perf_counter()
            part = "array"
            if isinstance(step, HostStep):
                part = "host"
                node = self.program.nodes[step.node]
                values.host.update(self._host[step.node]({name: values.on_host(name) for name in node.inputs}))
            elif isinstance(step, MatMulStep):
                self._products(step, values, tally, trace)
            else:
                self._launch(step, values, tally, trace)
            seconds[part] = seconds.get(part, 0.0) + perf_counter() - start

    def _needed(self, operations: Sequence[KernelOperation]) -> list[KernelOperation]:
        """Operations without the measurements whose policy slot already predicts."""
        return [operation for operation in operations if self._is_needed(operation)]

    def _is_needed(self, operation: KernelOperation) -> bool:
        return not operation.first_only or self._learning.get(operation.layer) not in self._in_use

    def _learned(self, operations: Sequence[KernelOperation]) -> None:
        for operation in operations if self._learning else ():
            if operation.descriptor.flags & Flag.LAST and operation.layer in self._learning:
                self._in_use.add(self._learning[operation.layer])

    def _launch(
        self, step: LaunchStep, values: Values, tally: Tally, trace: _Trace | None, sample: int = 0
    ) -> None:
        operations = self._factors.filled(self._needed(step.operations), values, sample)
        make_available(operations, values)
        if trace is None:
            result = self.kernel.run_operations(operations, values.array, sample)
            tally.add(operations, result)
            tally.add_records(result.records)
            _add_choices(tally, result)
        else:
            self._traced(operations, values, tally, trace)
        self._learned(operations)

    def _traced(self, operations: Sequence[KernelOperation], values: Values, tally: Tally, trace: _Trace) -> None:
        """One start for each operation; what it computed is stored too."""
        nodes = {node.name: node for node in self.program.nodes if isinstance(node, ArrayNode)}
        tiles: dict[str, int] = {}
        ends = ends_of_passes(operations)
        for start in _starts(operations):
            result = self.kernel.run_operations([_packet(operation) for operation in start], values.array)
            tally.add(start, result)
            tally.add_records(result.records)
            if start[0].descriptor.operation in ARRAY_OPERATIONS:
                tally.count(start[0].layer, result)
            if any(id(operation) in ends for operation in start) and result.operation_cycles != [0]:
                self._read_statistics(start[0].layer, tally)
            for operation, cycles in zip(start, result.operation_cycles or [], strict=True):
                if operation.descriptor.operation not in ARRAY_OPERATIONS or operation.descriptor.flags & Flag.MEASURE:
                    continue
                if predicate_of(operation.descriptor) is not None and cycles == 0:
                    continue
                node = nodes[operation.layer]
                tile = node.tiles[tiles.get(node.name, 0)]
                tiles[node.name] = tiles.get(node.name, 0) + 1
                _add_choices(tally, self._read_back(operation, node, tile, trace))

    def _read_statistics(self, layer: str, tally: Tally) -> None:
        """What the collector holds is noted for a layer."""
        found = read_histogram(self.kernel.run_operations, self.program.config)
        tally.counters[layer].add_histogram(found)

    def _read_back(self, operation: KernelOperation, node: ArrayNode, tile: Tile, trace: _Trace) -> KernelResult:
        """What an operation has computed goes to the traced tensor."""
        x0, x1 = tile.columns(node.window.output_width)
        scratch = {node.output: _empty(self.program, node.output, tile.rows, x1 - x0)}
        result = self.kernel.run_operations([_mirror(operation, node, tile, self.program)], scratch)
        _copy(scratch[node.output], trace.of_sample(node.output), node, tile)
        return result

    def _products(self, step: MatMulStep, values: Values, tally: Tally, trace: _Trace | None) -> None:
        node = self.program.nodes[step.node]
        assert isinstance(node, MatMulNode)
        operands = encode_operands(node, values.on_host(node.inputs[0]), values.on_host(node.inputs[1]), self.program)
        count = len(operands.first.mantissa)
        shape = (count, node.rows, 1, node.columns)
        product = BlockTensor(np.zeros(shape, np.int32), np.zeros(count, np.int32))
        for matrix in range(count):
            operations = self._filled(self._needed(step.operations), node, operands, matrix)
            tensors = {node.inputs[0]: operands.first, node.output: product}
            ends = ends_of_passes(operations) if trace is not None else set()
            for start in cut_behind(operations, ends):
                result = self.kernel.run_operations(start, tensors, matrix)
                tally.add(start, result)
                tally.count(node.name, result)
                if id(start[-1]) in ends:
                    self._read_statistics(node.name, tally)
            self._learned(operations)
        values.host[node.output] = decode_product(node, product, self.program)
        if trace is not None:
            trace.append(node.output, product)

    def _filled(
        self, operations: Sequence[KernelOperation], node: MatMulNode, operands: MatMulOperands, matrix: int
    ) -> list[KernelOperation]:
        """The operations of one matrix with the bytes of its second operand, and bins where its results will be."""
        config = self.program.config
        second, exponent = operands.second, int(operands.second.exponent[matrix])
        layer = product_node(node, second.mantissa[matrix, 0].T, exponent)
        result, m0 = [], 0
        for operation in operations:
            if operation.descriptor.operation == Operation.WEIGHTS:
                m1 = min(m0 + operation.descriptor.parameter_rows, node.columns)
                data = pack_parameters(layer, config, m0, m1) + pack_weights(layer, config, m0, m1)
                operation = replace(operation, weights=data)
                m0 = 0 if m1 == node.columns else m1
            elif operation.descriptor.lead_rule != LeadRule.LEAD:
                base = node.policy.base + exponent
                operation = replace(operation, descriptor=replace(operation.descriptor, position_base=base))
            result.append(operation)
        return result


def _maps(node: ArrayNode | MatMulNode, tally: Tally, samples: int) -> MapRecords | None:
    """The records of a layer; None unless there is one for each operation and sample."""
    records, operations = tally.maps.get(node.name, []), len(node.tiles) if isinstance(node, ArrayNode) else 0
    if not records or len(records) != samples * operations:
        return None
    return MapRecords(np.array(records, np.int64).reshape(samples, operations, -1))


def _add_choices(tally: Tally, result: KernelResult) -> None:
    """Note what count registers reported for the sample that is run."""
    tally.choices[-1:] = result.choices[-1:] or tally.choices[-1:]


def _sample(values: Values, number: int, program: Program) -> Values:
    """The values of one sample."""
    return Values(program, {name: value[number : number + 1] for name, value in values.host.items()})


def make_available(operations: Sequence[KernelOperation], values: Values) -> None:
    """What loads read is encoded; what stores fill has a place."""
    for operation in operations:
        if operation.transfer is None:
            continue
        if operation.descriptor.operation == Operation.LOAD:
            values.on_array(operation.transfer.tensor)
        else:
            values.allocate(operation.transfer.tensor)


def _empty(program: Program, name: str, rows: int, columns: int | None = None) -> BlockTensor:
    spec = program.tensors[name]
    width = spec.width if columns is None else columns
    return BlockTensor(np.zeros((1, rows, width, spec.channels), np.int32), np.zeros(1, np.int32))


def _copy(source: BlockTensor, target: BlockTensor, node: ArrayNode, tile: Tile) -> None:
    """Outputs that one operation computed go to the last sample of the traced tensor."""
    channels = slice(node.channel_offset + tile.m0, node.channel_offset + tile.m1)
    x0, x1 = tile.columns(node.window.output_width)
    rows, columns = node.window.pixels_of(tile.y0, tile.y1, tile.step, x0, x1)
    target.mantissa[-1, rows, columns, channels] = source.mantissa[0, :, :, channels]
    target.exponent[-1] = source.exponent[0]


def _starts(operations: Sequence[KernelOperation]) -> list[list[KernelOperation]]:
    """Operations that share a start where each has one of its own: windows that slide need those before them."""
    starts: list[list[KernelOperation]] = []
    for operation in operations:
        if operation.descriptor.flags & Flag.SLIDES:
            starts[-1].append(operation)
        else:
            starts.append([operation])
    return starts


def _packet(operation: KernelOperation) -> KernelOperation:
    """The operation as a start of its own: a STORE ends its packet."""
    if operation.descriptor.operation != Operation.STORE:
        return operation
    flags = operation.descriptor.flags | int(Flag.END_PACKET)
    return replace(operation, descriptor=replace(operation.descriptor, flags=flags))


def _mirror(operation: KernelOperation, node: ArrayNode, tile: Tile, program: Program) -> KernelOperation:
    """The STORE that reads back what an operation has written, with the adjacent channels and pixels."""
    done = operation.descriptor
    before = (node.channel_offset + tile.m0) // program.config.lanes
    step = split(program.config, 1, done.output_pixel_words)
    store = Descriptor(
        operation=Operation.STORE,
        flags=int(Flag.END_PACKET),
        input_slot=done.output_slot,
        output_pixels=done.output_pixels,
        output_width=done.output_width,
        input_pixel_words=done.output_pixel_words,
        input_word=done.output_word - before,
        input_bank=done.output_bank,
        input_step_word=step[0],
        input_step_bank=step[1],
        input_wrap_word=done.output_wrap_word,
        input_wrap_bank=done.output_wrap_bank,
    )
    return KernelOperation(operation.layer, store, Transfer(node.output, 0, tile.rows))
