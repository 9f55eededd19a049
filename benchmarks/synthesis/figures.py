"""Figures of ready accelerators' hardware for the package: configs/hardware/NAME.json.

    python -m benchmarks.synthesis.figures [tiny pynq_z2_dense ...] [--ip post] [--list]

Without names: of all. Only IPs whose sources have changed are synthesized; comments, blank space and names of files do
not count. To be run again when the kernel's C++ changes; a test compares the digests. A minute or two an accelerator
from nothing on two idle cores. `python -m benchmarks.synthesis.counted` then renews the fit for other accelerators,
`benchmarks.synthesis.figure_tables` the tables of docs/synthesis.md.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from benchmarks.common.command import command
from bfpga.accelerator.loader import Accelerator, accelerator_names, load_accelerator
from bfpga.errors import ConfigurationError
from bfpga.formats.cache import cache_directory
from bfpga.rtl.whole import synthesize_whole
from bfpga.synthesis.ip_figures import read_records
from bfpga.synthesis.kept import Compiled, package_path, packaged_records, write_figures


def main(given: Sequence[str] | None = None) -> int:
    """Synthesize what has changed of the named accelerators."""
    parser = command(__doc__)
    parser.add_argument("names", nargs="*", help="ready accelerators")
    parser.add_argument("--ip", action="append", default=[], help="this IP, changed or not, and no other")
    parser.add_argument("--list", action="store_true", help="print what has changed, and synthesize nothing")
    arguments = parser.parse_args(given)
    for name in arguments.names or accelerator_names():
        accelerator = load_accelerator(name)
        begin = time.perf_counter()
        changed = arguments.ip or stale(accelerator)
        if changed and not arguments.list:
            renew(accelerator, changed)
        print(f"{name}: {', '.join(changed) or 'nothing'} in {time.perf_counter() - begin:.0f} s", flush=True)
    return 0


def stale(accelerator: Accelerator) -> list[str]:
    """The IPs of which the package has no figures of the present sources, of loops alone, or no path."""
    present = packaged_records(accelerator)
    return [name for name in Compiled.of(accelerator).digests if name not in present or not present[name].is_whole]


def renew(accelerator: Accelerator, names: Collection[str]) -> None:
    """Synthesize some IPs of an accelerator; the others keep the figures that the package has, of whatever sources.

    An IP whose loops have figures of the present sources is only mapped whole.
    """
    compiled, path = Compiled.of(accelerator), package_path(accelerator)
    if unknown := set(names) - compiled.digests.keys():
        raise ConfigurationError(f"{accelerator.name} has no IP {', '.join(unknown)}: {', '.join(compiled.digests)}")
    others = {name: ip for name, ip in read_records(path, compiled.files).items() if name not in names}
    others |= {name: ip for name, ip in packaged_records(accelerator).items() if not ip.is_whole}
    figures = synthesize_whole(accelerator, cache=cache_directory("synthesis") / "netlists", known=others)
    write_figures(figures, accelerator, path)


if __name__ == "__main__":
    raise SystemExit(main())
