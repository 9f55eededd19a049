"""The streams between the processes of a kernel and how many words each must hold.

Only the standard library is imported.
"""

from __future__ import annotations

from dataclasses import dataclass

from bfpga.contract.configuration import SystolicConfig

#: Groups that the scratchpad sends to a store without having heard that one was taken.
STORE_CREDITS = 64
#: Passes whose results the scratchpad waits for at most.
RESULT_CREDITS = 2
#: The least depth of a FIFO between two processes: what a distributed RAM holds anyway.
LEAST_DEPTH = 16


@dataclass(frozen=True)
class Wire:
    """A stream from one process to another. minimum: words it must hold, else the processes may wait for each other."""

    name: str
    source: str
    target: str
    minimum: int = 1

    @property
    def depth(self) -> int:
        """Words the hardware's FIFO holds: a power of two."""
        return max(LEAST_DEPTH, 1 << (self.minimum - 1).bit_length())


def wires(config: SystolicConfig) -> tuple[Wire, ...]:
    """All streams between the processes of a kernel."""
    words_of_pass = -(-config.accumulator_rows // config.lanes)
    return (
        *(Wire(f"{process}_command", "sequencer", process) for process in ("scratchpad", "weights", "post", "store")),
        Wire("loads", "sequencer", "scratchpad"),
        Wire("operands", "scratchpad", "array"),
        Wire("vectors", "scratchpad", "post"),
        Wire("weight_words", "weights", "array"),
        # The parameters of a pass must find room before its sums exist.
        Wire("parameters", "weights", "post", config.accumulator_rows),
        Wire("sums", "array", "post"),
        # Post never waits with the results that the scratchpad has asked for.
        Wire("results", "post", "scratchpad", RESULT_CREDITS * words_of_pass),
        Wire("exponents", "post", "store"),
        Wire("stored", "scratchpad", "store", STORE_CREDITS),
        Wire("credits", "store", "scratchpad", STORE_CREDITS),
        *(Wire(f"{process}_report", process, "sequencer") for process in ("scratchpad", "weights", "post", "store")),
    )
