"""The numbers that define one systolic array: the single source for emulator, C++ header, estimates and driver.

Only the standard library and numpy are imported: a board loads this module too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal, TypeAlias

from bfpga.contract.functions import FUNCTION_NAMES, USUAL_FUNCTIONS
from bfpga.formats.block_format import BlockFormat, container_bits
from bfpga.formats.checked_fields import Among, Between, check_fields
from bfpga.formats.shift_format import ShiftFormat, WeightMode

#: What every kernel computes layers with: its name in accelerator files, results and reports.
ARRAY = "systolic_array"

Multiplier = Literal["dsp", "dsp_packed", "shift"]
#: How a layer's weights are held: integers of the array, sums of two powers of two, or powers of two (SM 2.3).
WeightFormat = Literal["linear", "two_hot", "power_of_two"]
#: Memories that may be of UltraRAM instead of block memories.
UltraRam = Literal["activations", "weights"]
ULTRA_MEMORIES: tuple[UltraRam, ...] = ("activations", "weights")
Dsp = Literal["DSP48E1", "DSP48E2", "DSP58"]
#: Which zeros a skip array skips: those of stored weights, or those of activations.
SkipSource = Literal["weights", "activations"]
#: How the units of a sparse cluster in the place of the array work.
ClusterVariant = Literal["A", "B", "C", "D", "E"]
ClusterForm = Literal["overlap_add", "halo"]
#: Mode of the shift units for each format of theirs.
SHIFT_MODES = {"two_hot": WeightMode.TWO_HOT, "power_of_two": WeightMode.POW2}

#: Steps from one of a kernel to its next one in a unit of the sparse cluster, at least: what a sum takes; and where a
#: product may be held back for a cycle; and where a step takes the cycles in which the window of a kernel leaves, or
#: more.
SUM_DISTANCE = 4
MERGE_DISTANCE = SUM_DISTANCE + 1
WINDOW_CLOCKS = 4
WINDOW_DISTANCE = 2

#: Ranges of the fields below: what a kernel or a model can have at all. An accelerator file allows less.
Bits: TypeAlias = Annotated[int, Between(1, 64)]
StreamBits: TypeAlias = Annotated[int, Among((32, 64, 128, 256, 512))]
Words: TypeAlias = Annotated[int, Between(1, 65536)]
Width: TypeAlias = Annotated[int, Between(1, 256)]
WidthOrNone: TypeAlias = Annotated[int, Between(0, 256)]
Slots: TypeAlias = Annotated[int, Between(1, 1024)]


@dataclass(frozen=True)
class KernelConfig:
    """One kernel: ``columns`` x ``rows`` dot tiles of ``lanes`` products a cycle each (BFP 3.6).

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
    #: Columns that share a copy of the weights; every further block of them gets it a cycle later. 0: all columns.
    hop_columns: WidthOrNone = 0
    #: Groups of a skip array, in the place of the systolic array; 0: none. It computes ``skip_halves`` groups of
    #: ``columns`` pixels at a time and holds chunks of ``skip_chunk`` channels of windows.
    #: Source weights (skip_array/skip_array.hpp): it multiplies by stored weights that are no zeros, ``rows`` output
    #: channels at most, with ``skip_queue`` entries of every group, of each of which a weight word holds one.
    #: Source activations (skip_array/sparse_array.hpp): each of ``skip_halves`` x ``columns`` groups multiplies by the
    #: activations of its pixel that are not zero, of which ``skip_queue`` words wait, for ``rows`` output channels at a
    #: time. The weights of a chunk stay for ``skip_passes`` passes.
    skip_groups: WidthOrNone = 0
    skip_source: SkipSource = "weights"
    skip_halves: Width = 2
    skip_chunk: Width = 256
    skip_queue: Words = 32
    skip_passes: Words = 16
    #: In parallel with a skip array of source activations: a systolic array of the same columns, rows and lanes, which
    #: multiplies by the same weight words. Each GEMM says which of the two computes it (flag SKIP_ARRAY).
    dense_beside: bool = False
    #: A sparse cluster in the place of the array (sparse_cluster): rows and columns of its grid of units; 0: none.
    #: Kernels have ``cluster_kernel`` rows and columns at most, ``rows`` of them are in flight. A unit holds
    #: ``cluster_words`` blocks of sums for each of them, ``cluster_queue`` words of its piece wait for it. A map has
    #: ``cluster_lines`` rows and columns at most, and ``cluster_blocks`` blocks of its full grid have room. Pieces are
    #: balanced until they differ by ``cluster_threshold`` percentage points at most, with ``cluster_moves`` moves at
    #: most; 0: they are of equal size. A cluster counts as a skip array of source activations with a group for each
    #: unit, which reads whole maps as one run. Units of variant E multiply one value by the weights of a kernel, those
    #: of A all cells of a block of the map by one weight; those of the others have ``cluster_products`` lanes: B for
    #: values of a block and one weight, C and D for half as many values and two weights. Pieces share no cell
    #: (overlap_add), or each owns outputs and has the cells that these need (halo).
    cluster_rows: WidthOrNone = 0
    cluster_columns: WidthOrNone = 0
    cluster_kernel: WidthOrNone = 3
    cluster_words: Words = 64
    cluster_queue: Words = 64
    cluster_lines: Words = 64
    cluster_blocks: Words = 512
    cluster_threshold: Annotated[int, Between(0, 100)] = 3
    cluster_moves: Annotated[int, Between(0, 1023)] = 256
    cluster_variant: ClusterVariant = "E"
    cluster_form: ClusterForm = "overlap_add"
    cluster_products: WidthOrNone = 4
    #: A tile in the place of the array (zero_skip_tile): the zero-skip engine in tile form. Rows and columns of the
    #: sums of a map, and rows that are computed at once; 0: none. It counts as a sparse cluster with one unit, whose
    #: piece is the map: each weight that is not zero multiplies all cells of it.
    tile_rows: WidthOrNone = 0
    tile_columns: WidthOrNone = 0
    tile_parallel: WidthOrNone = 0
    #: Memories of UltraRAM, which some devices have in addition to block memories.
    ultra_ram: tuple[UltraRam, ...] = ()
    #: Count registers, by which operations may be skipped (contract/predicates.py); 0: none.
    count_registers: WidthOrNone = 0
    #: Whether tensors may cross the streams without their zeros (processes/maps): each as its descriptor says.
    compressed_maps: bool = False

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
    def tap_reuse(self) -> bool:
        """Whether a column may take taps of a window from adjacent columns: a row pair for each channel of a word."""
        multiplies = self.multiplier != "shift" and not self.shift_columns and not self.skip_groups
        return multiplies and self.lanes >= 3 and self.rows >= 2 * self.lanes

    @property
    def skips_weights(self) -> bool:
        """Whether a skip array multiplies by stored entries: weights that are not zero."""
        return self.skip_groups > 0 and self.skip_source == "weights"

    @property
    def skips_activations(self) -> bool:
        """Whether a skip array multiplies by activations that are not zero; weights are those of a systolic array."""
        return self.skip_groups > 0 and self.skip_source == "activations"

    @property
    def has_cluster(self) -> bool:
        """Whether a sparse cluster replaces the array."""
        return self.cluster_rows > 0

    @property
    def cluster_units(self) -> int:
        """Units of the sparse cluster, each for a piece of a map."""
        return self.cluster_rows * self.cluster_columns

    @property
    def has_tile(self) -> bool:
        """Whether a tile, which is a sparse cluster of one unit, replaces the array."""
        return self.tile_parallel > 0

    @property
    def skips_zero_weights(self) -> bool:
        """Whether weights that are zero take no time, each by itself."""
        return self.skips_weights or self.has_tile

    @property
    def cuts_maps(self) -> bool:
        """Whether the kernel cuts maps into pieces, one for each unit of the sparse cluster."""
        return self.has_cluster and not self.has_tile

    @property
    def has_halo(self) -> bool:
        """Whether pieces of the sparse cluster own outputs and share the cells of a halo (SC R29)."""
        return self.cuts_maps and self.cluster_form == "halo"

    @property
    def indexes_products(self) -> bool:
        """Whether units of the sparse cluster take values of a block at once: those of variants A to D."""
        return self.cuts_maps and self.cluster_variant != "E"

    @property
    def shifts_window(self) -> bool:
        """Whether units take all cells of a block, and move their sums below the products: those of variant A."""
        return self.cuts_maps and self.cluster_variant == "A"

    @property
    def lists_taps(self) -> bool:
        """Whether steps of the sparse cluster are weights of single taps, or of two, not all weights of a kernel."""
        return (self.indexes_products and not self.shifts_window) or self.has_tile

    @property
    def merges_products(self) -> bool:
        """Whether products of a unit collide in banks of sums and wait for each other: those of variants C and D."""
        return self.cuts_maps and self.cluster_variant in ("C", "D")

    @property
    def step_weights(self) -> int:
        """Weights of a kernel that multiply the values of a block at once."""
        return 2 if self.merges_products else 1

    @property
    def block_values(self) -> int:
        """Values of a block that units of variants A to D take at once; of A all cells."""
        if self.shifts_window:
            return self.cluster_kernel * self.cluster_kernel
        return self.cluster_products // self.step_weights

    @property
    def step_lists(self) -> int:
        """Lists of steps of a channel: one with all weights of a kernel, or one for each tap, or for two of them."""
        taps = self.cluster_kernel * self.cluster_kernel
        return -(-taps // self.step_weights) if self.lists_taps else 1

    @property
    def step_distance(self) -> int:
        """Steps from one of a kernel to its next one, at least."""
        if self.shifts_window:
            return WINDOW_DISTANCE
        return MERGE_DISTANCE if self.merges_products else SUM_DISTANCE

    @property
    def step_clocks(self) -> int:
        """Cycles of a step at most: units of variant A go through the taps of its kernel."""
        return max(WINDOW_CLOCKS, self.cluster_kernel * self.cluster_kernel) if self.shifts_window else 1

    @property
    def unit_products(self) -> int:
        """Products of a unit of the sparse cluster in a cycle."""
        if self.has_tile:
            return self.tile_parallel * self.tile_columns
        return self.block_values * self.step_weights if self.indexes_products else self.cluster_kernel**2

    @property
    def keeps(self) -> bool:
        """Whether accumulators of a measured pass may be kept at all (FP R24)."""
        return self.wide_memory or self.wide_words > 0

    @property
    def weight_bits(self) -> int:
        """Bits of a weight in memory: a mantissa or a word of a shift unit."""
        word = self.shift.word_bits if self.shift is not None else 0
        return word if self.multiplier == "shift" else max(word, self.format.mantissa_bits)

    @property
    def weight_container_bits(self) -> int:
        return container_bits(self.weight_bits)

    def largest_weight(self, weight_format: WeightFormat) -> int:
        """Bound of a weight's magnitude; columns of DSP blocks take two-hot weights as mantissas."""
        if weight_format == "linear" or self.shift is None:
            return self.format.mantissa_max
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
    def entry_bits(self) -> int:
        """Bits of an entry of a skip array: a weight, its position in the chunk, and two marks."""
        return self.weight_bits + (self.skip_chunk - 1).bit_length() + 2

    @property
    def entry_field_bits(self) -> int:
        """Bits of the weight and the position of an entry on the weight stream: no field straddles two beats."""
        return 1 << (self.entry_bits - 3).bit_length()

    @property
    def weight_word_bits(self) -> int:
        """Bits of one weight word on the weight stream: rows x lanes weights (512 for 16 x 2 x 16, BFP R60).

        Of stored entries one for each group.
        """
        if self.skips_weights:
            return self.skip_groups * (self.entry_field_bits + 2)
        return self.rows * self.lanes * self.weight_container_bits

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
        return self.format.mantissa_max * -self.format.mantissa_min

    @property
    def macs_per_clock(self) -> int:
        """Of the systolic array, of a kernel without one of the skip array."""
        has_dense = self.dense_beside or not self.skip_groups
        return self.columns * self.rows * self.lanes if has_dense else self.skip_macs

    @property
    def skip_macs(self) -> int:
        """Products of a skip array in a cycle."""
        if self.has_cluster:
            return self.cluster_units * self.unit_products
        return self.skip_groups * (self.rows if self.skips_activations else self.skip_halves * self.columns)

    @property
    def weights_per_word(self) -> int:
        """Weights that a word of the weight memory holds; of stored entries those that are not zero, at most."""
        return self.skip_groups if self.skips_weights else self.rows * self.lanes

    def tile_clocks(self, macs: int, weight_format: WeightFormat) -> int:
        """Cycles of single lanes that multiply-accumulates take: a lane does two at once with powers of two."""
        return -(-macs * self.rows // self.block_rows(weight_format))

    def terms_limit(self, biased: bool = True) -> int:
        """Largest number of products one accumulator holds exactly, one bit kept for a bias (BFP 7)."""
        return ((1 << (self.accumulator_bits - (2 if biased else 1))) - 1) // self.largest_product
