"""Load, run, compare, evaluate: what a user does with a compiled network (architecture 3.3).

Samples are given as ``bfpga.data.Given``: an NPZ file, an array where the network has one input, arrays by input name,
or samples that were read. Programs are given as such, or by their file.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import HostNode, Program
from bfpga.data import Given, InputSamples, Samples, class_labels, given_samples, load_samples
from bfpga.devices.base import Device, DeviceResult, LayerResult
from bfpga.devices.comparison import Comparison, first_mismatch, shared_tensors
from bfpga.devices.emulator import Emulator
from bfpga.devices.input_ranges import range_warning
from bfpga.devices.judge import JUDGE, KINDS, Judged, batches, energies_of, layers_of, outputs_of, remark_of
from bfpga.devices.parts import joined
from bfpga.devices.reference import cosines, ratio_db, worst_ratio_db
from bfpga.devices.rtl import is_rtl, named_seed
from bfpga.errors import DataError, DeviceError, RangeWarning, ToolError
from bfpga.formats import notebook
from bfpga.program.file import load_program
from bfpga.program.layout import apart, together
from bfpga.program.learning import learns
from bfpga.program.streamed_exponents import awaits, streamed
from bfpga.scale.work import IN_PROCESS, Workers

if TYPE_CHECKING:
    from bfpga.accelerator.loader import Accelerator
    from bfpga.compiler.options import CompileOptions
    from bfpga.compiler.read.network import Network
    from bfpga.devices.streaming_device import StreamingDevice

Progress = Callable[[int, int], None]
#: A compiled network, or the file that `bfpga compile` and ``Program.save`` write.
Compiled: TypeAlias = "Program | str | Path"

#: Names of devices, as `open_device` takes them.
SIMULATIONS = ("csim", "csim:native", "csim:ap_int", "csim:exact")
DEVICES = ("emulator", *SIMULATIONS, "rtl", "rtl:seed=N", "virtual", "virtual:rtl", "board", "remote:HOST[:PORT]")
#: Samples computed at once unless the caller says otherwise.
BATCH = 256
#: An evaluation looks at the tensors of so many samples, fewer where they take more products than this; no batch of it
#: takes more either, so that its progress moves.
FEWEST_TRACED, MOST_TRACED = 64, 512
TRACED_MACS = 4_000_000_000


def compile(
    model: Any,
    accelerator: str | Path | Accelerator,
    calibration: Given | None = None,
    options: CompileOptions | str | Path | None = None,
    *,
    example_inputs: Any = None,
) -> Program:
    """Compile a network for an accelerator (its name, its YAML file, or loaded).

    model: an ONNX file, a network that was read, a ``torch.nn.Module`` or a Keras model. calibration: samples whose
    ranges choose the exponents; without, every layer measures itself. options: as such, or a recipe by name or file.
    example_inputs: of a module of PyTorch without calibration samples, one array (samples, ...) or several.
    ToolError on a machine without the compiler's packages, such as a board; ModelError, DataError or
    ConfigurationError for what does not fit.
    """
    try:
        from bfpga.accelerator.loader import load_accelerator
        from bfpga.compiler.compiler import compile_network
        from bfpga.compiler.read.frameworks import framework_network, framework_of, trained_options
        from bfpga.compiler.read.network import read_network
        from bfpga.compiler.recipes import load_recipe
    except ModuleNotFoundError as error:
        raise ToolError(
            f"networks cannot be compiled on this machine ({error}): compile on a PC (`bfpga compile`), copy the "
            "program file (`bfpga deploy`) and read it with bfpga.program.file.load_program"
        ) from None
    described = load_accelerator(accelerator)
    if isinstance(options, (str, Path)):
        options = load_recipe(options)
    if framework_of(model):
        options = trained_options(model, options)
        if isinstance(calibration, (str, Path)):
            calibration = load_samples(calibration)
        shown = calibration.x if isinstance(calibration, Samples) else calibration
        network = framework_network(model, shown if example_inputs is None else example_inputs)
    else:
        network = read_network(model)
    if isinstance(calibration, (str, Path, Samples, InputSamples)):
        calibration = given_samples(calibration, network.inputs).inputs
    arrays: Any = calibration if calibration is None or isinstance(calibration, Mapping) else np.asarray(calibration)
    return compile_network(network, described, arrays, options)


def open_device(name: str, program: Compiled) -> Device:
    """Open a device for one program, which may be named by its file.

    `emulator`; `csim` (native integers), `csim:ap_int` or `csim:exact`; `rtl`, the kernel's Verilog clock by clock, or
    `rtl:seed=N`, with pauses of its streams by chance; `virtual`, a board with PYNQ that is a model in this process;
    `virtual:rtl`, such a board whose kernel is the simulated Verilog; `board`, the one this runs on;
    `remote:HOST[:PORT]`, one in the network; several boards with commas between, which share the samples
    (docs/scale.md). Boards need an overlay of the program's accelerator. DeviceError for an unknown name or a board
    that cannot be opened; ToolError if a compiler that a simulation needs is
    missing.
    """
    check_device(name)
    program = program_of(program)
    if any(awaits(node.policy) for node in streamed(program)):
        raise DeviceError(
            f"program {program.name} awaits the exponents of another core, which one core alone is never told; open "
            "both with bfpga.runtime_pair.open_cores"
        )
    if "," in name:
        from bfpga.board.many.pool import BoardPool

        return BoardPool(program, name.split(","))
    if name == "emulator":
        return Emulator(program)
    if name in SIMULATIONS:
        return simulated_device(name, program)
    if is_rtl(name):
        from bfpga.devices.rtl import RtlSimulation, accelerator_of
        from bfpga.devices.streaming_device import StreamingDevice

        return StreamingDevice(program, RtlSimulation(accelerator_of(program), named_seed(name)), name)
    from bfpga.board.load import open_program

    return open_program(program, name)


def simulated_device(name: str, program: Program) -> StreamingDevice:
    """A program on the C simulation with this name of ``SIMULATIONS``."""
    from bfpga.devices.csim import CSimulation
    from bfpga.devices.streaming_device import StreamingDevice

    integers = name.partition(":")[2] or "native"
    kernel = CSimulation(program.config, integers, program.accelerator, program.digest)  # type: ignore[arg-type]
    return StreamingDevice(program, kernel, name)


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
    elif is_rtl(name):
        named_seed(name)
    elif name not in ("emulator", *SIMULATIONS):
        raise DeviceError(f"device {name!r} is unknown; known are {', '.join(DEVICES)}")


def program_of(program: Compiled) -> Program:
    """The program of a file, or the one given. ProgramError for a file that is none."""
    return load_program(program) if isinstance(program, (str, Path)) else program


def input_samples(program: Program, x: Given) -> InputSamples:
    """Inputs by name with their labels, as far as known; of a program that takes samples side by side, one by one.

    Samples of another shape but as many elements are reshaped, (N, 1, 28, 28) to (N, 784) for example.
    """
    beside = program.side_by_side > 1
    shapes = {name: (*shape[:-2], shape[-1]) if beside else shape for name, shape in program.inputs.items()}
    return given_samples(x, shapes)


def input_arrays(program: Program, x: Given) -> dict[str, npt.NDArray[Any]]:
    """Inputs by name; see ``input_samples``."""
    return dict(input_samples(program, x).inputs)


def warn_of_range(program: Program, inputs: Mapping[str, npt.NDArray[Any]], level: int = 3) -> None:
    """RangeWarning for samples far outside of what calibrated. level: calls between this one and the user's."""
    text = range_warning(program, inputs)
    if text:
        warnings.warn(text, RangeWarning, stacklevel=level)


