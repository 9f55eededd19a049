"""What a compiled network is: logical nodes (the mathematics) and steps (the schedule a kernel executes).

The emulator computes the nodes; a kernel executes the operations of the steps. Both must give the same bits.
Only the standard library and numpy are imported here: a board loads programs with this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

from bfpga.contract.configuration import KernelConfig, WeightFormat
from bfpga.contract.descriptor import Descriptor, Function, LeadRule, Policy
from bfpga.contract.flows import Flow, Sample
from bfpga.contract.rows import RowWork
from bfpga.formats.arrays import IntArray
from bfpga.formats.late import late
from bfpga.formats.notebook import clipped, count_text, values_text

#: Signal to noise without any error.
EXACT_DB = 200.0


@dataclass
class BlockTensor:
    """Activations in block floating point: one exponent per sample (shape `whole`).

    mantissa: (samples, height, width, channels) integers; exponent: (samples,) int32.
    """

    mantissa: IntArray
    exponent: IntArray


@dataclass
class PolicySpec:
    """How one tensor's exponent is chosen; ``exponent`` is the static value or the preset."""

    policy: Policy = Policy.STATIC
    exponent: int = 0
    slot: int = 0
    window: int = 0
    factor: int = 12
    preset: bool = False
    #: MAX pooling and plain copies keep their input's exponent.
    inherit: bool = False
    #: How measured results become an exponent (docs/kernel-positions.md).
    rule: LeadRule = LeadRule.LEAD
    rate: int = 12
    margin: int = 0
    #: Bin 0 of the collector's histogram, from the exponent of the accumulators.
    base: int = 0
    #: How MAX measures: a pass of all or a sample of the results, which may keep them.
    flow: Flow = "two_pass"
    sample_period: int = 1
    sample_offset: int = 0
    #: What the measuring pass looks at; None: everything. Filled in by the schedule.
    sample: Sample | None = None


@dataclass(frozen=True)
class FoldedColumns:
    """Columns of an image stored as channels of one pixel: the ``taps`` that an output column of its reader covers.

    width, channels: of the image itself. Pixel (y, x) holds its columns x * stride - pad + k * dilation, k = 0, 1, ...;
    columns outside the image are zero.
    """

    width: int
    channels: int
    taps: int
    stride: int
    pad: int
    dilation: int


@dataclass
class TensorSpec:
    """An activation tensor that lives in BFP: (height, width, channels) of one sample."""

    name: str
    height: int
    width: int
    channels: int
    #: For tensors that enter from the host: how they are encoded. None: exponent of the sample's maximum.
    input_exponent: int | None = None
    #: Shape of the ONNX value (without the batch axis) and the order of its axes in memory: the array's tensor is
    #: ``x.transpose(axes)`` (batch axis kept in front) reshaped to (height, width, channels).
    onnx_shape: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()
    #: Channel c is scaled by 2**channel_shift[c], a whole number where the host reads or writes the tensor; empty:
    #: no channel is shifted.
    channel_shift: tuple[float, ...] = ()
    #: The second half of the channels holds what rounding took from the first, times 2**remainder; 0: all channels hold
    #: values of their own. Only of tensors that enter from the host, and whose channels are not shifted.
    remainder: int = 0
    #: The float network's values times this are stored; not 1 only of tensors that stay on the array.
    factor: float = 1.0
    #: Of tensors that enter from the host: width and channels are those of the folded image.
    folded: FoldedColumns | None = None
    #: Mantissas (height, width, channels) of a tensor that nothing computes: every sample has these, with
    #: ``input_exponent``.
    constant: IntArray | None = None
    #: Where parts of an axis are apart in memory (blocks of pixels): another shape of the value, whose axes' order
    #: ``axes`` is then; empty: it is that of ``onnx_shape``.
    split: tuple[int, ...] = ()

    @property
    def parts(self) -> int:
        """Adjacent channels that hold one value of the network together; more than 1 only on the array."""
        values = prod(self.onnx_shape)
        whole = self.remainder == 0 and self.folded is None and self.onnx_shape != ()
        return self.height * self.width * self.channels // values if whole and values else 1


