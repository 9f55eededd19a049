"""Cells of the process of rows on Zynq-7000 at 8 ns, by the columns that it has: both IPs, each mapped in one piece.

    python -m benchmarks.rows.sizes [4 6 12] [--lanes 4]

Needs the synthesis extra and Yosys. FIFOs around the IPs are not counted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.common.command import TEST_SUPPORT, command

sys.path.insert(0, str(TEST_SUPPORT))
from row_tops import PROCESSES, row_ip, row_sources

from bfpga.accelerator.loader import load_accelerator
from bfpga.formats.cache import cache_directory

#: Whose part and clock these are.
ACCELERATOR = "pynq_z2_dense"


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("columns", type=int, nargs="*", default=[4, 6, 12])
    parser.add_argument("--lanes", type=int, default=4, choices=(1, 2, 4))
    chosen = parser.parse_args(given)
    from bfpga.rtl.ip import ip_verilog
    from bfpga.synthesis.count import area_of, family_of
    from bfpga.synthesis.netlist.mapped import count
    from bfpga.synthesis.netlist.yosys import map_whole

    accelerator = load_accelerator(ACCELERATOR)
    family, cache = family_of(accelerator.board.part), cache_directory("synthesis", "netlists")
    print("columns  process          LUT  of them memory     FF  DSP  RAMB18  intervals")
    for columns in chosen.columns:
        for process in PROCESSES:
            sources, _ = row_sources(process, columns, chosen.lanes)
            made = ip_verilog(accelerator, row_ip(process, columns, chosen.lanes), sources)
            area = area_of(count(map_whole(made.text, made.ip.function, family, cache)))
            lut = area.lut + area.lut_memory
            intervals = " ".join(f"{name} {number}" for name, number in made.intervals.items())
            print(f"{columns:>7}  {process:<14} {lut:>5,}  {area.lut_memory:>14,} {area.ff:>6,}  {area.dsp:>3}"
                  f"  {area.bram18:>6}  {intervals}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
