"""An ONNX file as a command uses it: read, checked and simplified once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from onnx import ModelProto

from bfpga.compiler.read.graphs import graph_inputs
from bfpga.compiler.read.grids import Grids
from bfpga.compiler.read.importer import Graph, checked_model, simplified_graph
from bfpga.compiler.read.named import model_path
from bfpga.compiler.read.sizes import InputShapes
from bfpga.formats.notebook import clipped, values_text


@dataclass(repr=False)
class Network:
    """A checked network. model: in float, external data included; reference: quantized, where the file is; nobody
    changes them. grids: what the file's quantizers say of values, by name. notes: about what is not taken or kept.
    """

    path: Path
    model: ModelProto
    reference: ModelProto
    grids: Grids = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    _graphs: dict[tuple[bool, bool], Graph] = field(default_factory=dict)

    def __repr__(self) -> str:
        kind = "quantized" if self.quantized else "float"
        return f"Network({clipped(self.name)}: {values_text('input', self.inputs)}, {kind})"

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def quantized(self) -> bool:
        """Whether the file holds a quantized network."""
        return self.reference is not self.model

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs without the batch axis, by name."""
        return {
            value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim[1:])
            for value in graph_inputs(self.model)
        }

    def graph(self, separate_averages: bool = False, late_averages: bool = False) -> Graph:
        """The simplified graph.

        separate_averages: large ones go in two steps. late_averages: after the layer that reads one, unless the
        network says how its values are rounded. Raises ModelError for shapes that do not fit together.
        """
        key = (separate_averages, late_averages)
        if key not in self._graphs:
            late = late_averages and not self.grids
            self._graphs[key] = simplified_graph(self.model, self.path, separate_averages, late, self.grids)
        return self._graphs[key]


def read_network(
    network: str | Path | Network, shapes: InputShapes | None = None, outputs: Sequence[str] | None = None
) -> Network:
    """The network of a file or a name (``named.model_path``), or the one given.

    shapes: of inputs, batch first, where the file leaves sizes open. outputs: values that are wanted, or `class`
    (``outputs.with_outputs``); None for all outputs that are numbers, but for labels that accompany scores. Errors are
    those of ``checked_model``.
    """
    if isinstance(network, Network):
        return network
    path = model_path(network)
    form = checked_model(path, shapes, outputs)
    return Network(path, form.model, form.reference, form.grids, form.notes)
