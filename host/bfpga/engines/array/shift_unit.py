"""The shift multiplier unit: shifts, an adder with a sign, routing by the mode bit, two accumulators (SM 3, 4).

``multiply`` is the combinational part for arrays of operands. ``ShiftUnit`` takes one beat after the other;
``ShiftPipeline`` is the same with its three register levels, clock by clock. ``run`` and ``dot`` are whole sequences at
once. All are bit-identical with ``shift_multiplier.hpp``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.arrays import Int64Array
from bfpga.formats.logarithmic import Fields, check_bits, split_words
from bfpga.formats.rounding import wrap
from bfpga.formats.shift_format import ShiftFormat, WeightMode

ModeName = Literal["two_hot", "pow2"]
ModeScope = Literal["register", "word"]
Overflow = Literal["refuse", "wrap"]
#: Anything numpy compares with a mode: one, or one for each beat.
Modes = WeightMode | npt.ArrayLike

#: Clocks from an accepted beat to the updated accumulators: weight register, product register, accumulator. SM R29.
LATENCY = 3
#: A unit accepts a beat every clock. SM R29.
INITIATION_INTERVAL = 1
#: Weights that one beat multiplies. SM R31.
WEIGHTS_PER_BEAT = {WeightMode.TWO_HOT: 1, WeightMode.POW2: 2}
#: Accumulators have 63 bits at most: the sum of two is still an int64.
_ACC_WIDTH_MAX = 63
_MODE_NAMES = {WeightMode.TWO_HOT: "two_hot", WeightMode.POW2: "pow2"}


def cycles(products: int, units: int, mode: WeightMode) -> int:
    """Clocks in which ``units`` units make so many products. SM R31, 6."""
    return -(-products // (units * WEIGHTS_PER_BEAT[mode])) * INITIATION_INTERVAL


@dataclass(frozen=True)
class ShiftUnitConfig:
    """A build of the unit; ``ConfigurationError`` if it contradicts itself.

    modes: those that are built. mode_scope: the mode bit is a register, or the top bit of every word. runtime_d: ``d``
    is a register, up to the format's. accumulate: false gives the products of every beat. terms: longest dot product.
    acc_width: bits of an accumulator, None for what ``terms`` need. acc_overflow: ``refuse`` an accumulator that could
    overflow, or let it ``wrap``. final_add: the result in power-of-two mode is the sum of both accumulators.
    """

    format: ShiftFormat = field(default_factory=ShiftFormat)
    modes: tuple[ModeName, ...] = ("two_hot", "pow2")
    mode_scope: ModeScope = "register"
    runtime_d: bool = False
    accumulate: bool = True
    terms: int = 1024
    acc_width: int | None = 32
    acc_init: int = 0
    acc_overflow: Overflow = "refuse"
    final_add: bool = False

    def __post_init__(self) -> None:
        if not self.modes or len(set(self.modes)) != len(self.modes) or set(self.modes) - set(_MODE_NAMES.values()):
            raise ConfigurationError(f"shift unit: modes is {list(self.modes)}, it must be two_hot, pow2 or both")
        if self.mode_scope not in ("register", "word"):
            raise ConfigurationError(f"shift unit: mode_scope is {self.mode_scope!r}, it must be register or word")
        if self.acc_overflow not in ("refuse", "wrap"):
            raise ConfigurationError(f"shift unit: acc_overflow is {self.acc_overflow!r}, it must be refuse or wrap")
        if self.terms < 1:
            raise ConfigurationError(f"shift unit: terms is {self.terms}, a dot product has one at least")
        if self.accumulate:
            self._check_accumulators()

    def _check_accumulators(self) -> None:
        width, needed = self.accumulator_bits, self.needed_bits
        if not 2 <= width <= _ACC_WIDTH_MAX:
            raise ConfigurationError(f"shift unit: accumulators of {width} bits; 2 to {_ACC_WIDTH_MAX} are possible")
        if not -(1 << (width - 1)) <= self.acc_init < 1 << (width - 1):
            raise ConfigurationError(f"shift unit: acc_init {self.acc_init} does not fit accumulators of {width} bits")
        if width < needed and self.acc_overflow != "wrap":
            raise ConfigurationError(
                f"shift unit: {self.terms} terms need accumulators of {needed} bits, acc_width is {width}; "
                "widen it, or accept wrong sums with acc_overflow: wrap"
            )

    @property
    def needed_bits(self) -> int:
        """Bits that hold every sum of ``terms`` products. SM R24."""
        widest = WeightMode.TWO_HOT if "two_hot" in self.modes else WeightMode.POW2
        return self.format.accumulator_bits(self.terms, widest, self.acc_init)

    @property
    def accumulator_bits(self) -> int:
        return self.needed_bits if self.acc_width is None else self.acc_width

    @property
    def word_bits(self) -> int:
        """Bits of the weight register. SM R2, R4."""
        return self.format.word_bits + int(self.mode_scope == "word")

    def built(self, mode: WeightMode) -> bool:
        return _MODE_NAMES[mode] in self.modes

    def layer_format(self, d: int | None = None) -> ShiftFormat:
        """The format of a layer with its own ``d``; ``ConfigurationError`` if the build has no such."""
        if d is None or d == self.format.d:
            return self.format
        if not self.runtime_d:
            raise ConfigurationError(f"shift unit: d is {self.format.d} in this build, a layer cannot have {d}")
        if not 0 <= d <= self.format.d:
            raise ConfigurationError(f"shift unit: d is {d}, this build shifts by 0 to {self.format.d}")
        return replace(self.format, d=d)


@dataclass(frozen=True)
class Products:
    """Outputs of the multiplier part: A of shifter 2, C of shifter 1, B of the adder; the signs s2 and s1 (0 or 1).

    The signs are not applied yet: that is the accumulators' work. SM R7, R8, R11, R23.
    """

    a: Int64Array
    b: Int64Array
    c: Int64Array
    s1: Int64Array
    s2: Int64Array

    def routed(self, mode: Modes) -> tuple[Int64Array, Int64Array]:
        """Product registers 0 and 1: A and C, or B and nothing. SM R17, R18."""
        pow2 = np.asarray(mode) == WeightMode.POW2
        return np.where(pow2, self.a, self.b), np.where(pow2, self.c, 0)

    def signed(self, mode: Modes) -> tuple[Int64Array, Int64Array]:
        """What the accumulators add; without accumulators the unit's outputs. SM R21, R22."""
        product0, product1 = self.routed(mode)
        return np.where(self.s2, -product0, product0), np.where(self.s1, -product1, product1)


