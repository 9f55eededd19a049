"""How long `bfpga compile` takes, the start of Python and the calibration included: one process for every run.

    BFPGA_MODELS=FOLDER python -m benchmarks.compiler.duration [--repeats N] [--samples N] [--markdown FILE]

Networks are those of the goals below, calibrated with the first samples of their files; ResNet-18 at 224 x 224 has
random weights and samples. Runs go round the networks in turn; of each the fastest counts. On a machine that does other
work too the clock tells little; seconds of the processor do.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

from benchmarks.common.command import command, required_models_folder
from benchmarks.common.networks import network_named, network_samples
from benchmarks.common.report import finish, table
from benchmarks.compiler.network_zoo import resnet18_224

#: Seconds by the clock, by network.
GOALS = {"mobilenetv1_025_vww": 3.0, "squeezenet_dc_sparse": 3.0, "resnet18_224": 6.0}


def files(name: str, models: Path, samples: int, folder: Path) -> tuple[Path, Path]:
    """The network and the file of its calibration samples, written to ``folder`` if need be."""
    target = folder / f"{name}.npz"
    if name == "resnet18_224":
        network, model = resnet18_224(), folder / f"{name}.onnx"
        onnx.save(network.model(), model)
        np.savez(target, x=network.samples(samples)["x"])
        return model, target
    model = models / "models" / f"{name}.onnx"
    np.savez(target, x=network_samples(network_named(name), models, model)[1][:samples])
    return model, target


def measured(arguments: Sequence[str]) -> tuple[float, float]:
    """Seconds by the clock and of the processor that a command takes; CalledProcessError if it fails."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "bfpga", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return seconds, usage.ru_utime


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--accelerator", default="pynq_z2_dense")
    arguments = parser.parse_args(given)
    models = required_models_folder()
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in GOALS}
    with tempfile.TemporaryDirectory() as folder:
        given_files = {name: files(name, models, arguments.samples, Path(folder)) for name in GOALS}
        for _ in range(arguments.repeats):
            for name, (model, samples) in given_files.items():
                words = ["compile", str(model), "-a", arguments.accelerator, "-c", str(samples)]
                runs[name].append(measured([*words, "-o", str(Path(folder) / "program.bfpga")]))
    best = {name: [min(column) for column in zip(*values, strict=True)] for name, values in runs.items()}
    rows = [[name, f"{clock:.2f}", f"{user:.2f}", f"{GOALS[name]:g}"] for name, (clock, user) in best.items()]
    text = table(["network", "seconds by the clock", "of the processor (user)", "goal, by the clock"], rows)
    missed = [f"{name}: {clock:.2f} s" for name, (clock, _) in best.items() if clock > GOALS[name]]
    return finish(text, arguments.markdown, missed)


if __name__ == "__main__":
    sys.exit(main())
