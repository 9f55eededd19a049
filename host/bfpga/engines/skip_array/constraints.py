"""Constraints between the numbers of a kernel with a skip array."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.configuration import KernelConfig
from bfpga.engines.interface.finding import Finding

#: Widest factors of two products that share a DSP block.
SKIP_MANTISSA_BITS = 8
#: Most output channels of a group that skips activations, and most passes for which it holds weights.
MOST_LANES, MOST_PASSES = 64, 64
#: Fewest words that wait for each of them: a quarter of the queue is sent at a time.
LEAST_QUEUE = 4


def skip_findings(config: KernelConfig) -> Iterator[Finding]:
    """Numbers of a skip array of either source."""
    if config.format.mantissa_bits > SKIP_MANTISSA_BITS:
        text = f"has mantissas of {config.format.mantissa_bits} bits; a skip array takes {SKIP_MANTISSA_BITS} at most"
        yield Finding("format", f"{text}: two products share a DSP block")
    if config.wide_memory:
        yield Finding("wide_memory", "is true; a skip array keeps accumulators in the keep buffer only")


def entry_findings(config: KernelConfig) -> Iterator[Finding]:
    """Numbers of a skip array that multiplies by stored weights."""
    yield from skip_findings(config)
    chunk = config.array.chunk_words(config)
    if config.columns % 2:
        yield Finding("columns", f"is {config.columns}; must be even for a skip array: two columns share a DSP block")
    if config.rows >= chunk:
        text = f"is {config.rows}; must be less than chunk = {chunk}: an entry gives a channel as a place"
        yield Finding("rows", text)


def activation_findings(config: KernelConfig) -> Iterator[Finding]:
    """Numbers of a skip array that multiplies by activations."""
    yield from skip_findings(config)
    array, lanes = config.array, config.lanes
    chunk, queue, passes = array.chunk_words(config), array.queue_words(), array.run_passes(config)
    if config.rows % 2 or config.rows > MOST_LANES:
        text = f"is {config.rows}; must be even and {MOST_LANES} at most for source activations: two share a DSP block"
        yield Finding("rows", text)
    if passes > MOST_PASSES or not is_power(passes):
        yield Finding("passes", f"is {passes}; must be a power of two, {MOST_PASSES} at most")
    if not is_power(chunk // lanes) or chunk % lanes:
        yield Finding("chunk", f"is {chunk}; must be a power of two of words of {lanes} channels")
    if queue < LEAST_QUEUE or not is_power(queue):
        yield Finding("queue", f"is {queue}; must be a power of two, {LEAST_QUEUE} at least")


def is_power(number: int) -> bool:
    """Whether a number is a power of two."""
    return number > 0 and number & (number - 1) == 0
