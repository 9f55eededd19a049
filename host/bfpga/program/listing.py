"""The human-readable listing of a program: every layer, where it runs, its formats, its cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Function, LeadRule, Operation, Policy
from bfpga.contract.program import (
    EXACT_DB,
    ArrayNode,
    FormatFigures,
    HostNode,
    LaunchStep,
    MatMulNode,
    PolicySpec,
    Program,
    Window,
)
from bfpga.engines.kernel.cycles import tensor_beats
from bfpga.engines.kernel.descriptors import weight_words
from bfpga.engines.kernel.map_streams import sent_compressed
from bfpga.engines.skip_array.pieces import plain_bytes
from bfpga.engines.sparse_cluster.kernel_parts import kernel_parts
from bfpga.formats import notebook
from bfpga.formats.tables import table_lines
from bfpga.program.cycles import CycleCount, always, program_cycles
from bfpga.program.flow_listing import FLOW_DROPPED, FLOW_HEADINGS, FLOWS_TITLE, flow_rows, has_choices, rule_text
from bfpga.program.host import array_alone, host_share
from bfpga.program.kept_programs import kept_text
from bfpga.program.places import ARRAY_TITLE
from bfpga.program.streamed_exponents import awaits, tells

HEADINGS = ("layer", "engine", "operation", "output", "weights", "MAC", "exponent", "memory", "cycles")

#: What the columns of ``format_rows`` hold.
FORMATS_TITLE = "Formats of weights: signal to noise of the weights / of the sums on samples, cycles of the passes"


def listing(program: Program, width: int | None = None) -> str:
    """A table of layers, then totals, the host's share of the work and the compiler's notes.

    width: characters of a line, for which columns fall away; None: as many as there are.
    """
    cycles = program_cycles(program)
    memory = _memory(program)
    rows = [_row(program, node, cycles.layers, memory) for node in program.nodes]
    lines = [_title(program), ""]
    lines += table_lines("", HEADINGS, rows, width, ["MAC", "memory", "weights", "engine", "exponent", "output"])
    choices = format_rows(program)
    if choices:
        lines += ["", FORMATS_TITLE, "", *table_lines("", format_headings(program), choices, width, ["because"])]
    if has_choices(program):
        lines += ["", FLOWS_TITLE, "", *table_lines("", FLOW_HEADINGS, flow_rows(program), width, FLOW_DROPPED)]
    return "\n".join([*lines, "", *_totals(program), *[f"note: {note}" for note in program.notes]]) + "\n"


def html_listing(program: Program) -> str:
    """The same for a notebook: layers, their cycles as bars, totals and notes."""
    cycles, memory = program_cycles(program).layers, _memory(program)
    rows = [_row(program, node, cycles, memory) for node in program.nodes]
    spent = [(name, float(count.total)) for name, count in cycles.items()]
    return notebook.page(
        _title(program),
        notebook.table(HEADINGS, rows, {"MAC", "cycles"}),
        notebook.bars("cycles of one sample, with transfers", spent, "cycles"),
        notebook.lines(*_totals(program), *(f"note: {note}" for note in program.notes)),
    )


def _title(program: Program) -> str:
    return (
        f"{program.name} on {program.accelerator} ({program.digest[:12]}), {_shape_text(program.config)} at "
        f"{program.clock_mhz:g} MHz, {program.config.format.mantissa_bits}-bit mantissas"
    )


def _shape_text(config: KernelConfig) -> str:
    return config.array.shape_text(config)


def format_headings(program: Program) -> tuple[str, ...]:
    """Headings of ``format_rows``."""
    return ("layer", *program.config.weight_formats, "chosen", "because")


def format_rows(program: Program) -> list[tuple[str, ...]]:
    """Layers whose weights had a choice of formats, with the figures of each (SM R37)."""
    return [
        (node.name, *map(_figures, node.weight_choices), node.weight_format, node.weight_reason)
        for node in program.nodes
        if isinstance(node, ArrayNode) and node.weight_choices
    ]


def _figures(item: FormatFigures) -> str:
    sums = "" if item.sum_snr_db is None else f" / {_decibel(item.sum_snr_db)}"
    return f"{_decibel(item.weight_snr_db)}{sums} dB, {item.cycles:,}"


def _decibel(value: float) -> str:
    return "exact" if value >= EXACT_DB else f"{value:.1f}"


def _totals(program: Program) -> list[str]:
    cycles = program_cycles(program)
    starts = sum(isinstance(step, LaunchStep) for step in program.steps)
    total = cycles.dma_inclusive
    spent = f"cycles {cycles.compute_bound:,} computing, {total:,} with transfers (work)"
    return [
        f"multiply-accumulates {cycles.macs:,}; kernel starts {starts}; {spent}; schedule {cycles.schedule:,} = "
        f"{1e3 * cycles.latency_s():.3f} ms{array_alone(program)}",
        f"array utilization {100 * cycles.utilization:.1f} % of {program.config.macs_per_clock} MAC per cycle",
        f"resident weights: {cycles.setup.total:,} cycles once; host: {100 * host_share(program):.2f} % of operations",
        *([_entries_text(program)] if program.config.array.zeros == "weights" else []),
        *([_maps_text(program)] if program.config.compressed_maps else []),
        *([kept_text(program)] if program.config.program_descriptors else []),
    ]


def _maps_text(program: Program) -> str:
    """What tensors take on the streams without their zeros, on the samples of the calibration."""
    octets, plain, packed, shorter = program.config.stream_bits // 8, 0, 0.0, set()
    launches = [step for step in program.steps if isinstance(step, LaunchStep)]
    for operation in (operation for step in launches for operation in always(program, step.operations)):
        if operation.transfer is not None:
            size = octets * tensor_beats(program.config, operation.descriptor)
            plain, packed = plain + size, packed + size * operation.transfer.share
            shorter |= {operation.transfer.tensor} if sent_compressed(operation.descriptor) else set()
    return (
        f"maps on the streams: {round(packed):,} bytes a sample, {plain:,} with their zeros; "
        f"without them travel {', '.join(sorted(shorter)) or 'none'}"
    )


def _entries_text(program: Program) -> str:
    """Bytes of all stored entries of a skip array or a tile against those of the weights with their zeros."""
    nodes = [node for node in program.nodes if isinstance(node, ArrayNode) and node.weights is not None]
    stored = sum(_entry_bytes(program, node) for node in nodes)
    plain = sum(plain_bytes(node, program.config) for node in nodes)
    return f"entries of non-zero weights: {stored:,} bytes; {plain:,} with zeros"


def _entry_bytes(program: Program, node: ArrayNode) -> int:
    """Bytes of a layer's entries on the weight stream, all of its pieces once."""
    config = program.config
    words = sum(weight_words(node, config, *part) for part in {(tile.m0, tile.m1) for tile in node.tiles})
    return words * config.beats_per_weight_word * config.weight_stream_bits // 8


