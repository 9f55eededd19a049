"""Whether all parts of a program fit each other: tensors, nodes, steps. Devices rely on it, compiled code among them.

What the compiler makes always does; a file may hold anything, and its digest shows only that it was not changed since.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from bfpga.contract import program as parts
from bfpga.contract.descriptor import Policy
from bfpga.contract.program import ArrayNode, Node, Program, TensorSpec, values_read
from bfpga.contract.rows import EPSILON_BITS, GAIN_BITS, LARGEST_ROW, RowOperation, RowWork
from bfpga.engines.output.exponents import LEARNING
from bfpga.errors import ProgramError
from bfpga.formats.arrays import IntArray
from bfpga.program import streamed_exponents
from bfpga.program.layout import unfolded

#: More values than a tensor has, and more pixels, taps, channels or steps than anything counts.
MOST_VALUES, MOST = 1 << 31, 1 << 24
#: Exponents, and what is added to them.
MOST_EXPONENT = 1 << 15
KINDS = ("gemm", "max", "sum", "rows")


def check_parts(program: Program) -> None:
    """ProgramError for the first part that does not fit the others."""
    for problem in _problems(program):
        raise ProgramError(f"program {program.name}: {problem}; compile the network again")


def _problems(program: Program) -> Iterator[str]:
    if not 0 < program.clock_mhz < MOST:
        yield f"clock_mhz is {program.clock_mhz}"
    yield from _outside("the program", program, 1, MOST, "side_by_side")
    for name, spec in program.tensors.items():
        yield from (f"tensor {name}: {problem}" for problem in _tensor_problems(name, spec))
        yield from (f"tensor {name}: {problem}" for problem in _constant_problems(program, spec))
    for name, limits in program.input_ranges.items():
        if name not in program.inputs or len(limits) != 2 or limits[0] > limits[1]:
            yield f"the calibrated range of input {name} is {list(limits)}"
    known = {*program.inputs, *(name for name, spec in program.tensors.items() if spec.constant is not None)}
    names = [node.name for node in program.nodes]
    for index, node in enumerate(program.nodes):
        if node.name in names[:index]:
            yield f"two nodes are named {node.name}"
        yield from (f"layer {node.name}: {problem}" for problem in _node_problems(program, node, known))
        known |= set(node.outputs) if isinstance(node, parts.HostNode) else {node.output}
    yield from streamed_exponents.problems(program)
    yield from _joined_problems(program)
    for name in program.leaving:
        if name not in known:
            yield f"nothing computes its output {name}"
    yield from _steps_problems(program)


def _joined_problems(program: Program) -> Iterator[str]:
    """Values that are put together of each other, or without parts."""
    for name, joined in program.joined.items():
        if not joined.parts or not 0 <= joined.axis <= MOST:
            yield f"output {name} is joined of nothing"
        if any(list(program.joined).index(part) >= list(program.joined).index(name)
               for part in joined.parts if part in program.joined):  # fmt: skip
            yield f"output {name} is joined of values that come later"


def _outside(what: str, item: object, low: int, high: int, *names: str) -> Iterator[str]:
    """Numbers of an item that are not in a range, its end included."""
    for name in names:
        value = getattr(item, name)
        if not low <= value <= high:
            yield f"{name} of {what} is {value}; {low} to {high} are possible"


# Tensors


def _tensor_problems(name: str, spec: TensorSpec) -> Iterator[str]:
    if spec.name != name:
        yield f"it is named {spec.name}"
    yield from _outside("it", spec, 1, MOST, "height", "width", "channels")
    yield from _outside("it", spec, 0, MOST_EXPONENT, "remainder")
    if spec.input_exponent is not None:
        yield from _outside("it", spec, -MOST_EXPONENT, MOST_EXPONENT, "input_exponent")
    if spec.height * spec.width * spec.channels > MOST_VALUES:
        yield f"it has {spec.height} x {spec.width} x {spec.channels} values"
    if len(spec.channel_shift) not in (0, spec.channels):
        yield f"it has {len(spec.channel_shift)} shifts for {spec.channels} channels"
    if any(abs(shift) > MOST_EXPONENT for shift in spec.channel_shift):
        yield "a shift of its channels is out of range"
    shape = spec.split or spec.onnx_shape
    if spec.split and prod(spec.split) != prod(spec.onnx_shape):
        yield f"{list(spec.split)} is no other shape of {list(spec.onnx_shape)}"
    if spec.axes and sorted(spec.axes) != list(range(len(shape))):
        yield f"its axes {list(spec.axes)} are no order of those of {list(shape)}"
    if any(not 0 < size <= MOST for size in (*spec.onnx_shape, *spec.split)):
        yield f"its shape is {list(spec.onnx_shape)}"
    elif spec.folded is not None:
        yield from _folded_problems(spec)
        yield from _size_problems(unfolded(spec))
    else:
        yield from _size_problems(spec)


def _constant_problems(program: Program, spec: TensorSpec) -> Iterator[str]:
    """What is wrong with the values that every sample has."""
    if spec.constant is None:
        return
    form = program.config.format
    if spec.input_exponent is None or spec.folded is not None or spec.remainder:
        yield "its constants have no exponent of their own, or an image's columns"
    elif not form.exponent_min <= spec.input_exponent <= form.exponent_max:
        yield f"the exponent of its constants is {spec.input_exponent}"
    shape = (spec.height, spec.width, spec.channels)
    yield from _values_problems("constant", spec.constant, shape, form.mantissa_max + 1)


def _size_problems(spec: TensorSpec) -> Iterator[str]:
    """What does not fit between the values in memory and those of the ONNX value."""
    values = spec.height * spec.width * spec.channels
    if spec.onnx_shape and spec.remainder and values != 2 * prod(spec.onnx_shape):
        yield f"{values} values are not those of {list(spec.onnx_shape)} with their remainders"
    elif spec.onnx_shape and (values % prod(spec.onnx_shape) or spec.channels % spec.parts):
        yield f"{values} values are not those of {list(spec.onnx_shape)}"


def _folded_problems(spec: TensorSpec) -> Iterator[str]:
    fold = spec.folded
    assert fold is not None
    yield from _outside("its folded image", fold, 1, MOST, "width", "channels", "taps", "stride", "dilation")
    yield from _outside("its folded image", fold, -MOST, MOST, "pad")
    if fold.taps * fold.channels != spec.channels:
        yield f"{fold.taps} taps of {fold.channels} channels are not its {spec.channels} channels"


# Nodes


def _node_problems(program: Program, node: Node, known: set[str]) -> Iterator[str]:
    """known: values that the inputs and the nodes before give."""
    for name in values_read(node):
        if name not in known:
            yield f"it reads {name} before anything computes it"
        elif not isinstance(node, parts.HostNode) and name not in program.tensors:
            yield f"it reads {name}, which is no tensor"
    if isinstance(node, parts.HostNode):
        return
    if node.output not in program.tensors:
        yield f"it writes {node.output}, which is no tensor"
    elif all(name in program.tensors for name in values_read(node)):
        if isinstance(node, ArrayNode):
            yield from _layer_problems(program, node)
        else:
            yield from _matmul_problems(program, node)
        channels = node.channels if isinstance(node, ArrayNode) else node.columns
        yield from _policy_problems(program, node.policy, channels)


def _layer_problems(program: Program, node: ArrayNode) -> Iterator[str]:
    output, sources = program.tensors[node.output], [program.tensors[name] for name in node.inputs]
    window, first = node.window, sources[0] if sources else None
    product = node.rows is not None and node.rows.operation is RowOperation.PRODUCT
    two = node.kind == "sum" or product or node.operand is not None or node.adds_second
    if node.kind not in KINDS or first is None or (not two and len(sources) != 1) or len(sources) > 2:
        yield f"{len(sources)} inputs of a layer of kind {node.kind}"
        return
    sizes = ("kernel_height", "kernel_width", "stride_y", "stride_x", "output_height", "output_width", "spread_y")
    yield from _outside("its window", window, 1, 1 << 16, *sizes)
    yield from _outside("its window", window, 0, 1 << 16, "first_y", "first_x", "dilation_y", "dilation_x")
    yield from _outside("its window", window, -(1 << 16), 1 << 16, "pad_top", "pad_left")
    yield from _outside("it", node, 1, output.channels, "channels", "groups")
    yield from _outside("it", node, 0, output.channels - node.channels, "channel_offset")
    yield from _outside("it", node, -MOST_EXPONENT, MOST_EXPONENT, "bias_exponent", "function_exponent")
    yield from _outside("it", node, -MOST_VALUES, MOST_VALUES - 1, "function_argument")
    if not window.tensor_rows(0, window.output_height)[1] <= output.height:
        yield f"{window.output_height} rows of results do not fit {output.height} of {node.output}"
    if not window.first_x + window.output_width <= output.width:
        yield f"{window.output_width} columns of results do not fit {output.width} of {node.output}"
    if min(node.joined_pieces) < 1 or len(node.joined_pieces) != 2:
        yield f"it joins {list(node.joined_pieces)} pieces"
    yield from _source_problems(node, sources)
    if node.adds_second:
        yield from _added_problems(program, node, sources)
    if node.operand is None:
        yield from _array_problems(program, node, first.channels)
    else:
        yield from _operand_problems(program, node, node.operand, sources)
    yield from _tile_problems(node)


def _source_problems(node: ArrayNode, sources: list[TensorSpec]) -> Iterator[str]:
    """What does not fit between a layer's inputs and its results."""
    first = sources[0]
    if node.kind == "gemm":
        if node.operand is None and (node.groups < 1 or first.channels % node.groups or node.channels % node.groups):
            yield f"{node.groups} groups of {first.channels} input and {node.channels} output channels"
        return
    if any(source.channels != node.channels for source in sources):
        yield f"its inputs have not its {node.channels} channels"
    if len({(source.height, source.width) for source in sources}) > 1:
        yield "its inputs differ in size"


