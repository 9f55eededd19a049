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
    HostStep,
    KernelOperation,
    LaunchStep,
    MatMulStep,
    Program,
    Transfer,
)
from bfpga.devices.base import DeviceResult
from bfpga.devices.host_batches import HostArray
from bfpga.devices.kernel_device import KernelDevice, Tally
from bfpga.devices.kernel_start import KernelResult, KernelStart, StreamingKernel
from bfpga.devices.native.stream_work import stream_work
from bfpga.devices.shared_cycles import shared_cycles
from bfpga.devices.values import Values, check_inputs
from bfpga.engines.kernel import streams
from bfpga.engines.kernel.map_streams import MapStreams
from bfpga.engines.kernel.records import waits_for_store
from bfpga.errors import ClockWarning, ProgramError
from bfpga.program.choices import work_of
from bfpga.program.cycles import longest_clocks, operation_clocks
from bfpga.program.groups import START_BYTES, START_SAMPLES
from bfpga.program.host_order import EncodedSamples, SampleEncoder
from bfpga.program.kept_programs import KeptPrograms
from bfpga.program.packets import SamplePackets
from bfpga.program.start_clocks import start_clocks
from bfpga.program.turns import Turn, starts_stand_alone, turns_of

#: A run has so many starts at least, or starts of so many samples: packing the first and unpacking the last overlaps
#: nothing, but a start costs the host the same time whatever it holds.
RUN_STARTS, SHORT_START_SAMPLES = 4, 32
#: Bytes of a stream of a start at most, however many samples are asked for: the DMA engines' largest transfer.
TRANSFER_BYTES = (1 << 26) - (1 << 16)
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
    """Samples that share a start, its streams, and the tensors that it loads.

    sends: whether their program goes to its memory first.
    """

    packets: SamplePackets
    values: Values
    loaded: Mapping[str, BlockTensor | EncodedSamples]
    sends: bool


