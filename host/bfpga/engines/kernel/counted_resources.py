"""Resources of a kernel, from counted netlists.

``counted.json`` holds what ``bfpga synthesize`` counted for a few configurations, IP by IP
(`python -m benchmarks.synthesis.counted` makes it). The look-up tables and flip-flops of an IP's logic are a sum of
terms that follow from its structure; the terms' factors are fitted to that table, as relative errors. One of them is
what the finer model of shift tiles says (``engines.kernel.resources``). DSP blocks and memories follow from the
structure alone.

Only the standard library and numpy are imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import Function
from bfpga.contract.process_stream import (
    ARRAY,
    FACTORS,
    MAP_COMPRESSOR,
    MAP_EXPANDER,
    MAP_JOINER,
    MAP_SPLITTER,
    POST,
    PROCESSES,
    PROGRAM,
    ROWS,
    SCRATCHPAD,
    WEIGHTS,
)
from bfpga.engines.interface.fifos import stream_cells
from bfpga.engines.interface.resource_units import (
    ArrayResources,
    Resources,
    address_bits,
    lut_memory_tables,
    memory_blocks,
    scaled,
)
from bfpga.engines.interface.shell import SHELL
from bfpga.engines.kernel.engine import engine_of
from bfpga.engines.kernel.program_memory import descriptor_beats
from bfpga.engines.kernel.resources import (
    ROW_EXPONENT_BITS,
    activation_memories,
    parameter_memory,
    weight_memory,
)
from bfpga.engines.output.resources import keep_buffer, loaded_tables

#: What of a configuration the terms are made of.
Numbers = Mapping[str, int]
#: Parts outside the IPs.
STREAMS, SHELL_PART = "FIFOs between the IPs", "interconnect, DMAs, clock counter (assumed)"
#: DSP blocks in addition to those of the products: one counts what the statistics saw.
OTHER_DSP = 1
#: Processes of compressed maps, counted at 8 values of a byte in a beat: look-up tables and flip-flops.
MAP_CELLS = {
    MAP_SPLITTER: (125, 45), MAP_EXPANDER: (512, 356), MAP_COMPRESSOR: (567, 383), MAP_JOINER: (52, 7),
}  # fmt: skip
COUNTED_MAP_BITS = 64
#: The process of rows, counted whole with 4, 6 and 12 columns of 1 to 4 lanes (`python -m benchmarks.rows.sizes`): of
#: itself, of a column, of a lane of a column; and the process that has its factors.
ROW_CELLS = Resources(lut=300, ff=262), Resources(dsp=2, lut=312, ff=421), Resources(lut=24, ff=28)
FACTOR_CELLS = Resources(dsp=3, bram36=1, lut=1220, ff=1390)

#: What `weights` has in addition where tensors become weights, of itself and for each bit of a weight word: look-up
#: tables and flip-flops, counted with weight words of 8 x 4 bytes.
OPERAND_CELLS, OPERAND_BIT_CELLS = (50, 65), (2.6, 4.0)

#: What products that add a tensor have in addition, counted whole on three kernels, of `scratchpad` for each column,
#: of `post` for each bit of an accumulator of the columns that it computes at once: look-up tables and flip-flops.
ADDING_CELLS, ADDING_BIT_CELLS = (38, 40), (7.3, 3.4)
#: What `post` lacks for each of these bits where all exponents are static, counted whole with 16 columns.
STATIC_BIT_CELLS = (11.1, 10.7)

#: The program memory, counted with beats of 64 and 256 bits: look-up tables and flip-flops, and of a bit of a beat.
PROGRAM_CELLS, PROGRAM_BIT_CELLS = (1050, 790), (0.0, 7.8)


def _one(_: Numbers) -> float:
    return 1.0


def _stage_columns(given: Numbers) -> int:
    """Columns that the output stage computes at once: all, where it was counted before there was a choice."""
    return given.get("stage_columns", given["columns"])


#: Terms of each IP.
TERMS: dict[str, tuple[Callable[[Numbers], float], ...]] = {
    "sequencer": (_one,),
    # Every column selects among all banks, every bank among the addresses of all columns; results are rotated.
    "scratchpad": (
        _one,
        lambda n: n["columns"] * n["banks"] * n["word_bits"],
        lambda n: n["columns"] * n["banks"] * n["address_bits"],
        lambda n: n["columns"],
    ),
    "weights": (_one, lambda n: n["weight_word_bits"]),
    # Accumulators of DSP columns, operands, words of weights in every block of columns, shift tiles. Sums of products
    # that Yosys adds up outside the blocks: of a block for each product those after the second one.
    "array": (
        _one,
        lambda n: (n["columns"] - n["shift_columns"]) * n["sums"] * n["accumulator_bits"],
        lambda n: n["columns"] * n["word_bits"],
        lambda n: n["blocks"] * n["weight_word_bits"],
        lambda n: n["shift_tables"],
        lambda n: n["added_products"],
    ),
    # Stages of the columns that are computed at once; words of all that bypass the array; leaky ReLU, tables, the
    # collector's bins.
    "post": (
        _one,
        lambda n: _stage_columns(n) * n["accumulator_bits"],
        lambda n: n["columns"] * n["word_bits"],
        lambda n: _stage_columns(n) * n["leaky"] * n["accumulator_bits"],
        lambda n: _stage_columns(n) * n["tables"],
        lambda n: _stage_columns(n) * n["position_bins"],
    ),
    "store": (_one, lambda n: n["group_bits"]),
}


@dataclass(frozen=True)
class Fit:
    """Factors of an IP's terms for look-up tables and for flip-flops."""

    lut: tuple[float, ...]
    ff: tuple[float, ...]


