"""One thing that is tried: an accelerator, as its file would describe it, and the recipe that compiles for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from bfpga.accelerator.array_section import array_section
from bfpga.accelerator.boards import Board
from bfpga.accelerator.loader import Accelerator, accelerator_of, array_config, find_board, load_accelerator
from bfpga.accelerator.schema import AcceleratorFile
from bfpga.accelerator.sections import validate
from bfpga.accelerator.yaml_reader import Document
from bfpga.compiler.options import CompileOptions
from bfpga.contract.configuration import KernelConfig

#: What messages call a description that is in no file.
NOWHERE = Path("explored.yaml")
#: Keys of an array without which it is plainer: they make it smaller or faster, and the first one restricts it.
EXTRAS = ("static_exponents", "residual_adds")
#: How an accelerator with ``static_exponents`` is restricted.
RESTRICTED = (
    "its exponents are those of calibration (static_exponents): it runs networks that were compiled with samples, but "
    "no policy that finds exponents at run time and nothing of bfpga.eager"
)


@dataclass(frozen=True)
class Candidate:
    """``described``: keys and values of an accelerator file; ``recipe``: of a recipe.

    origin: name of the ready accelerator that it is; empty for what the search has made.
    """

    described: dict[str, Any]
    recipe: dict[str, Any] = field(default_factory=dict)
    origin: str = ""

    def accelerator(self, source: Path = NOWHERE) -> Accelerator:
        """The checked accelerator; ConfigurationError with all that is wrong with it. source: where it is a file."""
        return accelerator_of(Document(source, self.described))

    def loaded(self) -> Accelerator:
        """The ready accelerator that it is, else that of its description."""
        return _ready(self.origin) if self.origin else self.accelerator()

    @property
    def cores(self) -> int:
        """Copies of the kernel."""
        return _ready(self.origin).cores if self.origin else int(self.described.get("cores", 1))

    @property
    def extras(self) -> tuple[str, ...]:
        """Those of ``EXTRAS`` that it has."""
        if self.origin:
            return tuple(key for key in EXTRAS if getattr(_ready(self.origin).config, key))
        return tuple(key for key in EXTRAS if self.described["engines"][0].get(key))

    @property
    def plainness(self) -> tuple[bool, int, bool]:
        """Orders candidates, the plainest first: without static exponents, by cores, without additions to sums."""
        static, adds = (key in self.extras for key in EXTRAS)
        return static, self.cores, adds

    @property
    def options(self) -> CompileOptions:
        """The recipe as the compiler takes it."""
        return CompileOptions(**self.recipe)


@cache
def _ready(name: str) -> Accelerator:
    """A ready accelerator, read once."""
    return load_accelerator(name)


def unchecked_config(described: dict[str, Any]) -> tuple[KernelConfig, Board]:
    """Numbers of the kernel and the board, before constraints between them and limits of the board are checked.

    ConfigurationError for keys that are wrong by themselves.
    """
    document = Document(NOWHERE, described)
    file: AcceleratorFile = validate(document, AcceleratorFile, "an accelerator")
    board = find_board(document, file)
    config = array_config(document, array_section(document, file), board)
    document.raise_problems("an accelerator")
    return config, board
