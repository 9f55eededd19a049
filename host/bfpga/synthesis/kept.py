"""Figures that are there already: those of the ready accelerators in the package, others in the cache."""

from __future__ import annotations

import hashlib
import importlib.resources
from dataclasses import replace
from pathlib import Path

from bfpga.accelerator.clocks import wire_percent
from bfpga.accelerator.loader import Accelerator
from bfpga.contract.names import DIGEST_DIGITS
from bfpga.estimate.hardware import HardwareFigures, read_figures, write_figures
from bfpga.formats.cache import make_private
from bfpga.scale.worker_side import source_digest
from bfpga.vendor.kernel_ips import kernel_ips
from bfpga.vendor.render import kernel_sources, render_kernel, top_files

#: How cells are counted, by the DSP blocks of the device; figures of another way are none. 2: two functions in one
#: look-up table where they share it. 3: registers and sums inside of DSP48E2 blocks.
_COUNTING = {"DSP48E1": 2, "DSP48E2": 3}


def kernel_files(accelerator: Accelerator) -> dict[str, str]:
    """The sources of an accelerator's kernel that a synthesis tool reads: path in the project -> text."""
    rendered = render_kernel(accelerator.name, accelerator.digest, accelerator.systolic)
    compiled = top_files(accelerator.systolic)
    tops = {path: text for path, text in rendered.items() if path.endswith(".hpp") or path in compiled}
    return kernel_sources(tops)


def sources_digest(accelerator: Accelerator) -> str:
    """What figures belong to: the sources of the kernel, the device, the clock and its margins, the way of counting.

    Of the sources what is compiled into hardware: not the number by which the kernel is known.
    """
    board = accelerator.board
    margins = [wire_percent(board.processing_system, ip.part) for ip in kernel_ips(accelerator.systolic)]
    counting = _COUNTING[board.dsp_kind]
    digest = hashlib.sha256(f"{counting}\0{board.part}\0{accelerator.clock_mhz}\0{margins}".encode())
    for path, text in sorted(kernel_files(replace(accelerator, digest="0" * DIGEST_DIGITS)).items()):
        digest.update(f"\0{path}\0{text}".encode())
    return digest.hexdigest()


def package_path(accelerator: Accelerator) -> Path:
    """Where the package has the figures of a ready accelerator."""
    return Path(str(importlib.resources.files("bfpga.configs"))) / "hardware" / f"{accelerator.name}.json"


def packaged_figures(accelerator: Accelerator) -> HardwareFigures | None:
    """Figures of a ready accelerator's present sources in the package, the same on every machine; None without any."""
    path = package_path(accelerator)
    return read_figures(path, sources_digest(accelerator)) if path.exists() else None


def kept_figures(accelerator: Accelerator, cache: Path) -> HardwareFigures | None:
    """Figures of an accelerator's present sources, from the package or from a cache directory; None without any."""
    sources = sources_digest(accelerator)
    for path in (package_path(accelerator), _cached(cache, sources)):
        if (figures := read_figures(path, sources)) is not None:
            return figures
    return None


def keep_figures(figures: HardwareFigures, cache: Path) -> None:
    """Keep figures in a cache directory, which is made if it is missing."""
    make_private(cache)
    write_figures(figures, _cached(cache, figures.sources))


def _cached(cache: Path, sources: str) -> Path:
    """Figures of these sources as the code of this package makes them: other code makes others."""
    made = hashlib.sha256(f"{sources}\0{source_digest('bfpga.synthesis')}".encode())
    return cache / f"{made.hexdigest()[:32]}.json"
