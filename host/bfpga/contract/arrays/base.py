"""An array in a kernel: what its processes, streams, commands and memories are. Shared code asks it, never its kind.

Only the standard library is imported: a board loads this module too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol, TypeAlias

from bfpga.contract.number_group import NumberGroup
from bfpga.contract.process_command import ProcessCommand
from bfpga.contract.process_stream import ARRAY, POST, SCRATCHPAD, SHALLOW, WEIGHTS, ProcessStream
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.checked_fields import Between, check_fields

#: Ranges of the fields of arrays and kernels: what a model can have at all. An accelerator file allows less.
Words: TypeAlias = Annotated[int, Between(1, 65536)]
Width: TypeAlias = Annotated[int, Between(1, 256)]
WidthOrNone: TypeAlias = Annotated[int, Between(0, 256)]
#: Which zeros take no time.
Zeros = Literal["none", "weights", "activations"]


class Kernel(Protocol):
    """The numbers of a kernel around its array."""

    @property
    def format(self) -> BlockFormat: ...
    @property
    def columns(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def lanes(self) -> int: ...
    @property
    def accumulator_bits(self) -> int: ...
    @property
    def accumulator_rows(self) -> int: ...
    @property
    def bias_bits(self) -> int: ...
    @property
    def weight_bits(self) -> int: ...
    @property
    def weight_container_bits(self) -> int: ...
    @property
    def pass_words(self) -> int: ...
    @property
    def tap_reuse(self) -> bool: ...


@dataclass(frozen=True)
class Array(ABC):
    """An array and its numbers; ConfigurationError for a field of another type or out of its range.

    Here is what most arrays share: weight words of ``rows`` x ``lanes`` weights, one stream of sums.
    """

    #: Its name in files.
    kind: ClassVar[str]
    #: The module of its behaviour in compiler, estimates and descriptors, as ``ENGINE``.
    engine: ClassVar[str]
    #: The header of its process, below bfpga/processes; what templates ask of it.
    header: ClassVar[str]
    #: The header of its processes in a simulation of a kernel, and their class, with `SystolicMultiplying`'s interface.
    simulation: ClassVar[tuple[str, str]]
    template_flags: ClassVar[frozenset[str]] = frozenset()
    #: What commands follow from, in the name of their space in C++.
    command_space: ClassVar[str] = ""
    #: Which zeros take no time. Of weights: those that the compiler stores as entries with their places.
    zeros: ClassVar[Zeros] = "none"
    #: Whether weights are stored as entries, for which weight words of a systolic array have no place.
    stores_entries: ClassVar[bool] = False
    #: Whether the compiler stores weights block by block, in the form that takes fewer words.
    stores_blocks: ClassVar[bool] = False
    #: Whether passes come in runs, for which the weights of a chunk stay.
    computes_runs: ClassVar[bool] = False
    #: Whether it reads whole maps, cell by cell; and cuts them into pieces.
    reads_maps: ClassVar[bool] = False
    cuts_maps: ClassVar[bool] = False
    #: Whether a systolic array works in parallel with it: each GEMM says which of the two computes it.
    has_both: ClassVar[bool] = False
    #: Whether columns may take taps of a window from adjacent columns.
    may_reuse_taps: ClassVar[bool] = False
    #: Groups of ``columns`` pixels that an array which skips zeros computes at a time.
    halves: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_fields(self, f"kernel configuration: {self.kind}")

    # Processes, streams, commands

    def processes(self, kernel: Kernel) -> tuple[str, ...]:
        """Processes in addition to those of every kernel."""
        return ()

    @abstractmethod
    def operand_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        """What the scratchpad sends to the array."""

    @abstractmethod
    def weight_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        """What the weights process sends."""

    def inner_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        """Streams between processes of the array, and to others than `post`."""
        return iter(())

    def sum_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        """What the output stage gets."""
        yield ProcessStream("sums", ARRAY, POST, kernel.columns * kernel.accumulator_bits, SHALLOW)

    @abstractmethod
    def result_words(self, kernel: Kernel) -> int:
        """Words of results that may wait for the scratchpad."""

    def commands(self) -> tuple[ProcessCommand, ...]:
        """Commands in the place of those of every kernel, or in addition."""
        return ()

    def word_types(self) -> dict[str, str]:
        """C++ types of the words of its own streams."""
        return {}

    def flags(self) -> frozenset[str]:
        """What templates ask of it."""
        return self.template_flags

    def templates(self) -> dict[str, str]:
        """Templates of its processes whose names are others."""
        return {}

    # Texts

    def size_text(self, kernel: Kernel) -> str:
        """What it computes in a cycle: `12 x 8 x 4` columns, rows and lanes; `16 x 24` groups and lanes of each."""
        return f"{kernel.columns} x {kernel.rows} x {kernel.lanes}"

    def shape_text(self, kernel: Kernel) -> str:
        """The same in words."""
        return self.size_text(kernel)

    # Numbers

    def products(self, kernel: Kernel) -> int:
        """Products of a cycle."""
        return kernel.columns * kernel.rows * kernel.lanes

    def skip_groups(self, kernel: Kernel) -> int:
        """Groups or units that skip zeros, each for operands of its own; 0: there is none."""
        return 0

    def skip_products(self, kernel: Kernel) -> int:
        """Products of a cycle of what skips zeros."""
        return 0

    def chunk_words(self, kernel: Kernel) -> int:
        """Wide words of a chunk of windows."""
        return 256

    def queue_words(self) -> int:
        """Entries or words of each group that wait."""
        return 32

    def run_passes(self, kernel: Kernel) -> int:
        """Passes for which the weights of a chunk stay."""
        return 16

    def weight_copy_columns(self, kernel: Kernel) -> int:
        """Columns that share a copy of the weights; every further block of them gets it a cycle later."""
        return kernel.columns

    def weights_of_word(self, kernel: Kernel) -> int:
        """Weights that a word of the weight memory holds; of stored entries those that are not zero, at most."""
        return kernel.rows * kernel.lanes

    def weight_word_bits(self, kernel: Kernel) -> int:
        """Bits of a word of the weight memory on the weight stream."""
        return kernel.rows * kernel.lanes * kernel.weight_container_bits

    def entry_bits(self, kernel: Kernel) -> int:
        """Bits of an entry: a weight, its position in the chunk, and two marks."""
        return kernel.weight_bits + (self.chunk_words(kernel) - 1).bit_length() + 2

    def entry_field_bits(self, kernel: Kernel) -> int:
        """Bits of the weight and the position of an entry on the weight stream: no field straddles two beats."""
        return 1 << (self.entry_bits(kernel) - 3).bit_length()

    def number_groups(self, kernel: Kernel) -> tuple[NumberGroup, ...]:
        """Numbers of its own that the C++ reads."""
        return ()

    def host_numbers(self) -> dict[str, int]:
        """Numbers by which the host prepares data for this kernel."""
        return {}


def operands(kernel: Kernel, flags: int, name: str = "operands", target: str = ARRAY) -> ProcessStream:
    """Beats of operands: a word of each column, whether it is there, marks; flags: further bits."""
    bits = kernel.columns * kernel.lanes * kernel.format.mantissa_bits + kernel.columns + 4 + flags
    return ProcessStream(name, SCRATCHPAD, target, bits, SHALLOW)


def weight_words(kernel: Kernel, name: str, target: str) -> ProcessStream:
    """Weight words of all rows and lanes, with two marks."""
    return ProcessStream(name, WEIGHTS, target, kernel.rows * kernel.lanes * kernel.weight_bits + 2, SHALLOW)


def parameters(kernel: Kernel, needed: int, for_speed: int = 0) -> ProcessStream:
    """Rows of bias and exponent on their way to the output stage."""
    return ProcessStream("parameters", WEIGHTS, POST, kernel.bias_bits + 16, needed + for_speed, needed)
