"""Figures of a kernel with the cells of its IPs whole: loops, what is between them, memories, reset and registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from bfpga.accelerator.loader import Accelerator
from bfpga.estimate.hardware import Area, HardwareFigures, WholePath
from bfpga.rtl.control import control_verilog
from bfpga.rtl.ip import IpVerilog, ip_verilog
from bfpga.synthesis.count import area_of, family_of
from bfpga.synthesis.driver import Progress, synthesize
from bfpga.synthesis.ip_figures import IpRecord, ip_records, kernel_figures
from bfpga.synthesis.kept import Compiled, kernel_files
from bfpga.synthesis.netlist.cell_arcs import whole_graph
from bfpga.synthesis.netlist.mapped import count
from bfpga.synthesis.netlist.timing import longest_path
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
    missing = [ips[x.name] for x in found.values() if not x.is_whole and x.sources == digests[x.name]]
    for name, (area, path) in whole_sizes(accelerator, missing, cache, progress).items():
        found[name] = replace(found[name], whole=area, path=path)
    return kernel_figures(accelerator, found)


def whole_sizes(
    accelerator: Accelerator, ips: Sequence[KernelIp], cache: Path | None = None, progress: Progress | None = None
) -> dict[str, tuple[Area, WholePath]]:
    """Cells and longest paths of IPs of an accelerator's kernel, by their names; several are mapped at once.

    Raises:
        ToolError: clang or Yosys is missing or fails.
    """
    files = kernel_files(accelerator)
    sizes: dict[str, tuple[Area, WholePath]] = {}
    with ProcessPoolExecutor() as pool:
        runs = {pool.submit(whole_size, accelerator, ip, files, cache): ip for ip in ips}
        for run in as_completed(runs):
            sizes[runs[run].part] = run.result()
            if progress is not None:
                progress(len(sizes), len(ips))
    return sizes


def whole_size(
    accelerator: Accelerator, ip: KernelIp, files: Mapping[str, str], cache: Path | None = None
) -> tuple[Area, WholePath]:
    """Cells of one IP and its longest path. ``files``: the kernel's sources."""
    family = family_of(accelerator.board.part)
    mapped = map_whole(whole_text(ip_verilog(accelerator, ip, files)), ip.function, family, cache)
    path = longest_path(whole_graph(mapped, family))
    found = WholePath(round(path.delay, 2), path.begin.name, path.end.name) if path is not None else WholePath()
    return area_of(count(mapped)), found


def whole_text(made: IpVerilog) -> str:
    """Verilog of an IP with the registers of the host, if it has them."""
    return "\n".join([made.text, *([control_verilog(made.ip)] if made.ip.control else [])])
