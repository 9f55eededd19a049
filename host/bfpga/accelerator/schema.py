"""The YAML keys of an accelerator and of a board: types, ranges, defaults and the one-line text of each.

The models are the documentation's tables, the editor's JSON schema and the validator at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field

from bfpga.accelerator.sections import Section
from bfpga.contract.arrays.skip_array import SkipSource
from bfpga.contract.configuration import Dsp, Multiplier, UltraRam
from bfpga.contract.cores import MOST_CORES
from bfpga.contract.functions import FUNCTION_NAMES, USUAL_FUNCTIONS
from bfpga.contract.loaded_tables import MOST_TABLES
from bfpga.contract.names import NAME_PATTERN
from bfpga.contract.predicates import MOST_REGISTERS
from bfpga.formats.block_format import LogMode, Rounding, Saturation

Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$", max_length=48)]
if TYPE_CHECKING:
    FunctionName: TypeAlias = str
else:
    FunctionName = Literal[FUNCTION_NAMES]
LineWidth = Literal[32, 64, 128, 256, 512]
#: Rows and columns, each within the range.
TileSize = Annotated[list[Annotated[int, Field(ge=1, le=256)]], Field(min_length=2, max_length=2)]
GridSize = Annotated[list[Annotated[int, Field(ge=1, le=32)]], Field(min_length=2, max_length=2)]

# Keys of the array, whichever kind it is.
AccumulatorBits = Annotated[int, Field(ge=10, le=58)] | Literal["auto"]
BiasBits = Annotated[int, Field(ge=4, le=32, description="bits of a bias mantissa")]
ActivationWords = Annotated[
    int, Field(ge=64, le=65536, description="words of `lanes` mantissas in each activation memory")
]
ParameterRows = Annotated[int, Field(ge=2, le=65536, description="output channels whose bias and exponent fit")]
DataWidth = Annotated[LineWidth, Field(description="width of the input and output streams")]
WeightWidth = Annotated[Literal[64, 128, 256, 512], Field(description="width of the weight stream")]
Functions = Annotated[
    list[FunctionName],
    Field(
        min_length=1,
        max_length=len(FUNCTION_NAMES),
        description="functions the function unit is built with; `none` must be among them",
    ),
]
FunctionTables = Annotated[
    int,
    Field(
        ge=0, le=MOST_TABLES,
        description="functions by tables that a kernel holds at a time and a program brings, any of them; "
        "0: those that `functions` names are built in",
    ),
]  # fmt: skip
PostColumns = Annotated[
    int,
    Field(
        ge=0, le=128,
        description="columns that the output stage computes at once, a divisor of all: fewer take less logic, and a "
        "row more clocks; 0: all of them",
    ),
]  # fmt: skip
StaticExponents = Annotated[
    bool,
    Field(
        description="whether the exponents of all results are those of calibration: the output stage has nothing that "
        "finds them while the network runs"
    ),
]
PositionBins = Annotated[
    int,
    Field(ge=0, le=64, description="bins of the histogram that finds exponents by a rule (8 to 64); 0: no such rules"),
]
WideWords = Annotated[
    int,
    Field(
        ge=0, le=16384, description="accumulators a column that flows `keep` and `keep_sampled` may hold; 0: neither"
    ),
]
CountRegisters = Annotated[
    int,
    Field(
        ge=0, le=MOST_REGISTERS,
        description="counts of values that are not zero by which a kernel skips operations; 0: none",
    ),
]  # fmt: skip

CompressedMaps = Annotated[
    bool, Field(description="whether tensors may cross the streams without their zeros, those that are shorter so")
]
ProgramDescriptors = Annotated[
    int,
    Field(
        ge=0, le=4096, description="descriptors that stay on the chip, so that a sample sends tensors alone; 0: none"
    ),
]  # fmt: skip
UltraMemories = Annotated[
    list[UltraRam],
    Field(description="memories that are UltraRAM instead of block memories"),
]  # fmt: skip


class FormatSection(Section):
    """Number format of the mantissas; keys beside ``profile`` override it."""

    profile: Literal["bfp8", "bfp16", "bfp16e5", "custom"] = Field(
        "custom", description="mantissa and exponent widths: bfp8 = 8 and 8, bfp16 = 16 and 8, bfp16e5 = 16 and 5"
    )
    mantissa_bits: int = Field(8, ge=4, le=18, description="bits of a mantissa, sign included")
    exponent_bits: int = Field(8, ge=4, le=16, description="bits of an exponent, sign included")
    rounding: Rounding = Field("rne", description="how bits are dropped; rne rounds to nearest, ties to even")
    saturation: Saturation = Field("sym", description="sym keeps -2^(n-1) out, full allows it, wrap drops high bits")
    log: LogMode = Field("floor", description="leading position from floor(log2) or ceil(log2)")


class ShiftSection(Section):
    """Words of shift units: weights that are powers of two or sums of two of them."""

    exp_width: int = Field(3, ge=1, le=4, description="bits of an exponent; a weight word has two exponents and signs")
    d: Annotated[int, Field(ge=0, le=15)] | Literal["auto"] = Field(
        "auto", description="extra left shift of the first term of a two-hot weight; auto: 1 up to exp_width 2, else 0"
    )
    zero_code: Literal["neg_min", "exp_max", "flag"] = Field("neg_min", description="which power of two means zero")
    base_log2: int = Field(1, ge=1, le=2, description="exponents count powers of 2 (1) or of 4 (2)")
    sign_mode: Literal["relative", "absolute"] = Field(
        "relative", description="sign of a two-hot weight's first term: relative to the second, or its own"
    )


class SystolicSection(Section):
    """One systolic array."""

    kind: Literal["systolic_array"] = Field(description="which engine this section describes")
    format: FormatSection = Field(description="number format of activations and weights")
    columns: int = Field(ge=1, le=128, description="output pixels computed at once")
    rows: int = Field(16, ge=2, le=64, description="output channels computed at once; a multiple of lanes")
    lanes: Literal[1, 2, 4] = Field(2, description="input channels multiplied at once in every tile")
    multiplier: Multiplier = Field(
        description="dsp: one product a DSP block; dsp_packed: two; dsp_quad: four, of 4-bit weights; shift: no DSP "
        "block"
    )
    shift_columns: int = Field(
        0, ge=0, le=128, description="columns of shift units in addition to `columns`; they work on two-hot weights"
    )
    shift: ShiftSection = Field(
        default_factory=lambda: ShiftSection.model_validate({}),
        description="words of the shift units, where there are any",
    )
    accumulator_bits: AccumulatorBits = Field(
        "auto", description="accumulator width; auto: 32 up to 8 mantissa bits, 48 above"
    )
    bias_bits: BiasBits = 18
    activation_words: ActivationWords = 4096
    weight_words: int = Field(4096, ge=16, le=65536, description="words of rows x lanes mantissas in the weight memory")
    parameter_rows: ParameterRows = 2048
    stream_bits: DataWidth = 64
    weight_stream_bits: WeightWidth = 64
    functions: Functions = Field(list(USUAL_FUNCTIONS))
    function_tables: FunctionTables = 0
    post_columns: PostColumns = 0
    static_exponents: StaticExponents = False
    position_bins: PositionBins = 0
    wide_words: WideWords = 0
    wide_memory: bool = Field(
        False, description="whether these flows may keep accumulators in activation memory and in the host's memory too"
    )
    positions: Literal["own", "stream"] = Field(
        "own",
        description="own: each core finds its exponents; stream: it may tell them to the next of several `cores`, and "
        "take them from the one before",
    )
    hop_columns: int = Field(0, ge=0, le=128, description="columns that share a copy of the weights; 0: all of them")
    row_columns: int = Field(
        0, ge=0, le=128,
        description="columns of the process of rows, for Softmax, normalizations, products of two tensors; 0: none",
    )  # fmt: skip
    operand_weights: bool = Field(
        False, description="whether tensors on the chip may become weights: products of two of them, as of attention"
    )
    residual_adds: bool = Field(
        False, description="whether a layer may add a tensor to its sums before they are rounded: residual connections"
    )
    count_registers: CountRegisters = 0
    compressed_maps: CompressedMaps = False
    program_descriptors: ProgramDescriptors = 0
    ultra_ram: UltraMemories = Field([])


#: Keys that a skip array of one source alone has, and what is said where they are given with the other one.
SOURCE_KEYS: dict[SkipSource, tuple[str, str]] = {
    "weights": ("groups", "is of `source: weights`; with activations each pixel of a pass has its own group"),
    "activations": ("passes", "is of `source: activations`; stored weights come with every pass"),
}
#: Keys of windows, which a tile has not.
WINDOW_KEYS = ("groups", "chunk", "queue", "passes", "dense_beside", "wide_words")


class SkipArraySection(Section):
    """A skip array, in the place of the systolic array: groups that each multiply by one number that is not zero."""

    kind: Literal["skip_array"] = Field(description="which engine this section describes")
    format: FormatSection = Field(description="number format of activations and weights, of 8 mantissa bits at most")
    source: SkipSource = Field(
        "weights", description="whose zeros take no time: weights, stored without them, or activations, as they come"
    )
    form: Literal["windows", "tile"] = Field(
        "windows",
        description="windows: groups multiply a weight each by all pixels of a pass; tile: one weight at a time meets "
        "all cells of a map, of source weights",
    )
    columns: int = Field(
        ge=2, le=128, description="half of the output pixels computed at once; of source weights an even number; of a "
        "tile the pixels that are read and leave at once"
    )  # fmt: skip
    tile: TileSize = Field(
        [36, 36],
        description="of a tile: rows and columns of sums of the largest map, kernel - 1 more than it has cells",
    )
    rows_parallel: int = Field(
        6, ge=1, le=256, description="of a tile: rows of sums computed at once, a multiple of kernel"
    )
    kernel: int = Field(3, ge=1, le=5, description="of a tile: rows, and columns, of the largest kernel")
    groups: int = Field(
        16, ge=1, le=64,
        description="of source weights: weights multiplied at once, each by all output pixels of a pass",
    )  # fmt: skip
    rows: Annotated[int, Field(ge=2, le=255)] | Literal["auto"] = Field(
        "auto",
        description="a multiple of lanes; of source weights output channels of one operation at most, auto: 128; of "
        "source activations those that each activation is multiplied for at once, of a tile those in flight, auto: 16",
    )
    lanes: Literal[1, 2, 4] = Field(4, description="input channels of a word of an activation memory")
    chunk: Literal[64, 128, 256] = Field(256, description="channels and taps of a window that groups hold at once")
    queue: Literal[16, 32, 64] = Field(32, description="weights, or words of activations, that wait for each group")
    passes: Literal[1, 2, 4, 8, 16, 32, 64] = Field(
        16, description="of source activations: passes of pixels for which the weights of a chunk stay"
    )
    dense_beside: bool = Field(
        False,
        description="of source activations: whether a systolic array of the same columns, rows and lanes is beside it, "
        "so that each layer takes the faster of both",
    )
    accumulator_bits: AccumulatorBits = Field(
        "auto", description="accumulator width; auto: 32"
    )
    bias_bits: BiasBits = 18
    activation_words: ActivationWords = 4096
    weight_words: int = Field(
        4096, ge=16, le=65536,
        description="words of the weight memory: of a weight and its place for each group, or of source activations of "
        "rows x lanes mantissas",
    )  # fmt: skip
    parameter_rows: ParameterRows = 2048
    stream_bits: DataWidth = 64
    weight_stream_bits: WeightWidth = 64
    functions: Functions = Field(list(USUAL_FUNCTIONS))
    function_tables: FunctionTables = 0
    post_columns: PostColumns = 0
    static_exponents: StaticExponents = False
    position_bins: PositionBins = 0
    wide_words: WideWords = 0
    count_registers: CountRegisters = 0
    compressed_maps: CompressedMaps = False
    program_descriptors: ProgramDescriptors = 0
    ultra_ram: UltraMemories = Field([])

    def refusals(self) -> list[tuple[str, str]]:
        """Keys that belong to another form or source: keys, and what is said of them."""
        given = self.model_fields_set
        if self.form == "tile":
            found = [(key, "is of `form: windows`; a tile has one weight at a time") for key in WINDOW_KEYS]
            if self.source != "weights":
                return [("form", "is tile, which is of `source: weights`: it multiplies zero activations too")]
        else:
            found = [(key, "is of `form: tile`") for key in ("tile", "rows_parallel", "kernel")]
            found += [SOURCE_KEYS[source] for source in SOURCE_KEYS if source != self.source]
        return [(key, text) for key, text in found if key in given]


class ClusterArraySection(Section):
    """A sparse cluster in the place of the systolic array: units with a piece of the map each, without zeros."""

    kind: Literal["sparse_cluster_array"] = Field(description="which engine this section describes")
    format: FormatSection = Field(description="number format of activations and weights, of 8 mantissa bits at most")
    variant: Literal["A", "B", "C", "D", "E"] = Field(
        "E",
        description="E: a value meets all weights of a kernel at once; A: all cells of a block meet one weight after "
        "the other, and sums move below them; B: several values meet one weight; C, D: half as many meet two, and of "
        "products for one bank of sums one waits; D first adds those of one cell",
    )
    products: int = Field(
        4, ge=1, le=25, description="lanes of a unit of variant B, C or D: values of a block times weights of a round"
    )
    form: Literal["overlap_add", "halo"] = Field(
        "overlap_add",
        description="overlap_add: pieces of a map share no cell, sums at their borders are added; halo: a piece has "
        "all cells that its outputs need, so several units compute with those at borders",
    )
    grid: GridSize = Field(
        [4, 4], description="rows and columns of pieces of a map: one unit for each piece, at most 32"
    )
    kernel: int = Field(
        3, ge=1, le=5, description="rows, and columns, of the largest kernel; a unit has kernel x kernel multipliers"
    )
    columns: int = Field(ge=1, le=64, description="output pixels that leave at once, and input pixels that are read so")
    rows: Literal[4, 8, 16, 32, 64] = Field(
        16, description="output channels in flight, which an activation meets in turn"
    )
    lanes: Literal[1, 2, 4] = Field(4, description="input channels of a word of an activation memory")
    unit_words: Literal[16, 32, 64, 128, 256] = Field(
        64, description="blocks of kernel x kernel sums that a unit holds for each channel in flight"
    )
    queue: Literal[16, 32, 64, 128, 256] = Field(64, description="words of activations that wait for each unit")
    map_lines: Literal[16, 32, 64, 128] = Field(
        64, description="rows, and columns, of the largest map of one operation"
    )
    map_blocks: Literal[16, 32, 64, 128, 256, 512, 1024, 2048] = Field(
        512, description="blocks of sums of the largest map of one operation"
    )
    threshold: int = Field(
        3, ge=0, le=100,
        description="largest difference of two pieces' work that is let be, in points of a piece's area",
    )
    moves: int = Field(256, ge=0, le=1023, description="most moves of a map's limits; 0: pieces of equal size")
    accumulator_bits: AccumulatorBits = Field(
        "auto", description="accumulator width; auto: 32"
    )
    bias_bits: BiasBits = 18
    activation_words: ActivationWords = 4096
    weight_words: int = Field(4096, ge=16, le=65536, description="words of rows x lanes mantissas in the weight memory")
    parameter_rows: ParameterRows = 2048
    stream_bits: DataWidth = 64
    weight_stream_bits: WeightWidth = 64
    functions: Functions = Field(list(USUAL_FUNCTIONS))
    function_tables: FunctionTables = 0
    post_columns: PostColumns = 0
    static_exponents: StaticExponents = False
    position_bins: PositionBins = 0
    count_registers: CountRegisters = 0
    compressed_maps: CompressedMaps = False
    program_descriptors: ProgramDescriptors = 0
    ultra_ram: UltraMemories = Field([])

    def refusals(self) -> list[tuple[str, str]]:
        """Values that are possible in models and not in a kernel: keys, and what would be right."""
        found = []
        if self.variant in ("A", "E") and "products" in self.model_fields_set:
            text = f"is {self.products}; belongs to variants B to D: one of {self.variant} has kernel x kernel products"
            found.append(("products", text))
        return found


EngineSection = Annotated[
    SystolicSection | SkipArraySection | ClusterArraySection,
    Field(discriminator="kind"),
]


class AcceleratorFile(Section):
    """An accelerator: a board, a clock and its array."""

    name: Name = Field(description="name of the accelerator: lower case letters, digits, underscores")
    description: str = Field("", max_length=400, description="what it is for, in one sentence")
    board: str = Field(min_length=1, description="name of a board (`bfpga boards`) or path of a board file")
    clock_mhz: float = Field(gt=0, le=1000, description="clock of the engines in MHz, within the board's range")
    first_light_mhz: float = Field(
        0, ge=0, le=1000, description="a slower clock, for the first start on a board, of NAME_first_light; 0: none"
    )
    cores: int = Field(
        1, ge=1, le=MOST_CORES,
        description="copies of the kernel in the overlay, each with DMA engines of its own; samples go to a free one",
    )  # fmt: skip
    demonstrator: bool = Field(
        False, description="shows an array and is there for no network: advise and estimate --faster leave it out"
    )
    engines: list[EngineSection] = Field(
        min_length=1,
        max_length=1,
        description="what computes: one systolic array, or one skip array or one sparse cluster in its place",
    )


class ResourceSection(Section):
    """What the programmable logic of the board's device holds."""

    dsp: int = Field(ge=0, le=100000, description="DSP blocks")
    bram36: int = Field(ge=0, le=100000, description="block memories of 36 Kbit")
    uram: int = Field(ge=0, le=100000, description="UltraRAM blocks of 288 Kbit")
    lut: int = Field(ge=0, le=100000000, description="6-input look-up tables")
    ff: int = Field(ge=0, le=100000000, description="flip-flops")


