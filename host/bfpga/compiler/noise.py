"""Noise in the place of calibration samples: for figures of a network of which no samples are given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import Network
from bfpga.contract.configuration import KernelConfig


def noise_inputs(network: Network, config: KernelConfig) -> dict[str, npt.NDArray[np.float32]]:
    """Two samples of normal noise for every input, by name; the same ones every time."""
    random = np.random.default_rng(0)
    separate = "linear" in config.weight_formats  # the graph that is compiled then, made once
    shapes = network.graph(separate, config.array.stores_entries).shapes  # checked: noise of any shape would not do
    return {name: random.normal(size=(2, *shapes[name])).astype(np.float32) for name in network.inputs}


def without_samples(options: CompileOptions) -> CompileOptions:
    """The options without those that noise cannot calibrate."""
    return replace(options, bias_correction=False, compensation=False, count_zeros=False)
