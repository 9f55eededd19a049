"""The numbers that define a kernel, with its array: the single source for emulator, C++ header, estimates and driver.

Only the standard library and numpy are imported: a board loads this module too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal, TypeAlias

from bfpga.contract.arrays.base import Array, Width, WidthOrNone, Words
from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.descriptor import Operation
from bfpga.contract.functions import FUNCTION_NAMES, USUAL_FUNCTIONS, Function
from bfpga.formats.block_format import BlockFormat, container_bits
from bfpga.formats.checked_fields import Among, Between, check_fields
from bfpga.formats.shift_format import ShiftFormat, WeightMode

#: What every kernel computes layers with: its name in accelerator files, results and reports.
ARRAY = "systolic_array"

Multiplier = Literal["dsp", "dsp_packed", "dsp_quad", "shift"]
#: How a layer's weights are held: integers of the array, sums of two powers of two, or powers of two (SM 2.3).
WeightFormat = Literal["linear", "two_hot", "power_of_two"]
#: Memories that may be of UltraRAM instead of block memories.
UltraRam = Literal["activations", "weights"]
ULTRA_MEMORIES: tuple[UltraRam, ...] = ("activations", "weights")
#: Bits of a weight where four products share a DSP block.
QUAD_WEIGHT_BITS = 4
Dsp = Literal["DSP48E1", "DSP48E2", "DSP58"]
#: Mode of the shift units for each format of theirs.
SHIFT_MODES = {"two_hot": WeightMode.TWO_HOT, "power_of_two": WeightMode.POW2}

#: Ranges of the fields below: what a kernel or a model can have at all. An accelerator file allows less.
Bits: TypeAlias = Annotated[int, Between(1, 64)]
StreamBits: TypeAlias = Annotated[int, Among((32, 64, 128, 256, 512))]
Slots: TypeAlias = Annotated[int, Between(1, 1024)]


@dataclass(frozen=True)
class KernelConfig:
    """One kernel: an array, and the processes, memories and streams around it.

    ``columns`` pixels, ``rows`` output channels and words of ``lanes`` channels are computed together.
    ConfigurationError for a field of another type or out of its range: what is rendered from it is C++.
    Memories: ``banks`` activation memories of ``activation_words`` words of ``lanes`` mantissas; a weight memory of
    ``weight_words`` words of rows x lanes mantissas; ``parameter_rows`` rows of bias and row exponent.
    """

    format: BlockFormat = field(default_factory=BlockFormat)
    columns: Width = 12
    rows: Width = 16
    lanes: Annotated[int, Among((1, 2, 4))] = 2
    multiplier: Multiplier = "dsp"
    dsp: Dsp = "DSP48E1"
    accumulator_bits: Bits = 32
    bias_bits: Bits = 18
    activation_words: Words = 4096
    weight_words: Words = 4096
    parameter_rows: Words = 2048
    stream_bits: StreamBits = 64
    weight_stream_bits: StreamBits = 64
    functions: tuple[Annotated[str, Among(FUNCTION_NAMES)], ...] = USUAL_FUNCTIONS
    tensor_slots: Slots = 64
    policy_slots: Slots = 64
    #: The last columns multiply by shifts, next to columns of DSP blocks (0: all columns have ``multiplier``).
    shift_columns: WidthOrNone = 0
    #: Words of the shift units; None for an array without them.
    shift: ShiftFormat | None = None
    #: Bins of the collector that finds exponents by other rules than the lead; 0: there is none (FP 2.3).
    position_bins: WidthOrNone = 0
    #: Accumulators a column that the keep buffer holds; 0: none (FP R24).
    wide_words: Annotated[int, Between(0, 65536)] = 0
    #: Whether accumulators may be kept as words of the activation memory, and so in the host's memory (FP R24).
    wide_memory: bool = False
    #: Whether its output stage has a stream of exponents from the core before and one to the next core (FP R42).
    position_stream: bool = False
    #: Memories of UltraRAM, which some devices have in addition to block memories.
    ultra_ram: tuple[UltraRam, ...] = ()
    #: Count registers, by which operations may be skipped (contract/predicates.py); 0: none.
    count_registers: WidthOrNone = 0
    #: Whether tensors may cross the streams without their zeros (processes/maps): each as its descriptor says.
    compressed_maps: bool = False
    #: Columns of the process of rows: pixels whose channels are a row of Softmax, say; 0: there is no such process.
    row_columns: WidthOrNone = 0
    #: Whether tensors of the activation memory may become weights: products of two computed tensors.
    operand_weights: bool = False
    #: Whether all exponents are static: the output stage has nothing that finds one at run time.
    static_exponents: bool = False
    #: Whether a product may add a tensor of the activation memory to its sums: residual connections.
    residual_adds: bool = False
    #: Tables of functions that the output stage holds, which come with a program; 0: tables are built in.
    function_tables: Annotated[int, Between(0, 8)] = 0
    #: Columns that the output stage computes at once, each row in so many turns; 0: all of them in one.
    post_columns: WidthOrNone = 0
    #: Descriptors that the program memory holds, which then cross the input stream once; 0: there is none.
    program_descriptors: Annotated[int, Between(0, 4096)] = 0
    array: Array = field(default_factory=SystolicArray)

    def __post_init__(self) -> None:
        check_fields(self, "kernel configuration")

    @cached_property
    def banks(self) -> int:
        """Activation memories: a prime not below the column count, so any stride below it is free of conflicts."""
        if self.columns == 1:
            return 1
        number = max(self.columns, 5)
        while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
            number += 1
        return number

    @property
    def stage_columns(self) -> int:
        """Columns that the output stage computes at once."""
        return self.post_columns or self.columns

    @property
    def row_turns(self) -> int:
        """Cycles that the output stage takes for a row of all columns."""
        return max(1, self.columns // self.stage_columns)

    @property
    def has_rows(self) -> bool:
        """Whether there is a process of rows."""
        return self.row_columns > 0

    @property
    def part_operations(self) -> tuple[Operation, ...]:
        """Operations that only kernels with some part have: those of its parts."""
        has = (
            (Operation.ROWS, self.has_rows), (Operation.TABLE, self.function_tables > 0),
            (Operation.WEIGH, self.operand_weights),
        )  # fmt: skip
        return tuple(operation for operation, there in has if there)

    @property
    def layout_parts(self) -> tuple[tuple[str, ...], tuple[Operation, ...], bool]:
        """What its layout depends on: arguments of ``layout``."""
        return self.built_in_functions, self.part_operations, self.residual_adds

    @cached_property
    def built_in_functions(self) -> tuple[str, ...]:
        """Names of the functions that the bitstream holds: of a kernel that loads tables those by arithmetic."""
        loads = self.function_tables > 0
        return tuple(name for name in self.functions if not loads or Function.named(name).row.table is None)

    @cached_property
    def known_functions(self) -> tuple[str, ...]:
        """Names of the functions that it computes: those built in, and with tables that are loaded any of these."""
        tables = (function for function in Function if function.row.table is not None and self.function_tables)
        fits = [function.key for function in tables if function.row.least_accumulator_bits <= self.accumulator_bits]
        return (*self.built_in_functions, *fits)

    @property
    def weight_formats(self) -> tuple[WeightFormat, ...]:
        """Formats of weights that a layer may have on this array, the most exact one first."""
        if self.multiplier == "shift":
            return ("two_hot", "power_of_two")
        return ("linear", "two_hot") if self.shift_columns else ("linear",)

    def active_columns(self, weight_format: WeightFormat) -> int:
        """Columns that multiply with weights of a format: shift columns need weights that they can shift by."""
        return self.columns - self.shift_columns if weight_format == "linear" else self.columns

    def block_rows(self, weight_format: WeightFormat) -> int:
        """Output channels of one pass: a shift unit multiplies one activation with two powers of two."""
        return 2 * self.rows if weight_format == "power_of_two" else self.rows

    @property
    def accumulator_rows(self) -> int:
        """Accumulators of a column."""
        return self.block_rows(self.weight_formats[-1])

    @property
    def shared_columns(self) -> int:
        """Adjacent columns that share DSP blocks: two where a block multiplies two weights by two pixels."""
        return 2 if self.multiplier == "dsp_quad" else 1

    @property
    def tap_reuse(self) -> bool:
        """Whether a column may take taps of a window from adjacent columns: a row pair for each channel of a word."""
        multiplies = self.multiplier != "shift" and not self.shift_columns and self.array.may_reuse_taps
        return multiplies and self.lanes >= 3 and self.rows >= 2 * self.lanes

    @property
    def pass_words(self) -> int:
        """Words of the results of a pass, which come as accumulators where the activation memory keeps these."""
        return self.accumulator_rows // (1 if self.wide_memory else self.lanes)

    @property
    def keeps(self) -> bool:
        """Whether accumulators of a measured pass may be kept at all (FP R24)."""
        return self.wide_memory or self.wide_words > 0

    @property
    def weight_bits(self) -> int:
        """Bits of a weight in memory: a mantissa, the narrower one of ``dsp_quad`` or a word of a shift unit."""
        if self.multiplier == "dsp_quad":
            return min(self.format.mantissa_bits, QUAD_WEIGHT_BITS)
        word = self.shift.word_bits if self.shift is not None else 0
        return word if self.multiplier == "shift" else max(word, self.format.mantissa_bits)

    @property
    def weight_container_bits(self) -> int:
        return container_bits(self.weight_bits)

    def largest_weight(self, weight_format: WeightFormat) -> int:
        """Bound of a weight's magnitude; columns of DSP blocks take two-hot weights as mantissas."""
        if weight_format == "linear" or self.shift is None:
            return min(self.format.mantissa_max, (1 << (self.weight_bits - 1)) - 1)
        largest = self.shift.largest_weight(SHIFT_MODES[weight_format])
        return min(largest, self.format.mantissa_max) if self.shift_columns else largest

    @property
    def words_per_block(self) -> int:
        """Memory words that hold the ``rows`` output channels of one row block at one pixel."""
        return self.rows // self.lanes

    @property
    def word_bits(self) -> int:
        """Bits of one activation word on a stream."""
        return self.lanes * self.format.container_bits

    @property
    def weight_word_bits(self) -> int:
        """Bits of one weight word on the weight stream: rows x lanes weights (512 for 16 x 2 x 16, BFP R60)."""
        return self.array.weight_word_bits(self)

    @property
    def beats_per_weight_word(self) -> int:
        return -(-self.weight_word_bits // self.weight_stream_bits)

    @property
    def words_per_beat(self) -> int:
        """Activation words in one beat of the input and output streams (elements are packed little-endian)."""
        return self.stream_bits // self.word_bits

    @property
    def transfer_pixels(self) -> int:
        """Pixels of a row whose words a LOAD or a STORE moves in one cycle: they are in different banks."""
        return 1 << (min(self.words_per_beat, self.banks).bit_length() - 1)

    @property
    def map_value_bits(self) -> int:
        """Bits of what a mask of a compressed map covers: a mantissa in its container, at least a byte."""
        return max(8, self.format.container_bits)

    @property
    def packing_shift(self) -> int:
        """Distance of two products that share one DSP (BFP 7): 17 on DSP48E1, 18 on DSP48E2 and DSP58."""
        return 17 if self.dsp == "DSP48E1" else 18

    @property
    def largest_product(self) -> int:
        """Largest magnitude of one product. Weights are always symmetric; activations follow the format."""
        return self.largest_weight("linear") * -self.format.mantissa_min

    @property
    def macs_per_clock(self) -> int:
        """Products of a cycle."""
        return self.array.products(self)

    def tile_clocks(self, macs: int, weight_format: WeightFormat) -> int:
        """Cycles of single lanes that multiply-accumulates take: a lane does two at once with powers of two."""
        return -(-macs * self.rows // self.block_rows(weight_format))

    def terms_limit(self, biased: bool = True) -> int:
        """Largest number of products one accumulator holds exactly, one bit kept for a bias (BFP 7)."""
        return ((1 << (self.accumulator_bits - (2 if biased else 1))) - 1) // self.largest_product
