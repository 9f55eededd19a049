"""Hypothesis strategies shared by the tests."""

from __future__ import annotations

from hypothesis import strategies as st

from bfpga.formats.block_format import BlockFormat

#: Every block format: any width, rounding, saturation and logarithm mode.
FORMATS = st.builds(
    BlockFormat,
    mantissa_bits=st.integers(4, 18),
    exponent_bits=st.integers(4, 12),
    rounding=st.sampled_from(["trunc", "tozero", "half_up", "half_away", "rne"]),
    saturation=st.sampled_from(["sym", "full", "wrap"]),
    log=st.sampled_from(["floor", "ceil"]),
)