class PortSection(Section):
    """High-performance ports from the logic to the DDR memory."""

    count: int = Field(ge=1, le=16, description="number of ports")
    bits: Literal[32, 64, 128] = Field(description="data width of one port")


class MemorySection(Section):
    """The DDR memory of the processing system."""

    ddr_mib: int = Field(ge=1, le=1 << 20, description="size in MiB")
    peak_gb_s: float = Field(gt=0, le=1000, description="peak rate in GB/s (1e9 bytes)")
    assumed_gb_s: float = Field(gt=0, le=1000, description="rate the estimates use, in GB/s")
    assumption: str = Field(min_length=1, max_length=400, description="where the assumed rate comes from")


class ArmSection(Section):
    """The ARM cores that run Linux, and with it the operators left to the host."""

    count: int = Field(ge=1, le=64, description="number of cores")
    kind: str = Field(min_length=1, max_length=60, description="name of a core, such as Cortex-A9")
    clock_mhz: float = Field(gt=0, le=10000, description="clock of the cores in MHz")
    assumed_gflops: float = Field(gt=0, le=1000, description="float32 operations the estimates use, in 1e9 a second")
    assumed_call_us: float = Field(ge=0, le=1e6, description="microseconds the estimates add for each operator")
    assumption: str = Field(min_length=1, max_length=400, description="where the assumed figures come from")