def run(
    program: Compiled,
    x: Given,
    device: str | Device = "emulator",
    *,
    batch: int = BATCH,
    trace: bool = False,
    progress: Progress | None = None,
) -> DeviceResult:
    """Run samples through a program, ``batch`` at a time: outputs by name, cycles, what every layer counted.

    trace: keep every tensor of the array. progress(done, all) after each batch. A device that is given by name is
    opened for this call alone. DataError for samples that do not fit, errors of ``open_device`` and of the device.
    RangeWarning for samples far outside of those that calibrated.
    """
    program = program_of(program)
    inputs = input_arrays(program, x)
    warn_of_range(program, inputs)
    return _run(program, inputs, device, batch, trace, progress)


def predict(
    program: Compiled,
    x: Given,
    device: str | Device = "emulator",
    *,
    output: str | None = None,
    batch: int = BATCH,
    progress: Progress | None = None,
) -> npt.NDArray[np.float32]:
    """The output of a program for samples, (samples, *shape) float32; everything else as for ``run``.

    output: its name, needed where there are several. DataError for a name that is none.
    """
    program = program_of(program)
    names = ", ".join(program.outputs)
    if output is None and len(program.outputs) != 1:
        raise DataError(f"program {program.name} has the outputs {names}; name one: predict(..., output=NAME)")
    if output is not None and output not in program.outputs:
        raise DataError(f"program {program.name} has no output {output!r}; it has {names}")
    inputs = input_arrays(program, x)
    warn_of_range(program, inputs)
    found = _run(program, inputs, device, batch, False, progress).outputs
    return np.asarray(found[output or next(iter(program.outputs))], np.float32)


