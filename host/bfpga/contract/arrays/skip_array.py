"""Skip arrays: groups that multiply by stored weights, or by activations, that are not zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from bfpga.contract.arrays.base import (
    Array,
    Kernel,
    Width,
    Words,
    Zeros,
    operands,
    parameters,
    weight_words,
)
from bfpga.contract.descriptor import Operation
from bfpga.contract.process_command import COMMANDS, ProcessCommand, command, with_fields
from bfpga.contract.process_stream import (
    ARRAY,
    AWAITED_PASSES,
    POST,
    SCRATCHPAD,
    SHALLOW,
    WEIGHTS,
    ProcessStream,
)

#: Which zeros a skip array skips: those of stored weights, or those of activations.
SkipSource = Literal["weights", "activations"]
#: The process of a skip array in parallel with a systolic array.
SKIP_ARRAY = "skip_array"
#: Further bits of an operand beat about its chunk; words of results that wait, because vectors come only when all
#: results of windows are back; rows of parameters ahead of their sums, as many as a block of memory has.
SKIP_FLAGS, SKIP_RESULTS, SKIP_PARAMETERS = 5, 64, 1024


@dataclass(frozen=True)
class WindowArray(Array):
    """An array whose windows come in chunks, of ``halves`` groups of ``columns`` pixels at a time."""

    def operand_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        yield operands(kernel, SKIP_FLAGS)

    def inner_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        yield ProcessStream("windows", ARRAY, SCRATCHPAD, 1, SHALLOW, SHALLOW)

    def result_words(self, kernel: Kernel) -> int:
        return SKIP_RESULTS

    def products(self, kernel: Kernel) -> int:
        return self.skip_products(kernel)


@dataclass(frozen=True)
class SkipArray(WindowArray):
    """``groups`` groups, each with an entry of its own a cycle for ``halves`` x ``columns`` pixels and ``rows`` output
    channels at most (processes/skip_array/skip_array.hpp).

    ``chunk``: channels of windows that it holds at a time; ``queue``: entries of a group that wait, of each of which a
    weight word holds one.
    """

    kind: ClassVar[str] = "skip_array"
    engine: ClassVar[str] = "bfpga.engines.skip_array.entry_engine"
    header: ClassVar[str] = "skip_array/skip_array.hpp"
    simulation: ClassVar[tuple[str, str]] = ("skip_array/multiplying.hpp", "SkipMultiplying")
    template_flags: ClassVar[frozenset[str]] = frozenset({"skip_array"})
    command_space: ClassVar[str] = "skip_array"
    zeros: ClassVar[Zeros] = "weights"
    stores_entries: ClassVar[bool] = True

    groups: Width = 16
    chunk: Width = 256
    queue: Words = 32

    def weight_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        """A row waits only for rows of passes before its own, whose entries have all been sent."""
        for group in range(self.groups):
            yield ProcessStream(f"entries_{group}", WEIGHTS, ARRAY, self.entry_bits(kernel), self.queue, self.queue)
        yield parameters(kernel, max(SKIP_PARAMETERS, self.halves * kernel.rows))

    def commands(self) -> tuple[ProcessCommand, ...]:
        """Windows come in chunks; entries take the place of weight words."""
        return (
            with_fields(COMMANDS[0], "chunk_steps chunk_buffers"),
            command(
                "weights",
                (Operation.WEIGHTS, Operation.GEMM),
                "flags output_rows weight_base weight_words parameter_base parameter_rows groups after_fills "
                "after_reads entry_words",
            ),
        )

    def word_types(self) -> dict[str, str]:
        return {f"entries_{group}": "bfpga::wire_t<bfpga::Entry<Config>>" for group in range(self.groups)}

    def size_text(self, kernel: Kernel) -> str:
        return f"{self.groups} x {self.halves * kernel.columns}"

    def shape_text(self, kernel: Kernel) -> str:
        return f"{self.groups} groups x {self.halves * kernel.columns} pixels"

    def skip_groups(self, kernel: Kernel) -> int:
        return self.groups

    def skip_products(self, kernel: Kernel) -> int:
        return self.groups * self.halves * kernel.columns

    def chunk_words(self, kernel: Kernel) -> int:
        return self.chunk

    def queue_words(self) -> int:
        return self.queue

    def weights_of_word(self, kernel: Kernel) -> int:
        return self.groups

    def weight_word_bits(self, kernel: Kernel) -> int:
        """Of stored entries one for each group."""
        return self.groups * (self.entry_field_bits(kernel) + 2)


@dataclass(frozen=True)
class SparseArray(WindowArray):
    """A group for each of the ``halves`` x ``columns`` pixels of a pass, which multiplies by the activations of its
    pixel that are not zero, for ``rows`` output channels at a time (processes/skip_array/sparse_array.hpp).

    ``chunk``: channels of windows that it holds at a time, whose weights stay for ``passes`` passes; ``queue``: words
    of a group that wait.
    """

    kind: ClassVar[str] = "sparse_array"
    engine: ClassVar[str] = "bfpga.engines.skip_array.activation_engine"
    header: ClassVar[str] = "skip_array/sparse_array.hpp"
    simulation: ClassVar[tuple[str, str]] = ("skip_array/sparse_multiplying.hpp", "SparseMultiplying")
    template_flags: ClassVar[frozenset[str]] = frozenset({"sparse_array"})
    command_space: ClassVar[str] = "sparse_array"
    zeros: ClassVar[Zeros] = "activations"
    computes_runs: ClassVar[bool] = True

    chunk: Width = 256
    queue: Words = 32
    passes: Words = 16

    def weight_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        """Rows of a run leave after all its weights of a block, in parallel with those of the block before."""
        yield weight_words(kernel, "weight_words", ARRAY)
        rows = 2 * self.halves * self.passes * kernel.rows
        yield parameters(kernel, max(SKIP_PARAMETERS, rows))

    def commands(self) -> tuple[ProcessCommand, ...]:
        """Windows, and their weights, come in chunks."""
        return with_fields(COMMANDS[0], "chunk_steps chunk_buffers"), with_fields(COMMANDS[1], "chunk_steps")

    def size_text(self, kernel: Kernel) -> str:
        return f"{self.skip_groups(kernel)} x {kernel.rows}"

    def shape_text(self, kernel: Kernel) -> str:
        return f"{self.skip_groups(kernel)} groups x {kernel.rows} channels"

    def skip_groups(self, kernel: Kernel) -> int:
        return self.halves * kernel.columns

    def skip_products(self, kernel: Kernel) -> int:
        return self.skip_groups(kernel) * kernel.rows

    def chunk_words(self, kernel: Kernel) -> int:
        return self.chunk

    def queue_words(self) -> int:
        return self.queue

    def run_passes(self, kernel: Kernel) -> int:
        return self.passes


@dataclass(frozen=True)
class TwoArrays(SparseArray):
    """A skip array of activations in parallel with a systolic array of the same columns, rows and lanes, which
    multiplies by the same weight words. Each GEMM says which of the two computes it (flag SKIP_ARRAY)."""

    kind: ClassVar[str] = "two_arrays"
    engine: ClassVar[str] = "bfpga.engines.skip_array.both_engine"
    header: ClassVar[str] = "systolic/array.hpp"
    simulation: ClassVar[tuple[str, str]] = ("skip_array/mixed_multiplying.hpp", "MixedMultiplying")
    template_flags: ClassVar[frozenset[str]] = frozenset({"both_arrays"})
    has_both: ClassVar[bool] = True

    def processes(self, kernel: Kernel) -> tuple[str, ...]:
        return (SKIP_ARRAY,)

    def operand_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        yield operands(kernel, SKIP_FLAGS)
        yield operands(kernel, SKIP_FLAGS, "skip_operands", SKIP_ARRAY)

    def weight_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        own, rows = super().weight_streams(kernel)
        yield from (own, weight_words(kernel, "skip_words", SKIP_ARRAY), rows)

    def inner_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        yield ProcessStream("windows", SKIP_ARRAY, SCRATCHPAD, 1, SHALLOW, SHALLOW)

    def sum_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        for name, source in (("sums", ARRAY), ("skip_sums", SKIP_ARRAY)):
            yield ProcessStream(name, source, POST, kernel.columns * kernel.accumulator_bits, SHALLOW)

    def result_words(self, kernel: Kernel) -> int:
        return max(SKIP_RESULTS, AWAITED_PASSES * kernel.pass_words)

    def products(self, kernel: Kernel) -> int:
        return kernel.columns * kernel.rows * kernel.lanes

    def size_text(self, kernel: Kernel) -> str:
        """Of the systolic array."""
        return Array.size_text(self, kernel)

    def shape_text(self, kernel: Kernel) -> str:
        return f"{self.size_text(kernel)}, {super().shape_text(kernel)} in parallel"