class StreamingDevice(KernelDevice):
    """One program on a streaming kernel: groups of samples go through it step by step, and share starts.

    While the kernel computes a group, the host computes what comes after and before the array for its neighbours.
    Programs that leave something in the kernel from one start of a sample to its next one run sample by sample.
    samples_a_start: samples that share a start, at most; None: as many as keep two starts small (``START_BYTES``).
    """

    samples_a_start: int | None = None

    def __init__(self, program: Program, kernel: StreamingKernel, name: str) -> None:
        self.streaming = kernel
        self._packets: dict[tuple[int, ...], SamplePackets] = {}
        self._schedules: Schedules = {}
        self._work = stream_work()
        self._programs = KeptPrograms(program.config, self._work)
        self._encoders: dict[str, SampleEncoder] = {}
        #: What ``begin_batch`` has begun.
        self._batches: deque[_Group] = deque()
        super().__init__(program, OperationStarts(kernel, program.config), name)
        self._turns = turns_of(program)

    def _load(self) -> None:
        if not self._loaded:
            self._programs.forget()
        super()._load()

    def run(self, inputs: Mapping[str, npt.NDArray[np.floating[Any]]], *, trace: bool = False) -> DeviceResult:
        """Run a batch; see ``KernelDevice.run``."""
        before = dict(self.streaming.seconds)
        checked = check_inputs(self.program, inputs)
        with self._kernel_in_use():
            if not trace and self._may_group():
                result = self._run_grouped(checked)
            else:
                result = self._run_one_by_one(Values(self.program, checked), trace)
        for part, seconds in self.streaming.seconds.items():
            result.seconds[part] = seconds - before.get(part, 0.0)
        if result.measured is not None and result.measured.warning:
            warnings.warn(result.measured.warning, ClockWarning, stacklevel=2)
        return result

    def begin_batch(self, values: Values, other_cycles: int = 0) -> int:
        """Begin all samples as one start before which the policies are cleared; ``finish_batch`` ends it.

        other_cycles: of other cores for which this one may have to wait. Returns the cycles that it may take alone.
        ProgramError for a program of more than one start a sample.
        """
        if len(self._turns) != 1 or not self._turns[0].shared or not self._may_group():
            raise ProgramError(
                f"program {self.program.name}: its cores cannot run a batch in one start: the host computes between "
                "layers, or keeps results for them"
            )
        turn = self._turns[0]
        with self._kernel_in_use():
            self._host_steps(turn.before, values, {})
            packets = self._packed(turn)
            group = _Group(packets, values, self._sources(_launch(turn), values), self._programs.sends(packets))
            start = self._start(group)
            start = replace(start, clear_policies=True, predicted_cycles=start.predicted_cycles + other_cycles)
            self.streaming.begin(start)
        self._batches.append(group)
        return start.predicted_cycles - other_cycles

    def finish_batch(self) -> DeviceResult:
        """Wait for the oldest start of ``begin_batch``; DeviceError if the kernel fails."""
        group, tally = self._batches.popleft(), Tally()
        result = DeviceResult({}, group.values.samples)
        with self._kernel_in_use():
            self._finish(group, tally)
            self._host_steps(self._turns[0].after, group.values, result.seconds)
        result.outputs = group.values.outputs()
        self._report(result, tally, False)
        return result

    def _cancel(self) -> None:
        self._batches.clear()
        self.streaming.cancel()

    def _may_group(self) -> bool:
        """Whether groups of samples may go through the program step by step."""
        return bool(self._turns) and starts_stand_alone(self.program, bool(self.choices))

    def _run_grouped(self, inputs: Mapping[str, HostArray]) -> DeviceResult:
        samples = len(next(iter(inputs.values())))
        result, tally = DeviceResult({}, samples), Tally()
        groups = [
            Values(self.program, {name: value[first:last] for name, value in inputs.items()})
            for first, last in self._groups(samples)
        ]
        for turn in self._turns:
            start, host = perf_counter(), result.seconds.get("host", 0.0)
            if turn.shared:
                self._run_together(turn, _launch(turn), groups, tally, result.seconds)
            else:
                self._run_alone(turn, groups, tally, result.seconds)
            spent = perf_counter() - start - (result.seconds.get("host", 0.0) - host)
            result.seconds["array"] = result.seconds.get("array", 0.0) + spent
        outputs = [values.outputs() for values in groups]
        result.outputs = {name: np.concatenate([output[name] for output in outputs]) for name in self.program.outputs}
        self._report(result, tally, False)
        return result

    def _groups(self, samples: int) -> Iterator[tuple[int, int]]:
        """First sample and end of each group.

        Measuring passes of policies that have learned nothing yet belong to the first sample alone. Weights that come
        with every sample are sent an odd number of times: after an even one, what is wrong with all of them may cancel
        in the checksum.
        """
        launches = [turn for turn in self._turns if isinstance(turn.step, LaunchStep)]
        shared = [turn for turn in launches if turn.shared]
        measuring = [one for turn in launches for one in _launch(turn).operations if one.first_only]
        most = min(START_SAMPLES, max(SHORT_START_SAMPLES, samples // RUN_STARTS))
        packed = [self._packed(turn, learned=True) for turn in shared]
        sizes = (_samples_a_start(packets, most, self.samples_a_start) for packets in packed)
        size, odd = min(sizes, default=START_SAMPLES), any(packets.weights for packets in packed)
        size = 1 if any(one.layer not in self._learning for one in measuring) else size
        first = 0
        while first < samples:
            alone = first == 0 and any(map(self._is_needed, measuring))
            count = 1 if alone else min(size, samples - first)
            count -= odd and count % 2 == 0
            yield first, first + count
            first += count

    def _packed(self, turn: Turn, learned: bool = False) -> SamplePackets:
        """The streams of a start now, or once all policies have learned."""
        step = _launch(turn)
        needed = [
            not operation.first_only if learned else self._is_needed(operation) for operation in step.operations
        ]
        key = turn.index, *needed
        if key not in self._packets:
            chosen = [operation for operation, wanted in zip(step.operations, needed, strict=True) if wanted]
            self._packets[key] = self._programs.packets(chosen, sum(needed[: step.ahead]))
        return self._packets[key]

    def _host_steps(self, steps: Sequence[HostStep], values: Values, seconds: dict[str, float]) -> None:
        start = perf_counter()
        for step in steps:
            node = self.program.nodes[step.node]
            values.host.update(self._host[step.node]({name: values.on_host(name) for name in node.inputs}))
        seconds["host"] = seconds.get("host", 0.0) + perf_counter() - start

    def _run_alone(self, turn: Turn, groups: Sequence[Values], tally: Tally, seconds: dict[str, float]) -> None:
        """A step for which each sample, or each of its matrices, brings weights of its own."""
        for values in groups:
            self._host_steps(turn.before, values, seconds)
            if isinstance(turn.step, MatMulStep):
                self._products(turn.step, values, tally, None)
            else:
                for sample in range(values.samples):
                    tally.choices.append(0)
                    self._launch(turn.step, values, tally, None, sample)
            self._host_steps(turn.after, values, seconds)

    def _run_together(
        self, turn: Turn, step: LaunchStep, groups: Sequence[Values], tally: Tally, seconds: dict[str, float]
    ) -> None:
        """Every group is begun while the one before runs; results are taken in order."""
        pending: deque[_Group] = deque()

        def finish() -> None:
            group = pending.popleft()
            self._finish(group, tally)
            self._host_steps(turn.after, group.values, seconds)

        for values in groups:
            if len(pending) == self.streaming.depth:
                finish()
            self._host_steps(turn.before, values, seconds)
            packets = self._packed(turn)
            group = _Group(packets, values, self._sources(step, values), self._programs.sends(packets))
            self._learned(group.packets.operations)
            self.streaming.begin(self._start(group))
            pending.append(group)
        while pending:
            finish()

    def _sources(self, step: LaunchStep, values: Values) -> dict[str, BlockTensor | EncodedSamples]:
        """What a start loads; values of the host are encoded, but stay in its order. What it stores has a place."""
        found: dict[str, BlockTensor | EncodedSamples] = {}
        for operation in step.operations:
            if operation.transfer is None:
                continue
            name = operation.transfer.tensor
            if operation.descriptor.operation != Operation.LOAD:
                values.allocate(name)
            elif name not in found:
                found[name] = values.on_array(name) if values.has_array(name) else self._encoded(name, values)
        return found

    def _encoded(self, name: str, values: Values) -> EncodedSamples:
        if name not in self._encoders:
            self._encoders[name] = SampleEncoder(self.program.tensors[name], self.program.config.format, self._work)
        return self._encoders[name].encode(values.on_host(name))

    @staticmethod
    def _start(group: _Group) -> KernelStart:
        packets, count = group.packets, group.values.samples
        return KernelStart(
            descriptors=count * len(packets.operations),
            packet=packets.stream(group.loaded, 0, count, group.sends),
            weights=packets.weights,
            weight_repeats=count,
            output_bytes=count * packets.output_bytes,
            predicted_cycles=count * packets.longest,
            maps=packets.maps,
        )

    def _finish(self, group: _Group, tally: Tally) -> None:
        result = self.streaming.finish()
        packets, count = group.packets, group.values.samples
        packets.unpack(result.output, group.values.array, 0, count)
        reported = packets.choices(result.output, count)
        result = with_schedule(
            result, packets.operations, self.program.config, self._schedules, count, packets.ahead, reported,
            packets.opening_clocks(group.sends),
        )  # fmt: skip
        if result.operation_cycles is None and not packets.skips:
            tally.add_clocks(packets.layer_clocks(count, result.cycles), result.measured)
        else:
            operations = [packets.operations[index] for index in packets.sent(count)]
            tally.add(operations, shared_cycles(result, packets.sent_clocks(reported)))
        tally.choices += reported
        layers = [operation.layer for operation in packets.recorded]
        for records in packets.records(result.output, count) if layers else ():
            tally.add_records(zip(layers, records, strict=True))


def _launch(turn: Turn) -> LaunchStep:
    assert isinstance(turn.step, LaunchStep)
    return turn.step


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
    opening: int = 0,
) -> KernelResult:
    """The result of a start with the schedule of its measured clocks.

    known: schedules that need not be made again. choices: of each sample, what count registers reported. opening:
    clocks before its first descriptor.
    """
    if result.measured is None:
        return result
    skips = config.count_registers and any(predicate_of(operation.descriptor) for operation in operations)
    reported = choices if skips else ()
    key = (samples, ahead, *(id(operation.descriptor) for operation in operations), *reported)
    if key not in known:
        while len(known) >= KEPT_STREAMS:
            known.pop(next(iter(known)))
        known[key] = operations, start_clocks(config, operations, samples, ahead, reported)
    return replace(result, measured=replace(result.measured, scheduled=known[key][1] + opening))


def _samples_a_start(packets: SamplePackets, most: int, asked: int | None = None) -> int:
    """Samples that share a start: ``most``, or as many as are asked for; then only a transfer bounds its bytes."""
    longest = max(packets.input_bytes, packets.output_bytes, len(packets.weights), 1)
    if packets.kept is not None:
        return max(1, min(asked, TRANSFER_BYTES // longest) if asked else START_BYTES // longest)
    return max(1, min(packets.most_samples, asked or min(most, START_BYTES // longest)))
