"""What the commands do between reading their arguments and printing: load, compile, run."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np

from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.cli.output import note, waiting
from bfpga.network.compiler import Calibration, compile_network
from bfpga.network.importer import import_model
from bfpga.network.options import CompileOptions, PolicyName
from bfpga.network.program import Program


def compile_program(
    accelerator: Accelerator, model: Path, calibration: Calibration | None, policy: str = "auto"
) -> Program:
    """Compile ``model`` for ``accelerator``; errors are those of the compiler."""
    options = CompileOptions(policy=cast(PolicyName, policy))
    with waiting(f"compiling {model.name}"):
        return compile_network(
            model,
            accelerator.name,
            accelerator.digest,
            accelerator.systolic,
            accelerator.clock_mhz,
            calibration,
            options,
        )


def compile_for_estimate(accelerator: Accelerator, model: Path) -> Program:
    """Compile with noise as calibration: exponents are arbitrary, but the schedule is that of a calibrated network."""
    graph = import_model(model)
    random = np.random.default_rng(0)
    noise = {name: random.normal(size=(2, *graph.shapes[name])).astype(np.float32) for name in graph.inputs}
    return compile_program(accelerator, model, noise)
