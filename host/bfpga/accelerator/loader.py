"""YAML -> validated accelerator."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bfpga.accelerator.array_section import (
    ArraySection,
    array_section,
    refuse_former_keys,
    refuse_other_engines,
    section_path,
)
from bfpga.accelerator.boards import Board, load_board, names, resolve
from bfpga.accelerator.clocks import clock_problem, wire_percent
from bfpga.accelerator.constraints import board_findings, config_findings, cores_excess
from bfpga.accelerator.schema import (
    AcceleratorFile,
    ClusterArraySection,
    FormatSection,
    SkipArraySection,
    SystolicSection,
)
from bfpga.accelerator.sections import validate
from bfpga.accelerator.yaml_reader import Document, KeyPath, read_document
from bfpga.contract.arrays.base import Array
from bfpga.contract.arrays.skip_array import SkipArray, SkipSource, SparseArray, TwoArrays
from bfpga.contract.arrays.sparse_cluster import SparseCluster
from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.arrays.zero_skip_tile import ZeroSkipTile
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import FUNCTION_NAMES
from bfpga.contract.kernel_numbers import kernel_identity
from bfpga.engines.systolic.shift_words import with_zero
from bfpga.errors import ConfigurationError
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.notebook import clipped
from bfpga.formats.shift_format import DEFAULT_D, ShiftFormat

#: Mantissa and exponent bits of the profiles (BFP 2.1).
PROFILES = {"bfp8": (8, 8), "bfp16": (16, 8), "bfp16e5": (16, 5)}
#: Follows the name of a ready accelerator: the same at the slower clock of its file, for the first start on a board.
FIRST_LIGHT = "_first_light"
#: Rows of a skip array whose file leaves them open, by its source.
SKIP_ROWS: dict[SkipSource, int] = {"weights": 128, "activations": 16}
#: Of a tile: kernels in flight.
TILE_ROWS = 16
#: Widest activations of a shift unit (SM 2.1).
SHIFT_MANTISSA_BITS = 16


@dataclass(frozen=True, repr=False)
class Accelerator:
    """A validated accelerator: everything a kernel, an estimate or a compiler needs to know.

    ``config``: the numbers of the kernel.
    ``digest`` is the SHA-256 of what the kernel is: its numbers, its processes, the layout of descriptors, registers
    and streams (name and description do not enter); ``path`` is the file read. ``first_light_mhz``: the slower clock of
    the file, or 0. ``cores``: copies of the kernel in the overlay. ``demonstrator``: it is there for no network.
    """

    name: str
    description: str
    board: Board
    clock_mhz: float
    config: KernelConfig
    digest: str
    path: Path
    first_light_mhz: float = 0.0
    cores: int = 1
    demonstrator: bool = False

    @property
    def bytes_per_clock(self) -> float:
        """Bytes a cycle that the board's memory is assumed to give."""
        return self.board.assumed_gb_s * 1e9 / (self.clock_mhz * 1e6)

    def wire_percent(self, part: str) -> int:
        """Percent of the clock that C synthesis of an IP leaves for wires."""
        return wire_percent(self.board.processing_system, part, self.board.part, self.clock_mhz)

    def __repr__(self) -> str:
        times = f"{self.cores} cores of " if self.cores > 1 else ""
        numbers = f"{times}{self.config.macs_per_clock} MAC/cycle at {self.clock_mhz:g} MHz"
        mantissas = f"{self.config.format.mantissa_bits}-bit mantissas"
        return f"Accelerator({clipped(self.name)} for {clipped(self.board.title)}: {numbers}, {mantissas})"


def accelerator_names() -> list[str]:
    """Names of the ready accelerators."""
    return names("accelerators")


def is_ready(name: str) -> bool:
    """Whether a name is that of a ready accelerator, at its own clock or at that of the first light."""
    return name.removesuffix(FIRST_LIGHT) in accelerator_names()


def ready_accelerators() -> Iterator[Accelerator]:
    """All ready accelerators; after each the same at the clock of the first light, where it has one."""
    for name in accelerator_names():
        accelerator = load_accelerator(name)
        yield accelerator
        if accelerator.first_light_mhz:
            yield at_first_light(accelerator)


def load_accelerator(name_or_path: str | Path | Accelerator) -> Accelerator:
    """The accelerator of a ready name, with FIRST_LIGHT behind it or not, or of a YAML file; or the one given.

    Raises ConfigurationError: one message with every problem of the file, each with line and key path.
    """
    if isinstance(name_or_path, Accelerator):
        return name_or_path
    path, first_light = accelerator_path(name_or_path)
    accelerator = accelerator_of(read_document(path, "an accelerator"))
    return at_first_light(accelerator) if first_light else accelerator


