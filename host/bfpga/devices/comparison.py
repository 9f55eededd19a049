"""Two runs of one program, compared bit by bit: the first difference and where it is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import BlockTensor, HostNode, Program
from bfpga.devices.base import DeviceResult, LayerResult
from bfpga.engines.kernel.records import MapRecords


@dataclass(frozen=True)
class Mismatch:
    """The first difference. kind: `exponent`, `mantissa`, `output`, `counters`, `histogram`, `cycles`,
    `choices` or `maps`.

    index: (sample,) for exponents, (sample, row, column, channel) for mantissas, in the value's layout for outputs,
    (sample, map) for maps: the kernel's record of how it has cut one (engines/kernel/records.py).
    """

    kind: str
    layer: str
    tensor: str
    index: tuple[int, ...]
    expected: Any
    got: Any

    def __str__(self) -> str:
        place = f"layer {self.layer}, tensor {self.tensor}, " if self.layer else ""
        at = f" at {self.index}" if self.index else ""
        return f"{place}{self.kind}{at}: expected {self.expected}, got {self.got}"


@dataclass(frozen=True)
class Comparison:
    """Result of comparing a device with a reference. ``mismatch`` is None if every bit agrees."""

    device: str
    reference: str
    samples: int
    tensors: int
    expected: DeviceResult
    got: DeviceResult
    mismatch: Mismatch | None

    @property
    def maps(self) -> int:
        """Maps for which both runs report the cut and the shares."""
        got = {layer.name: layer.maps for layer in self.got.layers}
        return sum(
            layer.maps.moves.size
            for layer in self.expected.layers
            if layer.maps is not None and got[layer.name] is not None
        )

    @property
    def bit_exact(self) -> bool:
        return self.mismatch is None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for reports."""
        return {
            "device": self.device,
            "reference": self.reference,
            "samples": self.samples,
            "tensors_compared": self.tensors,
            "maps_compared": self.maps,
            "bit_exact": self.bit_exact,
            "mismatch": None if self.mismatch is None else {**asdict(self.mismatch), "text": str(self.mismatch)},
            "cycles": {"expected": self.expected.cycles, "got": self.got.cycles},
            "counters": {"expected": self.expected.counters.compared, "got": self.got.counters.compared},
        }


def shared_tensors(expected: DeviceResult, got: DeviceResult) -> list[str]:
    """Tensors that both runs traced."""
    return [name for name in expected.tensors if name in got.tensors]


def first_mismatch(program: Program, expected: DeviceResult, got: DeviceResult) -> Mismatch | None:
    """The first difference in the order of the program: tensors, then outputs, counters, cycles of layers."""
    last = {node.output: node.name for node in program.nodes if not isinstance(node, HostNode)}
    for name in shared_tensors(expected, got):
        found = _tensors(last.get(name, ""), name, expected.tensors[name], got.tensors[name])
        if found is not None:
            return found
    for name in expected.outputs:
        index = _first_difference(expected.outputs[name], got.outputs[name])
        if index is not None:
            values = (_item(expected.outputs[name], index), _item(got.outputs[name], index))
            return Mismatch("output", last.get(name, ""), name, index, *values)
    return _layers(expected, got)


def _tensors(layer: str, name: str, expected: BlockTensor, got: BlockTensor) -> Mismatch | None:
    for kind, first, second in (
        ("exponent", expected.exponent, got.exponent),
        ("mantissa", expected.mantissa, got.mantissa),
    ):
        index = _first_difference(first, second)
        if index is not None:
            return Mismatch(kind, layer, name, index, _item(first, index), _item(second, index))
    return None


def _layers(expected: DeviceResult, got: DeviceResult) -> Mismatch | None:
    """Counters of layers that both runs counted, and clocks."""
    others = {layer.name: layer for layer in got.layers}
    for layer in expected.layers:
        other = others[layer.name]
        if layer.counters is not None and other.counters is not None and layer.counters != other.counters:
            return Mismatch("counters", layer.name, "", (), layer.counters.compared, other.counters.compared)
        found = _histograms(layer, other)
        if found is not None:
            return found
        if layer.cycles != other.cycles:
            return Mismatch("cycles", layer.name, "", (), layer.cycles, other.cycles)
        if layer.choices != other.choices:
            return Mismatch("choices", layer.name, "", (), layer.choices, other.choices)
        if layer.maps is not None and other.maps is not None:
            found = _maps(layer.name, layer.maps, other.maps)
            if found is not None:
                return found
    if expected.cycles != got.cycles:
        return Mismatch("cycles", "", "", (), expected.cycles, got.cycles)
    return None


def _histograms(expected: LayerResult, got: LayerResult) -> Mismatch | None:
    """What collectors counted, where both runs know it."""
    if expected.counters is None or got.counters is None:
        return None
    first, second = expected.counters.histogram, got.counters.histogram
    if first is None or second is None or first == second:
        return None
    return Mismatch("histogram", expected.name, "", (), str(first), str(second))


def _maps(layer: str, expected: MapRecords, got: MapRecords) -> Mismatch | None:
    """The first map that was not cut alike, or not shared out alike."""
    index = _first_difference(expected.words, got.words)
    if index is None:
        return None
    if not index:
        return Mismatch("maps", layer, "", (), f"shape {expected.words.shape}", f"shape {got.words.shape}")
    return Mismatch("maps", layer, "", index[:2], expected.text(*index[:2]), got.text(*index[:2]))


def _first_difference(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> tuple[int, ...] | None:
    if first.shape != second.shape:
        return ()
    nan = (first != first) & (second != second)
    different = (first != second) & ~nan
    if not different.any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(different)), different.shape))


def _item(values: npt.NDArray[Any], index: tuple[int, ...]) -> Any:
    return values[index].item() if index else f"shape {values.shape}"
