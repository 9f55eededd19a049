"""Look-up tables that are counted here against those that Vivado reports of a processor whose Verilog is public.

    python -m benchmarks.synthesis.vendor_tables picorv32.v

The file is picorv32.v of github.com/YosysHQ/picorv32. Its README has what Vivado 2017.3 reports of area-optimized
synthesis for a 7 series device ("Slice LUTs", those that are memory among them).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.common.command import command
from bfpga.errors import ConfigurationError
from bfpga.synthesis.netlist.mapped import count, shared_tables
from bfpga.synthesis.netlist.yosys import map_modules

#: The first module of the file, with the macros before it.
CORE = re.compile(r"\A.*?^module picorv32 #\(.*?^endmodule", re.DOTALL | re.MULTILINE)
#: Variant -> (Slice LUTs of Vivado, parameters that differ from the file).
PUBLISHED: dict[str, tuple[int, Mapping[str, int]]] = {
    "small": (
        761,
        {
            "ENABLE_COUNTERS": 0, "LATCHED_MEM_RDATA": 1, "TWO_STAGE_SHIFT": 0, "CATCH_MISALIGN": 0,
            "CATCH_ILLINSN": 0,
        },
    ),
    "regular": (917, {}),
}  # fmt: skip


def variant(text: str, parameters: Mapping[str, int]) -> str:
    """The core alone with other parameters."""
    found = CORE.search(text)
    if found is None:
        raise ConfigurationError("the file has no module picorv32")
    core = found.group()
    for name, value in parameters.items():
        core = re.sub(rf"({name} = )\d+", rf"\g<1>{value}", core, count=1)
    return core


def main(given: Sequence[str] | None = None) -> int:
    """Print a table: published, counted, counted if no table had two functions."""
    parser = command(__doc__)
    parser.add_argument("verilog", type=Path, help="picorv32.v")
    text = parser.parse_args(given).verilog.read_text(encoding="utf-8")
    print("| core | Vivado, Slice LUTs | counted | above | with a table for each function | above |")
    print("|---|---|---|---|---|---|")
    for name, (published, parameters) in PUBLISHED.items():
        module = map_modules({"picorv32": variant(text, parameters)})["picorv32"]
        found = count(module)
        ours = found.lut + found.lut_memory
        single = ours + shared_tables(module)
        above = [f"{100 * (each / published - 1):.0f} %" for each in (ours, single)]
        print(f"| PicoRV32, {name} | {published} | {ours:,} | {above[0]} | {single:,} | {above[1]} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
