"""Load, run, compare, evaluate: what a user does with a compiled network (architecture 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import HostNode, Program
from bfpga.data import fit_shape
from bfpga.devices.base import Device, DeviceResult, LayerResult
from bfpga.devices.comparison import Comparison, first_mismatch, shared_tensors
from bfpga.devices.emulator import Emulator
from bfpga.devices.judge import JUDGE, KINDS, Judged, batches, energies_of, layers_of, outputs_of, remark_of
from bfpga.devices.parts import joined, learns
from bfpga.devices.reference import cosines, ratio_db, worst_ratio_db
from bfpga.errors import DataError, DeviceError, ToolError
from bfpga.program.layout import apart, together
from bfpga.scale.work import IN_PROCESS, Workers

if TYPE_CHECKING:
    from bfpga.accelerator.loader import Accelerator
    from bfpga.compiler.options import CompileOptions
    from bfpga.compiler.read.network import Network

Inputs = npt.NDArray[Any] | Mapping[str, npt.NDArray[Any]]
Progress = Callable[[int, int], None]

#: Names of devices, as `open_device` takes them.
SIMULATIONS = ("csim", "csim:native", "csim:ap_int", "csim:exact")
DEVICES = ("emulator", *SIMULATIONS, "virtual", "board", "remote:HOST[:PORT]")
#: Samples computed at once unless the caller says otherwise.
BATCH = 256
#: An evaluation looks at the tensors of so many samples, fewer where they take more products than this; no batch of it
#: takes more either, so that its progress moves.
FEWEST_TRACED, MOST_TRACED = 64, 512
TRACED_MACS = 4_000_000_000


def compile(
    model: str | Path | Network,
    accelerator: str | Path | Accelerator,
    calibration: Inputs | None = None,
    options: CompileOptions | None = None,
) -> Program:
    """Compile a network (an ONNX file, or one that was read) for an accelerator (its name, its YAML file, or loaded).

    ToolError on a machine without the compiler's packages, such as a board.
    """
    try:
        from bfpga.accelerator.loader import load_accelerator
        from bfpga.compiler.compiler import compile_network
    except ModuleNotFoundError as error:
        raise ToolError(
            f"networks cannot be compiled on this machine ({error}): compile on a PC (`bfpga compile`), copy the "
            "program file (`bfpga deploy`) and read it with bfpga.program.file.load_program"
        ) from None
    if isinstance(accelerator, (str, Path)):
        accelerator = load_accelerator(accelerator)
    return compile_network(model, accelerator, calibration, options)


def open_device(name: str, program: Program) -> Device:
    """Open a device for one program.

    `emulator`; `csim` (native integers), `csim:ap_int` or `csim:exact`; `virtual`, a board with PYNQ that is a model in
    this process; `board`, the one this runs on; `remote:HOST[:PORT]`, one in the network; several boards with commas
    between, which share the samples (docs/scale.md). Boards need an overlay of the program's accelerator. DeviceError
    for an unknown name or a board that cannot be opened; ToolError if a compiler that the C simulation needs is
    missing.
    """
    check_device(name)
    if "," in name:
        from bfpga.board.many.pool import BoardPool

        return BoardPool(program, name.split(","))
    if name == "emulator":
        return Emulator(program)
    if name in SIMULATIONS:
        from bfpga.devices.csim import CSimulation
        from bfpga.devices.streaming_device import StreamingDevice

        integers = name.partition(":")[2] or "native"
        kernel = CSimulation(program.config, integers, program.accelerator, program.digest)  # type: ignore[arg-type]
        return StreamingDevice(program, kernel, name)
    from bfpga.board.load import open_program

    return open_program(program, name)


def check_device(name: str) -> None:
    """Refuse a name that ``open_device`` does not know, before work is spent on a program; nothing is opened.

    DeviceError for an unknown device, and for an address of no remote board.
    """
    if name.startswith(("virtual", "board", "remote:")):
        from bfpga.board.target_choice import check_target_name

        names = name.split(",")
        for single in names:
            check_target_name(single)
        twice = next((single for single in names if names.count(single) > 1 and not single.startswith("virtual")), None)
        if twice is not None:
            raise DeviceError(f"device {twice!r} is named twice; it is one board")
    elif name not in ("emulator", *SIMULATIONS):
        raise DeviceError(f"device {name!r} is unknown; known are {', '.join(DEVICES)}")


def input_arrays(program: Program, x: Inputs) -> dict[str, npt.NDArray[Any]]:
    """Inputs by name. One array serves a program of one input and may need reshaping, (N, 1, 28, 28) to (N, 784)."""
    if isinstance(x, Mapping):
        return dict(x)
    if len(program.inputs) != 1:
        raise DataError(f"program {program.name} has the inputs {', '.join(program.inputs)}; give them by name")
    name, shape = next(iter(program.inputs.items()))
    shape = shape[1:] if program.side_by_side > 1 else shape
    value = np.asarray(x)
    return {name: fit_shape(value, shape, f"input {name!r}") if value.ndim > 1 else value}


def run(
    program: Program,
    x: Inputs,
    device: str | Device = "emulator",
    *,
    batch: int = BATCH,
    trace: bool = False,
    progress: Progress | None = None,
) -> DeviceResult:
    """Run samples through a program, ``batch`` at a time; see ``Device.run``. progress(done, all) after each batch.

    A device that is given by name is opened for this call alone.
    """
    inputs = input_arrays(program, x)
    samples = _sample_count(inputs)
    count, given = program.side_by_side, samples
    if count > 1 and samples:
        inputs = {name: together(value, count) for name, value in inputs.items()}
        samples, batch = -(-samples // count), -(-batch // count)
    opened = open_device(device, program) if isinstance(device, str) else device
    batch = max(samples, 1) if getattr(opened, "spreads", False) else batch
    try:
        parts = []
        for start in range(0, max(samples, 1), batch):
            part = {name: value[start : start + batch] for name, value in inputs.items()} if samples else inputs
            parts.append(opened.run(part, trace=trace))
            if progress is not None:
                progress(min((start + batch) * count, given), given)
    finally:
        if isinstance(device, str):
            opened.close()
    result = joined(parts)
    if count > 1:
        result.outputs = {name: apart(value, given) for name, value in result.outputs.items()}
        result.samples = given
    return result


def _sample_count(inputs: Mapping[str, npt.NDArray[Any]]) -> int:
    return min((len(value) if np.ndim(value) else 0 for value in inputs.values()), default=0)


def compare(
    program: Program,
    x: Inputs,
    device: str | Device,
    reference: str | Device = "emulator",
    *,
    batch: int = BATCH,
    progress: Progress | None = None,
) -> Comparison:
    """Run samples on a device and on a reference and compare every tensor, output, counter and cycle count.

    Tensors that stay on the chip are stored for the comparison; that does not count as cycles.
    """
    expected = run(program, x, reference, batch=batch, trace=True)
    got = run(program, x, device, batch=batch, trace=True, progress=progress)
    return Comparison(
        device=_name(device),
        reference=_name(reference),
        samples=expected.samples,
        tensors=len(shared_tensors(expected, got)),
        expected=expected,
        got=got,
        mismatch=first_mismatch(program, expected, got),
    )


def _name(device: str | Device) -> str:
    return device if isinstance(device, str) else device.name


@dataclass
class Evaluation:
    """A network in block floating point against float32, or against its own results where the file is quantized.

    reference: which of both the float figures are of.

    accuracy, float_accuracy: share of samples whose largest output has the label's index, None without labels.
    agreement: share whose largest output is the float network's. cosine: mean cosine between outputs.
    sqnr_db: by tensor name, in the order of the layers, for tensors that the ONNX file names too, over all traced
    samples; worst_sqnr_db: of the sample that has the lowest. layers: what the traced samples counted. traced: how many
    samples those are. note: why numpy computed layers that could be native.
    """

    samples: int
    accuracy: float | None
    float_accuracy: float | None
    agreement: float
    cosine: float
    sqnr_db: dict[str, float] = field(default_factory=dict)
    worst_sqnr_db: dict[str, float] = field(default_factory=dict)
    layers: list[LayerResult] = field(default_factory=list)
    traced: int = 0
    note: str = ""
    outputs: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    float_outputs: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    reference: str = "float"


def evaluate(
    program: Program,
    model: str | Path | Network,
    x: Inputs,
    y: npt.NDArray[Any] | None = None,
    *,
    batch: int = BATCH,
    traced: int | None = None,
    progress: Progress | None = None,
    workers: Workers = IN_PROCESS,
) -> Evaluation:
    """Accuracy of a program and of its float network (ONNX Runtime) on samples with labels, and how far they differ.

    A quantized network is judged by its own results; layer by layer, by the float network that it represents.

    traced: number of samples, spread evenly over all, whose tensors are compared layer by layer and whose saturated
    values are counted; None: all, or as many as take about ``TRACED_MACS``. progress(done, all): samples through the
    emulator, through the float network, and those that are traced; batches are small enough to move it. workers: who
    computes the batches, with the same results; a program that learns from sample to sample is computed here.
    """
    inputs = input_arrays(program, x)
    samples = _sample_count(inputs)
    count = min(samples, _traced_samples(program) if traced is None else traced)
    batch = max(1, min(batch, TRACED_MACS // max(1, _macs(program))))
    parts = [
        part
        for kind, number in zip(KINDS, (samples, samples, count), strict=True)
        for part in batches(kind, number, batch, program.side_by_side)
    ]
    network = model if workers is IN_PROCESS else _read(model)
    shared = {"program": program, "network": network, "inputs": inputs, "traced": count}
    chosen = IN_PROCESS if learns(program) else workers
    judged = list(chosen.map(JUDGE, parts, shared=shared, progress=progress))
    outputs, floats = outputs_of("emulator", judged), outputs_of("float", judged)
    layers = _trace_of(judged)
    name = next(iter(program.outputs))
    found, wanted = (_flat(values[name]) for values in (outputs, floats))
    return Evaluation(
        samples=len(found),
        accuracy=None if y is None else _share(found.argmax(axis=1) == y),
        float_accuracy=None if y is None else _share(wanted.argmax(axis=1) == y),
        agreement=_share(found.argmax(axis=1) == wanted.argmax(axis=1)),
        cosine=float(cosines(wanted, found).mean()),
        sqnr_db=layers.sqnr_db,
        worst_sqnr_db=layers.worst_sqnr_db,
        layers=layers.layers,
        traced=count,
        note=remark_of("emulator", judged),
        outputs=outputs,
        float_outputs=floats,
        reference=remark_of("float", judged),
    )


def _read(model: str | Path | Network) -> Network:
    """A network that can be sent: what is read already."""
    from bfpga.compiler.read.network import read_network

    return read_network(model)


def _traced_samples(program: Program) -> int:
    """Samples whose tensors are looked at: tensors of large networks take time and memory to compare."""
    return max(FEWEST_TRACED, min(MOST_TRACED, TRACED_MACS // max(1, _macs(program))))


def _macs(program: Program) -> int:
    """Multiply-accumulates of one sample."""
    return sum(node.macs for node in program.nodes if not isinstance(node, HostNode))


@dataclass
class LayerTrace:
    """Every tensor of the array against the float network's of the same name; see ``Evaluation``."""

    sqnr_db: dict[str, float]
    worst_sqnr_db: dict[str, float]
    layers: list[LayerResult]


def trace_layers(
    program: Program,
    model: str | Path | Network,
    inputs: Mapping[str, npt.NDArray[Any]],
    batch: int = BATCH,
    progress: Progress | None = None,
) -> LayerTrace:
    """Signal to quantization noise of every tensor of the array that the float network has, and saturated values."""
    samples = _sample_count(inputs)
    parts = batches("traced", samples, batch, program.side_by_side)
    shared = {"program": program, "network": model, "inputs": inputs, "traced": samples}
    return _trace_of(list(IN_PROCESS.map(JUDGE, parts, shared=shared, progress=progress)))


def _trace_of(judged: list[Judged]) -> LayerTrace:
    found = energies_of(judged)
    ratios = {name: ratio_db(float(signal.sum()), float(noise.sum())) for name, (signal, noise) in found.items()}
    return LayerTrace(ratios, {name: worst_ratio_db(*pair) for name, pair in found.items()}, layers_of(judged))


def _flat(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return x.reshape(len(x), -1)


def _share(hits: npt.NDArray[np.bool_]) -> float:
    return float(np.mean(hits))
