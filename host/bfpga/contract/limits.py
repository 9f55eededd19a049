"""What the kernel's registers and counters hold: limits of descriptor fields, declared once.

Hardware would truncate a value beyond them without a message: code that makes or reads descriptors checks here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Function, LeadRule, Operation, Policy, word_names
from bfpga.contract.functions import TABLE_STEPS
from bfpga.contract.loaded_tables import FIELD_OF_ADDRESS, FIELDS_OF_WORDS, LOADED_TABLE

#: log2 of the most values of a window of the statistics unit (`WindowSums::window_bits`, BFP R26).
STATISTICS_WINDOW_BITS = 13
#: Bits of 4k, the factor of the standard deviation (`WindowSums::factor_bits`, BFP R27).
POLICY_FACTOR_BITS = 8
#: Leading positions that a rolling maximum keeps (`PolicySlot::ring_leads`, BFP R29).
RING_LEADS = 8
#: Bits of an exponent on its way through the output stage (`check_exponent`).
STAGE_EXPONENT_BITS = 17
#: log2 of the values of which one may saturate, at most (`LeadCollector`, rule RATE).
POSITION_RATE_BITS = 5
#: Bits of the stored words of a pass of a skip array (`EntryRead::entry_word_bits`).
ENTRY_WORD_BITS = 20
#: Bits of the register that counts the cycles of a start.
CYCLE_BITS = 32
WORD_MIN, WORD_MAX = -(1 << 31), (1 << 31) - 1


@dataclass(frozen=True)
class Range:
    """A field holds ``low`` to ``high``."""

    field: str
    low: int
    high: int


#: Fields that count pixels, taps or words of an image: what the activation memories can hold, and windows beyond it.
_COORDINATES = (
    "output_width", "group_columns", "kernel_height", "kernel_width", "stride_y", "stride_x",
    "dilation_y", "dilation_x", "pad_top", "pad_left", "input_height", "input_width", "output_pixels",
)  # fmt: skip
_AT_LEAST_ONE = ("output_width", "kernel_height", "kernel_width", "blocks", "read_slots", "write_slots", "steps")
_SLOTS = ("input_slot", "second_slot", "output_slot")
_EXPONENTS = ("bias_exponent", "function_exponent", "output_exponent", "position_base")


def largest_coordinate(config: KernelConfig) -> int:
    """Largest pixel count or image coordinate: all words of all activation memories, twice (`coordinate_bits`)."""
    return 2 * config.banks * config.activation_words * config.lanes


def ranges(config: KernelConfig, descriptor: Descriptor) -> Iterator[Range]:
    """The range of every field of a descriptor on a kernel, those last that depend on its policy."""
    if descriptor.operation == Operation.TABLE:
        yield from _of_table(config)
        return
    exponent = 1 << (STAGE_EXPONENT_BITS - 1)
    enumerations: tuple[tuple[str, type[IntEnum]], ...] = (
        ("operation", Operation), ("function", Function), ("policy", Policy), ("lead_rule", LeadRule),
    )  # fmt: skip
    for field, kind in enumerations:
        yield Range(field, min(kind), LOADED_TABLE if field == "function" and config.function_tables else max(kind))
    yield Range("flags", 0, sum(Flag))
    yield from (Range(field, 0, config.tensor_slots - 1) for field in _SLOTS)
    yield Range("policy_slot", 0, config.policy_slots - 1)
    yield from (Range(field, 0, largest_coordinate(config)) for field in _COORDINATES)
    if descriptor.flags & Flag.NEIGHBOURS:
        yield Range("group_columns", 1, config.columns)
    yield from (Range(field, 1, WORD_MAX) for field in _AT_LEAST_ONE)
    yield from (Range(field, -exponent, exponent - 1) for field in _EXPONENTS)
    yield Range("weight_words", 0, config.weight_words)
    yield Range("weight_base", 0, config.weight_words)
    yield Range("entry_words", 0, (1 << ENTRY_WORD_BITS) - 1)
    yield Range("parameter_rows", 0, config.parameter_rows)
    yield Range("parameter_base", 0, config.parameter_rows)
    yield Range("position_rate", 0, (1 << POSITION_RATE_BITS) - 1)
    yield Range("wide_word", 0, max(0, config.wide_words - 1))
    yield from _POLICY_RANGES.get(descriptor.policy, lambda: ())()


def _of_table(config: KernelConfig) -> Iterator[Range]:
    """TABLE: an address, and words that may be anything."""
    yield Range("flags", 0, 0)
    yield Range(FIELD_OF_ADDRESS, 0, config.function_tables * TABLE_STEPS - len(FIELDS_OF_WORDS))


def _statistics() -> tuple[Range, ...]:
    return (
        Range("policy_window", 0, STATISTICS_WINDOW_BITS),
        Range("policy_factor", 0, (1 << POLICY_FACTOR_BITS) - 1),
    )


_POLICY_RANGES: dict[int, Callable[[], tuple[Range, ...]]] = {
    Policy.STATISTICS: _statistics,
    Policy.ROLLING_MAX: lambda: (Range("policy_window", 1, RING_LEADS),),
    Policy.FEEDBACK: lambda: (Range("policy_factor", 0, WORD_MAX),),
}


def problems(config: KernelConfig, descriptor: Descriptor) -> Iterator[str]:
    """Fields of a descriptor that the kernel's registers do not hold, each in a sentence."""
    for field in word_names(descriptor.operation, descriptor.flags):
        value = getattr(descriptor, field)
        if not WORD_MIN <= value <= WORD_MAX:
            yield f"{field} is {value}; a word holds {WORD_MIN}..{WORD_MAX}"
    for item in ranges(config, descriptor):
        value = getattr(descriptor, item.field)
        if WORD_MIN <= value <= WORD_MAX and not item.low <= value <= item.high:
            yield f"{item.field} is {value}; must be {item.low}..{item.high}"
