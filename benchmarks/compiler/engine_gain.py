"""From how many zeros on an engine beside the array is faster: clocks of one convolution on every engine.

    python -m benchmarks.compiler.engine_gain [ACCELERATOR ...]

Zeros are scattered at random: those of weights for the zero-skip engine, those of inputs for the sparse cluster. Clocks
are the compiler's, which are those of the kernel; fewer than the array's are bold (a table for docs/estimates.md).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.common.command import command
from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.compiler.dispatch.engine_clocks import EngineClocks
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.engine_numbers import EngineName
from bfpga.contract.program import ArrayNode, TensorSpec, Window

CHANNELS = 64
SIZES = (28, 14)
SHARES = (0.5, 0.7, 0.8, 0.9, 0.95)
SAMPLES = 2


def integers(rng: np.random.Generator, shape: tuple[int, ...], zeros: float) -> npt.NDArray[np.int64]:
    """Non-zero 8-bit mantissas with a share of zeros."""
    values = rng.integers(1, 100, shape) * rng.choice([-1, 1], shape)
    return np.where(rng.random(shape) < zeros, 0, values)


def convolution(rng: np.random.Generator, size: int, zeros: float) -> ArrayNode:
    """3 x 3, as many outputs as inputs. zeros: share of the weights."""
    return ArrayNode(
        "convolution", "gemm", ("x",), "y", CHANNELS, Window(3, 3, 1, 1, 1, 1, 1, 1, size, size),
        weights=integers(rng, (CHANNELS, 3, 3, CHANNELS), zeros),
        weight_exponents=np.zeros(CHANNELS, np.int32), bias=np.zeros(CHANNELS, np.int64),
    )  # fmt: skip


def clocks(config: SystolicConfig, engine: EngineName, size: int, zeros: float) -> tuple[int, int]:
    """Clocks on the array and on ``engine``."""
    rng = np.random.default_rng(1)
    node = convolution(rng, size, zeros if engine == "zero_skip" else 0.0)
    shape = (SAMPLES, size, size, CHANNELS)
    inputs = {"x": integers(rng, shape, zeros if engine == "sparse_cluster" else 0.0)}
    tensors = {name: TensorSpec(name, size, size, CHANNELS) for name in ("x", "y")}
    node.input_density = float(np.count_nonzero(inputs["x"])) / inputs["x"].size
    counted = EngineClocks(config, tensors, [[node]], (0, 0), inputs)
    return counted.cycles(node, "systolic_array"), counted.cycles(node, engine)


def row(name: str, engine: EngineName, size: int) -> str:
    config = load_accelerator(name).systolic
    found = [clocks(config, engine, size, zeros) for zeros in SHARES]
    cells = [f"**{beside:,}**" if beside < array else f"{beside:,}" for array, beside in found]
    return f"| `{name}`, {engine} | {size} x {size} | {found[0][0]:,} | {' | '.join(cells)} |"


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("accelerators", nargs="*", help="accelerators with several engines; all ready ones without")
    names = parser.parse_args(given).accelerators or accelerator_names()
    print(f"| accelerator, engine | map | array | {' | '.join(f'{share:.0%}' for share in SHARES)} |")
    print("|---|---|---|" + "---|" * len(SHARES))
    for name in names:
        for engine in load_accelerator(name).systolic.engines[1:]:
            for size in SIZES:
                print(row(name, engine, size), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