def _memory(program: Program) -> dict[str, str]:
    """For each layer whether its operands stay on chip: loads and stores it causes, strips, streamed weights."""
    result: dict[str, str] = {}
    for step in program.steps:
        if not isinstance(step, LaunchStep):
            continue
        moves: dict[str, Counter[str]] = {}
        for operation in step.operations:
            name = Operation(operation.descriptor.operation).name.lower()
            moves.setdefault(operation.layer, Counter())[name] += 1
        for layer, counts in moves.items():
            parts = [f"{counts[name]} {name}" for name in ("load", "store", "weights", "weigh") if counts[name]]
            result[layer] = ", ".join(parts) or "on chip"
    return result


def _row(
    program: Program, node: ArrayNode | MatMulNode | HostNode, cycles: dict[str, CycleCount], memory: dict[str, str]
) -> tuple[str, ...]:
    if isinstance(node, HostNode):
        kinds = Counter(node.operators)
        work = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in kinds.items())
        return (node.name, "host", work, ", ".join(node.outputs), "", f"{node.flops:,} op", "float32", "", "")
    spent = cycles[node.name].total if node.name in cycles else 0
    output = program.tensors[node.output]
    size = f"{output.height}x{output.width}x{output.channels}"
    exponent = _exponent(node.policy)
    if isinstance(node, MatMulNode):
        work = f"{node.batch} products {node.rows}x{node.inner}x{node.columns}"
        return (
            node.name, ARRAY_TITLE, work, size, "activations", f"{node.macs:,}", exponent, "each product", f"{spent:,}",
        )  # fmt: skip
    if node.channels != output.channels:
        size = f"{output.height}x{output.width}x{node.channels} at channel {node.channel_offset}"
    window = node.window
    if window.spread:
        size = f"{window.output_height}x{window.output_width}x{node.channels} of {size} from row {window.first_y}, "
        size += f"column {window.first_x} on, rows {window.spread_y} apart"
    weights = ""
    if node.weights is not None and node.weight_exponents is not None:
        low, high = int(node.weight_exponents.min()), int(node.weight_exponents.max())
        weights = f"{node.weights.size:,} at 2^{low}" + (f"..{high}" if high > low else "")
        if program.config.array.zeros == "weights":
            weights += f", entries {100 * _entry_bytes(program, node) / plain_bytes(node, program.config):.0f} %"
    if node.factors:
        weights = f"{node.channels:,} from {node.factors}"
    if node.operand is not None:
        weights = f"from {node.inputs[1]}"
    place = memory.get(node.name, "")
    work = _work(node, program.config)
    return (node.name, ARRAY_TITLE, work, size, weights, f"{node.macs:,}", exponent, place, f"{spent:,}")


