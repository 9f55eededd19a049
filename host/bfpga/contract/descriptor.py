"""The layer descriptor: every field the sequencer reads, declared once.

A descriptor is ``DESCRIPTOR_WORDS`` signed 32-bit words in the order of ``FIELDS``. The C++ structure, its decoder and
the table in the documentation are rendered from this module. Only the standard library and numpy are imported.

An address is a pair (word, bank): pixel ``a`` of a tensor (a = row * pitch + column) that starts at word ``base`` and
holds ``n`` words a pixel lies in bank ``a mod banks`` at word ``base + (a div banks) * n``. An address step is given in
the same form and is added component-wise; when the bank reaches ``banks`` it is lowered by ``banks`` and the word is
raised by ``n``. The host computes every product, so the hardware only adds (hls-rules R12).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum, IntFlag

import numpy as np
import numpy.typing as npt

from bfpga.contract.functions import Function as Function  # one of the descriptor's enumerations


class Operation(IntEnum):
    """What one descriptor does."""

    NONE = 0
    LOAD = 1  # input stream -> activation memory (uses the output_* addressing)
    STORE = 2  # activation memory -> output stream (uses the input_* addressing)
    WEIGHTS = 3  # weight stream -> parameter and weight memory
    GEMM = 4  # matrix product or convolution on the dot tiles
    MAX = 5  # maximum over the window, channel by channel
    SUM = 6  # sum over the taps, each aligned to the larger exponent: residual add, subtract, copy
    ROWS = 7  # the process of rows, of kernels that have it: Softmax, normalizations, products of two tensors
    TABLE = 8  # words of a function's table, in fields of `post` (contract/loaded_tables.py), of kernels that load them
    WEIGH = 9  # activation memory -> weight memory, of kernels with operand_weights: a tensor becomes weights


class Flag(IntFlag):
    """Bits of the ``flags`` field."""

    NONE = 0
    BIAS = 1  # add the bias of the parameter memory
    ROW_EXPONENTS = 2  # weight exponents come from the parameter memory (otherwise 0)
    FUNCTION_FIRST = 4  # function before bias (BFP R12)
    STREAM_WEIGHTS = 8  # one weight word a step straight from the weight stream
    MEASURE = 16  # only find the leading position of the results; write nothing. Of a STORE see TELLS_STATISTICS
    FIRST = 32  # first descriptor of a layer: resets what its policy slot collects
    LAST = 64  # last descriptor of a layer: its policy slot is updated
    PRESET = 128  # an unused policy slot starts from output_exponent (BFP R31), not from a measurement
    NEGATE_SECOND = 256  # SUM subtracts its second operand; of a GEMM see SECOND_WEIGHS
    END_PACKET = 512  # STORE: TLAST on the last beat
    COPY_EXPONENT = 1024  # output exponent = input exponent (MAX and one-operand moves change no scale)
    TWO_HOT = 2048  # GEMM: weights are two-hot words, so shift columns work too
    POWER_OF_TWO = 4096  # GEMM on shift units: a weight word holds two weights, a pass two output channels a row
    KEEP = 8192  # GEMM with MEASURE: accumulators go to the keep buffer (FP R24)
    KEPT = 16384  # GEMM: accumulators come from the keep buffer, nothing is multiplied
    NEIGHBOURS = 32768  # GEMM, channel by channel: the taps beside the middle one are the neighbours' operands
    WIDE = 65536  # KEEP, KEPT: accumulators are words of the activation memory, not of the keep buffer
    # Bits 17 to 24 hold two numbers of count registers (contract/predicates.py)
    UNLESS = 33554432  # an operation with a predicate runs where that is false
    LANES_APART = 67108864  # GEMM on a skip array: a group needs one lane of each word, of its kernel or its only pixel
    SLIDES = 134217728  # GEMM of a skip array: a pass reads what its window has beyond that of the pass before
    SKIP_ARRAY = 268435456  # GEMM of a kernel with two arrays: the skip array computes it, not the systolic array
    CLUSTER = 536870912  # GEMM that a sparse cluster in the place of the array computes
    # LOAD, STORE: the tensor crosses the stream without its zeros (docs/compressed-formats.md); GEMM: see ADDS_SECOND
    COMPRESSED = 1073741824


class Policy(IntEnum):
    """How the output exponent is chosen (BFP 3.2)."""

    STATIC = 0
    MAX = 1
    STATISTICS = 2
    ROLLING_MAX = 3
    FEEDBACK = 4


class LeadRule(IntEnum):
    """How measured results become a leading position (FP 2.3, docs/kernel-positions.md)."""

    LEAD = 0  # the largest leading position of the magnitudes (BFP R24)
    MAX = 1
    RATE = 2
    LSB = 3
    WINDOW = 4


#: GEMM: its weights are the second tensor, whose exponent adds to that of the first. SUM alone uses the bit otherwise.
SECOND_WEIGHS = Flag.NEGATE_SECOND
#: GEMM of a kernel with residual_adds: a second tensor is added to its sums. Transfers alone use the bit otherwise.
ADDS_SECOND = Flag.COMPRESSED
#: STORE of a kernel with a collector: its header has word `input_slot` of what that holds (engines/output/collector.py)
#: in the place of the exponent. Operations that compute alone use the bit otherwise.
TELLS_STATISTICS = Flag.MEASURE
#: Computing operation of a kernel with `positions: stream`: with policy MAX it tells the next core the exponent with
#: which its layer's main pass begins; with policy STATIC it takes that from the core before, at its first sample after
#: the policies were cleared, and hands it on if output_exponent is 1. Only policies that predict use the bit otherwise.
STREAMS_EXPONENT = Flag.PRESET
#: What the metadata of a field calls the field whose word it shares.
_SHARES, _SHARES_IN_ROWS, _SHARES_IN_ADDS = "shares", "shares in rows", "shares in adds"
#: Operations of kernels that have some part.
PART_OPERATIONS = (Operation.ROWS, Operation.TABLE, Operation.WEIGH)
COMPUTING = (Operation.GEMM, Operation.MAX, Operation.SUM, Operation.ROWS)


def shared(other: str) -> int:
    """A field in the word of one that its operations do not use: there are no more words."""
    number: int = field(default=0, metadata={_SHARES: other})
    return number


def of_rows(other: str) -> int:
    """A field of ROWS, in the word of one that ROWS does not use."""
    number: int = field(default=0, metadata={_SHARES_IN_ROWS: other})
    return number


def of_adds(other: str) -> int:
    """A field of a GEMM that adds a tensor, in the word of one that a systolic array's GEMM does not use."""
    number: int = field(default=0, metadata={_SHARES_IN_ADDS: other})
    return number