def multiply(fmt: ShiftFormat, x: npt.ArrayLike, words: npt.ArrayLike, mode: Modes) -> Products:
    """The combinational part for activations x and weight words; all arguments broadcast. SM R7 to R14, R34."""
    operand: Int64Array = np.asarray(x, np.int64)
    field2, field1 = (Fields(part, fmt) for part in split_words(words, fmt))
    pow2 = np.asarray(mode) == WeightMode.POW2
    gated = np.where(pow2, fmt.zero_code_active(WeightMode.POW2), fmt.zero_code_active(WeightMode.TWO_HOT))

    def shifted(part: Fields) -> Int64Array:
        return np.where(gated & part.hold_zero_code(fmt), 0, operand << (part.exponent * fmt.base_log2))

    a, c = shifted(field2), shifted(field1)
    raised = c << fmt.d
    subtract = field1.negative ^ (field2.negative if fmt.sign_mode == "absolute" else 0)
    b = np.where(subtract, a - raised, a + raised)
    return Products(a, b, c, field1.negative, field2.negative)


@dataclass(frozen=True)
class Beat:
    """What a unit accepts in one clock, with the registers as they were then. clear: a dot product begins."""

    x: int
    word: int
    mode: WeightMode
    d: int
    clear: bool = False


@dataclass(frozen=True)
class RoutedProducts:
    """Product and sign registers of one beat, with the mode it was accepted in. SM R22, R30."""

    product0: int
    product1: int
    s2: bool
    s1: bool
    mode: WeightMode
    clear: bool