def _work(node: ArrayNode, config: KernelConfig) -> str:
    window, name = node.window, node.kind
    if node.kind == "gemm":
        name = _product(node)
    elif node.rows is not None:
        name = node.rows.operation.name.lower().replace("_", " ")
    elif node.kind == "sum":
        name = "copy" if len(node.inputs) == 1 else "subtract" if node.negate_second else "add"
    if node.kind not in ("sum", "rows") and (window.kernel_height, window.kernel_width) != (1, 1):
        name += f" {window.kernel_height}x{window.kernel_width}"
    if (window.stride_y, window.stride_x) != (1, 1):
        name += f"/{window.stride_y}" + (f"x{window.stride_x}" if window.stride_x != window.stride_y else "")
    if node.groups > 1 and not node.uniform_weights and not node.factors:
        name += f" {node.groups} groups"
    parts = kernel_parts(window, config)
    if node.kind == "gemm" and parts.number > 1:
        name += f" in {parts}"
    if node.adds_second:
        name += " + add"
    return name + ("" if node.function == Function.NONE else f" + {node.function.name.lower()}")


def _product(node: ArrayNode) -> str:
    if node.factors:
        return "scale"
    if node.operand is not None:
        return "scores" if node.operand.by_pixels else "product of tensors"
    if node.uniform_weights:
        return "average"
    return "product" if node.window == _point(node.window) else "convolution"


def _point(window: Window) -> Window:
    """A 1x1 window of the same output."""
    return replace(
        Window(output_height=window.output_height, output_width=window.output_width), spread_y=window.spread_y,
        first_y=window.first_y, first_x=window.first_x,
    )  # fmt: skip


def _exponent(policy: PolicySpec) -> str:
    if policy.inherit:
        return "of its input"
    if awaits(policy):
        return "of the core before"
    if policy.policy == Policy.STATIC:
        return f"static 2^{policy.exponent}"
    start = f" from 2^{policy.exponent}" if policy.preset else ""
    start = ", told" if tells(policy) else start
    if policy.rule == LeadRule.LEAD and policy.policy in (Policy.STATISTICS, Policy.FEEDBACK):
        return policy.policy.name.lower() + (f" + {policy.margin}" if policy.margin else "") + start
    if policy.rule != LeadRule.LEAD or policy.margin:
        before = "" if policy.policy == Policy.MAX else f"{policy.policy.name.lower()} of "
        return f"{before}{rule_text(policy)}{start}"
    return policy.policy.name.lower() + start
