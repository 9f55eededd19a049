"""The stream of exponents from one core of an overlay to the next: its ports, its words, its FIFO (FP R42).

Only the standard library is imported: a board loads this module too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.cores import Core
from bfpga.contract.process_stream import COMMAND_BITS, POST, SHALLOW, ProcessStream
from bfpga.contract.processes import process_streams

#: Ports of `post`: to the next core, and from the one before.
TOLD_EXPONENTS, AWAITED_EXPONENTS = "told_exponents", "awaited_exponents"
#: A word is the exponent of a layer (16 bits) and above it the policy slot of the layer. A core that finds exponents
#: may be so many layers ahead of the next one, and waits when the stream is full. One word would do, since no core
#: awaits a word of a core that waits for it; 16 are the smallest FIFO that the vendor's IP makes.
POSITION_STREAM = ProcessStream("position_words", POST, POST, COMMAND_BITS, SHALLOW)


def core_fifos(config: KernelConfig) -> tuple[ProcessStream, ...]:
    """The streams of a core that have a FIFO: those between its processes, and that to the next core."""
    return (*process_streams(config), *((POSITION_STREAM,) if config.position_stream else ()))


def following(cores: Sequence[Core]) -> Iterator[tuple[Core, Core]]:
    """Each core with the one that its exponents go to: the next one, of the last core the first."""
    return zip(cores, (*cores[1:], *cores[:1]), strict=True)
