"""Boards as data: `configs/boards/*.yaml`."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from bfpga.accelerator.clocks import clock_problem
from bfpga.accelerator.schema import BoardFile
from bfpga.accelerator.sections import validate
from bfpga.accelerator.yaml_reader import read_document
from bfpga.contract.configuration import Dsp
from bfpga.contract.program import HostNode
from bfpga.errors import ConfigurationError
from bfpga.formats.notebook import clipped

#: What an operator of ten values takes on the core of 3 GHz that ``assumed_call_us`` of all boards is scaled from.
REFERENCE_CALL_US = 4.0


@dataclass(frozen=True)
class ArmCores:
    """The ARM cores of a board. assumed_gflops: 1e9 float32 operations a second; assumed_call_us: for each operator."""

    count: int
    kind: str
    clock_mhz: float
    assumed_gflops: float
    assumed_call_us: float
    assumption: str

    @property
    def title(self) -> str:
        return f"{self.kind} at {self.clock_mhz:g} MHz"

    @property
    def call_factor(self) -> float:
        """How many times longer than on that core calls of Python take; assumed, as they are."""
        return self.assumed_call_us / REFERENCE_CALL_US

    def seconds(self, operations: int, calls: float) -> float:
        """Seconds of operators on one core: of their operations, and of a call for each."""
        return operations / (self.assumed_gflops * 1e9) + calls * self.assumed_call_us * 1e-6

    def node_seconds(self, node: HostNode, together: int = 1) -> float:
        """Seconds of a host node for one sample. together: samples that share a call of each of its operators.

        On one core, since numpy computes most operators with one, and those of one sample are too small to share.
        """
        return self.seconds(node.flops, len(node.operators) / together)


@dataclass(frozen=True, repr=False)
class Board:
    """A board: its device, what that holds, and how the logic reaches the memory.

    Rates in GB/s (1e9 bytes), clocks in MHz. ``processing_system`` is `zynq7` or `zynqmp`.
    """

    name: str
    title: str
    part: str
    board_part: str
    board_files_in_vivado: bool
    board_files_source: str
    processing_system: str
    dsp_kind: Dsp
    dsp: int
    bram36: int
    uram: int
    lut: int
    ff: int
    port_count: int
    port_bits: int
    ddr_mib: int
    peak_gb_s: float
    assumed_gb_s: float
    assumption: str
    clock_min: float
    clock_max: float
    clock_default: float
    pynq_images: tuple[str, ...]
    arm_cores: ArmCores | None = None

    def __repr__(self) -> str:
        limits = ", ".join(f"{number:,} {kind.upper()}" for kind, number in self.resources.items())
        return f"Board({clipped(self.name)}: {clipped(self.title)}, {clipped(self.part)}; {limits})"

    @property
    def resources(self) -> dict[str, int]:
        """What the device has of each resource that estimates and syntheses count; UltraRAM only where it has some."""
        ultra = {"uram": self.uram} if self.uram else {}
        return {"dsp": self.dsp, "bram36": self.bram36, **ultra, "lut": self.lut, "ff": self.ff}


#: What the files of a folder are called, where the folder's name is another word.
WORDS = {"networks": "recipes"}


def config_folder(kind: str) -> Path:
    """Folder of the shipped files of one kind (`boards`, `accelerators`)."""
    return Path(str(files("bfpga.configs"))) / kind


def names(kind: str) -> list[str]:
    """Names of the shipped files of one kind, sorted."""
    return sorted(path.stem for path in config_folder(kind).glob("*.yaml"))


def resolve(name_or_path: str | Path, kind: str, folder: Path | None = None) -> Path:
    """File of a shipped name, or the path itself (relative to ``folder`` when given).

    Raises ConfigurationError that lists the known names when a plain name is none of them.
    """
    text = str(name_or_path)
    if text in names(kind):
        return config_folder(kind) / f"{text}.yaml"
    path = Path(text) if folder is None else folder / text
    # os.path.exists is False, and no error, for a name that no file can have.
    if "/" in text or text.endswith((".yaml", ".yml")) or os.path.exists(path):
        return path
    near = difflib.get_close_matches(text, names(kind), 1, 0.5)
    hint = f"did you mean `{near[0]}`? " if near else ""
    known = f"known {WORDS.get(kind, kind)}: {', '.join(names(kind))}"
    raise ConfigurationError(f"{text!r} is neither a file nor a known name; {hint}{known}")


def load_board(name_or_path: str | Path, folder: Path | None = None) -> Board:
    """The board of a name or of a file; ConfigurationError lists every problem of the file."""
    return read_board(resolve(name_or_path, "boards", folder))


def load_boards() -> list[Board]:
    """All shipped boards, by name."""
    return [load_board(name) for name in names("boards")]


@cache
def read_board(path: Path) -> Board:
    """The board that a file describes."""
    document = read_document(path, "a board")
    board: BoardFile = validate(document, BoardFile, "a board")
    clock = board.clock_mhz
    if not clock.min <= clock.default <= clock.max:
        document.refuse(("clock_mhz",), "must hold min <= default <= max")
    elif problem := clock_problem(board.processing_system, clock.default, clock.min, clock.max):
        document.refuse(("clock_mhz", "default"), problem)
    if board.memory.assumed_gb_s > board.memory.peak_gb_s:
        document.refuse(("memory", "assumed_gb_s"), f"must not exceed peak_gb_s = {board.memory.peak_gb_s:g}")
    document.raise_problems("a board")
    return Board(
        name=board.name,
        title=board.title,
        part=board.part,
        board_part=board.board_part,
        board_files_in_vivado=board.board_files_in_vivado,
        board_files_source=board.board_files_source,
        processing_system=board.processing_system,
        dsp_kind=board.dsp_kind,
        **board.resources.model_dump(),
        port_count=board.high_performance_ports.count,
        port_bits=board.high_performance_ports.bits,
        **board.memory.model_dump(),
        clock_min=clock.min,
        clock_max=clock.max,
        clock_default=clock.default,
        pynq_images=tuple(board.pynq_images),
        arm_cores=None if board.arm_cores is None else ArmCores(**board.arm_cores.model_dump()),
    )
