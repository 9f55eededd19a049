"""What is searched: keys of an accelerator file and of a recipe with the values that each may take on one board.

The space is flat: every candidate has a value of every key, also of those that its other values leave without meaning.
Columns are not a key: ``fill`` says which share of the columns that fit together with all else is there, so that nearly
every point of the space is an accelerator that fits its board.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bfpga.accelerator.boards import Board
from bfpga.accelerator.clocks import possible_clocks
from bfpga.accelerator.loader import Accelerator
from bfpga.contract.configuration import ARRAY, ULTRA_MEMORIES, KernelConfig, UltraRam
from bfpga.contract.cores import MOST_CORES
from bfpga.engines.systolic.constraints import QUAD_BITS
from bfpga.explore.candidate import EXTRAS, Candidate, unchecked_config
from bfpga.explore.limits import MOST_COLUMNS, largest_divisor, most_columns

Value = str | int | float
Values = Mapping[str, Value]

#: Name of every accelerator that the search makes, until it is written into a file.
NAME = "explored"
#: Steps of ``fill``: parts of the columns that fit.
PARTS = 16
#: Bits of a mantissa that samples can judge; without samples it stays at eight.
MANTISSAS = (4, 5, 6, 7, 8, 9, 10, 12, 14, 16)
#: Keys whose values have no order: a neighbour of one is any other.
UNORDERED = ("multiplier", "formats", "remainders", "ultra_ram")
#: What the values of ``ultra_ram`` write into an accelerator file; boards without UltraRAM have the first one alone.
ULTRA_RAM: dict[str, tuple[UltraRam, ...]] = {
    "none": (),
    "activations": ("activations",),
    "weights": ("weights",),
    "both": ULTRA_MEMORIES,
}
#: How often a value with an order goes anywhere instead of a step.
FAR = 0.5
#: Slowest of the clocks that are tried, as a part of the fastest: a slower one is of no use here.
SLOWEST = 0.45
#: MHz that a clock given with three digits may be off.
ROUNDED = 1e-3
#: Most samples that are computed together, of networks that allow it.
MOST_TOGETHER = 128


@dataclass(frozen=True)
class Space:
    """Candidates for one network on one board.

    functions: those that the network needs. judged: whether samples show what narrower numbers cost. together: whether
    samples may be computed side by side. max_clock: MHz; the fastest clock that is tried. adds: whether the network has
    additions that products can take. static: whether exponents are known before and none need be found at run time.
    """

    board: Board
    board_name: str
    functions: tuple[str, ...]
    judged: bool
    together: bool
    max_clock: float
    adds: bool = False
    static: bool = False

    @cached_property
    def choices(self) -> dict[str, tuple[Value, ...]]:
        """The values of every key, in their order where they have one."""
        streams = tuple(bits for bits in (64, 128, 256) if bits <= self.board.port_bits)
        return {
            "lanes": (1, 2, 4),
            "rows": (4, 8, 12, 16, 24, 32, 48, 64),
            "fill": tuple(range(PARTS // 4, PARTS + 1)),
            "multiplier": ("dsp_packed", "dsp", "shift", "dsp_quad"),
            "shift_columns": (0, 1, 2, 3, 4, 5, 6, 8, 10),
            "mantissa_bits": MANTISSAS if self.judged else (8,),
            "accumulator_bits": (18, 20, 22, 24, 28, 32, 40, 48),
            "activation_words": (512, 1024, 1536, 2048, 3072, 4096, 6144, 8192),
            "weight_words": (512, 1024, 2048, 3072, 4096, 6144, 8192, 9216, 12288, 16384),
            "ultra_ram": tuple(ULTRA_RAM) if self.board.uram else ("none",),
            "parameter_rows": (256, 512, 1024, 2048, 4096),
            "stream_bits": streams,
            "weight_stream_bits": streams,
            "hop_columns": (0, 1, 2, 4, 8),
            "row_turns": (1, 2, 4),
            "clock_mhz": self.clocks,
            "formats": ("auto", "linear", "two_hot") if self.judged else ("auto",),
            "weight_snr_db": (20, 23, 25, 27, 30, 33, 36, 40) if self.judged else (25,),
            "remainders": ("auto", "never"),
            "side_by_side": (0, 1) if self.together else (0,),
            "cores": tuple(range(1, MOST_CORES + 1)),
            "residual_adds": (0, 1) if self.adds else (0,),
            "static_exponents": (0, 1) if self.static else (0,),
        }

    @cached_property
    def clocks(self) -> tuple[float, ...]:
        """Clocks that the board's PLL gives, from slow to fast, rounded to a thousandth of a MHz."""
        low = max(self.board.clock_min, SLOWEST * self.max_clock)
        clocks = possible_clocks(self.board.processing_system, low, min(self.board.clock_max, self.max_clock + ROUNDED))
        return tuple(round(clock, 3) for clock in clocks) or (self.board.clock_default,)

    def candidate(self, values: Values) -> Candidate:
        """The candidate of these values; ConfigurationError where not even the fewest columns fit."""
        array = self._array(values)
        described: dict[str, Any] = {
            "name": NAME,
            "board": self.board_name,
            "clock_mhz": values["clock_mhz"],
            **({"cores": values["cores"]} if int(values["cores"]) > 1 else {}),
            "engines": [array],
        }
        config, board = unchecked_config(described)
        turns = int(values["row_turns"])
        array["columns"] = self._columns(config, board, int(values["fill"]), int(values["cores"]), turns)
        columns = array["columns"] + array["shift_columns"]
        if values["hop_columns"]:
            shared = config.shared_columns
            hops = max(int(values["hop_columns"]) // shared, 1)
            array["hop_columns"] = shared * largest_divisor(columns // shared, hops)
        if turns > 1 and columns % turns == 0:
            array["post_columns"] = columns // turns
        recipe: dict[str, Any] = {"remainders": values["remainders"]}
        if len(config.weight_formats) > 1:
            recipe |= {"formats": values["formats"], "weight_snr_db": values["weight_snr_db"]}
            if recipe["formats"] not in config.weight_formats:
                recipe["formats"] = "auto"
        if values["side_by_side"]:
            recipe["side_by_side"] = min(columns, MOST_TOGETHER)
        return Candidate(described, recipe)

    def _array(self, values: Values) -> dict[str, Any]:
        """The array's section with one column."""
        same = ("lanes", "rows", "multiplier", "activation_words", "weight_words", "parameter_rows", "stream_bits")
        mantissa = int(values["mantissa_bits"])
        multiplier = values["multiplier"]
        if multiplier == "dsp_quad" and mantissa not in QUAD_BITS:
            multiplier = "dsp_packed"
        if mantissa > 8 and multiplier == "dsp_packed":
            multiplier = "dsp"
        ultra_ram = ULTRA_RAM[str(values["ultra_ram"])]
        return {
            "kind": ARRAY,
            "format": {"profile": "custom", "mantissa_bits": mantissa, "exponent_bits": 8},
            "columns": 2 if multiplier == "dsp_quad" else 1,
            **{key: values[key] for key in same},
            "multiplier": multiplier,
            "shift_columns": 0 if multiplier in ("shift", "dsp_quad") else values["shift_columns"],
            "accumulator_bits": max(int(values["accumulator_bits"]), 2 * mantissa + 2),
            "bias_bits": min(18, int(values["accumulator_bits"])),
            "weight_stream_bits": values["weight_stream_bits"],
            "functions": list(self.functions),
            **{key: True for key in EXTRAS if values[key]},
            **({"ultra_ram": list(ultra_ram)} if ultra_ram else {}),
        }

    @staticmethod
    def _columns(config: KernelConfig, board: Board, fill: int, cores: int, turns: int) -> int:
        most = most_columns(config, board, cores, turns)
        columns = min(max(round(most * fill / PARTS), 1), MOST_COLUMNS - config.shift_columns)
        step = math.lcm(turns, config.shared_columns)
        return max(columns - (columns + config.shift_columns) % step, config.shared_columns)

    def nearest(self, accelerator: Accelerator) -> dict[str, Value]:
        """The values that come closest to an accelerator."""
        config = accelerator.config
        hops = config.array.weight_copy_columns(config)
        wanted: dict[str, Value] = {
            "lanes": config.lanes,
            "rows": config.rows,
            "multiplier": config.multiplier,
            "shift_columns": config.shift_columns,
            "mantissa_bits": config.format.mantissa_bits,
            "accumulator_bits": config.accumulator_bits,
            "activation_words": config.activation_words,
            "weight_words": config.weight_words,
            "ultra_ram": next(name for name, memories in ULTRA_RAM.items() if memories == config.ultra_ram),
            "parameter_rows": config.parameter_rows,
            "stream_bits": config.stream_bits,
            "weight_stream_bits": config.weight_stream_bits,
            "hop_columns": 0 if hops == config.columns else hops,
            "row_turns": config.row_turns,
            "clock_mhz": accelerator.clock_mhz,
            "cores": accelerator.cores,
            **{key: int(getattr(config, key)) for key in EXTRAS},
        }
        values = {key: closest(choices, wanted.get(key, choices[0])) for key, choices in self.choices.items()}
        return {**values, "fill": self._fill(values, config.columns - config.shift_columns)}

    def _fill(self, values: Values, columns: int) -> Value:
        """The part of the columns that fit with the other values that comes closest to so many."""

        def distance(part: Value) -> int:
            return abs(int(self.candidate({**values, "fill": part}).described["engines"][0]["columns"]) - columns)

        return min(self.choices["fill"], key=distance)

    @staticmethod
    def plainer(values: Values) -> list[dict[str, Value]]:
        """The values without each of ``EXTRAS`` that they have, and without all of them."""
        there = [key for key in EXTRAS if values.get(key)]
        left_out = [(key,) for key in there] + ([tuple(there)] if len(there) > 1 else [])
        return [{**values, **dict.fromkeys(keys, 0)} for keys in left_out]

    def neighbour(self, values: Values, chance: random.Random) -> dict[str, Value]:
        """The values with one to three of them changed: by a step, or to any other."""
        result = {key: values[key] for key in self.choices}
        movable = [key for key, choices in self.choices.items() if len(choices) > 1]
        for key in chance.sample(movable, min(chance.choice((1, 1, 2, 3)), len(movable))):
            choices = self.choices[key]
            place = choices.index(result[key])
            near = [other for other in (place - 1, place + 1) if 0 <= other < len(choices)]
            far = [other for other in range(len(choices)) if other != place]
            result[key] = choices[chance.choice(far if key in UNORDERED or chance.random() < FAR else near)]
        return result


def closest(choices: tuple[Value, ...], wanted: Value) -> Value:
    """The choice that is, or is nearest to, the wanted value."""
    if isinstance(wanted, str):
        return wanted if wanted in choices else choices[0]
    numbers = [choice for choice in choices if not isinstance(choice, str)]
    return min(numbers, key=lambda choice: abs(choice - wanted)) if numbers else choices[0]
