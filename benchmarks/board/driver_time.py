"""What the driver takes of the processor for a sample, by stage: packing, copies, checksums, registers, unpacking.

    [BFPGA_MODELS=FOLDER] python -m benchmarks.board.driver_time [--samples 1000] [--repeats N] [--json FILE]

A run on the virtual board is recorded at the border of PYNQ's classes: values of registers, bytes that a DMA brought.
The runs that are timed read the recording in place of the board, so that no simulation is in their time; registers are
read and written as on a board, by PYNQ's code for mapped memory. Stages are of a run whose steps are timed, the sum is
of runs without; of each the fastest, which other processes disturbed least. Every run must give the recorded outputs.
Not in it: maintenance of caches, which is the board's. The last line, what a start, a value and a byte take, is what
`bfpga estimate` goes by: `--json host/bfpga/estimate/driver_time.json` renews it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import thread_time
from typing import Any
from unittest.mock import patch

import numpy as np

import bfpga
from benchmarks.common.command import EXAMPLES, command, models_folder
from benchmarks.common.report import table, write_json
from bfpga.accelerator.loader import load_accelerator
from bfpga.board.buffers import BoardBuffer
from bfpga.board.dma import BoardChannel
from bfpga.board.kernel import BoardKernel
from bfpga.board.load import BoardOverlay, load
from bfpga.board.overlays import store_overlay
from bfpga.board.registers import CounterRegisters, KernelRegisters
from bfpga.board.waiters import PollingWaiter
from bfpga.contract.program import Program
from bfpga.data import load_samples
from bfpga.devices import streaming_device
from bfpga.devices.host_time import cpu_name
from bfpga.devices.native.stream_work import CompiledWork
from bfpga.devices.streaming_device import SHORT_START_SAMPLES, StreamingDevice
from bfpga.devices.values import Values
from bfpga.estimate.driver import encoded_values
from bfpga.estimate.program import estimate_program
from bfpga.program.groups import START_BYTES, START_SAMPLES, sent_bytes
from bfpga.program.packets import SamplePackets, SampleStream
from bfpga.program.stream_work import StreamWork
from bfpga.runtime import input_arrays

ACCELERATOR = "pynq_z2_dense"
#: Stages of the driver, each with the functions whose own time is the stage's.
STAGES: dict[str, list[tuple[Any, str]]] = {
    "encode": [(StreamingDevice, "_sources")],
    "packets": [(SampleStream, "write")],
    "copies": [(BoardBuffer, "write"), (BoardBuffer, "fill"), (BoardBuffer, "content")],
    "checksums": [(CompiledWork, "checksum"), (StreamWork, "checksum")],
    "registers": [
        (BoardChannel, "begin"),
        (KernelRegisters, "start"),
        (KernelRegisters, "read"),
        (CounterRegisters, "read"),
    ],
    "waiting": [(PollingWaiter, "wait")],
    "unpack": [(SamplePackets, "unpack")],
    "decode": [(Values, "outputs")],
    "host operators": [(StreamingDevice, "_host_steps")],
    "the rest": [],
}


class Tape:
    """What a program saw of a board: recorded in one run, given again in every later one."""

    def __init__(self) -> None:
        self.reads: list[tuple[int, int]] = []
        self.received: list[bytes] = []
        self.recording = True
        self._read: Iterator[tuple[int, int]] = iter(())
        self._receive: Iterator[bytes] = iter(())

    def rewind(self) -> None:
        """From now on the recording is given, from its beginning."""
        self.recording = False
        self._read, self._receive = iter(self.reads), iter(self.received)

    def read(self, registers: Any, index: int) -> int:
        """A register: of the board, or as it was."""
        if self.recording:
            value = int(registers[index])
            self.reads.append((index, value))
            return value
        recorded, value = next(self._read)
        if recorded != index:
            raise SystemExit("the driver reads other registers than in the recorded run")
        return value

    def receive(self, buffer: Any, invalidate: Callable[[], None]) -> None:
        """What a DMA brought into a buffer."""
        if self.recording:
            invalidate()
            self.received.append(buffer.data.tobytes())
        else:
            data = next(self._receive)
            buffer.data[: len(data)] = np.frombuffer(data, np.uint8)


@dataclass
class MappedRegisters:
    """Stands for the mapped registers of an IP in ``pynq.MMIO``."""

    registers: Any
    tape: Tape

    def __getitem__(self, index: int) -> int:
        return self.tape.read(self.registers, index)

    def __setitem__(self, index: int, value: Any) -> None:
        if self.tape.recording:
            self.registers[index] = int(value)


def taped(overlay: BoardOverlay) -> Tape:
    """A tape between PYNQ and the virtual board of an overlay."""
    tape, device = Tape(), overlay.target.device
    hardware = overlay.hardware
    owners = [hardware.registers, hardware.counter, *hardware.channels]
    maps = [owner._registers for owner in owners] + [channel.channel._mmio for channel in hardware.channels]
    for mmio in {id(one): one for one in maps}.values():
        mmio.array = MappedRegisters(mmio.array, tape)
        mmio.write = mmio.write_mm
    flush, invalidate = device.flush, device.invalidate

    def flushed(bo: Any, offset: int, address: int, size: int) -> None:
        if tape.recording:
            flush(bo, offset, address, size)

    def invalidated(bo: Any, offset: int, address: int, size: int) -> None:
        tape.receive(bo, lambda: invalidate(bo, offset, address, size))

    device.flush, device.invalidate = flushed, invalidated
    return tape


@dataclass
class Clock:
    """Processor time by stage; the time of a stage within another counts for the inner one alone."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    _stack: list[str] = field(default_factory=lambda: ["the rest"])
    _since: float = 0.0

    def _turn(self) -> None:
        now = thread_time()
        self.seconds[self._stack[-1]] += now - self._since
        self._since = now

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            self._turn()
            self._stack.append(stage)
            try:
                return function(*given, **named)
            finally:
                self._turn()
                self._stack.pop()

        return call

    @contextmanager
    def running(self) -> Iterator[None]:
        """Stages are timed meanwhile."""
        with ExitStack() as patches:
            for stage, functions in STAGES.items():
                for owner, name in functions:
                    patches.enter_context(patch.object(owner, name, self.timed(stage, getattr(owner, name))))
            self._since = thread_time()
            yield
            self._turn()


