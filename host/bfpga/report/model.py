"""The content of a report, before anything of it is drawn: figures of estimates, schedules and measurements, typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.program import HostNode, Program
from bfpga.devices.measured_clocks import MeasuredClocks
from bfpga.engines.interface.resource_units import Resources
from bfpga.estimate.hardware import HardwareFigures
from bfpga.estimate.program import LayerEstimate, ProgramEstimate
from bfpga.estimate.roofline import Roofline
from bfpga.program.places import ARRAY_TITLE, HOST
from bfpga.report.accuracy import Accuracy
from bfpga.report.environment import Environment
from bfpga.report.memory import MemoryMap
from bfpga.report.partition import LayerPartition
from bfpga.report.timeline import Timeline


@dataclass(frozen=True)
class LayerFigures:
    """One layer: its estimate of one sample, and what was measured of it on samples (None: not measured).

    label: a short name that no other layer has. saturated_values: over all traced samples.
    """

    label: str
    estimate: LayerEstimate
    sqnr_db: float | None = None
    worst_sqnr_db: float | None = None
    saturated_samples: int | None = None
    saturated_values: int | None = None
    saturates_too_much: bool = False
    input_density: float | None = None

    @property
    def name(self) -> str:
        return self.estimate.name

    @property
    def engine(self) -> str:
        """What computes it, in words."""
        return HOST if self.estimate.engine == HOST else ARRAY_TITLE

    @property
    def macs_per_byte(self) -> float:
        """Multiply-accumulates that each byte over the streams serves."""
        return self.estimate.macs / self.estimate.bytes if self.estimate.bytes else 0.0

    @property
    def gmac_s(self) -> float:
        """1e9 multiply-accumulates a second while the layer and its transfers take their time."""
        return self.estimate.macs / self.estimate.seconds / 1e9 if self.estimate.seconds else 0.0


@dataclass(frozen=True)
class HostWork:
    """Operators of one kind in a node left to the host, and seconds of one sample on the board (estimated).

    seconds: on this machine (measured), of the whole node, with its first kind.
    """

    name: str
    operators: str
    operations: int
    seconds: float | None
    board_seconds: float | None


@dataclass(frozen=True)
class Calibration:
    """What calibrated the exponents: how many samples, and whether they are those that are judged."""

    samples: int
    origin: str


@dataclass(frozen=True)
class Report:
    """The content of a report of one network on one accelerator.

    traced: samples whose tensors were compared layer by layer, 0 for none. parts_basis: what the resources of the parts
    are, such as counted. latency_s: of one sample with the host's estimated part where ``latency_includes_host``.
    watts, joules: of the device, and of one sample; estimated. measured: clocks of the hardware. remarks: the
    compiler's. histograms: what `run --histograms` reports; empty without.
    """

    model: str
    device: str
    samples: int
    traced: int
    accelerator: Accelerator
    program: Program
    accuracy: Accuracy
    layers: list[LayerFigures]
    estimate: ProgramEstimate
    roofline: Roofline
    parts: dict[str, Resources]
    parts_basis: str
    hardware: HardwareFigures | None
    timeline: Timeline
    overlap: Timeline | None
    memory: MemoryMap
    partitions: list[LayerPartition]
    host: list[HostWork]
    calibration: Calibration
    environment: Environment
    latency_s: float
    latency_includes_host: bool
    images_per_second: float | None
    watts: float
    joules: float
    measured: MeasuredClocks | None = None
    cores: Timeline | None = None
    remarks: list[str] = field(default_factory=list)
    histograms: Mapping[str, Any] = field(default_factory=dict)


def layer_figures(program: Program, estimate: ProgramEstimate, rows: Sequence[Mapping[str, Any]]) -> list[LayerFigures]:
    """Layers with the figures of ``rows``, as ``run`` and ``evaluate`` report them; the host's nodes are left out."""
    host = {node.name for node in program.nodes if isinstance(node, HostNode)}
    measured = {row["name"]: row for row in rows}
    estimates = [layer for layer in estimate.layers if layer.name not in host]
    labels = short_labels([layer.name for layer in estimates])
    return [
        LayerFigures(
            label,
            layer,
            row.get("sqnr_db"),
            row.get("worst_sqnr_db"),
            row.get("saturated_samples"),
            row.get("saturated_values"),
            bool(row.get("saturation_warning")),
            row.get("input_density"),
        )
        for label, layer in zip(labels, estimates, strict=True)
        for row in [measured.get(layer.name, {})]
    ]


def short_labels(names: Sequence[str]) -> list[str]:
    """Names without the folders that all have, and without a trailing operator that adds nothing; all different."""
    parts = [name.strip("/").split("/") for name in names]
    while parts and min(map(len, parts)) > 1 and len({part[0] for part in parts}) == 1:
        parts = [part[1:] for part in parts]
    shortened = ["/".join(part[:-1] if len(part) > 1 and part[-1] in _OPERATORS else part) for part in parts]
    full = ["/".join(part) for part in parts]
    return [short if shortened.count(short) == 1 else long for short, long in zip(shortened, full, strict=True)]


#: Last parts of names that exporters give every layer.
_OPERATORS = frozenset({"BiasAdd", "MatMul", "Conv", "Gemm", "Conv2D", "conv", "add", "Add", "AvgPool", "MaxPool"})


def host_work(rows: Sequence[Mapping[str, Any]]) -> list[HostWork]:
    """The kinds of operators in ``host_nodes`` of the reports of the commands."""
    found = []
    for row in rows:
        for index, each in enumerate(row["each"]):
            named = each["operator"] if each["count"] == 1 else f"{each['count']} {each['operator']}"
            here = None if index else row["seconds"]
            found.append(HostWork(row["name"], named, each["operations"], here, each["board_seconds"]))
    return found
