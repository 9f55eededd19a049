"""What costs most of a program's time on an accelerator, and what to change: shares of the time of a sample.

The time is that of a sample in a stream of them, the host's operators included (``estimate.sample``). A share is what
the schedule, or the host, would save if nothing of that kind were left, with the layers cut as they are; the driver's
time is in none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.functions import ROWS
from bfpga.contract.program import ArrayNode, HostNode, KernelOperation, MatMulNode, Program
from bfpga.engines.kernel.cycles import kernel_steps, skips_zeros, weight_reads
from bfpga.estimate.host import arm_seconds
from bfpga.estimate.program import LayerEstimate, ProgramEstimate, clock_hz, moved_bytes
from bfpga.program.cycles import always
from bfpga.program.host import final_host_nodes, host_nodes, kinds_of

#: Shares of the time from which on a line is worth it, and lines at most.
WORTH, LINES = 0.1, 3
#: Figures closer than this are of the same rank: models of memory and clock are no better.
TIE = 0.05
#: Layers that a line names.
NAMED = 2

#: What the other cycles of layers go to (``estimate.program``), as `docs/estimates.md` lists them, and what helps.
LIMITS = {
    "elements": ("pooling and addition", "more columns, or strides in place of pooling"),
    "activation memory": ("columns that read the same bank", "another number of columns"),
    "output stage": ("passes shorter than their results take to leave", "more input channels a layer, or fewer rows"),
    "addresses": ("finding the pixels of the next group", "more input channels a layer"),
    "windows": ("operands that come, whatever zeros are in them", "more zeros save nothing here"),
    "weights": ("weights that come for few pixels", "more pixels a layer"),
}


@dataclass(frozen=True)
class Advice:
    """A cost and its remedy. share: of the time of a sample. cost, change: in words, as ``text`` joins them."""

    share: float
    cost: str
    change: str

    @property
    def text(self) -> str:
        return f"{100 * self.share:.0f} % of the time: {self.cost}; {self.change}"


def advice(accelerator: Accelerator, program: Program, estimate: ProgramEstimate) -> list[Advice]:
    """What is worth a line, the largest share first. estimate: of the same program on the same accelerator."""
    kernel = estimate.stream_seconds
    cores = accelerator.board.arm_cores
    host = {node.name: arm_seconds(node, cores) if cores else 0.0 for node in host_nodes(program)}
    whole = kernel + sum(host.values())
    if not whole:
        return []
    cycle = 1 / clock_hz(accelerator) / whole
    found = [
        *_of_host(program, host, whole),
        *_of_weights(program, estimate, whole),
        *_of_maps(program, estimate, whole),
        *_of_waiting(program, estimate, whole),
        *_of_idle_lanes(program, estimate.layers, cycle),
        *_of_limits(estimate.layers, cycle),
    ]
    return sorted((one for one in found if one.share >= WORTH), key=lambda one: -one.share)[:LINES]


def _of_host(program: Program, seconds: Mapping[str, float], whole: float) -> Iterator[Advice]:
    """Operators of the host: at the end, where a class needs none, and in the middle. whole: seconds of a sample."""
    final = final_host_nodes(program)
    names = {node.name for node in final}
    if final:
        kinds = " and ".join(dict.fromkeys(kind for node in final for kind in node.operators))
        spent = sum(seconds[name] for name in names)
        yield Advice(
            spent / whole, f"the final {kinds} on the host takes {1e6 * spent:.0f} of {1e6 * whole:.0f} us a sample",
            "the largest output is the same without it, so a class needs none: --outputs class",
        )  # fmt: skip
    rest = [node for node in host_nodes(program) if node.name not in names]
    if rest:
        share = sum(seconds[node.name] for node in rest) / whole
        yield Advice(share, f"the host computes {_operators(rest)}", _brought_to_the_array(program.config, rest))


def _operators(nodes: Sequence[HostNode]) -> str:
    return kinds_text(kinds_of(nodes))


def kinds_text(kinds: Counter[str]) -> str:
    """`3 Mul, Softmax, Add and 2 other kinds`."""
    counts = kinds.most_common()
    texts = [kind if count == 1 else f"{count} {kind}" for kind, count in counts[: NAMED + 1]]
    return ", ".join(texts) + (f" and {len(counts) - len(texts)} other kinds" if len(counts) > len(texts) else "")


def _brought_to_the_array(config: KernelConfig, nodes: Sequence[HostNode]) -> str:
    kinds = {kind for node in nodes for kind in node.operators}
    missing = {
        function.key: sorted(kinds & set(row.operators)) for function, row in ROWS.items()
        if kinds & set(row.operators) and function.key not in config.known_functions
    }  # fmt: skip
    if missing:
        brought = ", ".join(dict.fromkeys(kind for names in missing.values() for kind in names))
        return f"an accelerator with `functions` {', '.join(missing)} computes {brought} on the array"
    return "bfpga operators lists what the array computes in their place"


def _of_weights(program: Program, estimate: ProgramEstimate, whole: float) -> Iterator[Advice]:
    """Weights that come again for every sample: what the schedule is without them. whole: seconds of a sample."""
    computed = {node.name for node in program.nodes if isinstance(node, MatMulNode)}
    words: Counter[str] = Counter()
    for operations, times in estimate.cycles.starts:
        for operation in operations:
            if operation.layer not in computed and (count := _words(program.config, operation.descriptor)):
                words[operation.layer] += times * count
    if not words:
        return
    resident = _changed(estimate, lambda one: _with_resident_weights(one) if one.layer in words else one)
    yield Advice(
        (estimate.stream_seconds - resident.stream_seconds) / whole,
        f"{words.total():,} words of weights come again for every sample, most of {_layers(words)}",
        f"more `weight_words` than {program.config.weight_words:,} keep them",
    )


def _words(config: KernelConfig, descriptor: Descriptor) -> int:
    """Words of weights that an operation brings."""
    if descriptor.operation == Operation.WEIGHTS:
        return descriptor.weight_words
    streamed = descriptor.operation == Operation.GEMM and descriptor.flags & Flag.STREAM_WEIGHTS
    return weight_reads(config, descriptor) if streamed else 0


def _with_resident_weights(operation: KernelOperation) -> KernelOperation | None:
    """An operation of a layer whose weights are on the chip; none brings them."""
    descriptor = operation.descriptor
    if descriptor.operation == Operation.WEIGHTS:
        return None
    return replace(operation, descriptor=replace(descriptor, flags=descriptor.flags & ~Flag.STREAM_WEIGHTS))


def _of_maps(program: Program, estimate: ProgramEstimate, whole: float) -> Iterator[Advice]:
    """Maps that leave the chip and come back: what the schedule is without that. whole: seconds of a sample."""
    needed = {name for node in host_nodes(program) for name in node.inputs} | set(program.leaving)
    operations = [one for start, _ in estimate.cycles.starts for one in start]
    spilled = (_moved(operations, Operation.STORE) & _moved(operations, Operation.LOAD)) - needed
    octets: Counter[str] = Counter()
    for operations, times in estimate.cycles.starts:
        for one in operations:
            if one.transfer is not None and one.transfer.tensor in spilled:
                octets[one.layer] += times * moved_bytes(program.config, one)
    if not spilled:
        return
    kept = _changed(estimate, lambda one: None if one.transfer and one.transfer.tensor in spilled else one)
    yield Advice(
        (estimate.stream_seconds - kept.stream_seconds) / whole,
        f"{octets.total():,} bytes of maps leave the chip and come back, most in {_layers(octets)}",
        f"more `activation_words` than {program.config.activation_words:,} keep them",
    )


def _moved(operations: Sequence[KernelOperation], kind: Operation) -> set[str]:
    """Tensors that operations of a kind move."""
    return {one.transfer.tensor for one in operations if one.transfer and one.descriptor.operation == kind}


def _changed(
    estimate: ProgramEstimate, change: Callable[[KernelOperation], KernelOperation | None]
) -> ProgramEstimate:
    """The estimate of other operations; None: of none in an operation's place."""
    cycles = estimate.cycles
    starts = [
        ([new for one in operations if (new := change(one)) is not None], times) for operations, times in cycles.starts
    ]
    first = cycles.starts[0][0][: cycles.ahead] if cycles.starts else []
    ahead = sum(change(one) is not None for one in first)
    return replace(estimate, cycles=replace(cycles, starts=starts, ahead=ahead))


