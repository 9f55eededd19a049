"""The loops of the process `rows` as IPs of their own."""

from __future__ import annotations

from cpp_units import SOURCES, rendered_headers

from bfpga.vendor.kernel_ips import KernelIp, StreamPort
from bfpga.vendor.render import kernel_sources

_HEAD = """\
#include "bfpga/processes/rows/PROCESS.hpp"
#include "row_build.hpp"
using Config = RowBuild<COLUMNS, LANES>;
using bfpga::stream;
using bfpga::wire_t;
using Commands = stream<bfpga::command_t>;
using Totals = stream<wire_t<bfpga::RowTotalBeat>>;
using Factors = stream<wire_t<bfpga::RowFactorBeat>>;
"""
_TOPS = {
    "row_process": """
void rows(Commands& row_commands, stream<wire_t<bfpga::RowWords<Config>>>& operands,
          stream<wire_t<bfpga::RowGainBeat>>& gains, Totals& totals, Factors& factors,
          stream<wire_t<bfpga::RowSumBeat<Config>>>& sums) {
    static bfpga::RowProcess<Config> process;
    process.run(row_commands, operands, gains, totals, factors, sums);
}
""",
    "factor_process": """
void row_factors(Commands& factor_commands, Commands& exponents, Totals& totals, Factors& factors) {
    static bfpga::FactorProcess<Config> process;
    process.run(factor_commands, exponents, totals, factors);
}
""",
}
PROCESSES = tuple(_TOPS)
#: Bits of the beats between the loops.
TOTAL_BITS, FACTOR_BITS = 18 + 29, 25 + 34 + 22


def row_sources(process: str, columns: int, lanes: int) -> tuple[dict[str, str], str]:
    """All that the top function of a process is compiled from, path -> text, and the path that has it."""
    top = f"src/{process}.cpp"
    head = _HEAD.replace("PROCESS", process).replace("COLUMNS", str(columns)).replace("LANES", str(lanes))
    headers = {f"include/{path}": text for path, text in rendered_headers().items()}
    own = {"src/row_build.hpp": (SOURCES / "row_build.hpp").read_text(), top: head + _TOPS[process]}
    return kernel_sources(headers | own), top


def row_ip(process: str, columns: int, lanes: int) -> KernelIp:
    """The IP of a process: its function, and its streams in whole bytes."""
    inner = {"totals": TOTAL_BITS, "factors": FACTOR_BITS}
    words, sums = 8 * columns * lanes, 24 * columns
    streams = {
        "row_process": {"row_commands": 32, "operands": words, "gains": 16, **inner, "sums": sums},
        "factor_process": {"factor_commands": 32, "exponents": 32, **inner},
    }[process]
    masters = {"row_process": ("totals", "sums"), "factor_process": ("factors",)}[process]
    ports = tuple(StreamPort(name, name in masters, -(-bits // 8) * 8, False) for name, bits in streams.items())
    function = {"row_process": "rows", "factor_process": "row_factors"}[process]
    return KernelIp(process, process, function, f"src/{process}.cpp", False, ports)
