"""Figures of ready accelerators' hardware for the package: configs/hardware/NAME.json.

    python -m benchmarks.synthesis.figures [tiny pynq_z2_dense ...]

Without names: of all. To be run again when the kernel's sources change; a test
compares their digest. A minute or two each on two idle cores. `python -m benchmarks.synthesis.counted` then renews the
fit for other accelerators, `benchmarks.synthesis.figure_tables` the tables of docs/synthesis.md.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.common.command import command
from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.estimate.hardware import write_figures
from bfpga.formats.cache import cache_directory
from bfpga.synthesis.driver import synthesize
from bfpga.synthesis.kept import package_path


def main(given: Sequence[str] | None = None) -> int:
    """Synthesize the named accelerators."""
    parser = command(__doc__)
    parser.add_argument("names", nargs="*", help="ready accelerators")
    for name in parser.parse_args(given).names or accelerator_names():
        accelerator = load_accelerator(name)
        begin = time.perf_counter()
        figures = synthesize(accelerator, cache=cache_directory("synthesis") / "netlists")
        write_figures(figures, package_path(accelerator))
        print(f"{name}: {len(figures.loops)} loops in {time.perf_counter() - begin:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
