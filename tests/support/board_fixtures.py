"""Overlays, programs and expected results of the board tests.

A board's environment has no compiler of networks (pydantic, onnx). So these files are either made here, once a process,
or read from the folder named by BFPGA_BOARD_FIXTURES, which `python tests/support/board_fixtures.py FOLDER` writes.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import Program
from bfpga.program.file import load_program, save_program

MODELS = Path(__file__).parents[2] / "examples" / "models"
#: Samples of every case with expected outputs.
SAMPLES = 100
Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """A network on an accelerator. ``network`` gives the ONNX file, calibration samples and test samples.

    ``cores``: copies of the kernel in its overlay.
    """

    accelerator: str
    network: Callable[[Path], tuple[Path, Arrays, Arrays]]
    options: dict[str, Any] = field(default_factory=dict)
    cores: int = 1


@dataclass(frozen=True)
class Expected:
    """Inputs and outputs by ONNX name, batch axis first, and all clocks of the run, all from the emulator."""

    inputs: Arrays
    outputs: Arrays
    cycles: int


def _lenet(folder: Path) -> tuple[Path, Arrays, Arrays]:
    return _example("lenet_mnist", "mnist", (1, 28, 28))


def _digits(folder: Path) -> tuple[Path, Arrays, Arrays]:
    return _example("mlp_digits", "digits", (64,))


def _example(model: str, data: str, shape: tuple[int, ...]) -> tuple[Path, Arrays, Arrays]:
    from bfpga.data import load_samples

    calibration = load_samples(MODELS / f"{data}_calibration.npz", shape, 64).x
    samples = load_samples(MODELS / f"{data}_test.npz", shape, SAMPLES).x
    return MODELS / f"{model}.onnx", _named(model, calibration), _named(model, samples)


def _named(model: str, x: npt.NDArray[Any]) -> Arrays:
    import onnx

    graph = onnx.load(MODELS / f"{model}.onnx").graph
    constants = {value.name for value in graph.initializer}
    return {next(value.name for value in graph.input if value.name not in constants): x}


def _residual(folder: Path) -> tuple[Path, Arrays, Arrays]:
    """The shape of ResNet-8 with fewer channels: a stem, three residual stages, two of them striding, a classifier."""
    from small_networks import Network

    network = Network(3, 16, 16)
    network.conv(8, 3, 3, pads=[1, 1, 1, 1])
    last = network.add("Relu")
    for inputs, channels, stride in ((8, 8, 1), (8, 16, 2), (16, 32, 2)):
        network.conv(channels, inputs, 3, last, pads=[1, 1, 1, 1], strides=[stride, stride])
        network.add("Relu")
        left = network.conv(channels, channels, 3, pads=[1, 1, 1, 1])
        right = last if stride == 1 else network.conv(channels, inputs, 1, last, strides=[stride, stride])
        network.add("Add", left, right)
        last = network.add("Relu")
    network.add("GlobalAveragePool")
    network.add("Flatten", axis=1)
    network.add("Gemm", network.last, network.weights(10, 32), network.weights(10), transB=1)
    path = folder / "residual.onnx"
    path.write_bytes(network.model().SerializeToString())
    return path, network.samples(16), network.samples(SAMPLES)


CASES = {
    "lenet_tiny": Case("tiny", _lenet),
    "lenet_pynq_z2": Case("pynq_z2_dense", _lenet),
    "lenet_zcu104": Case("zcu104_dense", _lenet),
    "residual_pynq_z2": Case("pynq_z2_dense", _residual),
    "digits_tiny": Case("tiny", _digits),
    # Exponents that follow the data: what a start leaves behind changes the next one.
    "digits_tiny_learning": Case("tiny", _digits, {"policy": "rolling_max", "window": 4}),
    "digits_three_cores": Case("tiny", _digits, cores=3),
    "lenet_three_cores": Case("tiny", _lenet, cores=3),
    "digits_learning_cores": Case("tiny", _digits, {"policy": "rolling_max", "window": 4}, cores=3),
}
ACCELERATORS = tuple(dict.fromkeys((case.accelerator, case.cores) for case in CASES.values()))


def overlay_directory(accelerator: str, cores: int = 1) -> Path:
    """Folder with the overlay of a ready accelerator: its manifest and its hardware handoff."""
    name = accelerator if cores == 1 else f"{accelerator}_{cores}_cores"
    return _made(Path("overlays") / name, lambda folder: _write_overlay(accelerator, cores, folder))


def compiled_program(name: str) -> Program:
    """The program of a case."""
    return load_program(program_file(name))


def program_file(name: str) -> Path:
    """Where the program of a case lies."""
    return _made(Path("cases") / name, lambda folder: _write_case(name, folder)) / "program.bfpga"


def expected(name: str, samples: int = SAMPLES) -> Expected:
    """What the emulator computes for the first ``samples`` of a case; clocks only for all of them."""
    with np.load(program_file(name).with_name("expected.npz")) as archive:
        arrays = {key: archive[key] for key in archive.files}
    split = {
        kind: {key.split(":", 1)[1]: value[:samples] for key, value in arrays.items() if key.startswith(f"{kind}:")}
        for kind in ("input", "output")
    }
    return Expected(split["input"], split["output"], int(arrays["cycles"]))


def _write_overlay(accelerator: str, cores: int, folder: Path) -> None:
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.accelerator.variants import with_cores
    from bfpga.vendor.overlay_files import write_overlay

    write_overlay(with_cores(load_accelerator(accelerator), cores), folder)


def _write_case(name: str, folder: Path) -> None:
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.accelerator.variants import with_cores
    from bfpga.compiler.options import CompileOptions
    from bfpga.devices.emulator import Emulator
    from bfpga.runtime import compile as compile_model

    case = CASES[name]
    accelerator = with_cores(load_accelerator(case.accelerator), case.cores)
    with tempfile.TemporaryDirectory() as scratch:
        model, calibration, samples = case.network(Path(scratch))
        program = compile_model(model, accelerator, calibration, CompileOptions(**case.options))
    result = Emulator(program).run(samples)
    save_program(program, folder / "program.bfpga")
    arrays = {f"input:{key}": value for key, value in samples.items()}
    arrays |= {f"output:{key}": value for key, value in result.outputs.items()}
    np.savez(folder / "expected.npz", cycles=np.int64(result.cycles), **arrays)


def _made(part: Path, make: Callable[[Path], None]) -> Path:
    """The folder of one part: given by the environment, or made the first time it is asked for."""
    given = os.environ.get("BFPGA_BOARD_FIXTURES")
    if given:
        folder = Path(given) / part
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder} is missing: `python tests/support/board_fixtures.py {given}` writes it")
        return folder
    folder = Path(_scratch().name) / part
    if not folder.is_dir():
        unfinished = folder.with_name(f".{folder.name}")
        unfinished.mkdir(parents=True)
        make(unfinished)
        unfinished.rename(folder)
    return folder


@functools.cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="bfpga_board_fixtures_")


def write_all(folder: Path) -> None:
    """Write every overlay and every case into ``folder``."""
    for accelerator, cores in ACCELERATORS:
        target = folder / "overlays" / (accelerator if cores == 1 else f"{accelerator}_{cores}_cores")
        target.mkdir(parents=True, exist_ok=True)
        _write_overlay(accelerator, cores, target)
    for name in CASES:
        target = folder / "cases" / name
        target.mkdir(parents=True, exist_ok=True)
        _write_case(name, target)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tests/support/board_fixtures.py FOLDER")
    write_all(Path(sys.argv[1]))