def _run(
    program: Program,
    inputs: dict[str, npt.NDArray[Any]],
    device: str | Device,
    batch: int,
    trace: bool,
    progress: Progress | None,
) -> DeviceResult:
    samples = _sample_count(inputs)
    count, given = program.side_by_side, samples
    if count > 1:
        inputs = {name: together(value, count) for name, value in inputs.items()}
        samples, batch = -(-samples // count), -(-batch // count)
    opened = open_device(device, program) if isinstance(device, str) else device
    batch = samples if getattr(opened, "spreads", False) else batch
    try:
        parts = []
        for start in range(0, samples, batch):
            part = {name: value[start : start + batch] for name, value in inputs.items()}
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
    return len(next(iter(inputs.values())))


def compare(
    program: Compiled,
    x: Given,
    device: str | Device,
    reference: str | Device = "emulator",
    *,
    batch: int = BATCH,
    progress: Progress | None = None,
) -> Comparison:
    """Run samples on a device and on a reference and compare every tensor, output, counter and cycle count.

    Tensors that stay on the chip are stored for the comparison; that does not count as cycles.
    """
    program = program_of(program)
    inputs = input_arrays(program, x)
    warn_of_range(program, inputs)
    expected = _run(program, inputs, reference, batch, True, None)
    got = _run(program, inputs, device, batch, True, progress)
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


@dataclass(repr=False)
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

    def __repr__(self) -> str:
        shares = {"accuracy": self.accuracy, self.reference: self.float_accuracy}
        known = [f"{name} {notebook.percent_text(share)}" for name, share in shares.items() if share is not None]
        same = f"same largest output as {self.reference} {notebook.percent_text(self.agreement)}"
        return f"Evaluation({self.samples} samples; {', '.join([*known, same])}, cosine {self.cosine:.4f})"

    def _repr_html_(self) -> str:
        rows = [
            (name, f"{ratio:.1f} dB", f"{self.worst_sqnr_db.get(name, ratio):.1f} dB")
            for name, ratio in self.sqnr_db.items()
        ]
        headings = ("tensor", "SQNR", "worst sample")
        return notebook.page(
            repr(self),
            notebook.table(headings, rows, headings[1:]) if rows else "",
            notebook.bars(f"SQNR on {self.traced} samples", list(self.sqnr_db.items()), "dB"),
            notebook.lines(self.note) if self.note else "",
        )


def evaluate(
    program: Compiled,
    model: str | Path | Network,
    x: Given,
    y: npt.ArrayLike | None = None,
    *,
    batch: int = BATCH,
    traced: int | None = None,
    progress: Progress | None = None,
    workers: Workers = IN_PROCESS,
) -> Evaluation:
    """Accuracy of a program and of its float network (ONNX Runtime) on samples with labels, and how far they differ.

    A quantized network is judged by its own results; layer by layer, by the float network that it represents.

    y: the class of every sample; None: those of the file or of the samples, where they are classes of the first output.
    traced: number of samples, spread evenly over all, whose tensors are compared layer by layer and whose saturated
    values are counted; None: all, or as many as take about ``TRACED_MACS``. progress(done, all): samples through the
    emulator, through the float network, and those that are traced; batches are small enough to move it. workers: who
    computes the batches, with the same results; a program that learns from sample to sample is computed here.
    """
    program = program_of(program)
    given = input_samples(program, x)
    inputs, samples = dict(given.inputs), len(given)
    labels = _labels(program, given.y if y is None else y, samples, y is not None)
    warn_of_range(program, inputs)
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
        accuracy=None if labels is None else _share(found.argmax(axis=1) == labels),
        float_accuracy=None if labels is None else _share(wanted.argmax(axis=1) == labels),
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


def _labels(program: Program, y: npt.ArrayLike | None, samples: int, asked: bool) -> npt.NDArray[Any] | None:
    """The class of every sample, None where none are known; DataError for those asked for that are not classes."""
    if y is None:
        return None
    labels, scores = np.asarray(y), int(np.prod(next(iter(program.outputs.values()))))
    if asked and (labels.dtype.kind not in "iub" or labels.shape != (samples,)):
        raise DataError(
            f"labels have shape {labels.shape} and type {labels.dtype}; {samples} whole numbers are needed, the class "
            "of every sample"
        )
    return labels if asked else class_labels(labels, scores)


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
