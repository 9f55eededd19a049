"""What costs most of a program's time on an accelerator, and what to change: shares of the time of a sample.

The time is that of a sample in a stream of them, the host's operators included (``estimate.sample``). A share is what
a sample would take less if nothing of that kind were left, with the layers cut as they are: nothing of the host, for
example, while it is faster than the kernel beside which it works. The driver's time is in none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.functions import ROWS
from bfpga.contract.program import ArrayNode, HostNode, KernelOperation, MatMulNode, Program
from bfpga.engines.kernel.cycles import kernel_steps, skips_zeros, weight_reads
from bfpga.estimate.program import ProgramEstimate, clock_hz, moved_bytes
from bfpga.program.cycles import ProgramCycles, always
from bfpga.program.host import final_host_nodes, host_nodes, kinds_of
from bfpga.program.stream_time import StreamTime, stream_time

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
    shares = _Shares(accelerator, program, estimate)
    if not shares.whole.seconds:
        return []
    found = [
        *_of_host(program, shares),
        *_of_weights(program, shares),
        *_of_maps(program, shares),
        *_of_waiting(program, shares),
        *_of_idle_lanes(program, shares),
        *_of_limits(shares),
    ]
    return sorted((one for one in found if one.share >= WORTH), key=lambda one: -one.share)[:LINES]


class _Shares:
    """What parts of a program cost, as shares of the time of a sample in a stream. whole: that time."""

    def __init__(self, accelerator: Accelerator, program: Program, estimate: ProgramEstimate) -> None:
        self.accelerator, self.program, self.estimate = accelerator, program, estimate
        self.whole = self._time(estimate.cycles, ())

    def of_host(self, nodes: Sequence[HostNode]) -> float:
        """Of operators of the host."""
        return self._saved(self._time(self.estimate.cycles, {node.name for node in nodes}))

    def of_operations(self, change: Callable[[KernelOperation], KernelOperation | None]) -> float:
        """Of what operations have that others in their places have not; None: of all that an operation is."""
        return self._saved(self._time(_changed(self.estimate.cycles, change), ()))

    def of_cycles(self, cycles: float) -> float:
        """Of cycles of the kernel."""
        return self._saved(self.whole.with_array(max(0.0, self.whole.array - cycles / clock_hz(self.accelerator))))

    def _saved(self, time: StreamTime) -> float:
        return 1 - time.seconds / self.whole.seconds

    def _time(self, cycles: ProgramCycles, without: Collection[str]) -> StreamTime:
        cores = self.accelerator.board.arm_cores

        def host(node: HostNode, together: int) -> float:
            return 0.0 if cores is None or node.name in without else cores.node_seconds(node, together)

        return stream_time(self.program, cycles, self.estimate.bytes_per_clock, host)


def _of_host(program: Program, shares: _Shares) -> Iterator[Advice]:
    """Operators of the host: at the end, where a class needs none, and in the middle."""
    final = final_host_nodes(program)
    names = {node.name for node in final}
    if final:
        kinds = " and ".join(dict.fromkeys(kind for node in final for kind in node.operators))
        share, whole = shares.of_host(final), 1e6 * shares.whole.seconds
        yield Advice(
            share, f"the final {kinds} on the host costs {share * whole:.0f} of {whole:.0f} us a sample",
            "the largest output is the same without it, so a class needs none: --outputs class",
        )  # fmt: skip
    rest = [node for node in host_nodes(program) if node.name not in names]
    if rest:
        cost = f"the host computes {_operators(rest)}"
        yield Advice(shares.of_host(rest), cost, _brought_to_the_array(program.config, rest))


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


def _of_weights(program: Program, shares: _Shares) -> Iterator[Advice]:
    """Weights that come again for every sample: what the schedule is without them."""
    computed = {node.name for node in program.nodes if isinstance(node, MatMulNode)}
    words: Counter[str] = Counter()
    for start in shares.estimate.cycles.starts:
        for operation in start.operations:
            if operation.layer not in computed and (count := _words(program.config, operation.descriptor)):
                words[operation.layer] += start.times * count
    if not words:
        return
    yield Advice(
        shares.of_operations(lambda one: _with_resident_weights(one) if one.layer in words else one),
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


def _of_maps(program: Program, shares: _Shares) -> Iterator[Advice]:
    """Maps that leave the chip and come back: what the schedule is without that."""
    needed = {name for node in host_nodes(program) for name in node.inputs} | set(program.leaving)
    starts = shares.estimate.cycles.starts
    operations = [one for start in starts for one in start.operations]
    spilled = (_moved(operations, Operation.STORE) & _moved(operations, Operation.LOAD)) - needed
    octets: Counter[str] = Counter()
    for start in starts:
        for one in start.operations:
            if one.transfer is not None and one.transfer.tensor in spilled:
                octets[one.layer] += start.times * moved_bytes(program.config, one)
    if not spilled:
        return
    yield Advice(
        shares.of_operations(lambda one: None if one.transfer and one.transfer.tensor in spilled else one),
        f"{octets.total():,} bytes of maps leave the chip and come back, most in {_layers(octets)}",
        f"more `activation_words` than {program.config.activation_words:,} keep them",
    )


def _moved(operations: Sequence[KernelOperation], kind: Operation) -> set[str]:
    """Tensors that operations of a kind move."""
    return {one.transfer.tensor for one in operations if one.transfer and one.descriptor.operation == kind}


def _changed(
    cycles: ProgramCycles, change: Callable[[KernelOperation], KernelOperation | None]
) -> ProgramCycles:
    """The cycles of other operations; None: of none in an operation's place."""
    starts = []
    for start in cycles.starts:
        changed = [change(one) for one in start.operations]
        ahead = sum(one is not None for one in changed[: start.ahead])
        starts.append(replace(start, operations=[one for one in changed if one is not None], ahead=ahead))
    return replace(cycles, starts=starts)