def _layers(costs: Mapping[str, int]) -> str:
    """Names of the layers that cost most."""
    most = sorted(costs, key=lambda name: -costs[name])
    more = len(most) - NAMED
    return ", ".join(most[:NAMED]) + (f" and {more} other layer{'s' * (more > 1)}" if more > 0 else "")


def _of_waiting(program: Program, estimate: ProgramEstimate, whole: float) -> Iterator[Advice]:
    """Layers of few pixels that wait for each other, as steps of a recurrent network do. whole: seconds of a sample."""
    columns, cycles = program.config.columns, estimate.cycles
    if program.side_by_side < columns and _may_go_side_by_side(program):
        share = (estimate.stream_seconds - cycles.latency_s(cycles.dma_inclusive)) / whole
        yield Advice(share, "layers wait for the results of the one before", _together(columns))


def _of_idle_lanes(program: Program, layers: Sequence[LayerEstimate], cycle: float) -> Iterator[Advice]:
    """Columns, rows and lanes without work, by their cause. cycle: share of the time of one cycle."""
    idle = {layer.name: layer.limits.get("idle tiles", 0) for layer in layers}
    causes: dict[tuple[str, str], dict[str, int]] = {}
    for node in program.nodes:
        if idle.get(node.name) and not isinstance(node, HostNode):
            causes.setdefault(_cause(program, node), {})[node.name] = idle[node.name]
    for (cost, change), named in causes.items():
        yield Advice(sum(named.values()) * cycle, f"{cost}, most in {_layers(named)}", change)


