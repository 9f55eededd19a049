"""What shared code asks of a kernel's array, whatever its kind: its room answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.program import ArrayNode, Tile
from bfpga.engines.interface.finding import Finding
from bfpga.engines.interface.resource_units import Resources
from bfpga.engines.kernel.placement import InputWindow, Placement


class ArrayEngine(ABC):
    """The behaviour of one kind of array. Channels [m0, m1) are output channels of a layer."""

    @abstractmethod
    def findings(self, config: KernelConfig) -> Iterator[Finding]:
        """Wrong numbers of a kernel with such an array."""

    @abstractmethod
    def parts(self, config: KernelConfig, dense: Resources) -> Mapping[str, Resources]:
        """Resources of the array's IPs; dense: look-up tables and flip-flops of a systolic array of these sizes."""

    @abstractmethod
    def multiplier_dsp(self, config: KernelConfig) -> int:
        """DSP blocks of its products."""

    @abstractmethod
    def shift_tables(self, config: KernelConfig) -> int:
        """Look-up tables of tiles that shift."""

    # Weights

    @abstractmethod
    def smallest_cut(self, node: ArrayNode, config: KernelConfig) -> int:
        """Output channels of the smallest piece of weights, whose parameter rows are contiguous."""

    @abstractmethod
    def input_window(self, node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> InputWindow:
        """Channel words that channels [m0, m1) read."""

    @abstractmethod
    def pack_weights(self, node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> bytes:
        """Words of channels [m0, m1) as the weight stream brings them."""

    @abstractmethod
    def weight_words(self, node: ArrayNode, config: KernelConfig, m0: int, m1: int) -> int:
        """How many words they are."""

    @abstractmethod
    def channel_runs(self, node: ArrayNode, config: KernelConfig) -> list[tuple[int, int]]:
        """Output channels of a layer of products, cut into runs that one descriptor computes each."""

    @abstractmethod
    def taps(self, node: ArrayNode, config: KernelConfig) -> int:
        """Taps at which a pass reads operands."""

    # Descriptors

    @abstractmethod
    def group_columns(self, config: KernelConfig, place: Placement, kept: bool) -> int:
        """Pixels of a group; kept: the operation takes kept sums."""

    @abstractmethod
    def blocks(self, node: ArrayNode, config: KernelConfig, tile: Tile) -> int:
        """Row blocks of a tile of products."""

    @abstractmethod
    def read_side(self, config: KernelConfig, place: Placement, result: Descriptor, first_word: int) -> None:
        """Fill in what products read."""

    @abstractmethod
    def weight_steps(self, config: KernelConfig, place: Placement, result: Descriptor) -> None:
        """Fill in how the words of blocks and taps lie in the weight memory."""

    @abstractmethod
    def finish(self, config: KernelConfig, place: Placement, result: Descriptor) -> None:
        """Fill in what only this kind of array has, and ``steps``: cycles of a pass, where its own differ."""

    # Cycles

    @abstractmethod
    def occupied_cycles(self, config: KernelConfig, descriptor: Descriptor) -> int:
        """Cycles by itself of an operation that is computed without zeros."""

    @abstractmethod
    def weight_reads(self, config: KernelConfig, descriptor: Descriptor) -> int:
        """Weight words that a GEMM multiplies by, each as often as it is read."""


def engine_of(config: KernelConfig) -> ArrayEngine:
    """The engine of a kernel's array."""
    return _engine(config.array.engine)


@cache
def _engine(module: str) -> ArrayEngine:
    engine: ArrayEngine = import_module(module).ENGINE
    return engine
