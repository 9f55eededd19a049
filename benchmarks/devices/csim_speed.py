"""Speed of the C simulation: multiply-accumulates a second, native integers and AMD's ap_int, and the emulator beside.

    [BFPGA_MODELS=FOLDER] python -m benchmarks.devices.csim_speed [--accelerator NAME] [--json FILE]

The networks are ResNet-8 where FOLDER has it, and the shipped LeNet. Kernels are compiled before the clock starts.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import bfpga
from benchmarks.common.command import EXAMPLES, command, models_folder
from benchmarks.common.report import write_json
from bfpga.contract.program import HostNode, Program
from bfpga.devices.toolchain import find_ap_types
from bfpga.errors import ToolError
from bfpga.runtime import open_device

#: Samples of one measurement: the slow build gets fewer.
SAMPLES = {"csim": 16, "csim:ap_int": 2, "emulator": 256}
REPEATS = 5


def networks() -> list[Path]:
    """ResNet-8 if it is there, LeNet."""
    folder = models_folder()
    found = [folder / "models" / "resnet8_cifar10.onnx"] if folder else []
    return [path for path in found if path.exists()] + [EXAMPLES / "lenet_mnist.onnx"]


def seconds_a_sample(program: Program, device: str) -> float:
    """Median over repeats; the first run is not counted."""
    shape = next(iter(program.inputs.values()))
    samples = SAMPLES[device]
    x = np.random.default_rng(0).uniform(0, 1, (samples, *shape)).astype(np.float32)
    inputs = {next(iter(program.inputs)): x}
    opened = open_device(device, program)
    try:
        times = []
        for _ in range(REPEATS + 1):
            start = time.perf_counter()
            opened.run(inputs)
            times.append(time.perf_counter() - start)
    finally:
        opened.close()
    return statistics.median(times[1:]) / samples


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--json")
    parser.add_argument("--accelerator", default="pynq_z2_dense")
    arguments = parser.parse_args(given)
    devices = ["emulator", "csim"]
    try:
        find_ap_types()
        devices.append("csim:ap_int")
    except ToolError as error:
        print(f"no ap_int: {error}")
    rows = []
    print("| network | device | samples/s | MMAC/s |\n|---|---|---|---|")
    for model in networks():
        probe = bfpga.compile(model, arguments.accelerator)
        shape = next(iter(probe.inputs.values()))
        calibration = np.random.default_rng(1).uniform(0, 1, (32, *shape)).astype(np.float32)
        program = bfpga.compile(model, arguments.accelerator, calibration)
        macs = sum(node.macs for node in program.nodes if not isinstance(node, HostNode))
        for device in devices:
            seconds = seconds_a_sample(program, device)
            rows.append({"network": model.stem, "device": device, "samples_s": 1 / seconds, "macs_s": macs / seconds})
            print(f"| {model.stem} | {device} | {1 / seconds:,.1f} | {macs / seconds / 1e6:,.0f} |")
    write_json(arguments.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
