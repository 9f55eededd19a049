"""The stages of a self-test: what is done and what must come out."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bfpga.board.self_test_report import NotReachedError, Passed, StageError
from bfpga.contract.program import LaunchStep, MatMulStep, Program
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_start import KernelResult, KernelStart, StreamingKernel
from bfpga.devices.vectors import Arrays, random_inputs, read_vectors
from bfpga.program.file import load_program
from bfpga.program.learning import learns

if TYPE_CHECKING:
    from bfpga.board.overlay import BoardOverlay
    from bfpga.board.overlays import OverlayFiles
    from bfpga.devices.streaming_device import StreamingDevice

#: Oldest Python, and the numpy that pynq works with.
PYTHON, NUMPY_MAJOR = (3, 10), 1
#: Fresh random samples compared with the emulator, which is slow on a board's processor.
COMPARED_SAMPLES = 3
#: The same with several cores, of each.
SAMPLES_A_CORE = 4
#: Runs before anything is timed.
WARM_UP = 3
#: Seconds after which a measurement is content with the runs it has.
MEASURE_SECONDS = 30.0
#: Share by which the clock may differ from the manifest's.
CLOCK_TOLERANCE = 0.01
#: Seconds the kernel may take for a start without descriptors.
PROBE_SECONDS = 1.0


def environment(target: str) -> Passed:
    """Python, numpy and pynq of this machine, and on a board the rights to program it."""
    versions = {"python": platform.python_version(), "numpy": np.__version__, "machine": platform.machine()}
    try:
        versions["pynq"] = metadata.version("pynq")
    except metadata.PackageNotFoundError:
        raise StageError(
            f"pynq is not installed for {sys.executable}; on a board run `source /etc/profile.d/pynq_venv.sh` first"
        ) from None
    if sys.version_info < PYTHON:
        raise StageError(f"Python {versions['python']}; {PYTHON[0]}.{PYTHON[1]} or newer is needed")
    if int(np.__version__.split(".")[0]) != NUMPY_MAJOR:
        raise StageError(f"numpy {np.__version__}; pynq works with numpy {NUMPY_MAJOR}")
    if target == "board" and os.geteuid() != 0:
        raise StageError("programming the logic needs root: start with sudo -E")
    versions["board"] = os.environ.get("BOARD", "")
    words = [f"Python {versions['python']}", f"numpy {versions['numpy']}", f"pynq {versions['pynq']}"]
    return Passed(", ".join([*words, versions["machine"], *filter(None, [versions["board"]])]), dict(versions))


class OverlayStages:
    """Stages of an overlay; a context manager that closes it."""

    def __init__(self, path: Path, target: str) -> None:
        self.path, self.target = path, target
        self._files: OverlayFiles | None = None
        self._overlay: BoardOverlay | None = None

    def __enter__(self) -> OverlayStages:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._overlay is not None:
            self._overlay.close()

    @property
    def loaded(self) -> BoardOverlay:
        """The loaded overlay; NotReachedError without."""
        if self._overlay is None:
            raise NotReachedError("load")
        return self._overlay

    @property
    def cores(self) -> int:
        """Cores of the overlay; 1 as long as it is not loaded."""
        return len(self._overlay.manifest.cores) if self._overlay is not None else 1

    def files(self) -> Passed:
        """The files of the overlay are those of its manifest."""
        from bfpga.board.overlays import load_overlay

        files = load_overlay(self.path)
        if self.target == "board" and files.bitstream is None:
            name = files.manifest.accelerator.name
            raise StageError(
                f"overlay {files.name} has no bitstream: it was never built; on a machine with Vivado run "
                f"bfpga build {name}"
            )
        self._files = files
        accelerator, board = files.manifest.accelerator, files.manifest.board
        hashes = "bitstream and handoff as hashed" if files.bitstream else "handoff as hashed, never built"
        return Passed(
            f"{files.name}, accelerator {accelerator.name} ({accelerator.digest[:12]}) for {board.title}; {hashes}",
            {"accelerator": accelerator.name, "digest": accelerator.digest, "board": board.name},
        )

    def load(self) -> Passed:
        """The logic is programmed and what PYNQ found in it is what the manifest says."""
        if self._files is None:
            raise NotReachedError("files")
        from bfpga.board.load import load

        start = perf_counter()
        self._overlay = load(self.path, self.target)
        seconds = perf_counter() - start
        return Passed(f"programmed and compared with its manifest in {seconds:.2f} s", {"seconds": seconds})

    def clock(self) -> Passed:
        """The measured clock is the manifest's."""
        measured, expected = self.loaded.clock_mhz, self.loaded.manifest.clock.actual_mhz
        if abs(measured - expected) > CLOCK_TOLERANCE * expected:
            raise StageError(f"the logic runs at {measured:.3f} MHz, {expected:.3f} MHz are right")
        return Passed(f"{measured:.3f} MHz, as built", {"mhz": measured})

    def identification(self) -> Passed:
        """Every core's kernel names the accelerator that the manifest names."""
        expected = self.loaded.identification
        for index, hardware in enumerate(self.loaded.cores):
            kernel = f"the kernel of core {index}" if len(self.loaded.cores) > 1 else "the kernel"
            found = hardware.registers.probe(PROBE_SECONDS)
            if found is None:
                raise StageError(f"{kernel} did not finish a start without work within {PROBE_SECONDS:g} s")
            if found != expected:
                raise StageError(f"{kernel} says {found:#010x}, {expected:#010x} is right: another bitstream is loaded")
        return Passed(f"{expected:#010x}", {"identification": expected})

    def dma_limits(self) -> Passed:
        """The DMAs move as much at once as the manifest's length register counts."""
        dma = self.loaded.manifest.dma
        whole = ((1 << dma.length_bits) - 1) // dma.alignment * dma.alignment
        channels = [channel for hardware in self.loaded.cores for channel in hardware.channels]
        limits = {channel.name: channel.limit for channel in channels}
        for name, limit in limits.items():
            if limit != whole:
                raise StageError(f"{name} moves {limit} bytes at once, {whole} are right: another block design")
        return Passed(f"{whole:,} bytes in one transfer, {len(limits)} channels", {"bytes": limits})


