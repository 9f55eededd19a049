"""Operations of networks that a kernel computes (SC R14); the host computes the rest."""

from __future__ import annotations

from bfpga.contract.configuration import KernelConfig

#: What every kernel computes.
ALWAYS = (
    "convolution", "fully connected", "average pooling", "max pooling", "addition", "subtraction", "copy",
)  # fmt: skip
PRODUCTS = "product of activations"


def computes_weights(config: KernelConfig) -> bool:
    """Whether weights may be made at run time: stored entries and steps of a cluster come from weights that are known.

    Nor are they words of shift units.
    """
    return "linear" in config.weight_formats and not (config.array.stores_entries or config.array.reads_maps)


def supported(config: KernelConfig) -> tuple[str, ...]:
    """The operations of a kernel."""
    return (*ALWAYS, PRODUCTS) if computes_weights(config) else ALWAYS
