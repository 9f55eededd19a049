"""Processes that kernels have, and the streams between two of them: widths and depths.

Only the standard library is imported: a board loads this module too.
"""

from __future__ import annotations

from dataclasses import dataclass

SEQUENCER, SCRATCHPAD, WEIGHTS, ARRAY, POST, STORE = PROCESSES = (
    "sequencer", "scratchpad", "weights", "array", "post", "store",
)  # fmt: skip
#: The processes of compressed maps, before the sequencer and after the store process.
MAP_SPLITTER, MAP_EXPANDER, MAP_COMPRESSOR, MAP_JOINER = MAPS = (
    "map_splitter", "map_expander", "map_compressor", "map_joiner",
)  # fmt: skip
#: Holds descriptors before the sequencer and repeats them.
PROGRAM = "program"
#: The processes of rows: what computes lanes, and what it needs of whole rows.
ROWS, FACTORS = ROW_PROCESSES = "rows", "row_factors"
#: Bits of a word of a command, of a report and of an exponent.
COMMAND_BITS = 32
#: Operations that may wait in the commands of a process.
WAITING_OPERATIONS = 8
#: Groups of pixels that a STORE may have sent without a credit.
STORE_CREDITS = 64
#: Passes whose results the scratchpad may await: as many short ones as go on while the first one's results pass the
#: array and the output stage.
AWAITED_PASSES = 16
#: Words of a tensor that is added to sums which may be on the way to a word of results: as many as its stream holds.
ADDED_WORDS = 16
#: Cycles between the last access of what an operation of the scratchpad needs and its begin: more than any pipeline
#: has between the stage that writes and the stage that reads; counts are compared in them.
START_GUARD = 24
#: Stages that the longest pipelined loop may have between a read and a write, or between two writes of an iteration. No
#: loop waits for a word while it holds others (bfpga/processes/held_beat.hpp), so streams hold what the order of the
#: program needs. Where a loop waits for room in a stream whose reader waits for words of the same loop in another one,
#: these may lag by that many cycles: such a stream holds so many words more than the order of the program needs.
LONGEST_PIPELINE = 40
#: Counts that may await the sequencer: those of the operations whose commands it has sent to `post` while it waits for
#: room in the commands of another process, and that of the one at work.
WAITING_COUNTS = WAITING_OPERATIONS + 2
#: The smallest FIFO that the vendor's IP makes, and the deepest that is made of look-up tables.
SHALLOW, DEEPEST_DISTRIBUTED = 16, 64
#: Groups of a tensor that may wait for the scratchpad, whose command the sequencer has sent before.
WAITING_GROUPS = SHALLOW + LONGEST_PIPELINE


@dataclass(frozen=True)
class ProcessStream:
    """A stream from one process to another: its name, the bits of a word, the words that its FIFO must be able to hold.

    ``needed``: of these the ones that the order of the program needs, whatever latencies its processes have and however
    few words other streams hold; with fewer a kernel might wait for ever. The others change nothing but time.
    """

    name: str
    source: str
    target: str
    bits: int
    depth: int
    needed: int = 1

    @property
    def octets(self) -> int:
        """Bytes of a word on the wire."""
        return -(-self.bits // 8)

    @property
    def fifo_words(self) -> int:
        """Words of the FIFO in the stream: a power of two (PG085)."""
        return max(SHALLOW, 1 << (self.depth - 1).bit_length())

    @property
    def is_in_blocks(self) -> bool:
        """Whether the FIFO is made of block memory."""
        return self.fifo_words > DEEPEST_DISTRIBUTED