def estimate_resources(config: KernelConfig) -> ArrayResources:
    """Resources of every IP, of the streams between them and of the shell around the kernel."""
    cells = logic(numbers(config))
    parts = {ip: cells[ip] + _structure(ip, config) for ip in PROCESSES}
    parts |= engine_of(config).parts(config, cells[ARRAY])
    if config.operand_weights:
        bits = config.rows * config.lanes * config.format.mantissa_bits
        lut, ff = (own + bit * bits for own, bit in zip(OPERAND_CELLS, OPERAND_BIT_CELLS, strict=True))
        parts[WEIGHTS] += Resources(lut=round(lut), ff=round(ff))
    for name, (lut, ff) in option_cells(config).items():
        parts[name] += Resources(lut=lut, ff=ff)
    if config.compressed_maps:
        wide = config.stream_bits / COUNTED_MAP_BITS
        parts |= {name: Resources(lut=round(lut * wide), ff=round(ff * wide)) for name, (lut, ff) in MAP_CELLS.items()}
    parts |= _row_parts(config)
    if config.program_descriptors:
        parts[PROGRAM] = _program_part(config)
    lut, stored, ff, halves = stream_cells(config)
    parts[STREAMS] = Resources(0, -(-halves // 2), lut + stored, ff)
    parts[SHELL_PART] = SHELL
    return ArrayResources(parts)


def option_cells(config: KernelConfig) -> dict[str, tuple[int, int]]:
    """Look-up tables and flip-flops that keys add to IPs, by name: the fit is of kernels without them."""
    adds, static, bits = config.residual_adds, config.static_exponents, config.stage_columns * config.accumulator_bits
    columns = [round(adds * config.columns * each) for each in ADDING_CELLS]
    both = zip(ADDING_BIT_CELLS, STATIC_BIT_CELLS, strict=True)
    stage = [round(bits * (adds * more - static * less)) for more, less in both]
    return {SCRATCHPAD: (columns[0], columns[1]), POST: (stage[0], stage[1])}


def _program_part(config: KernelConfig) -> Resources:
    """The program memory: its process, and a word of a beat for each beat of a descriptor."""
    (lut, ff), (bit_lut, bit_ff) = PROGRAM_CELLS, PROGRAM_BIT_CELLS
    blocks = memory_blocks(config.program_descriptors * descriptor_beats(config), config.stream_bits)
    own = Resources(lut=round(lut + bit_lut * config.stream_bits), ff=round(ff + bit_ff * config.stream_bits))
    return own + Resources(bram36=blocks)


def _row_parts(config: KernelConfig) -> dict[str, Resources]:
    """The processes of rows, where there are any."""
    if not config.has_rows:
        return {}
    own, column, lane = ROW_CELLS
    columns = config.row_columns
    return {ROWS: own + scaled(column, columns) + scaled(lane, columns * config.lanes), FACTORS: FACTOR_CELLS}


def numbers(config: KernelConfig) -> dict[str, int]:
    """What of a configuration its resources follow from."""
    word = config.lanes * config.format.mantissa_bits
    rows = [Function.named(name).row for name in config.built_in_functions]
    hop = config.array.weight_copy_columns(config)
    word_weights = config.array.weights_of_word(config)
    shifting = config.columns if config.multiplier == "shift" else config.shift_columns
    return {
        "columns": config.columns, "shift_columns": shifting, "shift_tables": engine_of(config).shift_tables(config),
        "added_products": config.columns * config.rows * max(0, config.lanes - 2) if config.multiplier == "dsp" else 0,
        "rows": config.rows, "lanes": config.lanes, "mantissa_bits": config.format.mantissa_bits, "word_bits": word,
        "banks": config.banks, "address_bits": address_bits(config.activation_words),
        "accumulator_bits": config.accumulator_bits, "sums": config.accumulator_rows,
        "weight_word_bits": word_weights * config.weight_bits, "blocks": -(-config.columns // hop),
        "leaky": int("leaky_relu" in config.built_in_functions), "tables": sum(row.on_grid for row in rows),
        "position_bins": config.position_bins, "group_bits": config.transfer_pixels * word,
        "stage_columns": config.stage_columns,
    }  # fmt: skip


def stored_tables(ip: str, config: KernelConfig) -> int:
    """Look-up tables of an IP's memories that grow with the configuration: row exponents are never in blocks (R39)."""
    return lut_memory_tables(config.parameter_rows, ROW_EXPONENT_BITS) if ip == WEIGHTS else 0


def _structure(ip: str, config: KernelConfig) -> Resources:
    """DSP blocks and memories of an IP."""
    stored = Resources(lut=stored_tables(ip, config))
    if ip == SCRATCHPAD:
        return activation_memories(config)
    if ip == WEIGHTS:
        memory = weight_memory(config)
        return stored + Resources(bram36=memory.bram36 + parameter_memory(config).bram36, uram=memory.uram)
    return Resources(dsp=OTHER_DSP) + keep_buffer(config) + loaded_tables(config) if ip == "post" else Resources()


def logic(given: Numbers) -> dict[str, Resources]:
    """Look-up tables and flip-flops of every IP's logic."""
    return {ip: _logic(ip, given) for ip in PROCESSES}


def _logic(ip: str, given: Numbers) -> Resources:
    terms, fit = [term(given) for term in TERMS[ip]], fits()[ip]
    return Resources(lut=round(float(np.dot(terms, fit.lut))), ff=round(float(np.dot(terms, fit.ff))))


@dataclass(frozen=True)
class Counted:
    """A counted configuration: its numbers, and cells of every IP's logic by kind ("lut", "ff") and IP."""

    numbers: Numbers
    cells: Mapping[str, Mapping[str, int]]


@cache
def table() -> tuple[Counted, ...]:
    """The counted configurations."""
    content = json.loads(files("bfpga.engines.kernel").joinpath("counted.json").read_text(encoding="utf-8"))
    return tuple(
        Counted(row["numbers"], {kind: {ip: row["ips"][ip][kind] for ip in PROCESSES} for kind in ("lut", "ff")})
        for row in content["configurations"]
    )


@cache
def fits() -> dict[str, Fit]:
    """The factors of every IP's terms."""
    return {ip: Fit(_fitted(ip, "lut"), _fitted(ip, "ff")) for ip in PROCESSES}


@cache
def largest_error() -> float:
    """Largest relative error of a whole kernel's look-up tables or flip-flops on the counted configurations."""
    errors = []
    for row in table():
        found = sum(logic(row.numbers).values(), Resources())
        for kind, ours in (("lut", found.lut), ("ff", found.ff)):
            errors.append(abs(ours / sum(row.cells[kind].values()) - 1))
    return max(errors)


def _fitted(ip: str, kind: str) -> tuple[float, ...]:
    terms = np.array([[term(row.numbers) for term in TERMS[ip]] for row in table()], dtype=float)
    cells = np.array([row.cells[kind][ip] for row in table()], dtype=float)
    return tuple(map(float, _least_squares(terms / cells[:, None])))


def _least_squares(relative: NDArray[np.float64]) -> NDArray[np.float64]:
    """Factors, none below 0, with which every row's terms come nearest to 1."""
    kept = list(range(relative.shape[1]))
    while True:
        solved = np.linalg.lstsq(relative[:, kept], np.ones(len(relative)), rcond=None)[0]
        if len(kept) == 1 or solved.min() >= 0:
            factors = np.zeros(relative.shape[1])
            factors[kept] = np.maximum(solved, 0)
            return factors
        del kept[int(solved.argmin())]
