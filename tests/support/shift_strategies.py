"""Random formats of the shift multiplier."""

from __future__ import annotations

from typing import get_args

from hypothesis import strategies as st

from bfpga.formats.shift_format import ShiftFormat, SignMode, ZeroCode, ZeroScope


@st.composite
def shift_formats(draw: st.DrawFn) -> ShiftFormat:
    """Any format that is allowed."""
    signed = draw(st.booleans())
    codes = [code for code in get_args(ZeroCode) if signed or code != "neg_min"]
    return ShiftFormat(
        x_width=draw(st.integers(2, 16)),
        x_signed=draw(st.booleans()),
        exp_width=draw(st.integers(1, 4)),
        d=draw(st.integers(0, 15)),
        base_log2=draw(st.integers(1, 2)),
        zero_code=draw(st.sampled_from(codes)),
        sign_mode=draw(st.sampled_from(get_args(SignMode))),
        weight_signed=signed,
        zero_scope=draw(st.sampled_from(get_args(ZeroScope))),
    )
