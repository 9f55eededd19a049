"""An ONNX file as a command uses it: read, checked and simplified once, whoever asks for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from onnx import ModelProto

from bfpga.compiler.read.importer import Graph, checked_model, simplified_graph


@dataclass
class Network:
    """A checked network. model: as the file holds it, external data included; nobody changes it."""

    path: Path
    model: ModelProto
    _graphs: dict[tuple[int, bool], Graph] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs without the batch axis, by name."""
        constants = {item.name for item in self.model.graph.initializer}
        return {
            value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim[1:])
            for value in self.model.graph.input
            if value.name not in constants
        }

    def graph(self, side_by_side: int = 1, separate_averages: bool = False) -> Graph:
        """The simplified graph; ``side_by_side``: samples that travel together (vectors only).

        separate_averages: large ones go in two steps. Raises ModelError for shapes that do not fit together, and for
        what cannot be side by side.
        """
        key = (side_by_side, separate_averages)
        if key not in self._graphs:
            self._graphs[key] = simplified_graph(self.model, self.path, side_by_side, separate_averages)
        return self._graphs[key]


def read_network(network: str | Path | Network) -> Network:
    """The network of a file, or the one given; errors are those of ``checked_model``."""
    return network if isinstance(network, Network) else Network(Path(network), checked_model(network))