def _layers(costs: Mapping[str, int]) -> str:
    """Names of the layers that cost most."""
    most = sorted(costs, key=lambda name: -costs[name])
    more = len(most) - NAMED
    return ", ".join(most[:NAMED]) + (f" and {more} other layer{'s' * (more > 1)}" if more > 0 else "")


def _of_waiting(program: Program, shares: _Shares) -> Iterator[Advice]:
    """Layers of few pixels that wait for each other, as steps of a recurrent network do."""
    columns, cycles = program.config.columns, shares.estimate.cycles
    if program.side_by_side < columns and _may_go_side_by_side(program):
        share = 1 - cycles.latency_s(cycles.dma_inclusive) / shares.whole.seconds
        yield Advice(share, "layers wait for the results of the one before", _together(columns))


def _of_idle_lanes(program: Program, shares: _Shares) -> Iterator[Advice]:
    """Columns, rows and lanes without work, by their cause."""
    idle = {layer.name: layer.limits.get("idle tiles", 0) for layer in shares.estimate.layers}
    causes: dict[tuple[str, str], dict[str, int]] = {}
    for node in program.nodes:
        if idle.get(node.name) and not isinstance(node, HostNode):
            causes.setdefault(_cause(program, node), {})[node.name] = idle[node.name]
    for (cost, change), named in causes.items():
        yield Advice(shares.of_cycles(sum(named.values())), f"{cost}, most in {_layers(named)}", change)


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


def _of_limits(shares: _Shares) -> Iterator[Advice]:
    """The other limits of layers."""
    for limit, (cost, change) in LIMITS.items():
        spent = {layer.name: layer.limits.get(limit, 0) for layer in shares.estimate.layers}
        most = max(spent, key=lambda name: spent[name], default="")
        yield Advice(shares.of_cycles(sum(spent.values())), f"{cost}, most in {most}", change)
