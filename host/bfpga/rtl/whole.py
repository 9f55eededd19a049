"""Figures of a kernel with the cells of its IPs whole: loops, what is between them, memories, reset and registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from bfpga.accelerator.loader import Accelerator
from bfpga.estimate.hardware import Area, HardwareFigures
from bfpga.rtl.control import control_verilog
from bfpga.rtl.ip import IpVerilog, ip_verilog
from bfpga.synthesis.count import area_of, family_of
from bfpga.synthesis.driver import Progress, synthesize
from bfpga.synthesis.ip_figures import IpRecord, ip_records, kernel_figures
from bfpga.synthesis.kept import Compiled, kernel_files
from bfpga.synthesis.netlist.mapped import count
from bfpga.synthesis.netlist.yosys import map_whole
from bfpga.vendor.kernel_ips import KernelIp, kernel_ips


def synthesize_whole(
    accelerator: Accelerator,
    cache: Path | None = None,
    progress: Progress | None = None,
    known: Mapping[str, IpRecord] | None = None,
) -> HardwareFigures:
    """Figures of an accelerator's kernel: its loops, and the cells of each IP mapped in one piece.

    ``cache``: directory of what is kept of analyses and netlists; ``progress`` hears of every scheduled loop, then of
    every IP; ``known``: IPs whose figures are there, those of the whole IP perhaps not.

    Raises:
        ToolError: clang or Yosys is missing or fails.
    """
    found = ip_records(synthesize(accelerator, cache=cache, progress=progress, known=known))
    digests = Compiled.of(accelerator).digests
    ips = {ip.part: ip for ip in kernel_ips(accelerator.config)}
    missing = [ips[x.name] for x in found.values() if x.whole is None and x.sources == digests[x.name]]
    for name, area in whole_areas(accelerator, missing, cache, progress).items():
        found[name] = replace(found[name], whole=area)
    return kernel_figures(accelerator, found)


def whole_areas(
    accelerator: Accelerator, ips: Sequence[KernelIp], cache: Path | None = None, progress: Progress | None = None
) -> dict[str, Area]:
    """Cells of IPs of an accelerator's kernel, by their names; several are mapped at once.

    Raises:
        ToolError: clang or Yosys is missing or fails.
    """
    files = kernel_files(accelerator)
    areas: dict[str, Area] = {}
    with ProcessPoolExecutor() as pool:
        runs = {pool.submit(whole_area, accelerator, ip, files, cache): ip for ip in ips}
        for run in as_completed(runs):
            areas[runs[run].part] = run.result()
            if progress is not None:
                progress(len(areas), len(ips))
    return areas


def whole_area(accelerator: Accelerator, ip: KernelIp, files: Mapping[str, str], cache: Path | None = None) -> Area:
    """Cells of one IP. ``files``: the kernel's sources."""
    text = whole_text(ip_verilog(accelerator, ip, files))
    return area_of(count(map_whole(text, ip.function, family_of(accelerator.board.part), cache)))


def whole_text(made: IpVerilog) -> str:
    """Verilog of an IP with the registers of the host, if it has them."""
    return "\n".join([made.text, *([control_verilog(made.ip)] if made.ip.control else [])])