@dataclass
class Descriptor:
    """One layer descriptor; every field is a signed 32-bit number. The comments are the documentation's table."""

    operation: int = 0  # Operation
    flags: int = 0  # Flag bits
    input_slot: int = 0  # exponent register of the input tensor; STORE that tells statistics: which word
    second_slot: int = 0  # exponent register of the second operand of SUM, of the tensor that weighs
    output_slot: int = 0  # exponent register of the output tensor
    # Walk of the output pixels, `columns` at a time
    output_pixels: int = 0  # number of output pixels
    output_width: int = 1  # output pixels in a row
    group_columns: int = 0  # the columns that work together
    # Window
    kernel_height: int = 1
    kernel_width: int = 1
    stride_y: int = 1
    stride_x: int = 1
    dilation_y: int = 1  # 0 for SUM, whose taps are operands
    dilation_x: int = 1
    pad_top: int = 0
    pad_left: int = 0
    input_height: int = 1
    input_width: int = 1
    # Reduction and row blocks
    channel_words: int = 1  # words read at each tap of one row block
    block_step: int = 0  # words the input moves from one row block to the next (grouped, depthwise, vector work)
    blocks: int = 1  # row blocks
    output_rows: int = 1  # output channels written by this descriptor
    steps: int = 1  # clocks of one pass: max(kernel steps * slots, drain)
    read_slots: int = 1  # clocks a step takes to read its columns (more than 1 when rows of pixels collide)
    write_slots: int = 1  # clocks one output word of all columns takes to write
    read_runs: int = 0  # 1: column i reads in slot (its output row - the row of column 0); 0: all in slot 0
    write_runs: int = 0  # the same for writing
    # Input addressing
    input_pixel_words: int = 1  # words a pixel of the input holds
    input_word: int = 0  # address of the first window's first tap (may lie before the tensor: padding)
    input_bank: int = 0
    input_step_word: int = 0  # next output pixel of the same row
    input_step_bank: int = 0
    input_wrap_word: int = 0  # added when the walk enters the next output row
    input_wrap_bank: int = 0
    tap_x_word: int = 0  # next tap of the same kernel row
    tap_x_bank: int = 0
    tap_y_word: int = 0  # next kernel row
    tap_y_bank: int = 0
    # Output addressing; the pixels of a row follow each other
    output_pixel_words: int = 1
    output_word: int = 0  # address of output pixel 0, channel offset included
    output_bank: int = 0
    output_wrap_word: int = 0
    output_wrap_bank: int = 0
    # Weights and parameters
    weight_base: int = 0  # GEMM: first weight word; WEIGHTS, WEIGH: where the words go
    weight_tap_step: int = 0  # weight words from one tap to the next; WEIGH: 1 if channels become rows of weights
    weight_block_step: int = 0  # weight words from one row block to the next
    weight_words: int = 0  # WEIGHTS: words that follow on the weight stream; WEIGH: words that it makes
    parameter_base: int = 0  # first row of bias and exponent
    parameter_rows: int = 0  # WEIGHTS: rows that precede the words on the weight stream
    bias_exponent: int = 0
    # Function unit and output exponent
    function: int = 0  # Function
    function_argument: int = 0  # contract/functions.py: right shift of leaky ReLU, mantissa of clip's upper bound
    function_exponent: int = 0  # exponent of clip's upper bound
    policy: int = 0  # Policy
    policy_slot: int = 0
    output_exponent: int = 0  # static exponent, or the preset of a policy
    policy_window: int = 0  # STATISTICS: log2 of the window; ROLLING_MAX: 1..8 leading positions kept
    policy_factor: int = 12  # STATISTICS: 4 * k; FEEDBACK: overflows that are tolerated
    # Positions found by the data (docs/kernel-positions.md)
    lead_rule: int = 0  # LeadRule
    position_rate: int = 12  # RATE: log2 of the values of which one may saturate
    position_margin: int = 0  # added to the exponent a rule finds
    position_base: int = 0  # bin 0 of the histogram, from the exponent of the accumulators
    wide_word: int = 0  # KEEP, KEPT: first word in the keep buffer
    count_threshold: int = 0  # of what it counts in a register: predicates.py
    # GEMM on a skip array
    chunk_steps: int = 0  # steps of a chunk of the window; the last chunk may have fewer
    chunk_buffers: int = 0  # chunks that the array holds at a time; of activations: of a window
    entry_words: int = 0  # of weights: stored words of entries that a pass reads from weight_base on
    # GEMM on a sparse cluster, which reads the map of its input cell by cell: input_height x input_width cells
    map_cells: int = 0  # cells of the map
    joined_rows: int = 0  # pieces of the grid that are one, down
    joined_columns: int = 0  # and across: their units take turns
    part_words: int = 0  # words of channels that a part of the kernel reads; channel_words are those of all parts
    told_words: int = 0  # of the record of its map; STORE: of records after the tensor (sparse_cluster/records.py)
    # What of its start must be finished before the operation may begin (docs/kernel.md)
    groups: int = 0  # groups of output pixels that the columns compute together
    after_loads: int = 0  # LOADs, before it uses the activation memory
    after_results: int = 0  # computing operations, before it uses the activation memory
    after_stores: int = 0  # STOREs, before it uses the activation memory
    after_fills: int = 0  # GEMM: WEIGHTS and WEIGH, before it reads weights and parameters
    after_reads: int = 0  # WEIGHTS, WEIGH: GEMMs that must have read their weights and parameters
    # GEMM on a sparse cluster: words of fields that are of other skip arrays (SHARED_WORDS)
    map_groups: int = shared("chunk_steps")  # groups of `columns` cells of the map
    most_moves: int = shared("chunk_buffers")  # of limits of pieces; 0: they are of equal size
    work_difference: int = shared("entry_words")  # of two pieces that is let be, in counts
    parts_down: int = shared("weight_words")  # parts of a kernel of kernel_height rows each, dilation_y apart
    parts_across: int = shared("parameter_rows")  # and across
    read_height: int = shared("second_slot")  # rows of the input from the map's first one on; others are zero
    read_width: int = shared("wide_word")  # and columns
    # ROWS: words of fields that other operations have (ROW_WORDS); a row (a pixel) is read `blocks` times
    row_operation: int = of_rows("map_cells")  # RowOperation
    row_exponent: int = of_rows("wide_word")  # exponent of the results; of a product added to those of its operands
    row_inverse: int = of_rows("chunk_steps")  # 2**row_magnitude / output_rows
    row_magnitude: int = of_rows("chunk_buffers")  # ceil(log2 output_rows)
    row_epsilon: int = of_rows("joined_rows")  # mantissa of epsilon's share
    row_epsilon_exponent: int = of_rows("joined_columns")
    # GEMM that adds a tensor to its sums (ADD_WORDS): as many pixels and words as it writes, one after the other
    added_pixel_words: int = of_adds("entry_words")  # words that a pixel of the tensor holds
    added_word: int = of_adds("chunk_steps")  # address of its first pixel, channel offset included
    added_bank: int = of_adds("chunk_buffers")

    def to_words(self) -> npt.NDArray[np.int32]:
        """The descriptor as ``DESCRIPTOR_WORDS`` int32 words."""
        words = np.zeros(DESCRIPTOR_WORDS, np.int32)
        words[: len(FIELDS)] = [int(getattr(self, name)) for name in word_names(self.operation, self.flags)]
        return words

    @staticmethod
    def from_words(words: Sequence[int] | npt.NDArray[np.int32]) -> Descriptor:
        """Inverse of ``to_words``."""
        names = word_names(int(words[0]), int(words[1]))
        return Descriptor(**{name: int(word) for name, word in zip(names, words, strict=False)})