@dataclass
class Window:
    """Geometry of convolution and pooling.

    A negative padding leaves out the first rows or columns of the input. Output pixel (y, x) is pixel (first_y +
    spread_y * y, first_x + x) of the tensor: layers that share one may interleave their rows.
    """

    kernel_height: int = 1
    kernel_width: int = 1
    stride_y: int = 1
    stride_x: int = 1
    pad_top: int = 0
    pad_left: int = 0
    dilation_y: int = 1
    dilation_x: int = 1
    output_height: int = 1
    output_width: int = 1
    spread_y: int = 1
    first_y: int = 0
    first_x: int = 0

    @property
    def spread(self) -> bool:
        """Whether the output pixels are not all neighbours, or not the first ones of their tensor."""
        return (self.spread_y, self.first_y, self.first_x) != (1, 0, 0)

    def tensor_rows(self, y0: int, y1: int) -> tuple[int, int]:
        """Rows [first, last) of the tensor that hold output rows [y0, y1)."""
        return self.first_y + y0 * self.spread_y, self.first_y + (y1 - 1) * self.spread_y + 1

    def input_rows(self, height: int, y0: int, y1: int) -> tuple[int, int]:
        """Rows [first, last) of an input of ``height`` rows that output rows [y0, y1) read, at least one."""
        first = y0 * self.stride_y - self.pad_top
        last = (y1 - 1) * self.stride_y - self.pad_top + (self.kernel_height - 1) * self.dilation_y + 1
        first = min(max(first, 0), height - 1)
        return first, max(min(last, height), first + 1)

    def pixels_of(self, y0: int, y1: int, step: int, x0: int, x1: int) -> tuple[slice, slice]:
        """Rows and columns of the tensor that rows y0, y0 + step, ... and columns [x0, x1) of the output are."""
        rows = slice(self.first_y + y0 * self.spread_y, self.first_y + (y1 - 1) * self.spread_y + 1,
                     step * self.spread_y)  # fmt: skip
        return rows, slice(self.first_x + x0, self.first_x + x1)


@dataclass
class Tile:
    """The part of a node that one descriptor computes: output rows [y0, y1), output channels [m0, m1).

    x0, x1: its output columns, on a skip array; 0, 0: all of them.
    step: rows y0, y0 + step, ... alone.
    """

    y0: int
    y1: int
    m0: int
    m1: int
    x0: int = 0
    x1: int = 0
    step: int = 1

    @property
    def rows(self) -> int:
        """Output rows of the part."""
        return len(range(self.y0, self.y1, self.step))

    def columns(self, width: int) -> tuple[int, int]:
        """Output columns [x0, x1) of the part; width: of the node's output."""
        return (self.x0, self.x1) if self.x1 else (0, width)


@dataclass
class FormatFigures:
    """What a format of its weights costs a layer.

    weight_snr_db: weights over their rounding errors; sum_snr_db: the layer's sums over their errors on samples, None
    where none were measured (``EXACT_DB``: no error). cycles: cycles of the array's passes for one sample.
    """

    weight_format: WeightFormat
    weight_snr_db: float
    sum_snr_db: float | None
    cycles: int


@dataclass(frozen=True)
class OperandWeights:
    """How the second tensor of a product becomes the weights: out[pixel, m] = sum of first[pixel, t] * second, over t.

    by_pixels: output channel m is pixel m of the second tensor, term t its channel ``first_weight`` + t (scores of
    attention); otherwise m is its channel ``first_weight`` + m, and t its pixel t (values). The first tensor's channel
    of term t is ``first_input`` + t. first_pixel: the pixel of the second tensor, in the order of memory, that is the
    first one; as many as there are output channels or terms follow each other.
    """

    by_pixels: bool
    terms: int
    first_input: int = 0
    first_weight: int = 0
    first_pixel: int = 0


