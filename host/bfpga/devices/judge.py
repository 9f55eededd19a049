"""A program against its float network, batch by batch: the parts of an evaluation, each of them for itself.

What a batch gives does not depend on the process or the time, so an evaluation may be spread (``bfpga.scale``). Figures
of all samples are made of figures of single samples, in their order, so that they have the same bits however many
batches there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import MatMulNode, Program
from bfpga.devices.base import DeviceResult, LayerResult
from bfpga.devices.emulator import Emulator
from bfpga.devices.matmul import decode_product
from bfpga.devices.parts import joined_layers
from bfpga.devices.reference import FloatNetwork, energies
from bfpga.formats.arrays import FloatArray
from bfpga.program.layout import apart, decode_tensor, together
from bfpga.scale.work import Work

if TYPE_CHECKING:
    from bfpga.compiler.read.network import Network

Kind = Literal["emulator", "float", "traced"]
#: Kinds of batches, in the order of an evaluation.
KINDS: tuple[Kind, ...] = ("emulator", "float", "traced")
Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Batch:
    """Samples [first, last): their outputs on the emulator or in float, or their tensors on both (``traced``).

    Traced samples count among those that are traced.
    """

    kind: Kind
    first: int
    last: int


@dataclass
class Judged:
    """What a batch gives.

    outputs: by ONNX name. remark: of the emulator on native layers; of the float network, what it is. energies: signal
    and noise of each sample by tensor (`devices.reference.energies`); layers: what was counted.
    """

    kind: str
    outputs: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    remark: str = ""
    energies: dict[str, tuple[FloatArray, FloatArray]] = field(default_factory=dict)
    layers: list[LayerResult] = field(default_factory=list)


def batches(kind: Kind, samples: int, batch: int, side_by_side: int) -> list[Batch]:
    """All samples of one kind; samples that are computed side by side stay together."""
    step = -(-batch // side_by_side) * side_by_side
    return [Batch(kind, first, min(first + step, samples)) for first in range(0, max(samples, 1), step)]


class Judge:
    """What one process needs for all batches; each device is opened when a batch asks for it.

    inputs: of all samples. traced: those among them that are traced, spread evenly.
    """

    def __init__(self, program: Program, network: Network, inputs: Arrays, traced: int) -> None:
        self.program, self.network, self.inputs, self.traced = program, network, inputs, traced
        self._float_tracer: FloatNetwork | None = None

    @cached_property
    def chosen(self) -> Arrays:
        """The samples that are traced."""
        samples = min(map(len, self.inputs.values()))
        spread = np.linspace(0, samples - 1, self.traced).round().astype(np.int64)
        return {name: value[spread] for name, value in self.inputs.items()}

    @cached_property
    def emulator(self) -> Emulator:
        return Emulator(self.program)

    @cached_property
    def tracer(self) -> Emulator:
        """An emulator of its own: policies that learn do so from the traced samples alone."""
        return Emulator(self.program)

    @cached_property
    def float_network(self) -> FloatNetwork:
        return FloatNetwork(self.network, quantized=True)

    def judge(self, batch: Batch) -> Judged:
        """What a batch gives."""
        source = self.chosen if batch.kind == "traced" else self.inputs
        inputs = {name: value[batch.first : batch.last] for name, value in source.items()}
        if batch.kind == "emulator":
            outputs = run_batch(self.program, inputs, self.emulator).outputs
            return Judged(batch.kind, outputs, self.emulator.note)
        if batch.kind == "float":
            found = self.float_network.run(inputs)
            outputs = {name: found[name] for name in self.float_network.outputs}
            return Judged(batch.kind, outputs, self.float_network.kind)
        return self._trace(inputs)

    def _trace(self, inputs: Arrays) -> Judged:
        samples = min(map(len, inputs.values()))
        result = run_batch(self.program, inputs, self.tracer, trace=True)
        if self._float_tracer is None:
            self._float_tracer = FloatNetwork(self.network, result.tensors)
        floats = self._float_tracer.run(inputs)
        judged = Judged("traced", layers=result.layers)
        for name, values in _decoded(self.program, result, samples):
            if name in floats and floats[name].size == values.size and len(floats[name]) == len(values):
                judged.energies[name] = energies(floats[name], values)
        return judged


def judge(state: Judge, batch: Batch) -> Judged:
    """`Judge.judge` as workers call it."""
    return state.judge(batch)


def _samples(batch: Batch) -> int:
    return batch.last - batch.first


#: Work on batches; shared: the arguments of ``Judge``.
JUDGE: Work[Judge, Batch, Judged] = Work(Judge, judge, _samples)


def run_batch(program: Program, inputs: Arrays, emulator: Emulator, *, trace: bool = False) -> DeviceResult:
    """One batch of samples; those that go side by side are put together for the run."""
    count = program.side_by_side
    if count == 1:
        return emulator.run(inputs, trace=trace)
    samples = min(map(len, inputs.values()))
    result = emulator.run({name: together(value, count) for name, value in inputs.items()}, trace=trace)
    result.outputs = {name: apart(value, samples) for name, value in result.outputs.items()}
    result.samples = samples
    return result


def _decoded(program: Program, result: DeviceResult, samples: int) -> Iterator[tuple[str, FloatArray]]:
    """The tensors of a run as numbers, sample by sample."""
    products = {node.output: node for node in program.nodes if isinstance(node, MatMulNode)}
    for name, tensor in result.tensors.items():
        if name in products:
            values = decode_product(products[name], tensor, program)
        else:
            values = decode_tensor(tensor, program.tensors[name]) / np.float32(program.tensors[name].factor)
        yield name, apart(values, samples) if program.side_by_side > 1 else values


def outputs_of(kind: str, judged: Sequence[Judged]) -> dict[str, npt.NDArray[Any]]:
    """Outputs of all batches of a kind by name."""
    parts = [part.outputs for part in judged if part.kind == kind]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def remark_of(kind: str, judged: Sequence[Judged]) -> str:
    """The remark of the batches of a kind."""
    return next(part.remark for part in judged if part.kind == kind)


def energies_of(judged: Sequence[Judged]) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Signal and noise of all traced samples by tensor."""
    parts = [part.energies for part in judged if part.kind == "traced"]
    signal, noise = 0, 1
    return {
        name: (
            np.concatenate([part[name][signal] for part in parts]),
            np.concatenate([part[name][noise] for part in parts]),
        )
        for name in (parts[0] if parts else ())
    }


def layers_of(judged: Sequence[Judged]) -> list[LayerResult]:
    """What the traced samples counted, all together."""
    return joined_layers([part.layers for part in judged if part.kind == "traced"])
