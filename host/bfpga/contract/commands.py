"""The commands of a kernel: which fields of a descriptor each process receives, declared once.

The sequencer reads descriptors from the input stream and hands every process a command: the fields below, one 32-bit
word each, of the operations below. Its C++ tables are rendered from here. Only the standard library is imported.
"""

from __future__ import annotations

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import ADD_WORDS, PART_OPERATIONS, Operation
from bfpga.contract.process_command import COMMANDS, ProcessCommand, command, with_fields, without
from bfpga.contract.process_stream import FACTORS, ROWS

#: The word that a process receives, in the place of a command, of an operation that is skipped: one that it counts.
SKIPPED = -1
#: What `post` receives in addition where operations count what they store.
_COUNTING = "count_threshold"
#: Fields for the sequencer itself: a LOAD is followed by its tensor.
TENSOR_COMMAND = command("tensor", (Operation.LOAD,), "output_slot output_pixels output_width output_pixel_words")
#: What the scratchpad receives in addition where products add tensors, by the names that C++ has for the words.
_ADDING = " ".join(ADD_WORDS.values())
#: The commands of the processes of rows.
ROW_COMMANDS = (
    command(ROWS, (Operation.ROWS,), "output_rows row_operation groups"),
    command(
        FACTORS,
        (Operation.ROWS,),
        "output_rows row_operation row_inverse row_magnitude row_epsilon row_epsilon_exponent groups",
    ),
)


def commands(config: KernelConfig) -> tuple[ProcessCommand, ...]:
    """The commands of the processes of a kernel, in the order of ``COMMANDS``."""
    chosen = {item.process: item for item in (*COMMANDS, *config.array.commands())}
    found = tuple(map(_counting, chosen.values())) if config.count_registers else tuple(chosen.values())
    found = tuple(map(_adding, found)) if config.residual_adds else found
    lacking = [item for item in PART_OPERATIONS if item not in config.part_operations]
    return (*(without(item, lacking) for item in found), *(ROW_COMMANDS if config.has_rows else ()))


def _adding(given: ProcessCommand) -> ProcessCommand:
    """A command in a kernel whose products add tensors."""
    return with_fields(given, _ADDING) if given.process == "scratchpad" else given


def _counting(given: ProcessCommand) -> ProcessCommand:
    """A command in a kernel with count registers."""
    return with_fields(given, _COUNTING) if given.process == "post" else given