@dataclass
class ArrayNode:
    """One layer on the kernel.

    kind: `gemm` (convolution, fully connected, average pooling), `max`, `sum` (add, subtract, copy), `rows`.
    weights: (output channels, kernel_height, kernel_width, input channels / groups) mantissas, symmetric range.
    weight_exponents: (output channels,); bias: (output channels,) mantissas of ``bias_bits``, one ``bias_exponent``.
    The output covers channels [channel_offset, channel_offset + channels) of the tensor ``output`` (concatenation), and
    those of its pixels that the window selects.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    output: str
    channels: int
    window: Window = field(default_factory=Window)
    channel_offset: int = 0
    groups: int = 1
    weights: IntArray | None = None
    weight_exponents: IntArray | None = None
    bias: IntArray | None = None
    bias_exponent: int = 0
    function: Function = Function.NONE
    function_argument: int = 0
    function_exponent: int = 0
    function_first: bool = False
    negate_second: bool = False
    policy: PolicySpec = field(default_factory=PolicySpec)
    #: How the hardware holds the weights; their values are the integers above in any case (SM 2.3).
    weight_format: WeightFormat = "linear"
    #: The formats that the array offered for the weights, and why it is this one (SM R37).
    weight_choices: list[FormatFigures] = field(default_factory=list)
    weight_reason: str = ""
    #: Cycles of the flows between which the compiler chose (FP R36); empty without a choice.
    flow_clocks: dict[str, int] = field(default_factory=dict)
    #: Of arrays that skip zero activations: share of the input's elements that are not zero, measured on calibration
    #: samples.
    input_density: float | None = None
    #: Of a skip array of activations: what its passes take of the cycles of products without a zero, measured too.
    input_share: float = 1.0
    #: Of a sparse cluster: pieces of its grid, down and across, that are one; its units take the values in turn.
    joined_pieces: tuple[int, int] = (1, 1)
    #: Whether its maps are counted, so that their pieces get equal work; those of others are of equal size.
    counts_maps: bool = True
    #: True when every tap and row block uses the same weight words (average pooling).
    uniform_weights: bool = False
    #: Whether a column takes the taps next to the middle one from adjacent columns (engines/systolic/tap_reuse.py).
    reuses_taps: bool = False
    #: Order in which the schedule computes the node; statistics policies see the results in this order.
    tiles: list[Tile] = field(default_factory=list)
    #: Multiply-accumulates of one sample that the network needs (not those the array spends).
    macs: int = 0
    #: Value that gives one factor for each channel at run time; the weights above are zeros then, which every start
    #: replaces. Empty: the weights are constants.
    factors: str = ""
    #: Of kind `rows`: what the process of rows does.
    rows: RowWork | None = None
    #: Of kind `gemm` with two inputs: how the second becomes the weights, in place of ``weights``.
    operand: OperandWeights | None = None
    #: Of kind `gemm` with two inputs: whether the second is added to the sums, before the bias (docs/kernel.md).
    adds_second: bool = False

    def unscheduled(self) -> ArrayNode:
        """A copy that a schedule may fill in: policy, tiles and cycles of flows are its own."""
        return replace(self, policy=replace(self.policy), tiles=[], flow_clocks={})

    def covers(self, spec: TensorSpec) -> bool:
        """Whether the layer gives all of its tensor."""
        window = self.window
        size = (window.output_height, window.output_width, self.channels)
        return not window.spread and size == (spec.height, spec.width, spec.channels)


@dataclass
class MatMulNode:
    """A product of two activations (attention): out[b] = a[b] @ b[b] for each leading index.

    Tensors are (samples, batch, rows, inner) and (samples, batch, inner, columns) on the host's side; the second
    operand becomes the weights of the array.
    """

    name: str
    inputs: tuple[str, str]
    output: str
    batch: int
    rows: int
    inner: int
    columns: int
    policy: PolicySpec = field(default_factory=PolicySpec)
    macs: int = 0


@dataclass
class HostNode:
    """Operators left to the host, as one ONNX model run by ONNX Runtime; tensors cross as float32 in ONNX layout."""

    name: str
    model: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operators: tuple[str, ...] = ()
    flops: int = 0


Node = ArrayNode | MatMulNode | HostNode


def values_read(node: Node) -> tuple[str, ...]:
    """All values that a node needs, factors that become weights included."""
    return (*node.inputs, node.factors) if isinstance(node, ArrayNode) and node.factors else node.inputs


def own_weights(node: Node) -> bool:
    """Whether each sample brings weights of its own to a node: samples cannot share a start then."""
    return isinstance(node, MatMulNode) or (isinstance(node, ArrayNode) and node.factors != "")


@dataclass
class Transfer:
    """Rows [y0, y1) of a tensor that an operation loads from or stores to the host.

    share: of a tensor that is sent without its zeros, its beats by those with them, on calibration samples.
    """

    tensor: str
    y0: int
    y1: int
    share: float = 1.0


@dataclass
class MemoryUse:
    """Words of all activation memories that an operation reads and writes: ranges [first, last)."""

    reads: tuple[tuple[int, int], ...] = ()
    writes: tuple[tuple[int, int], ...] = ()


@dataclass
class KernelOperation:
    """One descriptor with what it needs from outside; ``weights`` are its bytes on the weight stream."""

    layer: str
    descriptor: Descriptor
    transfer: Transfer | None = None
    weights: bytes = b""
    #: Run only while the policy slot of its layer is unused (the measuring pass of a predicting policy, BFP R38).
    first_only: bool = False
    #: What decides which operations may overlap; None: anything, so that none does.
    memory: MemoryUse | None = None
    #: Output channels whose weights a WEIGHTS operation brings, where those are ``ArrayNode.factors``.
    channels: tuple[int, int] | None = None


@dataclass
class LaunchStep:
    """One kernel start: operations in order. Input and output packets follow from their transfers.

    ahead: the operation before which the loads that the next sample of the start begins with are sent; 0: after all.
    """

    operations: list[KernelOperation]
    ahead: int = 0


@dataclass
class HostStep:
    """Run ``nodes[node]`` (a HostNode) on the host."""

    node: int


@dataclass
class MatMulStep:
    """Run ``nodes[node]`` (a MatMulNode): one kernel start per matrix; the runtime packs the second operand.

    operations: LOAD, WEIGHTS (its bytes filled at run time), GEMM, STORE of one matrix.
    """

    node: int
    operations: list[KernelOperation]


Step = LaunchStep | HostStep | MatMulStep


@dataclass(frozen=True)
class Joined:
    """An output that the host puts together as it unpacks values, one behind the other along an axis (batch left out).

    parts: names of tensors, or of other values that are joined.
    """

    axis: int
    parts: tuple[str, ...]


def unpacked(outputs: Iterable[str], joined: Mapping[str, Joined]) -> list[str]:
    """The values that outputs are put together of; those that are none of several are themselves."""
    found: list[str] = []
    for name in outputs:
        found += unpacked(joined[name].parts, joined) if name in joined else [name]
    return found


@dataclass(repr=False)
class Program:
    """A compiled network for one accelerator. ``summary`` is its table of layers, ``save`` writes its file."""

    name: str
    accelerator: str
    digest: str
    config: KernelConfig
    clock_mhz: float
    tensors: dict[str, TensorSpec]
    nodes: list[Node]
    #: Run once after loading: resident weights.
    setup: LaunchStep
    steps: list[Step]
    #: ONNX names and shapes (without batch) at the network's edge.
    inputs: dict[str, tuple[int, ...]]
    outputs: dict[str, tuple[int, ...]]
    notes: list[str] = field(default_factory=list)
    #: Samples of the user that make one sample of the program: rows of its matrices.
    side_by_side: int = 1
    #: Bit n: register n holds more than its threshold for most samples; estimates count the operations that run then.
    choices: int = 0
    #: Smallest and largest value of each input in the samples that calibrated; without any, none are known.
    input_ranges: dict[str, tuple[float, ...]] = field(default_factory=dict)
    #: Outputs that are of several values, and such parts of them.
    joined: dict[str, Joined] = field(default_factory=dict)

    @property
    def leaving(self) -> list[str]:
        """The values that leave: outputs, or what the host puts them together of."""
        return unpacked(self.outputs, self.joined)

    def __repr__(self) -> str:
        macs = sum(node.macs for node in self.nodes if not isinstance(node, HostNode))
        name, accelerator = clipped(self.name), clipped(self.accelerator)
        layers = f"{len(self.nodes)} layer{'s' if len(self.nodes) != 1 else ''}, {count_text(macs)} MAC"
        edge = f"{values_text('input', self.inputs)} -> {values_text('output', self.outputs)}"
        return f"Program({name} for {accelerator}: {layers}; {edge})"

    def summary(self) -> str:
        """The table of layers, cycles and memory that `bfpga compile` prints."""
        return str(late("bfpga.program.listing", "listing")(self)).rstrip()

    def save(self, path: str | Path) -> Path:
        """Write the program file, complete or not at all; ProgramError for a place that cannot be written."""
        late("bfpga.program.file", "save_program")(self, path)
        return Path(path)

    def _repr_html_(self) -> str:
        return str(late("bfpga.program.listing", "html_listing")(self))