class ClockSection(Section):
    """Clocks the estimates and the build accept, in MHz."""

    min: float = Field(gt=0, le=1000, description="slowest clock in MHz")
    max: float = Field(gt=0, le=1000, description="fastest clock in MHz")
    default: float = Field(gt=0, le=1000, description="a clock that is easy to meet, in MHz")


class BoardFile(Section):
    """A board is data: adding one means adding one file."""

    name: Name = Field(description="name of the board, equal to the file's name")
    title: str = Field(min_length=1, max_length=100, description="the vendor's name of the board")
    part: str = Field(min_length=1, max_length=60, description="device, package and speed grade")
    board_part: str = Field(min_length=1, max_length=100, description="board definition in Vivado")
    board_files_in_vivado: bool = Field(description="whether Vivado ships the board definition")
    board_files_source: str = Field("", max_length=200, description="where to get the board definition otherwise")
    processing_system: Literal["zynq7", "zynqmp"] = Field(description="Zynq-7000 or Zynq UltraScale+")
    dsp_kind: Dsp = Field(description="kind of DSP block")
    resources: ResourceSection = Field(description="what the device holds")
    high_performance_ports: PortSection = Field(description="ports to the DDR memory")
    memory: MemorySection = Field(description="the DDR memory")
    arm_cores: ArmSection | None = Field(
        None, description="the ARM cores; without them estimates do not tell the time of the host's operators"
    )
    clock_mhz: ClockSection = Field(description="clock range")
    pynq_images: list[str] = Field(description="PYNQ image versions known for the board")


def json_schema() -> dict[str, Any]:
    """JSON schema of an accelerator file, for editors (`bfpga schema`)."""
    schema = AcceleratorFile.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "bfpga accelerator",
    }
