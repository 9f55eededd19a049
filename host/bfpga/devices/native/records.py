"""The structures of ``records.hpp``: what a run of layers is described with."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_int32, c_int64, c_void_p
from typing import Any

from bfpga.formats.block_format import BlockFormat, Rounding

#: Codes of the C++ side.
KINDS = {"gemm": 0, "max": 1, "sum": 2, "product": 3, "scale": 4, "rows": 5}
ROUNDINGS: dict[Rounding, int] = {"trunc": 0, "tozero": 1, "half_up": 2, "half_away": 3, "rne": 4}
UNITS = {"accumulator": 0, "table": 1, "finer": 2}
HOLDS = {"value": 0, "below_relu": 1, "above_relu": 2}
SYMMETRIES = {"none": 0, "even": 1, "odd": 2}
#: Names of ``contract/rows.py`` that C++ reads, in its order.
ROW_NUMBERS = (
    "position", "scale_bits", "normal_fraction", "mean_fraction", "inverse_bits", "variance_fraction", "share_bits",
    "power_index", "power_bits", "sum_fraction", "kept_fraction", "root_index", "root_bits", "log2_e_fraction",
    "dropped", "result_bits", "factor_position", "least_position",
)  # fmt: skip
#: A policy besides those of the descriptor: the exponent of the accumulators.
INHERIT = 5
#: What a run returns.
ENTERED, NOT_FINITE, BEYOND_FLOAT, NO_MEMORY = 0, 1, 2, -1


def _fields(names: str, kind: Any = c_int32) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


class FormatRecord(Structure):
    """Numbers of the array's format."""

    _fields_ = _fields(
        "mantissa_bits mantissa_min mantissa_max exponent_min exponent_max rounding wrap ceil accumulator_bits bins"
    )


class TensorRecord(Structure):
    """An activation tensor with zeros around it."""

    _fields_ = _fields("height width channels top left bottom right known exponent nonnegative")


class LayerRecord(Structure):
    """A layer; pointers are to arrays that live as long as the plan."""

    _fields_ = [
        *_fields(
            "kind first second output channels channel_offset groups "
            "kernel_height kernel_width stride_y stride_x pad_top pad_left dilation_y dilation_x "
            "output_height output_width spread_y first_y first_x negate_second adds_second "
            "function argument function_exponent function_first unit limit holds symmetry fraction_bits "
            "policy exponent rule rate margin base row_step row_offset block_count tile_count columns bias_exponent "
            "by_pixels terms first_input first_weight first_pixel "
            "row_operation row_exponent row_magnitude row_inverse row_epsilon row_epsilon_exponent"
        ),
        *_fields("weights row_exponents bias points blocks tiles gains", c_void_p),
    ]


class RowNumbersRecord(Structure):
    """Numbers and tables of the process of rows."""

    _fields_ = [*_fields(" ".join(ROW_NUMBERS) + " log2_e reserved"), *_fields("power reciprocal root", c_void_p)]


class SegmentRecord(Structure):
    """Layers that run one after the other."""

    _fields_ = [
        ("format", FormatRecord),
        *_fields("tensor_count layer_count chunk learns table_steps grid_bits table_exponent reserved"),
        ("rows", RowNumbersRecord),
        ("tensors", POINTER(TensorRecord)),
        ("layers", POINTER(LayerRecord)),
    ]


class PortRecord(Structure):
    """Where a tensor enters or leaves."""

    _fields_ = [
        *_fields("values mantissas exponents factors", c_void_p),
        ("sample_stride", c_int64),
        *_fields("stride_y stride_x stride_c find"),
    ]


class CounterRecord(Structure):
    """What the output stage of a layer counted."""

    _fields_ = [
        *_fields("overflows underflows saturated_samples most_saturated", c_int64),
        *_fields("status reserved"),
    ]


#: In the order of ``bfpga_native_sizes``.
RECORDS = (FormatRecord, TensorRecord, LayerRecord, RowNumbersRecord, SegmentRecord, PortRecord, CounterRecord)
Choose = ctypes.CFUNCTYPE(c_int32, c_int32, c_int32, c_int32, POINTER(c_int32))
Learn = ctypes.CFUNCTYPE(c_int32, c_int32, c_int32, c_int32, c_int32, c_int64, POINTER(c_int64), c_int64)


def format_record(fmt: BlockFormat, accumulator_bits: int = 0, bins: int = 0) -> FormatRecord:
    """A format as C++ takes it. accumulator_bits, bins: what layers need besides."""
    return FormatRecord(
        fmt.mantissa_bits, fmt.mantissa_min, fmt.mantissa_max, fmt.exponent_min, fmt.exponent_max,
        ROUNDINGS[fmt.rounding], fmt.saturation == "wrap", fmt.log == "ceil", accumulator_bits, bins,
    )  # fmt: skip
