"""One network through hls4ml's C simulation, through ours and through the emulator, in one run on one core.

    python -m benchmarks.devices.against_hls4ml [--repeats N] [--json FILE]

The network is the shipped MNIST perceptron, the images are the shipped ones. hls4ml computes 16-bit fixed point (Vitis
backend, io_parallel), we compute 8-bit and 16-bit block floating point; the accuracies stand beside the speeds. hls4ml
computes values only; our C simulation runs the array's schedule clock by clock and counts; the emulator counts what
saturates. Every simulation is built with its tool's own compiler flags. Calls are interleaved and medians compared.
"Ready" is the time from the ONNX file to the end of the first call, compilers included. hls4ml's ONNX front end has to
be installed: pip install hls4ml qonnx.
"""

# ruff: noqa: E402 - the environment is set before numpy is loaded
from __future__ import annotations

import os

# Preset core types hide the CPU's real instructions from OpenBLAS: it must find them itself.
for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_name, None)
if __name__ == "__main__" and hasattr(os, "sched_setaffinity"):  # before any library counts the cores
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import contextlib
import importlib.util
import io
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import bfpga
from benchmarks.common.command import EXAMPLES, command
from benchmarks.common.report import write_json
from bfpga.data import load_samples
from bfpga.runtime import open_device

MODEL = EXAMPLES / "mlp_mnist.onnx"
PRECISION = "ap_fixed<16,6>"
FRONT_END = ("hls4ml", "qonnx.util.cleanup", "qonnx.core.modelwrapper", "qonnx.transformation.gemm_to_matmul")
Predict = Callable[[npt.NDArray[np.float32]], npt.NDArray[Any]]


class Candidate(NamedTuple):
    """What is measured: images of one call, seconds until it could be called, the call (images to scores)."""

    name: str
    images: int
    ready: float
    predict: Predict


def hls4ml_simulation(directory: str) -> Predict:
    """hls4ml's compiled project of the model. Its ONNX reader wants clean names, MatMul and known shapes."""
    hls4ml, cleanup, wrapper, gemm = (importlib.import_module(name) for name in FRONT_END)
    model = wrapper.ModelWrapper(str(MODEL))
    model = cleanup.cleanup_model(cleanup.cleanup_model(model).transform(gemm.GemmToMatMul()))
    settings = hls4ml.utils.config_from_onnx_model(
        model, granularity="name", backend="Vitis", default_precision=PRECISION
    )
    project = hls4ml.converters.convert_from_onnx_model(
        model, output_dir=directory, backend="Vitis", io_type="io_parallel", hls_config=settings
    )
    project.compile()
    return lambda x: np.asarray(project.predict(x))


def our_device(accelerator: str, device: str, stack: contextlib.ExitStack) -> Predict:
    """The model compiled for an accelerator, on one of our devices."""
    program = bfpga.compile(MODEL, accelerator, load_samples(EXAMPLES / "mnist_calibration.npz", (784,)).x)
    opened, (source,), (scores,) = open_device(device, program), program.inputs, program.outputs
    stack.callback(opened.close)
    return lambda x: opened.run({source: x}).outputs[scores]


def prepared(name: str, images: int, prepare: Callable[[], Predict], x: npt.NDArray[np.float32]) -> Candidate:
    """A candidate after its first call, which loads weights. What its tools print is not shown."""
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        predict = prepare()
        predict(x[:1])
    return Candidate(name, images, time.perf_counter() - start, predict)


def candidates(directory: str, stack: contextlib.ExitStack, x: npt.NDArray[np.float32]) -> list[Candidate]:
    """hls4ml first: the others are compared with it. The images of a call make it last some milliseconds."""
    found = [prepared("hls4ml C simulation, 16-bit fixed", 100, lambda: hls4ml_simulation(directory), x)]
    for bits, accelerator in ((8, "pynq_z2_dense"), (16, "pynq_z2_bfp16")):
        for title, device, images in (
            ("C simulation, ap_int", "csim:ap_int", 20),
            ("C simulation", "csim", 100),
            ("emulator", "emulator", 20_000),
        ):
            prepare = partial(our_device, accelerator, device, stack)
            found.append(prepared(f"bfpga {title}, {bits}-bit block", images, prepare, x))
    return found


def on_one_core(work: Callable[[], object]) -> float:
    """Seconds of a call; a library that starts threads beside its caller stops the benchmark."""
    start, used = time.perf_counter(), time.process_time()
    work()
    seconds, used = time.perf_counter() - start, time.process_time() - used
    if used > 1.1 * seconds + 0.01:
        sys.exit(f"a candidate used {used:.3f} s of processor time in {seconds:.3f} s: it does not run on one core")
    return seconds


def images_a_second(measured: list[Candidate], x: npt.NDArray[np.float32], repeats: int) -> list[float]:
    """Medians of interleaved calls."""
    times: list[list[float]] = [[] for _ in measured]
    for _ in range(repeats):
        for candidate, seconds in zip(measured, times, strict=True):
            images = np.resize(x, (candidate.images, x.shape[1]))
            seconds.append(on_one_core(partial(candidate.predict, images)))
    return [c.images / statistics.median(seconds) for c, seconds in zip(measured, times, strict=True)]


def report(rows: list[dict[str, Any]]) -> None:
    print(f"{platform.machine()}, one core, hls4ml {version('hls4ml')}, qonnx {version('qonnx')}\n")
    print("| simulator | images/s | times hls4ml | accuracy | ready, s |\n|---|---|---|---|---|")
    for row in rows:
        ratio = row["images_s"] / rows[0]["images_s"]
        speeds = f"{row['images_s']:,.0f} | {ratio:,.3g}"
        print(f"| {row['simulator']} | {speeds} | {100 * row['accuracy']:.1f} % | {row['ready_s']:.1f} |")


def measure(repeats: int) -> list[dict[str, Any]]:
    samples = load_samples(EXAMPLES / "mnist_test.npz", (784,))
    for name in FRONT_END:  # imports are no part of anybody's preparation
        importlib.import_module(name)
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        os.environ["BFPGA_CACHE"] = f"{directory}/cache"  # ours is compiled anew, as hls4ml's is
        measured = candidates(f"{directory}/hls4ml", stack, samples.x)
        speeds = images_a_second(measured, samples.x, repeats)
        correct = [float((c.predict(samples.x).argmax(axis=1) == samples.y).mean()) for c in measured]
    return [
        {"simulator": c.name, "images_s": speed, "accuracy": share, "ready_s": c.ready}
        for c, speed, share in zip(measured, speeds, correct, strict=True)
    ]


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--json")
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args(given)
    missing = [name for name in ("hls4ml", "qonnx") if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"{' and '.join(missing)} not installed: hls4ml's ONNX front end needs `pip install hls4ml qonnx`")
    rows = measure(arguments.repeats)
    report(rows)
    write_json(arguments.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
