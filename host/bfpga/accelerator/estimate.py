"""What a program costs on an accelerator: clocks and seconds of every layer, and what limits it.

Cycles are counted, not estimated: they are the kernel's own (`engines.cycles`). What is estimated is the rate of the
memory, which is the board file's assumption.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from bfpga.accelerator.loader import Accelerator
from bfpga.engines.configuration import SystolicConfig
from bfpga.engines.cycles import COMPUTE, fetch_cycles, kernel_steps, operation_cycles, passes
from bfpga.engines.descriptor import DESCRIPTOR_WORDS, Descriptor, Flag, Operation
from bfpga.network.program import (
    HostNode,
    HostStep,
    KernelOperation,
    LaunchStep,
    MatMulNode,
    MatMulStep,
    Program,
)


@dataclass
class LayerEstimate:
    """One layer of a program, one sample.

    ``cycles``: clocks of its computing operations; ``transfer_cycles``: clocks of its loads, stores, weight transfers
    and descriptors; ``bytes``: what it moves over the streams; ``limit``: what most of its clocks are spent on.
    """

    name: str
    engine: str
    macs: int = 0
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
    """A program on an accelerator: clocks and seconds of one sample, weights resident.

    ``compute_cycles`` counts the array's operations only; ``total_cycles`` everything the kernel does for one sample
    (descriptors, loads, stores, streamed weights); ``seconds`` adds what the memory's assumed rate costs beyond that.
    Work of the host is not included.
    """

    layers: list[LayerEstimate]
    setup_cycles: int
    compute_cycles: int
    total_cycles: int
    clock_mhz: float
    seconds: float

    @property
    def compute_seconds(self) -> float:
        return self.compute_cycles / (self.clock_mhz * 1e6)

    @property
    def macs(self) -> int:
        return sum(layer.macs for layer in self.layers if layer.engine != "host")


def estimate_program(accelerator: Accelerator, program: Program) -> ProgramEstimate:
    """Clocks, seconds and the limit of every layer of ``program``; one sample, resident weights already loaded."""
    layers = {layer.name: layer for layer in node_layers(program)}
    for operation, repeats in sample_operations(program):
        layer = layers.setdefault(operation.layer, LayerEstimate(operation.layer, "systolic_array"))
        add_operation(accelerator, layer, operation.descriptor, repeats)
    found = list(layers.values())
    compute = sum(layer.cycles for layer in found)
    return ProgramEstimate(
        layers=found,
        setup_cycles=sum(whole_cycles(program.config, item.descriptor) for item in program.setup.operations),
        compute_cycles=compute,
        total_cycles=compute + sum(layer.transfer_cycles for layer in found),
        clock_mhz=program.clock_mhz,
        seconds=sum(layer.seconds for layer in found),
    )


def add_operation(accelerator: Accelerator, layer: LayerEstimate, descriptor: Descriptor, repeats: int) -> None:
    """Add ``repeats`` runs of one operation to its layer; an operation lasts as long as its clocks or its bytes."""
    config = accelerator.systolic
    cycles, fetch = operation_cycles(config, descriptor), fetch_cycles(config)
    moved = stream_bytes(config, descriptor)
    seconds = max((cycles + fetch) / (accelerator.clock_mhz * 1e6), moved / (accelerator.board.assumed_gb_s * 1e9))
    layer.bytes += repeats * moved
    layer.seconds += repeats * seconds
    computes = Operation(descriptor.operation) in COMPUTE
    layer.cycles += repeats * cycles if computes else 0
    layer.transfer_cycles += repeats * (fetch if computes else cycles + fetch)
    for limit, share in {**operation_limits(config, descriptor, cycles), "descriptors": fetch}.items():
        layer.limits[limit] = layer.limits.get(limit, 0) + repeats * share


def whole_cycles(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Clocks of one operation with the fetch of its descriptor."""
    return operation_cycles(config, descriptor) + fetch_cycles(config)


def node_layers(program: Program) -> Iterator[LayerEstimate]:
    """One empty estimate per node, in order."""
    for node in program.nodes:
        if isinstance(node, HostNode):
            yield LayerEstimate(node.name, "host")
        else:
            yield LayerEstimate(node.name, "systolic_array", node.macs)


def sample_operations(program: Program) -> Iterator[tuple[KernelOperation, int]]:
    """Operations that run for every sample, each with the number of times; first-sample passes are left out."""
    for step in program.steps:
        if isinstance(step, HostStep):
            continue
        repeats = 1
        if isinstance(step, MatMulStep):
            node = program.nodes[step.node]
            assert isinstance(node, MatMulNode)
            repeats = node.batch
        assert isinstance(step, (LaunchStep, MatMulStep))
        yield from ((operation, repeats) for operation in step.operations if not operation.first_only)


def stream_bytes(config: SystolicConfig, descriptor: Descriptor) -> int:
    """Bytes an operation moves over the streams, its descriptor included."""
    operation = Operation(descriptor.operation)
    size = 4 * DESCRIPTOR_WORDS
    if operation in (Operation.LOAD, Operation.STORE):
        elements = descriptor.output_pixels * data_words(descriptor) * config.lanes
        return size + config.stream_bits // 8 + elements * config.format.container_bits // 8
    beat = config.weight_stream_bits // 8
    word = config.beats_per_weight_word * beat
    if operation is Operation.WEIGHTS:
        return size + descriptor.parameter_rows * beat + descriptor.weight_words * word
    if operation is Operation.GEMM and descriptor.flags & Flag.STREAM_WEIGHTS:
        return size + passes(config, descriptor) * kernel_steps(descriptor) * word
    return size


def data_words(descriptor: Descriptor) -> int:
    """Words of one pixel that a LOAD writes or a STORE reads."""
    loads = descriptor.operation == Operation.LOAD
    return descriptor.output_pixel_words if loads else descriptor.input_pixel_words


def operation_limits(config: SystolicConfig, descriptor: Descriptor, cycles: int) -> dict[str, int]:
    """Clocks of one operation by what they are spent on; the sum is ``cycles``.

    `array`: products; `weight stream`, `activation memory`: steps that wait for the weight stream or for banks that
    collide; `output stage`: passes shorter than their drain; `pipeline`: filling and emptying; `transfer`: data moved.
    """
    if Operation(descriptor.operation) not in COMPUTE:
        return {"transfer": cycles}
    count, steps = passes(config, descriptor), kernel_steps(descriptor)
    streamed = config.beats_per_weight_word if descriptor.flags & Flag.STREAM_WEIGHTS else 1
    slots = max(descriptor.read_slots, streamed)
    waits = "weight stream" if streamed >= descriptor.read_slots else "activation memory"
    shares = {
        "array": count * steps,
        waits: count * steps * (slots - 1),
        "output stage": count * (descriptor.steps - steps * slots),
    }
    return {**shares, "pipeline": cycles - sum(shares.values())}
