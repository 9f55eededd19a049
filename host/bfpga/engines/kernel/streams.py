"""The bytes a kernel exchanges with its host: descriptors, tensors and weights as streams of little-endian beats.

One place for both sides of docs/systolic-array.md section 3; simulated kernels and boards use the same functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import ArrayNode, BlockTensor, KernelOperation, Transfer
from bfpga.contract.streams import (
    ACTIVATION_ORDER,
    PARAMETER_ROW,
    TENSOR_HEADER,
    reordered,
)
from bfpga.engines.kernel.cycles import tensor_beats
from bfpga.engines.kernel.engine import engine_of
from bfpga.engines.kernel.order import descriptor_words
from bfpga.engines.kernel.placement import InputWindow
from bfpga.engines.kernel.program_memory import streamed_header, with_tensor_beats
from bfpga.engines.kernel.records import (
    emits_record,
    record_bytes,
    record_sizes,
    record_words,
    unpacked_records,
)
from bfpga.engines.kernel.regions import pixel_words, trailing_words
from bfpga.errors import DataError, ProgramError
from bfpga.formats.arrays import Int64Array, IntArray
from bfpga.formats.containers import pack_elements, unpack_elements

#: Axes of a row of pixels in memory.
_PIXELS = ("group", "pixel", "word", "lane")


def pad_to(data: bytes, multiple: int) -> bytes:
    """``data`` with zeros appended up to the next multiple of ``multiple`` bytes."""
    return data + bytes(-len(data) % multiple)


# Weights and parameters


def block_rows(node: ArrayNode, config: KernelConfig) -> int:
    """Output channels that one pass of a node computes."""
    return config.lanes if node.reuses_taps else config.block_rows(node.weight_format)


def parameter_rows(node: ArrayNode, config: KernelConfig, channels: int) -> int:
    """Parameter rows of so many output channels, which is how many rows of sums their passes give."""
    if node.kind == "rows":
        return channels
    block = engine_of(config).smallest_cut(node, config)
    return -(-channels // block) * block


def repeats_words(node: ArrayNode, config: KernelConfig) -> bool:
    """Whether every tap and row block of a node uses the same words; where maps are read words come in their order."""
    return node.uniform_weights and not config.array.reads_maps


def working_columns(node: ArrayNode, config: KernelConfig) -> int:
    """Columns that work on a node: all, unless its weights are not for shift columns, or they take whole rows."""
    if node.reuses_taps:
        width = node.window.output_width
        return config.columns // width * width
    if node.kind == "rows":
        return max(1, config.row_columns)
    return config.active_columns(node.weight_format) if node.kind == "gemm" else config.columns


def input_window(node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> InputWindow:
    """Channel words that output channels [m0, m1) of a `gemm` node read; ProgramError if it has no weights."""
    if node.weights is None and node.operand is None:
        raise ProgramError(f"layer {node.name}: a layer without weights has no weight window")
    return engine_of(config).input_window(node, config, m0, m1)


def block_window(node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> InputWindow:
    """``input_window`` of arrays whose row blocks read channels one fixed step apart.

    Without groups every block reads all channels; with groups a block reads the channels of its rows' groups. Raises
    ProgramError if the blocks are not one fixed step apart, or the last one reads words past the input's region: the
    tile then has to be cut into single blocks.
    """
    if node.operand is not None:
        return InputWindow(node.operand.first_input // config.lanes, 0, -(-node.operand.terms // config.lanes))
    assert node.weights is not None
    outputs, inputs, rows = node.channels // node.groups, int(node.weights.shape[3]), block_rows(node, config)
    if node.groups == 1:
        return InputWindow(0, 0, -(-inputs // config.lanes))
    starts, ends = [], []
    for m in range(m0, m1, rows):
        last = min(m + rows, m1) - 1
        starts.append(m // outputs * inputs // config.lanes)
        ends.append(-(-((last // outputs + 1) * inputs) // config.lanes))
    step = starts[1] - starts[0] if len(starts) > 1 else 0
    if any(start != starts[0] + b * step for b, start in enumerate(starts)):
        raise ProgramError(f"layer {node.name}: the row blocks of channels {m0}..{m1} read uneven groups of channels")
    words, channels = max(end - start for start, end in zip(starts, ends, strict=True)), node.groups * inputs
    if starts[-1] + words > pixel_words(config, channels) + trailing_words(config, channels):
        raise ProgramError(f"layer {node.name}: the last row block of channels {m0}..{m1} reads words past its input")
    return InputWindow(starts[0], step, words)


def pack_weight_words(words: IntArray, config: KernelConfig) -> bytes:
    """Weight words, shape (..., rows, lanes), in row-major order of the leading axes; each padded to whole beats."""
    bits = config.weight_container_bits
    flat = np.asarray(words).reshape(-1, config.rows * config.lanes)
    beat_bytes = config.weight_stream_bits // 8
    size = config.beats_per_weight_word * beat_bytes
    padded = np.zeros((len(flat), size * 8 // bits), flat.dtype)
    padded[:, : flat.shape[1]] = flat
    return pack_elements(padded, bits)


def pack_weights(node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> bytes:
    """Weight words of output channels [m0, m1) as the weight stream brings them."""
    return engine_of(config).pack_weights(node, config, m0, m1)


def ordered_words(node: ArrayNode, config: KernelConfig, placed: IntArray, order: Sequence[str]) -> IntArray:
    """Weights as ``placed_weights`` gives them in an order of axes: (..., channels of a block, lanes).

    ProgramError for weights of a format that the array does not take.
    """
    if node.weight_format not in config.weight_formats:
        raise ProgramError(
            f"layer {node.name}: its weights are {node.weight_format}; "
            f"the array takes {' or '.join(config.weight_formats)}"
        )
    words = placed.shape[2] // config.lanes
    shaped = placed.reshape(-1, block_rows(node, config), placed.shape[1], words, config.lanes)
    return reordered(shaped, ("block", "row", "tap", "word", "lane"), order)


def placed_weights(node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> IntArray:
    """Weights of output channels [m0, m1) and what their blocks read (channels in whole blocks, taps, inputs in whole
    words): zeros where a block reads what a channel does not.

    With words that repeat only those of one tap of the first block: every tap and block uses them.
    """
    window = input_window(node, config, m0, m1)
    assert node.weights is not None
    taps = np.asarray(node.weights).reshape(node.channels, -1, node.weights.shape[3])
    outputs, inputs = node.channels // node.groups, taps.shape[2]
    size = block_rows(node, config)
    if repeats_words(node, config):
        taps, m1 = taps[:, :1], min(m1, m0 + size)
    blocks = -(-(m1 - m0) // size)
    width = window.channel_words * config.lanes
    words: IntArray = np.zeros((blocks * size, taps.shape[1], width), np.int32)
    channel = np.arange(m0, m1)
    row = channel - m0
    block_start = (window.first_word + row // size * window.block_step) * config.lanes
    first = channel // outputs * inputs - block_start
    if node.groups == 1:
        words[: m1 - m0, :, :inputs] = taps[m0:m1]
    else:
        words[row[:, None], :, first[:, None] + np.arange(inputs)] = taps[m0:m1].transpose(0, 2, 1)
    return words


def pack_parameters(node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> bytes:
    """Parameter rows of output channels [m0, m1), whole blocks: one beat of bias and weight exponent each.

    The process of rows has the scale of a channel in the place of an exponent.
    """
    rows = parameter_rows(node, config, m1 - m0)
    beats = np.zeros((rows, config.weight_stream_bits // 8), np.uint8)
    exponents = node.weight_exponents if node.rows is None else node.rows.gains
    for name, values in (("bias", node.bias), ("exponent", exponents)):
        if values is not None:
            beats[: m1 - m0, PARAMETER_ROW[name].octets] = PARAMETER_ROW[name].packed(values[m0:m1])
    return beats.tobytes()


def weight_stream(operations: Iterable[KernelOperation]) -> bytes:
    """The weight stream of one kernel start."""
    return b"".join(operation.weights for operation in operations)


# Input and output packets


def header(exponent: int, config: KernelConfig) -> bytes:
    """The beat that precedes a tensor: its exponent."""
    beat = np.zeros((1, config.stream_bits // 8), np.uint8)
    beat[:, TENSOR_HEADER["exponent"].octets] = TENSOR_HEADER["exponent"].packed([exponent])
    return beat.tobytes()


def in_stream_order(rows: npt.NDArray[Any], config: KernelConfig) -> npt.NDArray[Any]:
    """(rows, width, channels) in ``ACTIVATION_ORDER``, zeros in the last word of a pixel and group of a row."""
    group, lanes = config.transfer_pixels, config.lanes
    if rows.shape[1] % group or rows.shape[2] % lanes:
        rows = np.pad(rows, ((0, 0), (0, -rows.shape[1] % group), (0, -rows.shape[2] % lanes)))
    return reordered(rows.reshape(-1, group, rows.shape[2] // lanes, lanes), _PIXELS, ACTIVATION_ORDER)


def pack_rows(mantissa: IntArray, config: KernelConfig) -> bytes:
    """Rows of one sample (rows, width, channels) as elements in ``ACTIVATION_ORDER``.

    Zeros fill the last word of a pixel, the last group of a row and the last beat.
    """
    groups = in_stream_order(np.asarray(mantissa), config)
    return pad_to(pack_elements(groups, config.format.container_bits), config.stream_bits // 8)


def unpack_rows(
    data: bytes | memoryview | npt.NDArray[np.uint8], config: KernelConfig, rows: int, width: int, words: int
) -> IntArray:
    """Inverse of ``pack_rows`` for pixels of ``words`` words: (rows, width, channels padded to whole words)."""
    group, lanes = config.transfer_pixels, config.lanes
    sizes = {"group": rows * -(-width // group), "word": words, "pixel": group, "lane": lanes}
    elements = unpack_elements(data, config.format.container_bits)[: math.prod(sizes.values())]
    pixels = reordered(elements.reshape([sizes[axis] for axis in ACTIVATION_ORDER]), ACTIVATION_ORDER, _PIXELS)
    return pixels.reshape(rows, -1, words * lanes)[:, :width]


def descriptor_bytes(words: IntArray, config: KernelConfig) -> bytes:
    """A descriptor's words in whole beats of the input stream."""
    return pad_to(words.astype("<i4").tobytes(), config.stream_bits // 8)


def input_packet(
    operations: Sequence[KernelOperation], config: KernelConfig, tensors: Mapping[str, BlockTensor], sample: int = 0
) -> bytes:
    """The input stream of one kernel start: every descriptor, each LOAD followed by its rows of ``sample``."""
    all_words = descriptor_words(operations, config)
    parts: list[bytes] = []
    if config.program_descriptors and operations:
        parts.append(streamed_header(config, len(operations)))
        all_words = with_tensor_beats(config, all_words, [operation.descriptor for operation in operations])
    for operation, words in zip(operations, all_words, strict=True):
        descriptor = operation.descriptor
        parts.append(descriptor_bytes(words, config))
        if descriptor.operation != Operation.LOAD:
            continue
        transfer = transfer_of(operation)
        if transfer.tensor not in tensors:
            raise DataError(f"layer {operation.layer}: tensor {transfer.tensor} has no data to load")
        tensor = tensors[transfer.tensor]
        rows = tensor.mantissa[sample, transfer.y0 : transfer.y1]
        words = -(-rows.shape[-1] // config.lanes)
        if rows.shape[0] * rows.shape[1] != descriptor.output_pixels or words != descriptor.output_pixel_words:
            raise DataError(
                f"layer {operation.layer}: rows {transfer.y0}..{transfer.y1} of tensor {transfer.tensor} have shape "
                f"{rows.shape}; the descriptor loads {descriptor.output_pixels} pixels of "
                f"{descriptor.output_pixel_words} words"
            )
        walked = rows.reshape(-1, descriptor.output_width, rows.shape[-1])
        parts += [header(int(tensor.exponent[sample]), config), pack_rows(walked, config)]
    return b"".join(parts)


def transfer_of(operation: KernelOperation) -> Transfer:
    """The rows that a load or store moves; ProgramError if it names none."""
    if operation.transfer is None:
        raise ProgramError(f"layer {operation.layer}: a load or store names no tensor")
    return operation.transfer


@dataclass(frozen=True)
class StoredRows:
    """Rows [y0, y1) of a tensor as a STORE sent them; mantissa: (rows, width, channels padded to whole words).

    choices: reports of count registers, a bit each (contract/predicates.py). records: of maps before it, (maps, words).
    """

    transfer: Transfer
    exponent: int
    mantissa: IntArray
    choices: int = 0
    records: Int64Array | None = None


def stored_bytes(operation: KernelOperation, config: KernelConfig, words: int = 0) -> int:
    """Bytes that a STORE sends: one header beat, its elements in whole beats, and so many words of records."""
    return config.stream_bits // 8 * (1 + tensor_beats(config, operation.descriptor)) + record_bytes(words, config)


def output_bytes(operations: Sequence[KernelOperation], config: KernelConfig) -> int:
    """Length of the output stream of one kernel start."""
    return sum(stored_bytes(operation, config, words) for operation, words in stores(operations, config))


def stores(operations: Sequence[KernelOperation], config: KernelConfig) -> list[tuple[KernelOperation, int]]:
    """The operations that send a tensor to the host, in order, each with the words of records after it."""
    sizes = record_sizes(operations, config)
    return [
        (operation, words)
        for operation, words in zip(operations, sizes, strict=True)
        if operation.descriptor.operation == Operation.STORE
    ]


def decode_output(
    operations: Sequence[KernelOperation], config: KernelConfig, packet: bytes | memoryview
) -> list[StoredRows]:
    """The tensors' rows in an output stream, one entry for each STORE; DataError if the length does not fit."""
    expected = output_bytes(operations, config)
    if len(packet) != expected:
        raise DataError(f"the kernel sent {len(packet)} bytes; its stores send {expected}")
    view, result, beat = memoryview(packet), [], config.stream_bits // 8
    for operation, words in stores(operations, config):
        size = stored_bytes(operation, config)
        head = np.frombuffer(view[:beat], np.uint8)[None]
        exponent = int(TENSOR_HEADER["exponent"].unpacked(head)[0])
        rows = _decode_rows(operation, config, view[beat:size])
        end = size + record_bytes(words, config)
        choices, records = int(reported_choices(head, config)[0]), _records(view[size:end], words, config)
        result.append(StoredRows(transfer_of(operation), exponent, rows, choices, records))
        view = view[end:]
    return result


def reported_records(
    operations: Sequence[KernelOperation], config: KernelConfig, stored: Iterable[StoredRows]
) -> tuple[tuple[str, Int64Array], ...]:
    """The records of a start's maps, each with the layer of its operation."""
    records = [record for part in stored if part.records is not None for record in part.records]
    sizes = record_sizes(operations, config)
    layers = [item.layer for item, words in zip(operations, sizes, strict=True) if emits_record(item, words)]
    return tuple(zip(layers, records, strict=True))


def _records(data: memoryview, words: int, config: KernelConfig) -> Int64Array | None:
    """Records of so many words; None of a kernel that emits none."""
    if not record_words(config):
        return None
    records: Int64Array = unpacked_records(np.frombuffer(data, np.uint8)[None, : 4 * words], config)[0]
    return records


def reported_choices(heads: npt.NDArray[np.uint8], config: KernelConfig) -> npt.NDArray[np.int64]:
    """What count registers reported in headers (count, bytes), a bit each; 0 of a kernel without them."""
    if not config.count_registers:
        return np.zeros(len(heads), np.int64)
    field = TENSOR_HEADER["choices"]
    return field.unpacked(heads).astype(np.int64) & ((1 << field.bits) - 1)


def _decode_rows(operation: KernelOperation, config: KernelConfig, data: memoryview) -> IntArray:
    descriptor, transfer = operation.descriptor, transfer_of(operation)
    rows, width = descriptor.output_pixels // descriptor.output_width, descriptor.output_width
    walked = unpack_rows(data, config, rows, width, descriptor.input_pixel_words)
    return walked.reshape(transfer.y1 - transfer.y0, -1, walked.shape[-1])


def write_rows(stored: Iterable[StoredRows], tensors: Mapping[str, BlockTensor], sample: int = 0) -> None:
    """Copy stored rows into the tensors they belong to; the padding channels are dropped."""
    for part in stored:
        tensor = tensors[part.transfer.tensor]
        target: npt.NDArray[Any] = tensor.mantissa[sample, part.transfer.y0 : part.transfer.y1]
        target[...] = part.mantissa[..., : target.shape[-1]]
        tensor.exponent[sample] = part.exponent