@dataclass(frozen=True)
class Case:
    """A network with its samples."""

    name: str
    model: Path
    calibration: Path
    samples: Path
    shape: tuple[int, ...]


def cases() -> list[Case]:
    """Perceptron and LeNet that are shipped, ResNet-8 where $BFPGA_MODELS has it."""
    mnist = [EXAMPLES / f"mnist_{part}.npz" for part in ("calibration", "test")]
    found = [Case("mlp_mnist", EXAMPLES / "mlp_mnist.onnx", *mnist, (784,))]
    found.append(Case("lenet_mnist", EXAMPLES / "lenet_mnist.onnx", *mnist, (1, 28, 28)))
    folder = models_folder()
    if folder:
        cifar = [folder / "data" / f"cifar10_{part}.npz" for part in ("train_calib", "test_shared")]
        found.append(Case("resnet8_cifar10", folder / "models" / "resnet8_cifar10.onnx", *cifar, (3, 32, 32)))
    return found


def prepared(case: Case, samples: int) -> tuple[Program, dict[str, Any]]:
    """Program and samples; those of the file over and over."""
    program = bfpga.compile(case.model, ACCELERATOR, load_samples(case.calibration, case.shape, 64).x)
    x = load_samples(case.samples, case.shape, samples).x
    return program, input_arrays(program, np.resize(x, (samples, *x.shape[1:])))


