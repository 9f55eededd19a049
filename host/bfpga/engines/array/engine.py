"""The systolic array: the engine that every kernel has, for all layers."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.engine_numbers import ARRAY
from bfpga.engines.array.constraints import findings
from bfpga.engines.array.cycles import ARRAY_OPERATIONS
from bfpga.engines.array.resources import resources
from bfpga.engines.interface.engine import CandidateLayer, Engine, ImageShape


def refusals(layer: CandidateLayer, spec: ImageShape, config: SystolicConfig) -> Iterator[str]:
    """None: what the array cannot compute never becomes a layer of the kernel."""
    return iter(())


SYSTOLIC_ARRAY = Engine(
    name=ARRAY,
    title="array",
    colour="#0072b2",
    operations=ARRAY_OPERATIONS,
    supported=(
        "convolution", "fully connected", "average pooling", "max pooling", "addition", "subtraction", "copy",
        "product of activations",
    ),
    skips="nothing",
    refusals=refusals,
    findings=findings,
    resources=resources,
)  # fmt: skip
