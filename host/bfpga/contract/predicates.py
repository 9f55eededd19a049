"""Predicates of operations: which count decides whether one runs, and what is counted.

A kernel may have count registers. The output stage adds up in one of them the values other than zero that
an operation stores; FIRST begins at 0, so that all pieces of a layer count together. When such an operation has ended,
the register reports whether it holds more than the operation's ``count_threshold``. A later operation with a predicate
waits until all counts before it are known; then it runs if its register holds more (or, with UNLESS, if it does not),
and is skipped otherwise. Only the standard library and numpy are imported: a board loads this module too.
"""

from __future__ import annotations

from dataclasses import dataclass

from bfpga.contract.descriptor import COMPUTING, Descriptor, Flag
from bfpga.contract.streams import FLAG_NUMBERS

#: Most registers that a kernel has: 0: none.
MOST_REGISTERS = (1 << FLAG_NUMBERS["counted_in"].bits) - 1
_COUNTED, _RUNS = FLAG_NUMBERS["counted_in"], FLAG_NUMBERS["runs_by"]
_UNLESS = int(Flag.UNLESS)


@dataclass(frozen=True)
class Predicate:
    """An operation runs if ``register`` holds more than its threshold, or, ``unless``, if it does not."""

    register: int
    unless: bool = False

    def holds(self, choices: int) -> bool:
        """Whether the operation runs. choices: bit n: whether register n holds more than its threshold."""
        return bool(choices >> self.register & 1) != self.unless


def counted_in(descriptor: Descriptor) -> int:
    """The register that gets what an operation stores; 0: none."""
    return descriptor.flags >> _COUNTED.first & MOST_REGISTERS


def predicate_of(descriptor: Descriptor) -> Predicate | None:
    """What decides whether an operation runs; None: it always does."""
    register = descriptor.flags >> _RUNS.first & MOST_REGISTERS
    return Predicate(register, bool(descriptor.flags & _UNLESS)) if register else None


def runs(descriptor: Descriptor, choices: int) -> bool:
    """Whether an operation runs. choices: as for ``Predicate.holds``."""
    predicate = predicate_of(descriptor)
    return predicate is None or predicate.holds(choices)


def count(descriptor: Descriptor, register: int, threshold: int) -> None:
    """Make a computing operation count what it stores."""
    _check(descriptor, register)
    descriptor.flags |= register << _COUNTED.first
    descriptor.count_threshold = threshold


def run_by(descriptor: Descriptor, predicate: Predicate) -> None:
    """Make a computing operation depend on a count. ValueError for one that takes its weights from the stream."""
    _check(descriptor, predicate.register)
    if descriptor.flags & Flag.STREAM_WEIGHTS:
        raise ValueError("weights of an operation that may be skipped cannot come with the stream")
    descriptor.flags |= predicate.register << _RUNS.first | (_UNLESS if predicate.unless else 0)


def _check(descriptor: Descriptor, register: int) -> None:
    if descriptor.operation not in COMPUTING:
        raise ValueError("only computing operations count and are skipped")
    if not 0 < register <= MOST_REGISTERS:
        raise ValueError(f"there is no count register {register}; they are 1 to {MOST_REGISTERS}")
