"""A program on a kernel that is fed by streams: many samples in a start, one start packed while another runs.

A start costs a host some hundred microseconds whatever it computes; a small network takes less than that for an image.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.predicates import predicate_of
from bfpga.contract.program import (
    BlockTensor,
    HostNode,
    HostStep,
    KernelOperation,
    LaunchStep,
    Program,
    Transfer,
    own_weights,
)
from bfpga.devices.base import DeviceResult
from bfpga.devices.kernel_device import KernelDevice, Tally, make_available
from bfpga.devices.kernel_start import KernelResult, KernelStart, StreamingKernel
from bfpga.devices.shared_cycles import shared_cycles
from bfpga.devices.values import Values, check_inputs
from bfpga.engines.kernel import streams
from bfpga.engines.kernel.map_streams import MapStreams
from bfpga.engines.kernel.records import waits_for_store
from bfpga.errors import ClockWarning
from bfpga.program.choices import work_of
from bfpga.program.cycles import longest_clocks, operation_clocks
from bfpga.program.packets import SamplePackets
from bfpga.program.start_clocks import start_clocks

#: A start takes as many samples as its longest stream fits into this, so that two starts fit a cache and a small pool.
START_BYTES = 1 << 18
#: Most samples of a start: a long start delays the first result.
START_SAMPLES = 32
#: Weight streams that are kept joined, one for each start of a sample.
KEPT_STREAMS = 256
#: The STORE of a start that would have none: of one word, for the records after it.
MAP_RECORDS = "records of maps"
RECORDS_STORE = KernelOperation(
    MAP_RECORDS,
    Descriptor(operation=int(Operation.STORE), flags=int(Flag.END_PACKET), output_pixels=1),
    Transfer(MAP_RECORDS, 0, 1),
)


class OperationStarts:
    """Lists of operations as starts of a streaming kernel; what a program of several launches needs."""

    def __init__(self, kernel: StreamingKernel, config: KernelConfig) -> None:
        self.kernel = kernel
        self.config = config
        self._weights: OrderedDict[tuple[int, ...], _JoinedWeights] = OrderedDict()
        self._schedules: Schedules = {}
        self._maps = MapStreams.of(config)
        #: The last reports of count registers.
        self._reported: tuple[int, ...] = (0,)

    def run_operations(
        self,
        operations: Sequence[KernelOperation],
        tensors: Mapping[str, BlockTensor],
        sample: int = 0,
        clear_policies: bool = False,
    ) -> KernelResult:
        """One start: loads come from ``tensors``, stores go into ``tensors`` (rows of ``sample``)."""
        if waits_for_store(operations, self.config):
            return self._run_with_store(operations, tensors, sample, clear_policies)
        self.kernel.begin(
            KernelStart(
                descriptors=len(operations),
                packet=streams.input_packet(operations, self.config, tensors, sample),
                weights=self._weight_stream(operations),
                output_bytes=streams.output_bytes(operations, self.config),
                clear_policies=clear_policies,
                predicted_cycles=sum(longest_clocks(self.config, operation) for operation in operations),
                maps=self._maps,
            )
        )
        result = self.kernel.finish()
        stored = streams.decode_output(operations, self.config, result.output)
        streams.write_rows(stored, tensors, sample)
        records = streams.reported_records(operations, self.config, stored)
        result = replace(result, choices=tuple(part.choices for part in stored), records=records)
        reported = (result.choices or self._reported)[-1:]
        result = with_schedule(result, operations, self.config, self._schedules, choices=reported)
        self._reported = reported
        clocks = [operation_clocks(self.config, operation) for operation in operations]
        known = [work_of(self.config, item.descriptor, one, reported[0])
                 for item, one in zip(operations, clocks, strict=True)]  # fmt: skip
        return shared_cycles(result, known)

    def _run_with_store(
        self,
        operations: Sequence[KernelOperation],
        tensors: Mapping[str, BlockTensor],
        sample: int,
        clear_policies: bool,
    ) -> KernelResult:
        """A start that stores nothing, with a STORE that brings the records of its maps; that counts no clocks."""
        scratch = BlockTensor(np.zeros((sample + 1, 1, 1, self.config.lanes), np.int32), np.zeros(sample + 1, np.int32))
        asked = [*operations, RECORDS_STORE]
        result = self.run_operations(asked, {**tensors, MAP_RECORDS: scratch}, sample, clear_policies)
        assert result.operation_cycles is not None
        *cycles, own = result.operation_cycles
        return replace(result, cycles=result.cycles - own, operation_cycles=cycles, choices=())

    def close(self) -> None:
        """Release the kernel."""
        self.kernel.close()

    def _weight_stream(self, operations: Sequence[KernelOperation]) -> bytes:
        """The weight stream of a start; the same object for the same operations, so that a board keeps it."""
        parts = [operation.weights for operation in operations if operation.weights]
        if not parts:
            return b""
        key = tuple(map(id, parts))
        if key not in self._weights:
            self._weights[key] = _JoinedWeights(parts, b"".join(parts))
            while len(self._weights) > KEPT_STREAMS:
                self._weights.popitem(last=False)
        self._weights.move_to_end(key)
        return self._weights[key].stream


@dataclass(frozen=True)
class _JoinedWeights:
    """The weights of a start; ``parts`` keeps the objects alive by whose identities the stream is found."""

    parts: list[bytes]
    stream: bytes


@dataclass(frozen=True)
class _Group:
    """Samples [first, last) that share a start."""

    packets: SamplePackets
    first: int
    last: int


class StreamingDevice(KernelDevice):
    """One program on a streaming kernel. Programs with one launch run grouped, others sample by sample."""

    def __init__(self, program: Program, kernel: StreamingKernel, name: str) -> None:
        self.streaming = kernel
        self._packets: dict[tuple[bool, ...], SamplePackets] = {}
        self._schedules: Schedules = {}
        super().__init__(program, OperationStarts(kernel, program.config), name)

    def run(self, inputs: Mapping[str, npt.NDArray[np.floating[Any]]], *, trace: bool = False) -> DeviceResult:
        """Run a batch; see ``KernelDevice.run``."""
        before = dict(self.streaming.seconds)
        values = Values(self.program, check_inputs(self.program, inputs))
        with self._kernel_in_use():
            grouped = self._one_launch() and not trace
            result = self._run_grouped(values) if grouped else self._run_one_by_one(values, trace)
        for part, seconds in self.streaming.seconds.items():
            result.seconds[part] = seconds - before.get(part, 0.0)
        if result.measured is not None and result.measured.warning:
            warnings.warn(result.measured.warning, ClockWarning, stacklevel=2)
        return result

    def _cancel(self) -> None:
        self.streaming.cancel()

    def _one_launch(self) -> bool:
        if any(map(own_weights, self.program.nodes)):
            return False
        kinds = [type(step) for step in self.program.steps]
        return kinds.count(LaunchStep) == 1 and kinds.count(HostStep) == len(kinds) - 1

    def _run_grouped(self, values: Values) -> DeviceResult:
        result, tally = DeviceResult({}, values.samples), Tally()
        for step in self.program.steps:
            start = perf_counter()
            if isinstance(step, HostStep):
                part, node = "host", self.program.nodes[step.node]
                assert isinstance(node, HostNode)
                values.host.update(self._host[step.node]({name: values.on_host(name) for name in node.inputs}))
            else:
                part = "array"
                assert isinstance(step, LaunchStep)
                self._run_groups(step, values, tally)
            result.seconds[part] = result.seconds.get(part, 0.0) + perf_counter() - start
        result.outputs = values.outputs()
        self._report(result, tally, False)
        return result

    def _run_groups(self, step: LaunchStep, values: Values, tally: Tally) -> None:
        """Every group is begun while the one before runs; results are taken in order."""
        make_available(step.operations, values)
        pending: deque[_Group] = deque()
        for group in self._groups(step, values.samples):
            if len(pending) == self.streaming.depth:
                self._finish(pending.popleft(), values, tally)
            self.streaming.begin(self._start(group, values))
            pending.append(group)
        while pending:
            self._finish(pending.popleft(), values, tally)

    def _groups(self, step: LaunchStep, samples: int) -> Iterator[_Group]:
        """Measuring passes of policies that have learned nothing yet belong to the first sample alone."""
        operations, first = step.operations, 0
        while first < samples:
            needed = [self._is_needed(operation) for operation in operations]
            measures = any(wanted and op.first_only for wanted, op in zip(needed, operations, strict=True))
            packets = self._packed(operations, needed, step.ahead)
            last = min(samples, first + (1 if measures else _samples_a_start(packets)))
            self._learned(packets.operations)
            yield _Group(packets, first, last)
            first = last

    def _packed(self, operations: Sequence[KernelOperation], needed: list[bool], ahead: int) -> SamplePackets:
        key = tuple(needed)
        if key not in self._packets:
            chosen = [operation for operation, wanted in zip(operations, needed, strict=True) if wanted]
            self._packets[key] = SamplePackets(chosen, self.program.config, sum(needed[:ahead]))
        return self._packets[key]

    @staticmethod
    def _start(group: _Group, values: Values) -> KernelStart:
        packets, count = group.packets, group.last - group.first
        return KernelStart(
            descriptors=count * len(packets.operations),
            packet=packets.pack(values.array, group.first, group.last),
            weights=packets.weights,
            weight_repeats=count,
            output_bytes=count * packets.output_bytes,
            predicted_cycles=count * packets.longest,
            maps=packets.maps,
        )

    def _finish(self, group: _Group, values: Values, tally: Tally) -> None:
        result = self.streaming.finish()
        packets, count = group.packets, group.last - group.first
        packets.unpack(result.output, values.array, group.first, group.last)
        reported = packets.choices(result.output, count)
        result = with_schedule(
            result, packets.operations, self.program.config, self._schedules, count, packets.ahead, reported
        )
        operations = [packets.operations[index] for index in packets.sent(count)]
        tally.add(operations, shared_cycles(result, packets.sent_clocks(reported)))
        tally.choices += reported
        layers = [operation.layer for operation in packets.recorded]
        for records in packets.records(result.output, count) if layers else ():
            tally.add_records(zip(layers, records, strict=True))


#: Clocks of starts by the identities of their descriptors, samples and place of loads ahead; with what they are of.
Schedules = dict[tuple[int, ...], tuple[Sequence[KernelOperation], int]]


def with_schedule(
    result: KernelResult,
    operations: Sequence[KernelOperation],
    config: KernelConfig,
    known: Schedules,
    samples: int = 1,
    ahead: int = 0,
    choices: Sequence[int] = (),
) -> KernelResult:
    """The result of a start with the schedule of its measured clocks.

    known: schedules that need not be made again. choices: of each sample, what count registers reported.
    """
    if result.measured is None:
        return result
    reported = choices if any(predicate_of(operation.descriptor) for operation in operations) else ()
    key = (samples, ahead, *(id(operation.descriptor) for operation in operations), *reported)
    if key not in known:
        while len(known) >= KEPT_STREAMS:
            known.pop(next(iter(known)))
        known[key] = operations, start_clocks(config, operations, samples, ahead, reported)
    return replace(result, measured=replace(result.measured, scheduled=known[key][1]))


def _samples_a_start(packets: SamplePackets) -> int:
    longest = max(packets.input_bytes, packets.output_bytes, len(packets.weights), 1)
    return max(1, min(START_SAMPLES, START_BYTES // longest))