def _checked_mode(config: ShiftUnitConfig, mode: WeightMode) -> WeightMode:
    if not config.built(mode):
        raise ConfigurationError(f"shift unit: mode {_MODE_NAMES[mode]} is not built, modes is {list(config.modes)}")
    return mode


class ShiftUnit:
    """One unit, beat by beat. The registers ``mode`` (not in word scope) and ``d`` may change between beats."""

    def __init__(self, config: ShiftUnitConfig) -> None:
        self.config = config
        self._mode = WeightMode.TWO_HOT if config.built(WeightMode.TWO_HOT) else WeightMode.POW2
        self._format = config.format
        self.reset()

    def reset(self) -> None:
        """Power-up: accumulators at their reset value, and no last mode, so the first beat is no change. SM 4.2."""
        self._accumulators = [self.config.acc_init, self.config.acc_init]
        self._last_mode: WeightMode | None = None
        self._count = 0

    @property
    def mode(self) -> WeightMode:
        """The mode register."""
        return self._mode

    @mode.setter
    def mode(self, mode: WeightMode) -> None:
        self._mode = _checked_mode(self.config, WeightMode(mode))

    @property
    def d(self) -> int:
        """The register of a build with ``runtime_d``. SM R10."""
        return self._format.d

    @d.setter
    def d(self, d: int) -> None:
        self._format = self.config.layer_format(d)

    @property
    def accumulators(self) -> tuple[int, int]:
        """q0 and q1. SM R25."""
        return self._accumulators[0], self._accumulators[1]

    def result(self) -> int | tuple[int, int]:
        """q0 in two-hot mode; in power-of-two mode q0 and q1, or their sum with ``final_add``. SM R26, 4.2.

        The mode is that of the last product.
        """
        if self._last_mode != WeightMode.POW2:
            return self._accumulators[0]
        return sum(self._accumulators) if self.config.final_add else self.accumulators

    def accept(self, x: int, word: int, clear: bool = False) -> Beat:
        """A beat with the registers' values; ``DataError`` if a number has no place in its register."""
        fmt = self.config.format
        if not fmt.x_min <= x <= fmt.x_max:
            raise DataError(f"the activation {x} is none of {fmt.x_width} bits ({fmt.x_min} to {fmt.x_max})")
        if not 0 <= word < 1 << self.config.word_bits:
            raise DataError(f"the weight word {word} does not fit {self.config.word_bits} bits")
        mode = self._mode
        if self.config.mode_scope == "word":
            mode = _checked_mode(self.config, WeightMode(word >> fmt.word_bits))
        return Beat(x, word & ((1 << fmt.word_bits) - 1), mode, self._format.d, clear)

    def route(self, beat: Beat) -> RoutedProducts:
        """Shift, add, route: from the weight register to the product registers."""
        products = multiply(self.config.layer_format(beat.d), beat.x, beat.word, beat.mode)
        product0, product1 = products.routed(beat.mode)
        s2, s1 = bool(products.s2), bool(products.s1)
        return RoutedProducts(int(product0), int(product1), s2, s1, beat.mode, beat.clear)

    def accumulate(self, products: RoutedProducts) -> None:
        """Add to the accumulators, which start anew on a change of the mode and on clear. SM R20, R22, R27, R28."""
        changed = self._last_mode is not None and self._last_mode != products.mode
        self._last_mode = products.mode
        if changed or products.clear:
            self._accumulators = [self.config.acc_init, self.config.acc_init]
            self._count = 0
        self._count += 1
        _check_terms(self.config, self._count)
        added = (products.product0, products.s2), (products.product1, products.s1)
        for index, (product, negative) in enumerate(added):
            total = self._accumulators[index] + (-product if negative else product)
            half = 1 << (self.config.accumulator_bits - 1)
            self._accumulators[index] = ((total + half) & (2 * half - 1)) - half

    def beat(self, x: int, word: int, clear: bool = False) -> tuple[int, int]:
        """One beat: q0 and q1 after it, or its signed products in a build without accumulators. SM R21, 4.2."""
        products = self.route(self.accept(x, word, clear))
        if self.config.accumulate:
            self.accumulate(products)
            return self.accumulators
        product0, product1 = products.product0, products.product1
        return -product0 if products.s2 else product0, -product1 if products.s1 else product1


