"""What a program costs on an accelerator: cycles and seconds of every layer, and what limits it.

Cycles are counted, not estimated: they are the kernel's own (`engines.cycles`). What is estimated is the rate of the
memory, which is the board file's assumption.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.configuration import ARRAY, KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.program import HostNode, KernelOperation, Program
from bfpga.engines.kernel.cycles import (
    ARRAY_OPERATIONS,
    drain_cycles,
    kernel_steps,
    on_cluster,
    operation_cycles,
    pass_steps,
    passes,
    skips_zeros,
    stage_cycles,
    stage_turns,
    tensor_beats,
    turns,
)
from bfpga.engines.skip_array.activation_cycles import SparseOperation, first_weights, last_unit
from bfpga.engines.skip_array.passes import first_window
from bfpga.engines.skip_array.shape import SkipShape
from bfpga.engines.sparse_cluster.unit_clocks import feed_clocks
from bfpga.engines.sparse_cluster.unit_maps import grid_blocks
from bfpga.program.cycles import ProgramCycles, occupied_clocks, program_cycles, step_operations
from bfpga.program.groups import DESCRIPTOR_BYTES, stream_bytes
from bfpga.program.kept_programs import kept_operations
from bfpga.program.places import place_of


@dataclass
class LayerEstimate:
    """One layer of a program, one sample.

    ``tile_clocks``: cycles of single lanes that its products take; ``cycles``: those of its computing operations;
    ``transfer_cycles``: cycles of its loads, stores and weight transfers; ``bytes``: what it moves over
    the streams; ``limit``: what most of its cycles are spent on.
    """

    name: str
    engine: str
    macs: int = 0
    tile_clocks: int = 0
    cycles: int = 0
    transfer_cycles: int = 0
    bytes: int = 0
    seconds: float = 0.0
    limits: dict[str, int] = field(default_factory=dict)

    @property
    def limit(self) -> str:
        return max(self.limits, key=lambda name: self.limits[name]) if self.limits else "host"


@dataclass
class ProgramEstimate:
    """A program on an accelerator: one sample, resident weights already loaded.

    ``cycles`` holds the kernel's own counts. ``seconds`` is the time of its schedule, in which operations overlap,
    longer where the memory's assumed rate (``bytes_per_clock``) does not keep up. Work of the host is not included.
    """

    layers: list[LayerEstimate]
    cycles: ProgramCycles
    seconds: float
    bytes_per_clock: float

    @property
    def stream_seconds(self) -> float:
        """The same of a sample among ``STREAM`` that follow each other."""
        return self.cycles.stream_seconds(self.bytes_per_clock)

    @property
    def compute_seconds(self) -> float:
        """Time of the computing operations alone."""
        return self.cycles.latency_s(self.cycles.compute_bound)


def estimate_program(accelerator: Accelerator, program: Program) -> ProgramEstimate:
    """Clocks, seconds and the limit of every layer of ``program``; one sample, resident weights already loaded."""
    layers = {layer.name: layer for layer in node_layers(program)}
    operations = [item for step in program.steps for item in step_operations(program, step)]
    kept = kept_operations(program)
    for operation, times in operations:
        if not operation.first_only:
            layer = layers.setdefault(operation.layer, LayerEstimate(operation.layer, ARRAY))
            add_operation(accelerator, layer, operation, times, id(operation.descriptor) in kept)
    cycles = program_cycles(program)
    for name, count in cycles.layers.items():
        layers[name].cycles = count.compute
        layers[name].transfer_cycles = count.total - count.compute
        layers[name].tile_clocks = cycles.tile_clocks.get(name, 0)
        split_idle_tiles(layers[name], program.config.macs_per_clock)
    rate = accelerator.bytes_per_clock
    return ProgramEstimate(list(layers.values()), cycles, cycles.latency_s(cycles.scheduled(1, rate)), rate)


def clock_hz(accelerator: Accelerator) -> float:
    """Cycles a second."""
    return accelerator.clock_mhz * 1e6


def add_operation(
    accelerator: Accelerator,
    layer: LayerEstimate,
    operation: KernelOperation,
    times: int,
    kept: bool = False,
) -> None:
    """Add what an operation moves, how long it lasts (its cycles or its bytes) and what limits it.

    kept: its descriptor is in the program memory.
    """
    config = accelerator.config
    limits = operation_limits(config, operation.descriptor, occupied_clocks(config, operation))
    layer.bytes += times * (moved_bytes(config, operation) - kept * DESCRIPTOR_BYTES)
    layer.seconds += times * operation_seconds(accelerator, operation)
    for limit, share in limits.items():
        layer.limits[limit] = layer.limits.get(limit, 0) + times * share


def operation_seconds(accelerator: Accelerator, operation: KernelOperation) -> float:
    """Seconds of one operation by itself: its cycles, or its bytes where the memory's assumed rate takes longer."""
    cycles = occupied_clocks(accelerator.config, operation)
    moved = moved_bytes(accelerator.config, operation)
    return max(cycles / (accelerator.clock_mhz * 1e6), moved / (accelerator.board.assumed_gb_s * 1e9))


