"""Tables of docs/synthesis.md about the ready accelerators, from the figures of the package: the IPs of one, all of
them, and their totals against those of loops and memories alone, which leave out what stands between the loops.

    python -m benchmarks.synthesis.figure_tables

Writes them into the page, where a table with the same first line stands, after `benchmarks.synthesis.figures`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.common.command import ROOT, command
from bfpga.accelerator.loader import Accelerator, accelerator_names, load_accelerator
from bfpga.errors import ConfigurationError
from bfpga.estimate.hardware import Area, HardwareFigures
from bfpga.formats.files import replace_file
from bfpga.synthesis.kept import packaged_figures

PAGE = ROOT / "docs" / "synthesis.md"
IPS = "| IP | LUT | FF | DSP | BRAM36 | longest path, ns |"
ACCELERATORS = "| accelerator | MHz | II | least slack, ns | longest path, ns | carried, ns | LUT | FF | DSP | BRAM36 |"
COMPARED = "| accelerator | LUT of loops | whole | FF of loops | whole | DSP of loops | whole | BRAM of loops | whole |"
#: Behind the name of an accelerator whose figures are those of loops and memories alone.
LOOPS = " *"
#: The accelerator whose IPs are listed.
LISTED = "pynq_z2_dense"


def main(given: Sequence[str] | None = None) -> int:
    """Renew the tables."""
    command(__doc__).parse_args(given)
    text = PAGE.read_text(encoding="utf-8")
    text = renewed(text, IPS, ips(figures_of(load_accelerator(LISTED))))
    rows = [row(load_accelerator(name)) for name in accelerator_names()]
    text = renewed(text, ACCELERATORS, rows)
    compared = [compared_row(figures_of(load_accelerator(name))) for name in accelerator_names()]
    replace_file(PAGE, renewed(text, COMPARED, [row for row in compared if row]).encode())
    return 0


def renewed(text: str, first: str, rows: list[str]) -> str:
    """The page with other rows below a table's first line."""
    begin = text.index(first)
    end = text.index("\n\n", begin)
    return text[:begin] + "\n".join([first, "|---" * (first.count("|") - 1) + "|", *rows]) + text[end:]


def figures_of(accelerator: Accelerator) -> HardwareFigures:
    """The package's figures of an accelerator's present sources."""
    figures = packaged_figures(accelerator)
    if figures is None:
        raise ConfigurationError(f"no figures of {accelerator.name}: python -m benchmarks.synthesis.figures")
    return figures


def ips(figures: HardwareFigures) -> list[str]:
    """A row for every IP with its memories, for what stands beside them, and the total."""
    paths = {ip.name: f"{ip.path:.1f}" for ip in figures.ips}
    limits = load_accelerator(figures.accelerator).board.resources
    rows = [f"| {name} | {cells(area)} | {paths.get(name, '')} |" for name, area in figures.parts.items()]
    return [*rows, f"| total | {shares(figures.total, limits)} | |"]


def row(accelerator: Accelerator) -> str:
    """An accelerator: clock, slowest loop, least slack, paths of the mapped netlist, shares of its board."""
    figures = figures_of(accelerator)
    loops = list(figures.loops)
    interval, slack = max(loop.interval for loop in loops), min(loop.slack for loop in loops)
    path, carried = max(ip.path for ip in figures.ips), max(loop.carried for loop in loops)
    shared = shares(figures.total, accelerator.board.resources)
    begin = f"| `{accelerator.name}` | {accelerator.clock_mhz:g} | {interval} | {slack:.3f} "
    of_loops = "" if all(ip.is_whole for ip in figures.ips) else LOOPS
    return f"{begin}| {path:.1f} | {carried:.1f} | {shared} |".replace("` |", f"`{of_loops} |", 1)


def compared_row(figures: HardwareFigures) -> str:
    """An accelerator's total from its loops and memories, each by itself, and from whole IPs; empty without these."""
    if not all(ip.is_whole for ip in figures.ips):
        return ""
    loops, whole = replace(figures, wholes={}).total.used, figures.total.used
    pairs = " | ".join(f"{loops[kind]:,g} | {whole[kind]:,g}" for kind in ("lut", "ff", "dsp", "bram36"))
    return f"| `{figures.accelerator}` | {pairs} |"


def cells(area: Area) -> str:
    """Look-up tables, flip-flops, DSP blocks, block memories."""
    return f"{area.tables:,} | {area.ff:,} | {area.dsp:,} | {area.bram36:g}"


def shares(area: Area, limits: dict[str, int]) -> str:
    """The same with their shares of a board."""
    used, kinds = area.used, ("lut", "ff", "dsp", "bram36")
    return " | ".join(f"{used[kind]:,g} ({100 * used[kind] / limits[kind]:.0f} %)" for kind in kinds)


if __name__ == "__main__":
    sys.exit(main())
