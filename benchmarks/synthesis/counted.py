"""Counted configurations of the kernel of processes: engines/array/counted.json, to which its estimates are fitted.

    python -m benchmarks.synthesis.counted

Each configuration is a board's usual numbers with some changed; all are synthesized for the same part and clock. A
minute each on two idle cores; rows whose sources are as they were stay. Ready accelerators whose figures the package
has (`benchmarks.synthesis.figures`) are rows too. To be run again when the kernel's sources change much: what is
printed of a configuration that was synthesized itself does not depend on it.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

import bfpga.engines.array
from benchmarks.common.command import command
from bfpga.accelerator.loader import Accelerator, accelerator_names, load_accelerator
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.processes import PROCESSES
from bfpga.devices.csim import cache_directory
from bfpga.engines.array.counted_resources import numbers, stored_tables
from bfpga.estimate.hardware import HardwareFigures
from bfpga.formats.files import replace_file
from bfpga.synthesis.driver import synthesize
from bfpga.synthesis.kept import packaged_figures, sources_digest

ENGINE: dict[str, Any] = {
    "kind": "systolic_array", "format": {"profile": "bfp8"}, "columns": 12, "rows": 8, "lanes": 4,
    "multiplier": "dsp_packed", "accumulator_bits": 24, "bias_bits": 18, "activation_words": 3072, "weight_words": 9216,
    "parameter_rows": 4096, "stream_bits": 64, "weight_stream_bits": 64, "functions": ["none", "relu", "clip"],
    "kernel": "processes", "hop_columns": 4,
}  # fmt: skip
LEAKY = ["none", "relu", "leaky_relu", "clip"]
TABLES = ["none", "relu", "leaky_relu", "clip", "sigmoid", "tanh"]
TABLE = Path(bfpga.engines.array.__file__).with_name("counted.json")
#: What each configuration changes.
SMALL = {"columns": 2, "rows": 4, "lanes": 2, "activation_words": 512, "weight_words": 512, "hop_columns": 1}
CHANGES: tuple[dict[str, Any], ...] = (
    {"functions": LEAKY},
    SMALL,
    {},
    {**SMALL, "functions": TABLES, "position_bins": 16},
    {**SMALL, "columns": 4, "functions": LEAKY},
    {**SMALL, "columns": 4, "shift_columns": 2, "shift": {"exp_width": 3}},
    {**SMALL, "format": {"profile": "bfp16"}, "multiplier": "dsp", "accumulator_bits": 40},
    {"columns": 6, "hop_columns": 3},
    {**SMALL, "columns": 4, "accumulator_bits": 32, "position_bins": 16},
    {"columns": 8, "rows": 16, "lanes": 2, "functions": TABLES},
)


def main(given: Sequence[str] | None = None) -> int:
    """Count all configurations whose sources have changed and write the table."""
    command(__doc__).parse_args(given)
    known = {row["sources"]: row for row in json.loads(TABLE.read_text())["configurations"]} if TABLE.exists() else {}
    rows = packaged()
    for number, changes in enumerate(CHANGES):
        begin = time.perf_counter()
        accelerator = described(changes, f"counted_{number}")
        row = known.get(sources_digest(accelerator)) or counted(accelerator)
        rows.append(row)
        total = sum(ip["lut"] for ip in row["ips"].values())
        print(f"{changes or 'as it is'}: {total:,} LUT in {time.perf_counter() - begin:.0f} s", flush=True)
        write(rows)
    return 0


def packaged() -> list[dict[str, Any]]:
    """Rows of the ready accelerators whose present kernels are counted in the package."""
    ready = [load_accelerator(name) for name in accelerator_names()]
    found = [(packaged_figures(one), one) for one in ready if one.systolic.kernel == "processes"]
    return [row_of(figures, one.systolic) for figures, one in found if figures is not None and figures.counted]


def write(rows: list[dict[str, Any]]) -> None:
    """The table with the rows that there are; the file appears whole or not at all."""
    content = {"command": "python -m benchmarks.synthesis.counted", "configurations": rows}
    replace_file(TABLE, (json.dumps(content, indent=1) + "\n").encode())


def described(changes: dict[str, Any], name: str) -> Accelerator:
    """The accelerator of a configuration."""
    content = {"name": name, "description": "counted", "board": "pynq_z2", "clock_mhz": 100}
    content["engines"] = [{**ENGINE, **changes}]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content))
        return load_accelerator(str(path))


def counted(accelerator: Accelerator) -> dict[str, Any]:
    """A row of the table: the logic of every IP."""
    figures = synthesize(accelerator, cache=cache_directory() / "synthesis" / "netlists")
    return row_of(figures, accelerator.systolic)


def row_of(figures: HardwareFigures, config: SystolicConfig) -> dict[str, Any]:
    """What the table keeps of a synthesis."""
    ips = {ip.name: ip for ip in figures.ips}
    logic = {}
    for name in PROCESSES:
        area = ips[name].loops + ips[name].memories
        logic[name] = {"lut": area.tables - stored_tables(name, config), "ff": area.ff}
    return {"sources": figures.sources, "numbers": numbers(config), "ips": logic}


if __name__ == "__main__":
    raise SystemExit(main())