def split_idle_tiles(layer: LayerEstimate, peak: int) -> None:
    """Divide the cycles of products into those the network needs and those of columns, rows or lanes without work."""
    if layer.macs and "array" in layer.limits:
        needed = min(-(-layer.tile_clocks // peak), layer.limits["array"])
        layer.limits["idle tiles"] = layer.limits["array"] - needed
        layer.limits["array"] = needed


def node_layers(program: Program) -> Iterator[LayerEstimate]:
    """One empty estimate per node, in order."""
    for node in program.nodes:
        yield LayerEstimate(node.name, place_of(node), 0 if isinstance(node, HostNode) else node.macs)


def moved_bytes(config: KernelConfig, operation: KernelOperation) -> int:
    """Bytes an operation moves; those of a tensor without its zeros as samples have it."""
    moved, descriptor = stream_bytes(config, operation.descriptor), operation.descriptor
    if operation.transfer is None:
        return moved
    saved = 1 - operation.transfer.share
    return moved - round(saved * (config.stream_bits // 8) * tensor_beats(config, descriptor))


def skip_limits(config: KernelConfig, descriptor: Descriptor, cycles: int) -> dict[str, int]:
    """The same for a GEMM of a skip array: what decides how long a pass takes, and before that its first window.

    `windows`: operands that come a channel a clock; `array`: entries; `output stage`: sums that leave.
    """
    apart, single = bool(descriptor.flags & Flag.LANES_APART), descriptor.groups == 1
    loaded = kernel_steps(config, descriptor) * SkipShape.of(config).step_clocks(descriptor.read_slots, apart, single)
    left = (1 if single else config.array.halves) * max(drain_cycles(config, descriptor), descriptor.output_rows + 1)
    decides = "windows" if descriptor.steps <= loaded else "output stage" if descriptor.steps <= left else "array"
    first = first_window(config, descriptor)
    return {"windows": first, decides: cycles - first} if decides != "windows" else {"windows": cycles}


def sparse_limits(config: KernelConfig, descriptor: Descriptor, cycles: int) -> dict[str, int]:
    """The same for a GEMM of a skip array of activations: what decides how long its passes take.

    `windows`: words of activations that come; `array`: those that are not zero; `output stage`: sums that leave;
    `weights`: those of a chunk that come before it, or for fewer passes than they take.
    """
    operation, first = SparseOperation.of(config, descriptor), first_weights(config, descriptor)
    passing = cycles - first
    fed, left = operation.feed(descriptor.groups, operation.steps), operation.leave(descriptor.groups)
    times = {
        "windows": fed * descriptor.blocks,
        "output stage": left * descriptor.blocks * len(operation.chunks),
        # Nothing comes while the last unit is multiplied.
        "weights": operation.load(operation.steps) * descriptor.blocks * operation.runs
        - operation.load(operation.chunks[0]) + last_unit(config, descriptor),
    }  # fmt: skip
    # A pass's clocks are rounded up.
    near = {name: clocks for name, clocks in times.items() if passing - operation.passes <= clocks}
    decides = max(near, key=lambda name: near[name]) if near else "array"
    return {"weights": cycles} if decides == "weights" else {"weights": first, decides: passing}


def cluster_limits(config: KernelConfig, descriptor: Descriptor, cycles: int) -> dict[str, int]:
    """The same for a GEMM of a sparse cluster: cells that come, sums and outputs that leave, or values of its units."""
    fed = feed_clocks(config, descriptor) * (descriptor.blocks + (descriptor.most_moves > 0))
    left = grid_blocks(descriptor.input_height, descriptor.input_width, config) * descriptor.blocks * config.rows
    rest = cycles - left
    return {"output stage": left, "windows" if fed >= rest // 2 and fed * 10 >= rest * 9 else "array": rest}


def operation_limits(config: KernelConfig, descriptor: Descriptor, cycles: int) -> dict[str, int]:
    """Clocks of one operation of the array by what they are spent on; the sum is ``cycles``.

    `array`: products; `elements`: pooling, addition, rows; `activation memory`: steps that wait for banks that collide;
    `output stage`: passes shorter than their drain; `addresses`: groups of pixels found later than the one before is
    computed; `transfer`: data moved.
    """
    if Operation(descriptor.operation) not in ARRAY_OPERATIONS:
        return {"transfer": cycles}
    if on_cluster(config, descriptor):
        return cluster_limits(config, descriptor, cycles)
    if skips_zeros(config, descriptor) and config.array.computes_runs:
        return sparse_limits(config, descriptor, cycles)
    if skips_zeros(config, descriptor):
        return skip_limits(config, descriptor, cycles)
    count, steps = passes(config, descriptor) * turns(descriptor), kernel_steps(config, descriptor)
    slots = descriptor.read_slots
    shares = {
        "array" if descriptor.operation == Operation.GEMM else "elements": count * steps,
        "activation memory": count * steps * (slots - 1),
        "output stage": count * (pass_steps(config, descriptor) - steps * slots),
    }
    if stage_turns(config, descriptor) > 1:
        shares["output stage"] += max(0, stage_cycles(config, descriptor) - operation_cycles(config, descriptor))
    return {**shares, "addresses": cycles - sum(shares.values())}