def _array_problems(program: Program, node: ArrayNode, channels: int) -> Iterator[str]:
    """What is wrong with weights, exponents and biases. channels: of the input."""
    window, fmt = node.window, program.config.format
    if node.kind == "gemm":
        shape = (node.channels, window.kernel_height, window.kernel_width, channels // max(node.groups, 1))
        largest = max(fmt.mantissa_max, 1 << 15)
        yield from _values_problems("weights", node.weights, shape, largest, needed=True)
    elif node.weights is not None:
        yield "it has weights and multiplies by none"
    if (node.kind == "rows") != (node.rows is not None):
        yield "it has no rows, or has some and does nothing with them"
    elif node.rows is not None:
        yield from _row_problems(program, node, node.rows)
    yield from _values_problems("weight_exponents", node.weight_exponents, (node.channels,), MOST_EXPONENT)
    yield from _values_problems("bias", node.bias, (node.channels,), 1 << max(program.config.bias_bits - 1, 0))


def _operand_problems(
    program: Program, node: ArrayNode, operand: parts.OperandWeights, sources: list[TensorSpec]
) -> Iterator[str]:
    """What is wrong with a product of two tensors."""
    config, window, extra = program.config, node.window, (node.weights, node.weight_exponents, node.bias, node.rows)
    if not config.operand_weights:
        yield "its kernel multiplies no two tensors"
    if node.kind != "gemm" or len(sources) != 2:
        yield f"{len(sources)} tensors of a product of two, of kind {node.kind}"
        return
    if any(item is not None for item in extra) or node.groups != 1 or node.factors or node.weight_format != "linear":
        yield "a product of two tensors has weights, biases or groups of its own"
    if (window.kernel_height, window.kernel_width) != (1, 1):
        yield f"a product of two tensors has a window of {window.kernel_height} x {window.kernel_width}"
    most = config.terms_limit(biased=False)
    yield from _outside("its second tensor", operand, 1, min(most, MOST), "terms")
    first, second = sources
    read, count = (operand.terms, node.channels) if operand.by_pixels else (node.channels, operand.terms)
    start, pixels = operand.first_pixel, second.height * second.width
    if not 0 <= start <= start + count <= pixels:
        yield f"pixels {start} to {start + count} are not among the {pixels} of {second.name}"
    slices = ((first, operand.first_input, operand.terms), (second, operand.first_weight, read))
    for spec, start, count in slices:
        end, lanes = start + count, config.lanes
        if not 0 <= start < end <= spec.channels or start % lanes or (end % lanes and end != spec.channels):
            yield f"channels {start} to {end} of {spec.name} are no whole words of its {spec.channels}"


def _added_problems(program: Program, node: ArrayNode, sources: list[TensorSpec]) -> Iterator[str]:
    """What is wrong with a product that adds a tensor to its sums."""
    window, policy = node.window, node.policy
    if not program.config.residual_adds:
        yield "its kernel adds no tensor to sums"
    if node.kind != "gemm" or len(sources) != 2 or node.operand is not None or node.factors or node.uniform_weights:
        yield f"{len(sources)} tensors of a layer that adds the second to products of weights, of kind {node.kind}"
        return
    if node.negate_second or node.function_first:
        yield "it adds a tensor, and subtracts it or has its function before the bias"
    if policy.inherit or not (policy.policy == Policy.STATIC or (policy.policy in LEARNING and policy.preset)):
        yield "it adds a tensor, and its exponent is not known before its sums"
    if window.spread or any(tile.columns(window.output_width) != (0, window.output_width) or tile.step != 1
                            for tile in node.tiles):  # fmt: skip
        yield "it adds a tensor, and does not compute whole rows that follow each other"
    added = sources[1]
    if (added.height, added.width) != (window.output_height, window.output_width) or added.channels < node.channels:
        size = f"{window.output_height} x {window.output_width} x {node.channels}"
        yield f"it adds {added.name} of {added.height} x {added.width} x {added.channels} to results of {size}"


def _row_problems(program: Program, node: ArrayNode, work: RowWork) -> Iterator[str]:
    """What the process of rows cannot do."""
    if not program.config.has_rows:
        yield "its kernel has no process of rows"
    if work.operation is RowOperation.NONE or len(work.epsilon) != 2:
        yield "it does nothing with rows"
        return
    if (work.operation is RowOperation.PRODUCT) != (len(node.inputs) == 2):
        yield f"{len(node.inputs)} inputs of {work.operation.name}"
    if node.channels > min(LARGEST_ROW, program.config.parameter_rows):
        yield f"its rows have {node.channels} channels"
    yield from _outside("it", work, -MOST_EXPONENT, MOST_EXPONENT, "exponent")
    if not 0 <= work.epsilon[0] < 1 << EPSILON_BITS or abs(work.epsilon[1]) > MOST_EXPONENT:
        yield f"its epsilon is {work.epsilon[0]} * 2^{work.epsilon[1]}"
    largest = (1 << (GAIN_BITS - 1)) - 1
    yield from _values_problems("gains", work.gains, (node.channels,), largest, needed=work.operation.normalizes)


def _values_problems(
    name: str, values: IntArray | None, shape: tuple[int, ...], largest: int, needed: bool = False
) -> Iterator[str]:
    if values is None:
        if needed:
            yield f"it has no {name}"
    elif values.shape != shape:
        yield f"{name} of shape {list(values.shape)}; its window and channels need {list(shape)}"
    elif values.size and not -largest <= int(values.min()) <= int(values.max()) <= largest:
        yield f"{name} from {values.min()} to {values.max()}; the kernel holds {-largest} to {largest}"


def _tile_problems(node: ArrayNode) -> Iterator[str]:
    """Each result is computed once: tiles are within the results and are as many values together."""
    height, width = node.window.output_height, node.window.output_width
    for tile in node.tiles:
        inside = 0 <= tile.y0 < tile.y1 <= height and 0 <= tile.m0 < tile.m1 <= node.channels and tile.step >= 1
        if not inside or not (0 <= tile.x0 < tile.x1 <= width or tile.x0 == tile.x1 == 0):
            yield f"a tile of rows {tile.y0} to {tile.y1}, channels {tile.m0} to {tile.m1} is outside its results"
            return
    covered = sum(_values_of(tile, width) for tile in node.tiles)
    if node.tiles and covered != height * width * node.channels:
        yield f"its tiles have {covered} results of {height * width * node.channels}"


def _values_of(tile: parts.Tile, width: int) -> int:
    x0, x1 = tile.columns(width)
    return tile.rows * (x1 - x0) * (tile.m1 - tile.m0)


def _matmul_problems(program: Program, node: parts.MatMulNode) -> Iterator[str]:
    yield from _outside("it", node, 1, MOST, "batch", "rows", "inner", "columns")
    wanted = (node.rows * node.inner, node.inner * node.columns, node.rows * node.columns)
    for name, values in zip((*node.inputs, node.output), wanted, strict=True):
        spec = program.tensors[name]
        found = prod(spec.onnx_shape) if spec.onnx_shape else spec.height * spec.width * spec.channels
        if found != node.batch * values:
            yield f"{name} has {found} values for {node.batch} matrices of {values}"


def _policy_problems(program: Program, policy: parts.PolicySpec, channels: int) -> Iterator[str]:
    if program.config.static_exponents and policy.policy != Policy.STATIC:
        yield f"its exponent is found at run time ({policy.policy.name.lower()}), and its kernel has static ones alone"
    yield from _outside("its policy", policy, 0, program.config.policy_slots - 1, "slot")
    yield from _outside("its policy", policy, -MOST_EXPONENT, MOST_EXPONENT, "exponent", "margin", "base")
    yield from _outside("its policy", policy, 0, MOST_VALUES - 1, "window", "factor", "rate")
    yield from _outside("its policy", policy, 1, MOST, "sample_period")
    yield from _outside("its policy", policy, 0, MOST, "sample_offset")
    sample = policy.sample
    if sample is None:
        return
    yield from _outside("its sample", sample, 1, MOST, "step")
    yield from _outside("its sample", sample, 0, MOST, "offset")
    ends = [end for block in sample.blocks for end in block]
    if not ends or any(len(block) != 2 for block in sample.blocks) or sorted(set(ends)) != ends:
        yield f"its sample has the blocks {list(sample.blocks)}"
    elif ends[0] < 0 or ends[-1] > channels:
        yield f"its sample has channels {ends[0]} to {ends[-1]} of {channels}"


# Steps


def _steps_problems(program: Program) -> Iterator[str]:
    for number, step in enumerate((program.setup, *program.steps)):
        if isinstance(step, parts.HostStep | parts.MatMulStep):
            kind = parts.HostNode if isinstance(step, parts.HostStep) else parts.MatMulNode
            if not 0 <= step.node < len(program.nodes) or not isinstance(program.nodes[step.node], kind):
                yield f"step {number} runs node {step.node}, which is no {kind.__name__}"
        if isinstance(step, parts.LaunchStep) and not 0 <= step.ahead <= len(step.operations):
            yield f"step {number} sends the next sample before operation {step.ahead}"
        for operation in [] if isinstance(step, parts.HostStep) else step.operations:
            yield from (f"step {number}: {problem}" for problem in _operation_problems(program, operation))


def _operation_problems(program: Program, operation: parts.KernelOperation) -> Iterator[str]:
    transfer, use = operation.transfer, operation.memory
    if transfer is not None:
        spec = program.tensors.get(transfer.tensor)
        if spec is None or not 0 <= transfer.y0 < transfer.y1 <= spec.height or not 0 <= transfer.share < MOST:
            rows = f"{transfer.y0} to {transfer.y1}"
            yield f"an operation of layer {operation.layer} moves rows {rows} of {transfer.tensor}"
    ranges: list[Any] = [*use.reads, *use.writes] if use is not None else []
    ranges += [operation.channels] if operation.channels is not None else []
    if any(len(item) != 2 or not 0 <= item[0] <= item[1] for item in ranges):
        yield f"an operation of layer {operation.layer} has the ranges {ranges}"
