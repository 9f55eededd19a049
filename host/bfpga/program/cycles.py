"""Clocks of a whole program: per layer and in total, split into computing and moving data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.predicates import runs
from bfpga.contract.process_stream import START_GUARD
from bfpga.contract.program import (
    ArrayNode,
    HostNode,
    HostStep,
    KernelOperation,
    LaunchStep,
    MatMulNode,
    MatMulStep,
    Program,
    Step,
)
from bfpga.engines.kernel.cycles import (
    COUNTED_OPERATIONS,
    occupied_cycles,
    on_cluster,
    operation_cycles,
    skips_zeros,
)
from bfpga.engines.kernel.order import in_stream
from bfpga.engines.sparse_cluster.unit_clocks import most_clocks
from bfpga.program.choices import RunTimeChoices
from bfpga.program.schedule import COMMAND_CLOCKS, RESULT_LATENCY, schedule
from bfpga.program.turns import starts_stand_alone, turns_of

#: Clocks of an operation of a configuration.
ClocksOf = Callable[[KernelConfig, KernelOperation], int]
#: Passes of a skip array in the model's clocks that one of them takes at most.
LONGEST_PASS = 3
#: Samples for which throughput is computed: loads of one overlap with the operations of another.
STREAM = 16


def operation_clocks(config: KernelConfig, operation: KernelOperation) -> int:
    """The work of one operation, as a kernel counts it."""
    return operation_cycles(config, operation.descriptor)


def occupied_clocks(config: KernelConfig, operation: KernelOperation) -> int:
    """Clocks that an operation takes by itself: those of its work, unless it is of a skip array (``array.cycles``)."""
    return occupied_cycles(config, operation.descriptor)


def longest_clocks(config: KernelConfig, operation: KernelOperation) -> int:
    """The most cycles that an operation may take a kernel whose streams never wait, whatever its data."""
    overhead = COMMAND_CLOCKS + RESULT_LATENCY + START_GUARD
    if skips_zeros(config, operation.descriptor):
        # Groups may wait for each other, which the model leaves out.
        clocks = most_clocks if on_cluster(config, operation.descriptor) else occupied_cycles
        overhead += LONGEST_PASS * clocks(config, operation.descriptor)
    return operation_clocks(config, operation) + overhead


@dataclass
class CycleCount:
    """Clocks by what they are spent on: computing operations, weight transfers, loads and stores."""

    compute: int = 0
    weights: int = 0
    transfer: int = 0

    @property
    def total(self) -> int:
        return self.compute + self.weights + self.transfer

    def add_operation(
        self, config: KernelConfig, operation: KernelOperation, clocks: ClocksOf = occupied_clocks
    ) -> None:
        """Count one execution of an operation."""
        kind = Operation(operation.descriptor.operation)
        cycles = clocks(config, operation)
        if kind in COUNTED_OPERATIONS:
            self.compute += cycles
        elif kind in (Operation.WEIGHTS, Operation.TABLE):
            self.weights += cycles
        else:
            self.transfer += cycles

    def add(self, other: CycleCount, times: int = 1) -> None:
        """Add ``times`` executions of another count."""
        self.compute += times * other.compute
        self.weights += times * other.weights
        self.transfer += times * other.transfer


@dataclass(frozen=True)
class SampleStart:
    """A start of the kernel for one sample.

    step: its place among the program's. times: how often one sample runs it. ahead: ``LaunchStep.ahead`` among these
    operations. shared: whether samples may share it.
    """

    step: int
    operations: list[KernelOperation]
    times: int
    ahead: int
    shared: bool


@dataclass
class ProgramCycles:
    """Clocks of one sample, resident weights already loaded.

    layers: by layer name; setup: loading the resident weights, once; first_sample: measuring passes that a predicting
    policy adds to the sample that finds its slot unused, by layer name (BFP R38).
    """

    config: KernelConfig
    clock_mhz: float
    macs: int
    #: Clocks of single lanes by layer name: its multiply-accumulates, two at once where a lane does two.
    tile_clocks: dict[str, int]
    layers: dict[str, CycleCount] = field(default_factory=dict)
    setup: CycleCount = field(default_factory=CycleCount)
    first_sample: dict[str, CycleCount] = field(default_factory=dict)
    starts: list[SampleStart] = field(default_factory=list)
    #: Clocks of starts that were asked for: a schedule of a large network's samples takes the better part of a second.
    _known: dict[tuple[int, int, float | None], int] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def scheduled(self, samples: int = 1, bytes_per_clock: float | None = None) -> int:
        """Clocks of ``samples`` samples with all that overlaps and waits, the host's work left out.

        bytes_per_clock: as for ``schedule``.
        """
        return sum(self.start_clocks(start, samples, bytes_per_clock) for start in self.starts)

    def start_clocks(self, start: SampleStart, samples: int, bytes_per_clock: float | None) -> int:
        """Clocks of one of the starts for ``samples`` samples: of one start for all, where they share it."""
        together = samples if start.shared else 1
        key = start.step, together, bytes_per_clock
        if key not in self._known:
            operations = in_stream(start.operations, together, start.ahead)
            self._known[key] = schedule(self.config, operations, 1, bytes_per_clock).clocks
        return start.times * self._known[key] * (samples // together)

    def start_seconds(self, start: SampleStart, bytes_per_clock: float) -> float:
        """Seconds of one of the starts for a sample among ``STREAM`` that follow each other."""
        return self.latency_s(self.start_clocks(start, STREAM, bytes_per_clock)) / STREAM

    def stream_seconds(self, bytes_per_clock: float) -> float:
        """Seconds of a sample among ``STREAM`` that follow each other, the host's work left out."""
        return sum(self.start_seconds(start, bytes_per_clock) for start in self.starts)

    @property
    def schedule(self) -> int:
        """Clocks from the begin of one sample alone to its end, with all that overlaps and waits."""
        return self.scheduled()

    @property
    def sample(self) -> CycleCount:
        """All layers of one sample together."""
        result = CycleCount()
        for count in self.layers.values():
            result.add(count)
        return result

    @property
    def compute_bound(self) -> int:
        """Clocks of the computing operations alone: what remains when all data is where it is needed."""
        return self.sample.compute

    @property
    def dma_inclusive(self) -> int:
        """Clocks of everything the kernel does for one sample, one thing after another: all work of its processes."""
        return self.sample.total

    @property
    def utilization(self) -> float:
        """Clocks that the lanes of the tiles need over those they have while the array computes."""
        busy = sum(self.tile_clocks.values())
        clocks = self.compute_bound
        return busy / (clocks * self.config.macs_per_clock) if clocks else 0.0

    def latency_s(self, cycles: int | None = None) -> float:
        """Seconds of one sample, or of ``cycles``, at the program's clock."""
        return (self.schedule if cycles is None else cycles) / (self.clock_mhz * 1e6)


