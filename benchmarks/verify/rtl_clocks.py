"""Clocks that the kernel's Verilog takes, by its own clock counter, beside those of the schedule; one sample each.

    BFPGA_MODELS=FOLDER python -m benchmarks.verify.rtl_clocks [--accelerator NAME ...] [--network NAME ...]
        [--markdown FILE]

A network runs in as few starts as its program has, as a user's does; its outputs have to be those of the emulator. A
simulation takes about a second for some thousand clocks.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from time import perf_counter

import numpy as np

import bfpga
from benchmarks.common.command import command, required_models_folder
from benchmarks.common.networks import NETWORKS, network_named, network_samples
from benchmarks.common.report import finish, table
from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.contract.program import Program
from bfpga.devices.emulator import Emulator
from bfpga.errors import ClockWarning
from bfpga.runtime import open_device

ACCELERATORS = ("tiny", "pynq_z2_dense")
CALIBRATION = 64


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--accelerator", action="append", choices=accelerator_names(), help=f"default: {ACCELERATORS}")
    parser.add_argument("--network", action="append", choices=[each.name for each in NETWORKS], help="default: all")
    arguments = parser.parse_args(given)
    folder = required_models_folder()
    warnings.simplefilter("ignore", ClockWarning)
    rows, failures = [], []
    for accelerator in arguments.accelerator or ACCELERATORS:
        for name in arguments.network or [each.name for each in NETWORKS]:
            model = folder / "models" / f"{name}.onnx"
            x, calibration = network_samples(network_named(name), folder, model)
            program = bfpga.compile(model, load_accelerator(accelerator), calibration[:CALIBRATION])
            row, failure = measured(program, np.ascontiguousarray(x[:1]))
            rows.append((name, accelerator, *row))
            failures += [f"{name} on {accelerator}: {failure}"] if failure else []
            print(*rows[-1], *failures[-1:], flush=True)
    return finish(table(("network", "accelerator", "starts", "clocks", "schedule", "more", "s"), rows),
                  arguments.markdown, failures)  # fmt: skip


def measured(program: Program, sample: np.ndarray) -> tuple[tuple[str, ...], str]:  # type: ignore[type-arg]
    """A row of the table, and what differs from the emulator."""
    (name,) = program.inputs
    expected = Emulator(program).run({name: sample}).outputs
    device = open_device("rtl", program)
    begin = perf_counter()
    try:
        result = device.run({name: sample})
    finally:
        device.close()
    seconds, clocks = perf_counter() - begin, result.measured
    assert clocks is not None
    share = 100 * (clocks.clocks / clocks.scheduled - 1)
    row = (str(clocks.starts), f"{clocks.clocks:,}", f"{clocks.scheduled:,}", f"{share:.1f} %", f"{seconds:.0f}")
    differs = any(not np.array_equal(result.outputs[key], values) for key, values in expected.items())
    return row, "outputs differ" if differs else ""


if __name__ == "__main__":
    sys.exit(main())
