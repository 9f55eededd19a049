"""The record of an engine beside the array: how its operations are cut, described, fed, timed and tried at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.engine_numbers import EngineNumbers
from bfpga.contract.program import ArrayNode, KernelOperation, Tile
from bfpga.engines.array.descriptors import Placement
from bfpga.engines.interface.engine import Engine, ImageShape
from bfpga.formats.arrays import Int64Array, IntArray


class Header(NamedTuple):
    """The numbers of an engine in the rendered C++ header.

    numbers: by their names in C++; multiplier_type: the name of the type that multiplies there.
    """

    comment: str
    numbers: dict[str, int]
    multiplier_type: str


class Completion(NamedTuple):
    """What the weights of an operation decide: fields of its descriptor, and its cycles."""

    fields: dict[str, int]
    cycles: int


class UnitShares(NamedTuple):
    """How the units of an engine share an operation's work on one sample.

    pieces: (first row, row behind the last, first column, column behind the last) of each unit in the operation's
    rectangle; loads: non-zero elements of each; cycles: of the operation, without the fetch of its descriptor.
    """

    pieces: list[tuple[int, int, int, int]]
    loads: list[int]
    cycles: int


@dataclass(frozen=True)
class InputCycles:
    """Cycles of an engine that skips zeros of its inputs: they are known only with the data.

    counter: for a descriptor and its weights, what gives the cycles (samples,) of its rectangle's mantissas (samples,
    rows, columns, channels). most: no fewer cycles than the operation may take, whatever its data. measure: gives an
    operation the mean cycles on samples of its rectangle, with the fields of its descriptor that suit these samples.
    shares: how units share one sample (1, rows, columns, channels): in pieces of equal size, and of equal work.
    """

    counter: Callable[[SystolicConfig, Descriptor, IntArray], Callable[[IntArray], Int64Array]]
    most: Callable[[SystolicConfig, Descriptor], int]
    measure: Callable[[SystolicConfig, KernelOperation, IntArray, IntArray], None]
    shares: Callable[[SystolicConfig, Descriptor, IntArray, IntArray], tuple[UnitShares, UnitShares]]


class WindowLimits(NamedTuple):
    """Rows and columns of the largest kernel, and the strides that an engine takes."""

    kernel_height: int
    kernel_width: int
    strides: tuple[int, ...]


def any_array(rng: np.random.Generator, config: SystolicConfig) -> SystolicConfig:
    """The array as it is: an engine that asks nothing of it."""
    return config


@dataclass(frozen=True)
class RandomCases:
    """How an engine is tried at random.

    numbers: a small build beside an array; array: the array changed so that it suits the engine more often; windows:
    what the engine takes; vary: another choice (a number of any size) among those of an operation's descriptor that
    change cycles and no bit, for an input with a share of elements that are not zero.
    """

    numbers: Callable[[np.random.Generator, SystolicConfig], EngineNumbers]
    windows: Callable[[SystolicConfig], WindowLimits]
    vary: Callable[[SystolicConfig, KernelOperation, IntArray, float, int], None]
    array: Callable[[np.random.Generator, SystolicConfig], SystolicConfig] = any_array


@dataclass(frozen=True)
class BesideEngine(Engine):
    """An engine beside the array. Weights below are those that it gets (``embedded_weights``).

    numbers: class of its numbers. header: them in C++. tiles: output rows and channels of a part, cut to what one
    descriptor computes; raster order. strip_rows: rows of the strips in which a layer passes through memory that holds
    so many output rows at once. descriptor: for a tile, without what its weights decide; ``complete`` decides that for
    an input with a share of elements that are not zero. stream: an operation's bytes on the weight stream, which are
    the same for descriptors with the same ``stream_form``. write_cycles: cycles in which the results of a node leave
    if rows of its output have a pitch, 0 if it is of no concern. cycle_shares: cycles of an operation by what they are
    spent on. zero_group: output and input channels of the smallest group of weights that saves more than its products
    where all of it is zero. by_inputs: for an engine whose cycles depend on data.
    """

    numbers: type[EngineNumbers]
    header: Callable[[SystolicConfig], Header]
    tiles: Callable[[ArrayNode, ImageShape, SystolicConfig, Tile], list[Tile]]
    strip_rows: Callable[[ArrayNode, SystolicConfig, int], int]
    descriptor: Callable[[SystolicConfig, Placement], Descriptor]
    complete: Callable[[SystolicConfig, Descriptor, IntArray, float], Completion]
    stream: Callable[[SystolicConfig, Descriptor, IntArray], bytes]
    stream_form: Callable[[SystolicConfig, Descriptor], int]
    write_cycles: Callable[[ArrayNode, SystolicConfig, int | None], int]
    cycle_shares: Callable[[SystolicConfig, KernelOperation, IntArray], dict[str, int]]
    random: RandomCases
    zero_group: Callable[[SystolicConfig], tuple[int, int]]
    by_inputs: InputCycles | None = None