class ShiftPipeline:
    """A unit with accumulators and its register levels: ``clock`` is one edge. SM R29, R30."""

    def __init__(self, unit: ShiftUnit) -> None:
        if not unit.config.accumulate:
            raise ConfigurationError("shift unit: the pipeline ends in accumulators, this build has accumulate: false")
        self.unit = unit
        self._weight_register: Beat | None = None
        self._product_register: RoutedProducts | None = None

    def clock(self, beat: Beat | None = None) -> None:
        """One clock, in which ``beat`` is accepted or nothing is."""
        if self._product_register is not None:
            self.unit.accumulate(self._product_register)
        waiting = self._weight_register
        self._product_register = None if waiting is None else self.unit.route(waiting)
        self._weight_register = beat


def _check_terms(config: ShiftUnitConfig, longest: int) -> None:
    if config.acc_overflow == "refuse" and longest > config.terms:
        raise DataError(
            f"a dot product has {longest} terms or more, the accumulators are made for {config.terms}; "
            "raise terms, or accept wrong sums with acc_overflow: wrap"
        )


def _checked_operands(config: ShiftUnitConfig, x: npt.ArrayLike, words: npt.ArrayLike) -> tuple[Any, Any]:
    operand, word = np.asarray(x), np.asarray(words)
    fmt = config.format
    if operand.dtype.kind not in "iu" and operand.size:
        raise DataError(f"activations are whole numbers, the data is {operand.dtype}")
    if operand.size and (int(operand.min()) < fmt.x_min or int(operand.max()) > fmt.x_max):
        raise DataError(f"activations of {fmt.x_width} bits are {fmt.x_min} to {fmt.x_max}, the data is not")
    check_bits(word, fmt.word_bits, "weight words")
    return operand, word


def run(
    config: ShiftUnitConfig,
    modes: Sequence[int] | npt.ArrayLike,
    x: npt.ArrayLike,
    words: npt.ArrayLike,
    clear: npt.ArrayLike = False,
    d: int | None = None,
) -> Int64Array:
    """q0 and q1 after every beat of a sequence that begins at power-up: (beats, 2).

    modes, x, words (without a mode bit), clear: (beats,) or one for all.
    """
    operand, word = _checked_operands(config, x, words)
    mode, operand, word, cleared = np.broadcast_arrays(np.asarray(modes, np.int64), operand, word, np.asarray(clear))
    for each in np.unique(mode):
        _checked_mode(config, WeightMode(int(each)))
    if mode.size == 0:
        return np.zeros((0, 2), np.int64)
    starts = cleared.astype(bool)
    starts[1:] |= mode[1:] != mode[:-1]
    starts[0] = True  # the accumulators have their reset value at power-up
    first = np.maximum.accumulate(np.where(starts, np.arange(mode.size), 0))
    _check_terms(config, int((np.arange(mode.size) - first).max()) + 1)
    added = np.stack(multiply(config.layer_format(d), operand, word, mode).signed(mode), axis=1)
    total = np.cumsum(added, axis=0)
    return wrap(config.acc_init + total - (total - added)[first], config.accumulator_bits)


def dot(
    config: ShiftUnitConfig, mode: WeightMode, x: npt.ArrayLike, words: npt.ArrayLike, d: int | None = None
) -> Int64Array:
    """Dot products along the last axis of x and words (without a mode bit), which broadcast. SM 4.2.

    In two-hot mode q0: (...). In power-of-two mode q0 and q1: (..., 2), or with ``final_add`` their sum: (...).
    """
    _checked_mode(config, mode)
    operand, word = _checked_operands(config, x, words)
    product0, product1 = multiply(config.layer_format(d), operand, word, mode).signed(mode)
    _check_terms(config, product0.shape[-1])
    q0, q1 = (
        wrap(np.asarray(product.sum(axis=-1)) + config.acc_init, config.accumulator_bits)
        for product in (product0, product1)
    )
    if mode == WeightMode.TWO_HOT:
        return q0
    return q0 + q1 if config.final_add else np.stack((q0, q1), axis=-1)
