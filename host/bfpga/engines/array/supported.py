"""Operations of networks that a kernel computes (SC R14); the host computes the rest."""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig

#: What every kernel computes.
ALWAYS = (
    "convolution", "fully connected", "average pooling", "max pooling", "addition", "subtraction", "copy",
)  # fmt: skip
#: What needs weights that a start may replace.
PRODUCTS = "product of activations"


def supported(config: SystolicConfig) -> tuple[str, ...]:
    """The operations of a kernel; stored entries and the steps of a cluster come from weights that are known."""
    return ALWAYS if config.skips_weights or config.has_cluster else (*ALWAYS, PRODUCTS)
