"""The commands of a kernel: which fields of a descriptor each process receives, declared once.

The sequencer reads descriptors from the input stream and hands every process a command: the fields below, one 32-bit
word each, of the operations below. Its C++ tables are rendered from here. Only the standard library is imported.
"""

from __future__ import annotations

from dataclasses import dataclass

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import COMPUTING, FIELDS, SHARED_WORDS, Operation, word_of


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


def _command(process: str, operations: tuple[Operation, ...], fields: str) -> ProcessCommand:
    chosen = {"operation", *fields.split()}
    assert chosen <= {*FIELDS, *SHARED_WORDS}, chosen - {*FIELDS, *SHARED_WORDS}
    return ProcessCommand(process, operations, tuple(sorted(chosen, key=word_of)))


COMMANDS = (
    _command(
        "scratchpad",
        (Operation.LOAD, Operation.STORE, *COMPUTING),
        "flags output_pixels output_width group_columns kernel_height kernel_width stride_y stride_x dilation_y "
        "dilation_x pad_top pad_left input_height input_width channel_words block_step blocks output_rows read_slots "
        "write_slots read_runs write_runs input_pixel_words input_word input_bank input_step_word input_step_bank "
        "input_wrap_word input_wrap_bank tap_x_word tap_x_bank tap_y_word tap_y_bank output_pixel_words output_word "
        "output_bank output_wrap_word output_wrap_bank groups after_loads after_results after_stores",
    ),
    _command(
        "weights",
        (Operation.WEIGHTS, Operation.GEMM),
        "flags kernel_height kernel_width channel_words blocks output_rows weight_base weight_tap_step "
        "weight_block_step weight_words parameter_base parameter_rows groups after_fills after_reads",
    ),
    _command(
        "post",
        (Operation.LOAD, Operation.STORE, *COMPUTING),
        "flags input_slot second_slot output_slot output_pixels group_columns kernel_height kernel_width blocks "
        "output_rows bias_exponent function function_argument function_exponent policy policy_slot output_exponent "
        "policy_window policy_factor lead_rule position_rate position_margin position_base wide_word groups",
    ),
    _command("store", (Operation.STORE,), "flags output_pixels output_width input_pixel_words"),
)


def _with(command: ProcessCommand, fields: str) -> ProcessCommand:
    """A command with further fields."""
    return _command(command.process, command.operations, " ".join((*command.fields, fields)))


#: What processes receive instead for a skip array that skips activations: windows, and their weights, come in chunks.
_CHUNK_COMMANDS = (_with(COMMANDS[0], "chunk_steps chunk_buffers"), _with(COMMANDS[1], "chunk_steps"))
#: And of one that skips weights: entries take the place of weight words.
_ENTRY_COMMANDS = (
    _with(COMMANDS[0], "chunk_steps chunk_buffers"),
    _command(
        "weights",
        (Operation.WEIGHTS, Operation.GEMM),
        "flags output_rows weight_base weight_words parameter_base parameter_rows groups after_fills after_reads "
        "entry_words",
    ),
)
#: What processes receive for a sparse cluster: how large the map is that is read; and what the cluster does with it.
_CLUSTER_COMMANDS = (
    _with(
        COMMANDS[0], "map_groups map_cells most_moves part_words parts_down parts_across read_height read_width"
    ),
)
#: Where maps are cut a STORE brings records of them.
_RECORDING_COMMANDS = (*_CLUSTER_COMMANDS, _with(COMMANDS[3], "told_words"))
#: Of a tile: stored words come block by block, as many of each.
_TILE_COMMANDS = (
    *_CLUSTER_COMMANDS,
    _command(
        "weights",
        (Operation.WEIGHTS, Operation.GEMM),
        "flags blocks output_rows weight_base weight_block_step weight_words parameter_base parameter_rows groups "
        "after_fills after_reads",
    ),
)
_CLUSTER_COMMAND = _command(
    "array",
    (Operation.GEMM,),
    "flags output_pixels output_width group_columns kernel_height kernel_width stride_y stride_x pad_top pad_left "
    "input_height input_width channel_words blocks map_groups most_moves work_difference map_cells joined_rows "
    "joined_columns parts_down parts_across told_words",
)
#: The word that a process receives, in the place of a command, of an operation that is skipped: one that it counts.
SKIPPED = -1
#: What `post` receives in addition where operations count what they store.
_COUNTING = "count_threshold"
#: Fields for the sequencer itself: a LOAD is followed by its tensor.
TENSOR_COMMAND = _command("tensor", (Operation.LOAD,), "output_slot output_pixels output_width output_pixel_words")


def commands(config: KernelConfig) -> tuple[ProcessCommand, ...]:
    """The commands of the processes of a kernel, in the order of ``COMMANDS``."""
    others = {command.process: command for command in _instead(config)}
    chosen = tuple(others.get(command.process, command) for command in COMMANDS)
    if config.has_cluster:
        chosen = (*chosen, _CLUSTER_COMMAND)
    return tuple(map(_counting, chosen)) if config.count_registers else chosen


def _instead(config: KernelConfig) -> tuple[ProcessCommand, ...]:
    """What processes receive in the place of those of ``COMMANDS``."""
    if config.has_cluster:
        return _RECORDING_COMMANDS if config.cuts_maps else _TILE_COMMANDS
    return _CHUNK_COMMANDS if config.skips_activations else _ENTRY_COMMANDS if config.skips_weights else ()


def _counting(command: ProcessCommand) -> ProcessCommand:
    """A command in a kernel with count registers."""
    return _with(command, _COUNTING) if command.process == "post" else command