def _cause(program: Program, node: ArrayNode | MatMulNode) -> tuple[str, str]:
    """Why a layer leaves columns, rows or lanes without work: what is used least, and what helps."""
    config = program.config
    operations = [one.descriptor for one in _operations(program, node) if one.descriptor.operation == Operation.GEMM]
    if any(skips_zeros(config, one) for one in operations) or not operations:
        return "parts of the array without work", "more pixels or channels a layer"
    if isinstance(node, ArrayNode) and node.groups > 1 and not node.uniform_weights:
        return "layers whose groups have few channels (depthwise) use few lanes", "ordinary convolutions fill the lanes"
    weights = node.weight_format if isinstance(node, ArrayNode) else "linear"
    columns, rows = config.active_columns(weights), config.block_rows(weights)
    whole = sum(one.groups * one.blocks * kernel_steps(config, one) for one in operations)
    used = {
        "columns": sum(one.output_pixels * one.blocks * kernel_steps(config, one) for one in operations)
        / (columns * whole),
        "rows": sum(one.output_rows * one.groups * kernel_steps(config, one) for one in operations) / (rows * whole),
    }
    used["lanes"] = _lanes_used(program, node, whole, used["columns"] * used["rows"])
    least = min(used, key=lambda name: used[name])
    if least == "lanes":
        return f"layers whose input channels do not fill the {config.lanes} lanes", "fewer lanes and more columns"
    if least == "rows":
        return f"layers whose output channels do not fill the {rows} rows", "fewer rows and more columns"
    if max(one.output_pixels for one in operations) == 1:
        return f"layers with one output pixel keep 1 of {columns} columns busy", _side_by_side(program, columns)
    return f"maps whose pixels do not fill the last group of {columns} columns", "a number of columns that divides them"


def _operations(program: Program, node: ArrayNode | MatMulNode) -> Iterator[KernelOperation]:
    for step in program.steps:
        for one in always(program, getattr(step, "operations", [])):
            if one.layer == node.name:
                yield one


def _lanes_used(program: Program, node: ArrayNode | MatMulNode, whole: int, others: float) -> float:
    """Share of the lanes with work in the columns and rows that have some."""
    config = program.config
    weights = node.weight_format if isinstance(node, ArrayNode) else "linear"
    times = node.batch if isinstance(node, MatMulNode) else 1
    macs = config.tile_clocks(node.macs, weights) / times
    return macs / (config.macs_per_clock * whole * others) if whole and others else 1.0


def _side_by_side(program: Program, columns: int) -> str:
    """What fills columns for one pixel: samples side by side where layers go pixel by pixel, else another array."""
    return _together(columns) if _may_go_side_by_side(program) else "fewer columns and more rows"


def _together(columns: int) -> str:
    return f"--side-by-side {columns} computes {columns} samples at once"


def _may_go_side_by_side(program: Program) -> bool:
    """Whether all layers go pixel by pixel, as far as a program tells."""
    return all(isinstance(node, ArrayNode) and _pixel_by_pixel(node) for node in program.nodes)


def _pixel_by_pixel(node: ArrayNode) -> bool:
    kernel = 1 if node.kind == "sum" else node.window.kernel_height * node.window.kernel_width
    return node.operand is None and kernel == 1


def _of_limits(layers: Sequence[LayerEstimate], cycle: float) -> Iterator[Advice]:
    """The other limits of layers."""
    for limit, (cost, change) in LIMITS.items():
        spent = {layer.name: layer.limits.get(limit, 0) for layer in layers}
        most = max(spent, key=lambda name: spent[name], default="")
        yield Advice(sum(spent.values()) * cycle, f"{cost}, most in {most}", change)
