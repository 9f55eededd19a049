"""The record of an engine: what compiler, estimates, renderer and reports ask instead of knowing engines by name.

Every room of an engine builds one in its ``engine.py``; ``engines.registry`` holds them in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.engine_numbers import ARRAY, EngineName
from bfpga.contract.program import Window
from bfpga.engines.interface.resource_units import Resources


class ImageShape(Protocol):
    """The tensor that a layer reads: `TensorSpec` and `ArrayTensor` have this shape."""

    @property
    def height(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def channels(self) -> int: ...


class CandidateLayer(Protocol):
    """A layer that looks for an engine: `ArrayNode`, and the compiler's layer before its numbers are integers."""

    @property
    def kind(self) -> str: ...
    @property
    def weights(self) -> Any: ...
    @property
    def uniform_weights(self) -> bool: ...
    @property
    def window(self) -> Window: ...


class Finding(NamedTuple):
    """A wrong number: the key it belongs to, what would be right, and whose section has the key."""

    key: str
    text: str
    engine: EngineName = ARRAY


@dataclass(frozen=True)
class Engine:
    """One engine, in facts and functions.

    name: in files, programs and reports; title: in tables; colour: in pictures. operations: what its descriptors say.
    supported: the operations of networks that it computes (SC R14). skips: which zeros cost it no time.
    refusals: reasons why it cannot compute a layer that reads a tensor, the most telling one first. findings: wrong
    numbers of a configuration, as far as they are the engine's. resources: its parts with what they take of a device.
    """

    name: EngineName
    title: str
    colour: str
    operations: tuple[Operation, ...]
    supported: tuple[str, ...]
    skips: Literal["nothing", "weights", "inputs"]
    refusals: Callable[[CandidateLayer, ImageShape, SystolicConfig], Iterator[str]]
    findings: Callable[[SystolicConfig], Iterator[Finding]]
    resources: Callable[[SystolicConfig], dict[str, Resources]]

    def refusal(self, layer: CandidateLayer, spec: ImageShape, config: SystolicConfig) -> str:
        """Why the engine cannot compute the layer, in one sentence; empty if it can.

        spec: the layer's input. A layer without integers yet is judged by what it has: formats and policies come later.
        """
        if self.name not in config.engines:
            return f"the accelerator has no engine {self.name}"
        return next(self.refusals(layer, spec, config), "")
