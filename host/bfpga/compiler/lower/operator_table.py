"""Where every ONNX operator is computed: the table of docs/operators.md, from what the compiler knows."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx.defs

from bfpga.compiler.lower import placement as place
from bfpga.compiler.lower.expand import DEFINITIONS, RULES
from bfpga.compiler.lower.functions import OPERATORS as FUNCTIONS
from bfpga.compiler.lower.lowering import pattern_operators
from bfpga.compiler.lower.recurrent import GATES
from bfpga.compiler.read.opsets import OPSETS
from bfpga.compiler.read.quantized import OPERATORS
from bfpga.contract.functions import Function

#: A kernel writes whole runs of pixels.
APART = "results between each other along a row are the host's"
OF_ROWS = "with a process of rows (key `row_columns`), over the channels of each pixel, up to 1,024"
OF_MASKS = "with a process of rows and calibration samples"
#: What makes an operator a layer, and when. Every operator that lowering has a pattern for is here.
CONDITIONS = {
    "Add": "two computed values of one shape; or a constant for each channel, which goes into the layer before; "
    f"or a constant mask in front of a Softmax, {OF_MASKS}",
    "Attention": "with a process of rows and weights from activations (key `operand_weights`), calibration samples: as "
    "its definition says; constant masks, any heads; without keys and values of before",
    "AveragePool": "over 1 or 2 axes; windows at the border may average fewer pixels",
    "BatchNormalization": "with constants: goes into the layer before, or a factor for each channel",
    "Celu": "as its definition says: a factor, elu, a factor",
    "Concat": "along channels in whole words, rows or columns: layers write their part, nothing is copied; at the end "
    "of a network along any axis: the host unpacks so; channels within words in front of convolutions, as a sum; parts "
    "of one value's channels, some negated, as a grouped convolution",
    "Conv": "over 1, 2 or 3 axes, any groups, dilation, stride and padding; constant weights",
    "ConvTranspose": "over 1 or 2 axes: a convolution for each phase of the stride, pixels written between each other; "
    "along a row channels that the host rearranges, if the width is a multiple of the stride",
    "DepthToSpace": "adjacent layers read in its order, at the end of a network the host unpacks so, or the host "
    "rearranges",
    "Div": "by a constant for each channel",
    "Expand": "in front of products of two computed tensors, which read what is repeated where it is",
    "GRU": "products, functions and gates step by step, up to 128 steps",
    "Gather": "as Slice, with constant indices at even distances",
    "Gemm": "constant second operand, transposed or not, alpha and beta",
    "GlobalAveragePool": "over 1 or 2 axes",
    "GlobalMaxPool": "over 1 or 2 axes",
    "HardSigmoid": "as a clip after a factor and an offset where the function unit lacks it",
    "LSTM": "products, functions and gates step by step, up to 128 steps",
    "LayerNormalization": f"{OF_ROWS}; constant scale and shift; also written in parts",
    "LeakyRelu": "any slope up to 1; powers of two by the function unit, others as a sum of two layers",
    "LpNormalization": f"of order 2, {OF_ROWS}",
    "MatMul": "with a constant matrix on either side; products of two computed values with the same leading axes",
    "MaxPool": "over 1 or 2 axes, without positions",
    "MeanVarianceNormalization": "with a process of rows (key `row_columns`), over the channels of each pixel",
    "Mul": "by a constant for each channel, which goes into the layer before; or by a computed factor for each "
    "channel; or, where there is a process of rows, two computed values of one shape, or one of them a map with one "
    "channel",
    "PRelu": "slopes up to 1, one or one a channel: a sum of two layers",
    "Pad": "zeros around images in front of convolutions: becomes their padding",
    "RMSNormalization": f"{OF_ROWS}; constant scale; also written in parts",
    "RNN": "tanh, up to 128 steps; all of it",
    "ReduceMax": "over rows, columns or both; over channels as a pooling of channels that are copied below each other",
    "ReduceMean": "over rows, columns or both, channels in addition or alone",
    "ReduceSum": "over rows, columns or both, channels in addition or alone",
    "Resize": "by ratios of integers, nearest, linear or cubic, if its pixels are few different sums of the input's; "
    f"{APART}",
    "RotaryEmbedding": "with a process of rows: two products with constants, and a grouped convolution that turns "
    "pairs; constant angles, the same for all samples",
    "Slice": "rows, columns and channels at even distances",
    "Softmax": f"{OF_ROWS}; also written in parts",
    "SpaceToDepth": "a convolution that selects; of a network's input the host packs so",
    "Split": "as Slice",
    "Where": f"a constant mask in front of a Softmax; {OF_MASKS}",
    "Sub": "two computed values of one shape, or a constant for each channel",
}
#: Operators that only rearrange: where adjacent layers can follow, nothing is moved.
REARRANGED = (
    "adjacent layers read or write in its order, at the ends of a network the host packs or unpacks so, layers copy "
    "whole pixels, or the host rearranges"
)


def array_operators() -> set[str]:
    """Operators of which the array computes at least a part, rearrangements excepted."""
    return {*pattern_operators(), *RULES, *DEFINITIONS, *GATES, *FUNCTIONS}


def _functions(kind: str) -> str:
    names = [function.key for function in Function if kind in function.row.operators]
    return "function unit: " + ", ".join(names) if names else ""


def host_operators() -> list[str]:
    """Standard operators that only the host computes, at the newest opset that is read."""
    names = {
        schema.name
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.domain == "" and schema.since_version <= OPSETS[1] and not schema.deprecated
    }
    return sorted(names - array_operators() - set(place.VIEWS) - quantized_operators())


def quantized_operators() -> set[str]:
    """Standard operators of quantized networks, which are read as the float networks that they represent."""
    names = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""}
    return {name for name in names if name in OPERATORS or name.startswith("QLinear")}


def operator_rows() -> Iterator[tuple[str, str, str]]:
    """(operator or operators, where they run, how and when): the array's, the host's, quantized ones."""
    for kind in sorted(array_operators() | set(place.VIEWS)):
        parts = [text for text in (CONDITIONS.get(kind, ""), _functions(kind)) if text]
        if kind in place.VIEWS:
            parts.append(REARRANGED)
        yield kind, "array", "; ".join(parts)
    statistics = [name for name in host_operators() if name in place.STATISTICS]
    yield ", ".join(statistics), "host", place.NO_QUOTIENTS
    others = [name for name in host_operators() if name not in statistics]
    yield ", ".join(others), "host", "the array has no operation for them"
    yield ", ".join(sorted(quantized_operators())), "as in float", "become the float operators that they represent"


def operator_table() -> str:
    """The table in Markdown, without a line end."""
    lines = ["| operator | computed by | how, and when |", "|---|---|---|"]
    return "\n".join(lines + [f"| {name} | {where} | {how} |" for name, where, how in operator_rows()])
