"""Counted configurations of kernels: engines/kernel/counted.json, to which its estimates are fitted.

    python -m benchmarks.synthesis.counted

The ready accelerators with a systolic array as the package has counted them, and a few small ones that are counted
here: a minute each on two idle cores; those whose sources are as they were stay. To be run again when the kernel's
sources change much: what is printed of a configuration that was synthesized itself does not depend on it.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

import bfpga.engines.kernel
from benchmarks.common.command import command
from bfpga.accelerator.loader import Accelerator, accelerator_names, load_accelerator
from bfpga.contract.process_stream import PROCESSES
from bfpga.engines.kernel.counted_resources import numbers, option_cells, stored_tables
from bfpga.estimate.hardware import HardwareFigures
from bfpga.formats.cache import cache_directory
from bfpga.formats.files import replace_file
from bfpga.rtl.whole import synthesize_whole
from bfpga.synthesis.kept import keep_figures, kept_figures

ENGINE: dict[str, Any] = {
    "kind": "systolic_array", "format": {"profile": "bfp8"}, "columns": 2, "rows": 4, "lanes": 2,
    "multiplier": "dsp_packed", "accumulator_bits": 24, "bias_bits": 18, "activation_words": 512, "weight_words": 512,
    "parameter_rows": 4096, "stream_bits": 64, "weight_stream_bits": 64, "functions": ["none", "relu", "clip"],
    "hop_columns": 1,
}  # fmt: skip
LEAKY = ["none", "relu", "leaky_relu", "clip"]
TABLES = ["none", "relu", "leaky_relu", "clip", "sigmoid", "tanh"]
TABLE = Path(bfpga.engines.kernel.__file__).with_name("counted.json")
#: What each small configuration changes; all are synthesized for one part at 100 MHz.
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"functions": TABLES, "position_bins": 16},
    {"columns": 4, "functions": LEAKY},
    {"columns": 4, "shift_columns": 2, "shift": {"exp_width": 3}},
    {"format": {"profile": "bfp16"}, "multiplier": "dsp", "accumulator_bits": 40},
)


def main(given: Sequence[str] | None = None) -> int:
    """Count all configurations whose sources have changed and write the table."""
    command(__doc__).parse_args(given)
    rows = []
    for accelerator in configurations():
        begin = time.perf_counter()
        rows.append(row(accelerator, counted(accelerator)))
        total = sum(ip["lut"] for ip in rows[-1]["ips"].values())
        print(f"{accelerator.name}: {total:,} LUT in {time.perf_counter() - begin:.0f} s", flush=True)
    write_table(rows)
    return 0


def write_table(rows: Sequence[dict[str, Any]]) -> None:
    """Write the table, a configuration a line."""
    lines = ",\n".join(map(json.dumps, rows))
    head = '{"command": "python -m benchmarks.synthesis.counted", "configurations": ['
    replace_file(TABLE, f"{head}\n{lines}\n]}}\n".encode())


def configurations() -> Iterator[Accelerator]:
    """The ready accelerators with a systolic array alone, and the small ones."""
    for accelerator in map(load_accelerator, accelerator_names()):
        if not accelerator.config.array.skip_groups(accelerator.config):
            yield accelerator
    for number, changes in enumerate(CHANGES):
        yield described(changes, f"counted_{number}")


def described(changes: dict[str, Any], name: str) -> Accelerator:
    """The accelerator of a small configuration."""
    content = {"name": name, "description": "counted", "board": "pynq_z2", "clock_mhz": 100}
    content["engines"] = [{**ENGINE, **changes}]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content))
        return load_accelerator(str(path))


def counted(accelerator: Accelerator) -> HardwareFigures:
    """Figures of an accelerator; kept ones where there are."""
    cache = cache_directory("synthesis")
    known = kept_figures(accelerator, cache)
    if known is not None and all(ip.is_whole for ip in known.ips):
        return known
    figures = synthesize_whole(accelerator, cache=cache / "netlists")
    keep_figures(figures, accelerator, cache)
    return figures


def row(accelerator: Accelerator, figures: HardwareFigures) -> dict[str, Any]:
    """A row of the table: what every IP has but what its memories store."""
    ips = {ip.name: ip for ip in figures.ips}
    config = accelerator.config
    logic = {}
    for name in PROCESSES:
        area = ips[name].area
        lut, ff = option_cells(config).get(name, (0, 0))
        logic[name] = {"lut": area.tables - stored_tables(name, config) - lut, "ff": area.ff - ff}
    return {"name": accelerator.name, "numbers": numbers(config), "ips": logic}


if __name__ == "__main__":
    raise SystemExit(main())