#: Fields without a word of their own, which kernels with a sparse cluster have -> the field whose word it is.
SHARED_WORDS: dict[str, str] = {
    item.name: item.metadata[_SHARES] for item in fields(Descriptor) if _SHARES in item.metadata
}
#: The same of kernels with a process of rows.
ROW_WORDS: dict[str, str] = {
    item.name: item.metadata[_SHARES_IN_ROWS] for item in fields(Descriptor) if _SHARES_IN_ROWS in item.metadata
}
#: The same of kernels whose products add tensors.
ADD_WORDS: dict[str, str] = {
    item.name: item.metadata[_SHARES_IN_ADDS] for item in fields(Descriptor) if _SHARES_IN_ADDS in item.metadata
}
_WITHOUT_WORDS = {**SHARED_WORDS, **ROW_WORDS, **ADD_WORDS}
#: The fields that have words, in their order.
FIELDS: tuple[str, ...] = tuple(item.name for item in fields(Descriptor) if item.name not in _WITHOUT_WORDS)
_PLACES = {name: place for place, name in enumerate(FIELDS)}
_CLUSTER, _GEMM, _ROWS = int(Flag.CLUSTER), int(Operation.GEMM), int(Operation.ROWS)
_ADDS = int(ADDS_SECOND)


def _fields_with(words: dict[str, str]) -> tuple[str, ...]:
    """``FIELDS`` with others in the words that they share."""
    of_word = {other: name for name, other in words.items()}
    return tuple(of_word.get(name, name) for name in FIELDS)


_CLUSTER_FIELDS, _ROW_FIELDS = _fields_with(SHARED_WORDS), _fields_with(ROW_WORDS)
_ADD_FIELDS = _fields_with(ADD_WORDS)


def word_names(operation: int, flags: int = 0) -> tuple[str, ...]:
    """The fields that the words of an operation's descriptor hold, in their order."""
    if operation == _ROWS:
        return _ROW_FIELDS
    if operation == _GEMM and flags & (_CLUSTER | _ADDS):
        return _CLUSTER_FIELDS if flags & _CLUSTER else _ADD_FIELDS
    return FIELDS


def word_of(name: str) -> int:
    """The place of a field among the words of a descriptor."""
    return _PLACES[_WITHOUT_WORDS.get(name, name)]


#: Words of one descriptor on the stream; the unused tail is zero and reserved.
DESCRIPTOR_WORDS = 80
assert len(FIELDS) <= DESCRIPTOR_WORDS