def step_operations(program: Program, step: Step) -> Iterator[tuple[KernelOperation, int]]:
    """Operations of one step, each with the number of times one sample executes it (measuring passes: once at all)."""
    if isinstance(step, LaunchStep):
        yield from ((operation, 1) for operation in step.operations)
    elif isinstance(step, MatMulStep):
        node = program.nodes[step.node]
        assert isinstance(node, MatMulNode)
        yield from ((operation, node.batch) for operation in step.operations)
    else:
        assert isinstance(step, HostStep)


def always(program: Program, operations: Sequence[KernelOperation]) -> list[KernelOperation]:
    """Operations that every sample executes; measuring passes of a first sample are left out.

    Of those that count registers decide about, those of most samples.
    """
    return [operation for operation in operations if not operation.first_only and expected(program, operation)]


def expected(program: Program, operation: KernelOperation) -> bool:
    """Whether an operation runs for most samples."""
    return not program.config.count_registers or runs(operation.descriptor, program.choices)


def sample_starts(program: Program) -> list[SampleStart]:
    """Starts of the kernel that every sample runs."""
    found, alone = [], starts_stand_alone(program, bool(RunTimeChoices(program)))
    for turn in turns_of(program):
        step = turn.step
        times = next((times for _, times in step_operations(program, step)), 1)
        ahead = len(always(program, step.operations[: step.ahead])) if isinstance(step, LaunchStep) else 0
        start = SampleStart(turn.index, always(program, step.operations), times, ahead, alone and turn.shared)
        if start.operations:
            found.append(start)
    return found


def tile_clocks(program: Program) -> dict[str, int]:
    """Clocks of single lanes that each layer of the array needs."""
    return {
        node.name: _lane_clocks(program.config, node) if isinstance(node, ArrayNode) else node.macs
        for node in program.nodes
        if not isinstance(node, HostNode)
    }


def _lane_clocks(config: KernelConfig, node: ArrayNode) -> int:
    """Clocks of single lanes that a layer needs; zeros take none of a skip array, as far as it skips them."""
    clocks = config.tile_clocks(node.macs, node.weight_format)
    if config.array.stores_entries and node.weights is not None and node.weights.size:
        return clocks * int(np.count_nonzero(node.weights)) // node.weights.size
    if config.array.computes_runs and node.input_density is not None:
        return round(clocks * node.input_density)
    return clocks


def program_cycles(program: Program, counted: ClocksOf = occupied_clocks) -> ProgramCycles:
    """Clocks of every layer of ``program``. BFP 6. counted: of an operation; what a kernel counts is its work."""
    macs = sum(node.macs for node in program.nodes if not isinstance(node, HostNode))
    result = ProgramCycles(program.config, program.clock_mhz, macs, tile_clocks(program))
    result.starts = sample_starts(program)
    for step in program.steps:
        for operation, times in step_operations(program, step):
            if not expected(program, operation):
                continue
            layers = result.first_sample if operation.first_only else result.layers
            once = CycleCount()
            once.add_operation(program.config, operation, counted)
            layers.setdefault(operation.layer, CycleCount()).add(once, 1 if operation.first_only else times)
    for operation in program.setup.operations:
        result.setup.add_operation(program.config, operation, counted)
    return result
