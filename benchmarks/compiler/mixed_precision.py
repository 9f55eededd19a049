"""Precision of each layer that keeps a given accuracy: sensitivities and results on real networks, one command.

    BFPGA_MODELS=FOLDER python -m benchmarks.compiler.mixed_precision [--case CASE ...] [--recipes FOLDER]
        [--markdown FILE] [--json FILE]

CASE is NETWORK:ACCELERATOR:FORMATS:POINTS. What `bfpga evaluate --accuracy-drop POINTS` does: every step alone,
then the cheapest of them together. A network whose folder has training samples is searched on these, at most 256;
otherwise every second sample of the file is searched on, the first 256 of them calibrate, and the others judge. One
recording of the keyword network's file is 0.4 points of a half, so each counts three times there: as it is, and three
frames earlier and later. The autoencoder has no classes: it is searched on the energy of its errors, and judged by
the area under the curve of all its files, in points. Ends with 1 if a network loses more than its points on the samples
that judge.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bfpga
from benchmarks.common.command import command, required_models_folder
from benchmarks.common.networks import (
    CALIBRATION_SAMPLES,
    NETWORKS,
    Array,
    anomaly_score,
    area_under_curve,
    float_run,
    input_shape,
    scaled,
    windows,
)
from benchmarks.common.report import finish, table, write_json
from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import read_network
from bfpga.compiler.recipes import save_recipe
from bfpga.contract.program import Program
from bfpga.precision.judge import Judge
from bfpga.precision.search import Found, search
from bfpga.runtime import run

CASES = (
    "dscnn_kws:pynq_z2_mixed:two_hot:0.5", "dscnn_kws:pynq_z2_shift:two_hot:0.5",
    "resnet8_cifar10:pynq_z2_dense:auto:0.1", "ad01_autoencoder:pynq_z2_dense:auto:0.1",
)  # fmt: skip
#: Frames that recordings of the keyword network are moved by.
FRAMES = (0, -3, 3)
AUTOENCODER = "ad01_autoencoder"
SENSITIVITIES = ("layer", "step, taken alone", "gain in dB", "points lost", "cycles more", "in the result")
RESULTS = (
    "network", "accelerator, formats", "searched on", "judged on", "lost before", "lost now", "steps", "cycles before",
    "cycles now",
)  # fmt: skip


@dataclass(frozen=True)
class Samples:
    """Samples that calibrate, that are searched on and that judge; labels where there are any."""

    calibration: Array
    searched: Array
    labels: Array | None
    judged: Array
    judged_labels: Array
    files: int = 0


def samples_of(name: str, folder: Path, model: Path) -> Samples:
    """The samples of a network in the shape of its input."""
    network = next(item for item in NETWORKS if item.name == name)
    with np.load(folder / "data" / f"{network.data}.npz", allow_pickle=False) as file:
        x, y = scaled(file), np.asarray(file["y"])
    shape = input_shape(model)
    if name == AUTOENCODER:
        found = windows(x)
        return Samples(windows(x[::2])[::24], windows(x[::2])[5::24], None, found, y, len(x))
    x = x.reshape(-1, *shape)
    if network.calibration:
        with np.load(folder / "data" / f"{network.calibration}.npz", allow_pickle=False) as file:
            training = scaled(file).reshape(-1, *shape)[:CALIBRATION_SAMPLES]
            labels = np.asarray(file["y"])[:CALIBRATION_SAMPLES] if "y" in file else None
        return Samples(training, training, labels, x, y)
    halves = [(_moved(x[half::2]), np.tile(y[half::2], len(FRAMES))) for half in (0, 1)]
    return Samples(x[::2][:CALIBRATION_SAMPLES], *halves[0], *halves[1])


def _moved(x: Array) -> Array:
    """Recordings (samples, 1, time, features) as they are, then moved in time; frames at the ends are repeated."""
    last = x.shape[2] - 1
    return np.concatenate([x[:, :, np.clip(np.arange(last + 1) - frames, 0, last)] for frames in FRAMES])


def lost_points(program: Program, model: Path, samples: Samples) -> float:
    """Points below float on the samples that judge."""
    wanted = float_run(model, samples.judged)
    found = next(iter(run(program, samples.judged, "emulator").outputs.values()))
    if samples.files:
        areas = [
            area_under_curve(anomaly_score(samples.judged, out, samples.files), samples.judged_labels)
            for out in (wanted, found)
        ]
        return 100 * (areas[0] - areas[1])
    shares = [float((out.argmax(1) == samples.judged_labels).mean()) for out in (wanted, found)]
    return 100 * (shares[0] - shares[1])


def sensitivities(found: Found) -> str:
    """The table of what every step gains and costs."""
    rows = [
        [
            item.step.layer or "(network)", item.step.text, f"{item.gain_db:+.2f}", f"{item.score.lost:+.2f}",
            f"{item.extra_cycles:+,}", "yes" if item.taken else "",
        ]
        for item in found.sensitivities
    ]  # fmt: skip
    return table(SENSITIVITIES, rows)


def measure(case: str, folder: Path, recipes: Path | None) -> tuple[list[str], str, dict[str, Any]]:
    """The row of a case, its table of sensitivities, and both as data."""
    name, accelerator, formats, points = case.split(":")
    model = folder / "models" / f"{name}.onnx"
    samples, network, chosen = samples_of(name, folder, model), read_network(model), load_accelerator(accelerator)
    options = CompileOptions(formats=formats)  # type: ignore[arg-type]
    judge = Judge(network, {next(iter(network.inputs)): samples.searched}, samples.labels)
    start = time.perf_counter()
    found = search(network, chosen, samples.calibration, judge, float(points), options)
    seconds = time.perf_counter() - start
    if recipes is not None:
        save_recipe(found.options, recipes / f"{name}_{accelerator}.yaml", f"found by --accuracy-drop {points}")
    before = lost_points(bfpga.compile(network, chosen, samples.calibration, options), model, samples)
    after = lost_points(found.program, model, samples)
    taken = [item.step for item in found.sensitivities if item.taken]
    judged = f"{samples.files} files" if samples.files else str(len(samples.judged))
    row = [
        name, f"{accelerator}, {formats}", f"{judge.samples} ({judge.metric})", judged, f"{before:+.2f}",
        f"{after:+.2f}", str(len(taken)), f"{found.start.cycles:,}", f"{found.score.cycles:,}",
    ]  # fmt: skip
    print(" | ".join(row), f"{seconds:.0f} s", file=sys.stderr, flush=True)
    data = {
        "case": case, "before": before, "after": after, "start": asdict(found.start), "result": asdict(found.score),
        "met": found.met, "steps": [{**asdict(item.step), "gain_db": item.gain_db, "taken": item.taken} for item in
                                    found.sensitivities],
    }  # fmt: skip
    return row, sensitivities(found), data


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--case", nargs="+", default=list(CASES), metavar="CASE")
    parser.add_argument("--recipes", type=Path, metavar="FOLDER", help="write the recipes that were found there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    arguments = parser.parse_args(given)
    folder = required_models_folder()
    rows, tables, content, missed = [], [], [], []
    for case in arguments.case:
        row, steps, data = measure(case, folder, arguments.recipes)
        rows.append(row)
        tables.append(f"{row[0]} on {row[1]}:\n\n{steps}\n")
        content.append(data)
        points = float(case.split(":")[-1])
        if data["after"] > points + 1e-9:
            missed.append(f"{case}: {data['after']:.2f} points are lost")
    write_json(arguments.json, content)
    return finish("\n".join([table(RESULTS, rows), "", *tables]), arguments.markdown, missed)


if __name__ == "__main__":
    sys.exit(main())