def accelerator_of(document: Document) -> Accelerator:
    """The accelerator that a document describes, read from a file or not.

    Raises ConfigurationError: one message with every problem of the document.
    """
    refuse_other_engines(document)
    refuse_former_keys(document)
    described: AcceleratorFile = validate(document, AcceleratorFile, "an accelerator")
    board = find_board(document, described)
    config = array_config(document, array_section(document, described), board)
    check(document, described, board, config)
    return Accelerator(
        name=described.name,
        description=described.description,
        board=board,
        clock_mhz=float(described.clock_mhz),
        config=config,
        digest=digest(board, described.clock_mhz, config, described.cores),
        path=document.source,
        first_light_mhz=float(described.first_light_mhz),
        cores=described.cores,
        demonstrator=described.demonstrator,
    )


def at_first_light(accelerator: Accelerator) -> Accelerator:
    """The accelerator at the slower clock of its file, with the name and the digest that follow.

    ConfigurationError if the file has none.
    """
    clock, name = accelerator.first_light_mhz, accelerator.name
    if not clock:
        raise ConfigurationError(f"{name} has no key first_light_mhz, so there is no {name}{FIRST_LIGHT}")
    number = digest(accelerator.board, clock, accelerator.config, accelerator.cores)
    return replace(accelerator, name=f"{name}{FIRST_LIGHT}", clock_mhz=clock, digest=number)


def accelerator_path(name_or_path: str | Path) -> tuple[Path, bool]:
    """The file of a ready name or of a path, and whether the name asks for its first clock.

    ConfigurationError for a name that is unknown.
    """
    given = str(name_or_path)
    name = given.removesuffix(FIRST_LIGHT)
    first_light = name != given and name in accelerator_names()
    return resolve(name if first_light else name_or_path, "accelerators"), first_light


def accelerator_files(name_or_path: str | Path) -> list[Path]:
    """The files that an accelerator is read from: its own and, where that names one, its board's.

    ConfigurationError for a file that cannot be read as YAML.
    """
    path, _ = accelerator_path(name_or_path)
    value = read_document(path, "an accelerator").value
    board = value.get("board") if isinstance(value, dict) else None
    return [path, resolve(board, "boards", path.parent)] if isinstance(board, str) else [path]


def find_board(document: Document, described: AcceleratorFile) -> Board:
    """The board the file names; a path is relative to the file."""
    try:
        return load_board(described.board, document.source.parent)
    except ConfigurationError as error:
        document.refuse(("board",), str(error))
        document.raise_problems("an accelerator")
        raise


def block_format(document: Document, section: FormatSection, path: KeyPath) -> BlockFormat:
    """The profile's widths with the explicitly given keys on top; ``path``: of the section."""
    given = section.model_fields_set
    mantissa, exponent = PROFILES.get(section.profile, (section.mantissa_bits, section.exponent_bits))
    if section.profile == "custom" and "mantissa_bits" not in given:
        document.refuse(path, "must give a profile (bfp8, bfp16, bfp16e5) or mantissa_bits")
    return BlockFormat(
        mantissa_bits=section.mantissa_bits if "mantissa_bits" in given else mantissa,
        exponent_bits=section.exponent_bits if "exponent_bits" in given else exponent,
        rounding=section.rounding,
        saturation=section.saturation,
        log=section.log,
    )


def shift_format(document: Document, section: SystolicSection, mantissa_bits: int) -> ShiftFormat | None:
    """Words of the shift units, None for an array without them."""
    if section.multiplier != "shift" and not section.shift_columns:
        if "shift" in section.model_fields_set:
            document.refuse(section_path("shift"), "describes shift units; the array has none")
        return None
    if mantissa_bits > SHIFT_MANTISSA_BITS:
        document.refuse(
            section_path("format"),
            f"has mantissas of {mantissa_bits} bits; shift units take {SHIFT_MANTISSA_BITS}",
        )
        document.raise_problems("an accelerator")
    numbers = section.shift.model_dump()
    distance = numbers.pop("d")
    return with_zero(ShiftFormat(x_width=mantissa_bits, d=DEFAULT_D if distance == "auto" else distance, **numbers))


def array_config(document: Document, section: ArraySection, board: Board) -> KernelConfig:
    """The numbers of the kernel; `auto` is resolved, the kind of DSP block comes from the board."""
    number_format = block_format(document, section.format, section_path("format"))
    accumulator = section.accumulator_bits
    if accumulator == "auto":
        accumulator = 32 if number_format.mantissa_bits <= 8 else 48
    config = KernelConfig(
        format=number_format,
        columns=section.columns,
        rows=array_rows(section),
        lanes=section.lanes,
        dsp=board.dsp_kind,
        accumulator_bits=accumulator,
        bias_bits=section.bias_bits,
        activation_words=section.activation_words,
        weight_words=section.weight_words,
        parameter_rows=section.parameter_rows,
        stream_bits=section.stream_bits,
        weight_stream_bits=section.weight_stream_bits,
        functions=tuple(sorted(section.functions, key=FUNCTION_NAMES.index)),
        function_tables=section.function_tables,
        post_columns=section.post_columns,
        static_exponents=section.static_exponents,
        position_bins=section.position_bins,
        wide_words=0 if isinstance(section, ClusterArraySection) else section.wide_words,
        count_registers=section.count_registers,
        compressed_maps=section.compressed_maps,
        program_descriptors=section.program_descriptors,
        ultra_ram=tuple(sorted(set(section.ultra_ram))),
    )
    if isinstance(section, SkipArraySection):
        return tile_config(section, config) if section.form == "tile" else skip_config(document, section, config)
    if isinstance(section, ClusterArraySection):
        return cluster_config(section, config)
    return systolic_config(document, section, config)


