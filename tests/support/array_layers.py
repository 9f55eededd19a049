"""Layers and programs by hand for tests of the emulator, and a kernel of plain Python integers behind its interface."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from reference_array import ReferenceKernel

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Policy
from bfpga.contract.program import (
    ArrayNode,
    BlockTensor,
    KernelOperation,
    LaunchStep,
    PolicySpec,
    Program,
    TensorSpec,
    Window,
)
from bfpga.devices.kernel_start import KernelResult
from bfpga.formats.block_format import BlockFormat

#: Wide mantissas show accumulators unchanged.
WIDE = KernelConfig(format=BlockFormat(mantissa_bits=16), columns=3, rows=4, accumulator_bits=48)


def static(exponent: int = 0) -> PolicySpec:
    return PolicySpec(Policy.STATIC, exponent)


def gemm(weights: Any, window: Window | None = None, **fields: Any) -> ArrayNode:
    """A layer with weights (channels, kernel_height, kernel_width, inputs / groups) or (channels, inputs)."""
    array = np.asarray(weights, np.int32)
    if array.ndim == 2:
        array = array[:, None, None, :]
    defaults: dict[str, Any] = {
        "name": "layer", "inputs": ("x",), "output": "y", "weight_exponents": np.zeros(len(array), np.int32),
        "policy": static(),
    }  # fmt: skip
    return ArrayNode(
        kind="gemm", channels=len(array), window=window or Window(), weights=array, **{**defaults, **fields}
    )


def chain(config: KernelConfig, tensors: Sequence[TensorSpec], nodes: Sequence[ArrayNode]) -> Program:
    """A program without a schedule: the first tensor enters, the last leaves."""
    specs = {spec.name: spec for spec in tensors}
    first, last = tensors[0], tensors[-1]
    return Program(
        "chain", "tests", "0" * 64, config, 100.0, specs, list(nodes), LaunchStep([]), [],
        {first.name: first.onnx_shape}, {last.name: last.onnx_shape},
    )  # fmt: skip


def image(name: str, height: int, width: int, channels: int, exponent: int | None = None) -> TensorSpec:
    return TensorSpec(name, height, width, channels, exponent, (channels, height, width), (1, 2, 0))


def vector(name: str, channels: int, exponent: int | None = None) -> TensorSpec:
    return TensorSpec(name, 1, 1, channels, exponent, (channels,), (0,))


class PlainKernel:
    """``ReferenceKernel`` with the interface of a simulated kernel."""

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        self.kernel = ReferenceKernel(config)
        # A trace also reads channels that a later tile writes: memory that was never written reads as zero.
        self.kernel.memory = defaultdict(lambda: [0] * config.lanes)

    def run_operations(
        self,
        operations: Sequence[KernelOperation],
        tensors: Mapping[str, BlockTensor],
        sample: int = 0,
        clear_policies: bool = False,
    ) -> KernelResult:
        kernel = self.kernel
        if clear_policies:
            kernel.slots.clear()
        kernel.run(list(operations), dict(tensors), sample)
        return KernelResult(
            b"", sum(kernel.cycles), list(kernel.cycles), kernel.overflow, kernel.underflow, int(kernel.status)
        )

    def close(self) -> None:
        pass
