"""Commands: which fields of a descriptor a process receives. Only the standard library is imported."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from bfpga.contract.descriptor import COMPUTING, FIELDS, ROW_WORDS, SHARED_WORDS, Operation, word_of


@dataclass(frozen=True)
class ProcessCommand:
    """Operations a process takes part in and the fields it needs, in the order of the descriptor."""

    process: str
    operations: tuple[Operation, ...]
    fields: tuple[str, ...]

    @property
    def words(self) -> tuple[int, ...]:
        """Places of the fields in a descriptor."""
        return tuple(word_of(name) for name in self.fields)


def command(process: str, operations: tuple[Operation, ...], fields: str) -> ProcessCommand:
    """A command from the names of its fields, with spaces between them."""
    chosen = {"operation", *fields.split()}
    known = {*FIELDS, *SHARED_WORDS, *ROW_WORDS}
    assert chosen <= known, chosen - known
    return ProcessCommand(process, operations, tuple(sorted(chosen, key=word_of)))


COMMANDS = (
    command(
        "scratchpad",
        (Operation.LOAD, Operation.STORE, *COMPUTING, Operation.WEIGH),
        "flags output_pixels output_width group_columns kernel_height kernel_width stride_y stride_x dilation_y "
        "dilation_x pad_top pad_left input_height input_width channel_words block_step blocks output_rows read_slots "
        "write_slots read_runs write_runs input_pixel_words input_word input_bank input_step_word input_step_bank "
        "input_wrap_word input_wrap_bank tap_x_word tap_x_bank tap_y_word tap_y_bank output_pixel_words output_word "
        "output_bank output_wrap_word output_wrap_bank groups after_loads after_results after_stores",
    ),
    command(
        "weights",
        (Operation.WEIGHTS, Operation.GEMM, Operation.ROWS, Operation.WEIGH),
        "flags kernel_height kernel_width channel_words blocks output_rows weight_base weight_tap_step "
        "weight_block_step weight_words parameter_base parameter_rows groups after_fills after_reads",
    ),
    command(
        "post",
        (Operation.LOAD, Operation.STORE, *COMPUTING, Operation.TABLE),
        "flags input_slot second_slot output_slot output_pixels group_columns kernel_height kernel_width blocks "
        "output_rows bias_exponent function function_argument function_exponent policy policy_slot output_exponent "
        "policy_window policy_factor lead_rule position_rate position_margin position_base wide_word groups",
    ),
    command("store", (Operation.STORE,), "flags output_pixels output_width input_pixel_words"),
)


def with_fields(given: ProcessCommand, fields: str) -> ProcessCommand:
    """A command with further fields."""
    return command(given.process, given.operations, " ".join((*given.fields, fields)))


def without(given: ProcessCommand, operations: Collection[Operation]) -> ProcessCommand:
    """A command without operations that a kernel lacks."""
    kept = tuple(item for item in given.operations if item not in operations)
    return ProcessCommand(given.process, kept, given.fields)