class CountingKernel:
    """A kernel that counts the bytes its starts move: of weights, and of tensors with their descriptors."""

    def __init__(self, kernel: StreamingKernel) -> None:
        self.kernel = kernel
        self.depth, self.seconds = kernel.depth, kernel.seconds
        self.weights = self.tensors = 0

    def begin(self, start: KernelStart) -> None:
        self.weights += len(start.weights) * start.weight_repeats
        self.tensors += len(start.packet) + start.output_bytes
        self.kernel.begin(start)

    def finish(self) -> KernelResult:
        return self.kernel.finish()

    def cancel(self) -> None:
        self.kernel.cancel()

    def close(self) -> None:
        self.kernel.close()


class ProgramStages:
    """Stages of one program on a loaded overlay. Test vectors are next to its file where there are any."""

    def __init__(self, overlay: OverlayStages, path: Path) -> None:
        self.path = path
        self._overlay, self._vectors = overlay, path.with_suffix(".vectors.npz")
        self._program: Program | None = None
        self._device: StreamingDevice | None = None
        self._kernel: CountingKernel | None = None

    def close(self) -> None:
        """Release the kernel."""
        if self._device is not None:
            self._device.close()

    @property
    def program(self) -> Program:
        if self._program is None:
            raise NotReachedError("open")
        return self._program

    @property
    def device(self) -> StreamingDevice:
        if self._device is None:
            raise NotReachedError("open")
        return self._device

    def open(self) -> Passed:
        """The program belongs to the overlay, and its resident weights go to the kernel."""
        from bfpga.devices.streaming_device import StreamingDevice

        overlay = self._overlay.loaded
        program = load_program(self.path, overlay.manifest.accelerator.digest)
        self._kernel = CountingKernel(overlay.kernel())
        start = perf_counter()
        self._device = StreamingDevice(program, self._kernel, self._overlay.target)
        self._program = program
        seconds, layers, moved = perf_counter() - start, len(program.nodes), self._kernel.weights
        return Passed(
            f"{program.name}, {layers} layers, {moved:,} bytes of weights loaded in {1e3 * seconds:.1f} ms",
            {"seconds": seconds, "weight_bytes": moved, "layers": layers},
        )

    def repeatable(self) -> Passed:
        """The same sample gives the same bits twice."""
        inputs = random_inputs(self.program, 1, seed=2)
        first, second = (self._fresh(inputs) for _ in range(2))
        _require_equal("the second run", second, first)
        return Passed("the same sample twice gives the same bits")

    def equals_emulator(self) -> Passed:
        """Outputs are those of the emulator here, and of the emulator on the machine that made the vectors."""
        checked = []
        if self._vectors.exists():
            vectors = read_vectors(self._vectors, self.program)
            _require_equal("a test vector", self._fresh(vectors.inputs), vectors.outputs)
            checked.append(f"{_count(vectors.inputs)} test vectors")
        seed = int.from_bytes(os.urandom(4), "little")
        inputs = random_inputs(self.program, COMPARED_SAMPLES, seed)
        expected = Emulator(self.program).run(inputs)
        _require_equal(f"the emulator (seed {seed})", self._fresh(inputs), expected.outputs)
        checked.append(f"{COMPARED_SAMPLES} fresh random samples")
        return Passed(f"bit by bit in {' and '.join(checked)}", {"seed": seed, "samples": COMPARED_SAMPLES})

    def weights_resident(self) -> Passed:
        """Weights are moved when the program is opened, not again with each sample."""
        device, kernel = self.device, self._kernel
        assert kernel is not None
        inputs = random_inputs(self.program, 1, seed=3)
        device.run(inputs)  # what policies measure once is done with
        tensors, weights = kernel.tensors, kernel.weights
        device.run(inputs)
        tensors, weights = kernel.tensors - tensors, kernel.weights - weights
        resident, streamed = resident_bytes(self.program), streamed_bytes(self.program)
        data = {"resident_bytes": resident, "weight_bytes": weights, "tensor_bytes": tensors}
        if streamed is not None and weights > streamed:
            raise StageError(f"a sample moves {weights:,} bytes of weights, {streamed:,} are right: they do not stay")
        text = f"{resident:,} bytes stay; a sample moves {weights:,} of weights and {tensors:,} of tensors"
        return Passed(text, data)

    def throughput(self, repeat: int, batch: int) -> Passed:
        """Latency of one sample, images a second in batches, where the time goes, and clocks next to cycles."""
        device = self.device
        one = random_inputs(self.program, 1, seed=4)
        many = random_inputs(self.program, batch, seed=5)
        for _ in range(WARM_UP):
            device.run(one)
        single = _measure(lambda: device.run(one).seconds, repeat)
        batched = _measure(lambda: device.run(many).seconds, max(1, repeat // 10))
        latency = {"median_ms": 1e3 * single.quantile(50), "p95_ms": 1e3 * single.quantile(95)}
        rate = batch / batched.quantile(50)
        parts = {name: 1e3 * seconds / batch for name, seconds in batched.parts().items()}
        text = (
            f"one sample {latency['median_ms']:.3f} ms (median), {latency['p95_ms']:.3f} ms (p95) of "
            f"{len(single.seconds)} runs; {rate:,.1f} images/s in batches of {batch}\n"
            + "a sample in a batch: " + ", ".join(f"{name} {value:.3f} ms" for name, value in parts.items())
        )  # fmt: skip
        measured = device.run(many).measured
        if measured is not None:
            text += f"\na batch: {measured}" + (f"\nwarning: {measured.warning}" if measured.warning else "")
        if self._overlay.target == "virtual":
            text += "\nthese are times of this machine's simulation and say nothing about hardware"
        return Passed(text, {"latency": latency, "runs": len(single.seconds), "batch": batch,
                              "images_per_second": rate, "milliseconds_a_sample": parts,
                              "measured": measured.to_dict() if measured else None})  # fmt: skip

    def every_core(self, batch: int) -> Passed:
        """All cores together give the bits of the emulator; images a second of all. Closes the single kernel."""
        if learns(self.program):
            return Passed("the program learns from sample to sample and has one core")
        count = self._overlay.cores
        with closing(self._overlay.loaded.open(self.program)) as device:
            inputs = random_inputs(self.program, SAMPLES_A_CORE * count, seed=6)
            result = device.run(inputs)
            _require_equal("the emulator", result.outputs, Emulator(self.program).run(inputs).outputs)
            failed = [f"{core.name}: {core.failures[-1]}" for core in result.cores if not core.in_service]
            if failed:
                raise StageError("; ".join(failed))
            many = random_inputs(self.program, batch * count, seed=7)
            rate = batch * count / _measure(lambda: device.run(many).seconds, 3).quantile(50)
        shares = {core.name: core.samples for core in result.cores}
        text = f"{count} cores, bit by bit; {rate:,.1f} images/s in batches of {batch * count}"
        return Passed(text, {"samples": shares, "images_per_second": rate})

    def _fresh(self, inputs: Arrays) -> Mapping[str, npt.NDArray[Any]]:
        """Outputs of a run with policies that have learned nothing."""
        self.device.reset()
        return self.device.run(inputs).outputs


@dataclass(frozen=True)
class Measurement:
    """Wall clock and its parts of every run, in seconds."""

    seconds: npt.NDArray[np.float64]
    runs: list[Mapping[str, float]]

    def quantile(self, percent: float) -> float:
        return float(np.percentile(self.seconds, percent))

    def parts(self) -> dict[str, float]:
        """Median of each part; `array` is the sum of parts that the kernel distinguishes."""
        names = [name for name in self.runs[0] if name != "array" or len(self.runs[0]) == 1]
        return {name: float(np.median([run[name] for run in self.runs])) for name in names}


def _measure(run: Callable[[], Mapping[str, float]], repeat: int) -> Measurement:
    """Time ``repeat`` runs, fewer if they take too long."""
    seconds: list[float] = []
    parts: list[Mapping[str, float]] = []
    begin = perf_counter()
    while len(seconds) < repeat and (not seconds or perf_counter() - begin < MEASURE_SECONDS):
        start = perf_counter()
        parts.append(run())
        seconds.append(perf_counter() - start)
    return Measurement(np.array(seconds), parts)


def resident_bytes(program: Program) -> int:
    """Bytes of weights that are loaded once."""
    return sum(len(operation.weights) for operation in program.setup.operations)


def streamed_bytes(program: Program) -> int | None:
    """Bytes of weights that every sample needs anew; None where they are made at run time (products of activations)."""
    if any(isinstance(step, MatMulStep) for step in program.steps):
        return None
    return sum(
        len(operation.weights)
        for step in program.steps
        if isinstance(step, LaunchStep)
        for operation in step.operations
    )


def _require_equal(what: str, found: Mapping[str, npt.NDArray[Any]], expected: Mapping[str, npt.NDArray[Any]]) -> None:
    """StageError with the first difference in the bits of the outputs."""
    for name, values in expected.items():
        first, second = (np.ascontiguousarray(array, np.float32) for array in (values, found[name]))
        if first.shape != second.shape:
            raise StageError(f"output {name!r} has shape {second.shape}, {first.shape} is right")
        different = first.view(np.uint32) != second.view(np.uint32)
        if different.any():
            index = tuple(int(i) for i in np.argwhere(different)[0])
            raise StageError(
                f"output {name!r} differs from {what} in {int(different.sum())} of {different.size} values, first at "
                f"{index}: {second[index]!r}, {first[index]!r} is right"
            )


def _count(arrays: Arrays) -> int:
    return len(next(iter(arrays.values())))
