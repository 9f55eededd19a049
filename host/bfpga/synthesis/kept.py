"""Figures that are there already: those of the ready accelerators in the package, others in the cache."""

from __future__ import annotations

import hashlib
import importlib.resources
from dataclasses import dataclass, replace
from pathlib import Path

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.names import DIGEST_DIGITS
from bfpga.estimate.hardware import HardwareFigures
from bfpga.formats.cache import make_private
from bfpga.scale.worker_side import source_digest
from bfpga.synthesis.ip_figures import IpRecord, ip_records, kernel_figures, read_records, write_records
from bfpga.synthesis.meaning import sources_meaning
from bfpga.vendor.kernel_ips import kernel_ips
from bfpga.vendor.render import kernel_sources, render_kernel, sources_of, top_files

#: How cells are counted, by the DSP blocks of the device; figures of another way are none. 2: two functions in one
#: look-up table where they share it. 3: registers and sums inside of DSP48E2 blocks.
_COUNTING = {"DSP48E1": 2, "DSP48E2": 3}


def kernel_files(accelerator: Accelerator) -> dict[str, str]:
    """The sources of an accelerator's kernel that a synthesis tool reads: path in the project -> text."""
    return kernel_sources(_rendered(accelerator))


def _rendered(accelerator: Accelerator) -> dict[str, str]:
    rendered = render_kernel(accelerator.name, accelerator.digest, accelerator.config)
    compiled = top_files(accelerator.config)
    return {path: text for path, text in rendered.items() if path.endswith(".hpp") or path in compiled}


@dataclass(frozen=True)
class Compiled:
    """What the IPs of an accelerator are compiled from: ``files``, path -> text; ``digests``, of each IP by its name.

    A digest is that of the IP's sources as far as they take part in hardware (`synthesis/meaning.py`), without the
    number by which a kernel is known, of the device, the clock with its margin, and the way of counting.
    """

    files: dict[str, str]
    digests: dict[str, str]

    @classmethod
    def of(cls, accelerator: Accelerator) -> Compiled:
        """As an accelerator's kernel is now."""
        rendered = _rendered(replace(accelerator, digest="0" * DIGEST_DIGITS))
        files = kernel_sources(rendered)
        board = accelerator.board
        others = _COUNTING[board.dsp_kind], board.part, accelerator.clock_mhz
        digests = {}
        for part, top in sources_by_ip(accelerator).items():
            margin = accelerator.wire_percent(part)
            digests[part] = sources_meaning(sources_of(top, files), rendered.keys(), *others, margin)
        return cls(files, digests)

    def records(self, path: Path) -> dict[str, IpRecord]:
        """The IPs whose figures in a file belong to these sources."""
        found = read_records(path, self.files) if path.exists() else {}
        return {name: found[name] for name in self.digests if name in found and self._has(found[name])}

    def _has(self, ip: IpRecord) -> bool:
        return ip.sources == self.digests[ip.name]


def sources_by_ip(accelerator: Accelerator) -> dict[str, str]:
    """Path of the source of each IP by its name, in the order in which they are compiled."""
    by_source = {ip.source: ip.part for ip in kernel_ips(accelerator.config)}
    return {by_source[source]: source for source in top_files(accelerator.config)}


def package_path(accelerator: Accelerator) -> Path:
    """Where the package has the figures of a ready accelerator."""
    return Path(str(importlib.resources.files("bfpga.configs"))) / "hardware" / f"{accelerator.name}.json"


def packaged_records(accelerator: Accelerator) -> dict[str, IpRecord]:
    """The IPs of a ready accelerator of which the package has figures of the present sources."""
    return Compiled.of(accelerator).records(package_path(accelerator))


def packaged_figures(accelerator: Accelerator) -> HardwareFigures | None:
    """Figures of a ready accelerator's present sources in the package, the same on every machine; None without any."""
    return _read(accelerator, package_path(accelerator)) if package_path(accelerator).exists() else None


def kept_figures(accelerator: Accelerator, cache: Path) -> HardwareFigures | None:
    """Figures of an accelerator's present sources, from the package or from a cache directory; None without any."""
    compiled = Compiled.of(accelerator)
    return _read(accelerator, package_path(accelerator), compiled) or _read(
        accelerator, _cached(cache, compiled.digests), compiled
    )


def _read(accelerator: Accelerator, path: Path, compiled: Compiled | None = None) -> HardwareFigures | None:
    """Figures from a file that has those of every IP."""
    compiled = compiled or Compiled.of(accelerator)
    found = compiled.records(path)
    return kernel_figures(accelerator, found) if found.keys() == compiled.digests.keys() else None


def keep_figures(figures: HardwareFigures, accelerator: Accelerator, cache: Path) -> None:
    """Keep figures of an accelerator in a cache directory, which is made if it is missing."""
    make_private(cache)
    write_figures(figures, accelerator, _cached(cache, figures.sources))


def write_figures(figures: HardwareFigures, accelerator: Accelerator, path: Path) -> None:
    """Write the figures of an accelerator into a file."""
    write_records(accelerator.name, ip_records(figures), kernel_files(accelerator), path)


def _cached(cache: Path, digests: dict[str, str]) -> Path:
    """Figures of these sources as the code of this package makes them: other code makes others."""
    made = hashlib.sha256(f"{sorted(digests.items())}\0{source_digest('bfpga.synthesis', 'bfpga.rtl')}".encode())
    return cache / f"{made.hexdigest()[:32]}.json"