def measure(case: Case, samples: int, repeats: int) -> dict[str, Any]:
    """Microseconds of a sample by stage and of a whole run, each the fastest; samples a start, values and bytes."""
    program, inputs = prepared(case, samples)
    with load(store_overlay(load_accelerator(ACCELERATOR)), "virtual") as overlay:
        device = overlay.open(program)
        device.run({name: value[:2] for name, value in inputs.items()})  # weights are in the kernel now
        tape = taped(overlay)
        expected = device.run(inputs)

        def again() -> None:
            tape.rewind()
            result = device.run(inputs)
            if any(not np.array_equal(result.outputs[name], value) for name, value in expected.outputs.items()):
                raise SystemExit(f"{case.name}: a run from the recording gives other outputs")

        again()
        whole = min(timed(again) for _ in range(repeats))
        clocks = [staged(again) for _ in range(repeats)]
        begun = {"starts": 0}
        with patch.object(BoardKernel, "begin", counted(BoardKernel.begin, begun)):
            again()
    starts = estimate_program(load_accelerator(ACCELERATOR), program).cycles.starts
    stages = min(clocks, key=lambda clock: sum(clock.seconds.values())).seconds
    return {
        "stages": {stage: 1e6 * seconds / samples for stage, seconds in stages.items()},
        "whole": 1e6 * whole / samples,
        "samples_a_start": samples / begun["starts"],
        "values": sum(encoded_values(program, start) for start in starts),
        "bytes": sum(sent_bytes(program, start) for start in starts),
    }


def timed(work: Callable[[], None]) -> float:
    """Seconds of the processor."""
    begun = thread_time()
    work()
    return thread_time() - begun


def staged(work: Callable[[], None]) -> Clock:
    """The stages of a run."""
    clock = Clock()
    with clock.running():
        work()
    return clock


def counted(function: Callable[..., Any], counts: dict[str, int]) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        counts["starts"] += 1
        return function(*given)

    return call


def driver_seconds(found: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Seconds of a start, of a value that is encoded and of a byte that is moved which explain the runs best.

    None is below zero: the best of those fits whose factors are not. Operators of the host are not the driver's.
    """
    needs = np.array([[1 / one["samples_a_start"], one["values"], one["bytes"]] for one in found])
    spent = np.array([one["whole"] - one["stages"]["host operators"] for one in found])
    best, error = np.zeros(3), np.inf
    for kept in ([0, 1, 2], [0, 1], [0, 2]):
        factors = np.zeros(3)
        factors[kept] = np.linalg.lstsq(needs[:, kept] / spent[:, None], np.ones(len(spent)), rcond=None)[0]
        missed = float(np.square(needs @ factors / spent - 1).sum())
        if factors.min() >= 0 and missed < error:
            best, error = factors, missed
    return dict(zip(("start", "value", "byte"), (1e-6 * best).tolist(), strict=True))


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--json")
    parser.add_argument("--samples", type=int, default=1000, help="samples of a run (1000)")
    parser.add_argument("--repeats", type=int, default=7, help="runs that are timed (7)")
    arguments = parser.parse_args(given)
    rows, runs = [], []
    for case in cases():
        for most in (START_SAMPLES, SHORT_START_SAMPLES):
            with patch.object(streaming_device, "START_SAMPLES", most):
                found = measure(case, arguments.samples, arguments.repeats)
            runs.append({"network": case.name, **found})
            figures = [*found["stages"].values(), found["whole"]]
            rows.append([case.name, f"{found['samples_a_start']:.0f}", *(f"{figure:.1f}" for figure in figures)])
    seconds = driver_seconds(runs)
    print(f"us of {cpu_name()} a sample, {arguments.samples} samples a run")
    print(table(["network", "samples a start", *STAGES, "whole run"], rows))
    print(", ".join(f"{1e9 * value:.3g} ns a {name}" for name, value in seconds.items()))
    limits = {"samples": arguments.samples, "start_samples": START_SAMPLES, "start_bytes": START_BYTES}
    write_json(arguments.json, {"cpu": cpu_name(), **limits, "seconds": seconds, "runs": runs})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