def systolic_config(document: Document, section: SystolicSection, config: KernelConfig) -> KernelConfig:
    """With what a systolic array has besides."""
    return replace(
        config,
        columns=section.columns + section.shift_columns,
        multiplier=section.multiplier,
        shift_columns=section.shift_columns,
        shift=shift_format(document, section, config.format.mantissa_bits),
        wide_memory=section.wide_memory,
        position_stream=section.positions == "stream",
        row_columns=section.row_columns,
        operand_weights=section.operand_weights,
        residual_adds=section.residual_adds,
        array=SystolicArray(section.hop_columns),
    )


def array_rows(section: ArraySection) -> int:
    """Output channels of an operation or of a pass."""
    if isinstance(section, SkipArraySection) and section.rows == "auto":
        return TILE_ROWS if section.form == "tile" else SKIP_ROWS[section.source]
    return int(section.rows)


def skip_config(document: Document, section: SkipArraySection, config: KernelConfig) -> KernelConfig:
    """With a skip array of one of both sources."""
    if section.dense_beside and section.source == "weights":
        text = "is true; only a skip array of source activations has the weight words of a systolic array"
        document.refuse(section_path("dense_beside"), text)
    if section.source == "weights":
        array: Array = SkipArray(section.groups, section.chunk, section.queue)
    else:
        kind = TwoArrays if section.dense_beside else SparseArray
        array = kind(section.chunk, section.queue, section.passes)
    return replace(config, multiplier="dsp_packed", array=array)


def tile_config(section: SkipArraySection, config: KernelConfig) -> KernelConfig:
    """With a tile."""
    rows, columns = section.tile[0], section.tile[1]
    array = ZeroSkipTile(kernel=section.kernel, rows=rows, columns=columns, parallel=section.rows_parallel)
    return replace(config, multiplier="dsp_packed", array=array)


def cluster_config(section: ClusterArraySection, config: KernelConfig) -> KernelConfig:
    """With a sparse cluster: its kernel reads a map as one run."""
    array = SparseCluster(
        kernel=section.kernel,
        rows=section.grid[0],
        columns=section.grid[1],
        words=section.unit_words,
        queue=section.queue,
        map_lines=section.map_lines,
        map_blocks=section.map_blocks,
        threshold=section.threshold,
        moves=section.moves,
        variant=section.variant,
        form=section.form,
        lanes=section.products,
    )
    return replace(config, multiplier="dsp_packed", array=array)


def check(document: Document, described: AcceleratorFile, board: Board, config: KernelConfig) -> None:
    """Constraints between keys, then the board's limits; raises with all of them."""
    check_clock(document, "clock_mhz", described.clock_mhz, board.clock_max, board)
    if described.first_light_mhz:
        check_clock(document, "first_light_mhz", described.first_light_mhz, described.clock_mhz, board)
    for finding in config_findings(config) or board_findings(config, board):
        document.refuse(section_path(finding.key), finding.text)
    if config.position_stream and described.cores < 2:
        text = "is stream, and the overlay has one core; exponents go from one to the next: give `cores: 2` or more"
        document.refuse(section_path("positions"), text)
    document.raise_problems("an accelerator")
    if excess := cores_excess(config, board, described.cores):
        document.refuse(("cores",), excess)
    document.raise_problems("an accelerator")


def check_clock(document: Document, key: str, clock: float, high: float, board: Board) -> None:
    """Refuse a clock in MHz beyond the board's lowest and ``high``, or one that no divider makes."""
    low = board.clock_min
    if not low <= clock <= high:
        document.refuse((key,), f"is {clock:g}; must be {low:g}..{high:g} on {board.title}")
    elif problem := clock_problem(board.processing_system, clock, low, board.clock_max):
        document.refuse((key,), problem)


def digest(board: Board, clock_mhz: float, config: KernelConfig, cores: int = 1) -> str:
    """SHA-256 of the canonical JSON of everything that makes the kernel, or the number of its copies, another one.

    It follows from what a key does in the kernel: a new key whose default leaves kernels as they are changes nothing.
    """
    numbers: dict[str, Any] = {"part": board.part, "clock_mhz": float(clock_mhz), "kernel": kernel_identity(config)}
    numbers |= {"cores": cores} if cores > 1 else {}
    return hashlib.sha256(json.dumps(numbers, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
