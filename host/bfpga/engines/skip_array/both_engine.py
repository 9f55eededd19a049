"""The behaviour of a skip array of activations in parallel with a systolic array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bfpga.contract.arrays.skip_array import SKIP_ARRAY
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.process_stream import ARRAY
from bfpga.engines.interface.finding import Finding
from bfpga.engines.interface.resource_units import Resources
from bfpga.engines.skip_array.activation_engine import ActivationEngine
from bfpga.engines.skip_array.resources import skip_resources
from bfpga.engines.systolic.constraints import multiplier_findings
from bfpga.engines.systolic.resources import array_dsp


class BothEngine(ActivationEngine):
    """Each GEMM says which array computes it (``two_arrays.py``)."""

    def findings(self, config: KernelConfig) -> Iterator[Finding]:
        yield from super().findings(config)
        yield from multiplier_findings(config)

    def multiplier_dsp(self, config: KernelConfig) -> int:
        return array_dsp(config)

    def parts(self, config: KernelConfig, dense: Resources) -> Mapping[str, Resources]:
        return {ARRAY: dense + Resources(dsp=array_dsp(config)), SKIP_ARRAY: skip_resources(config)}


ENGINE = BothEngine()
