"""Accelerators of both forms of kernels, for tests of the design around them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.accelerator.variants import on_board
from bfpga.contract.processes import process_function
from bfpga.vendor.bitstream.hls_gates import PROCESS_LOOPS

#: Accelerator files of the tests.
DATA = Path(__file__).parents[1] / "data"
#: Follows the name of a ready accelerator whose kernel is to be processes.
OF_PROCESSES = "/processes"
#: The smallest such accelerator.
TINY = f"tiny{OF_PROCESSES}"
#: Follows the name of a ready accelerator whose kernel is to be one loop.
OF_LOOP = "/loop"
#: The smallest accelerator whose kernel is one IP; a larger one; one of the other family.
TINY_LOOP, ZYNQ7 = (str(DATA / f"{name}_loop.yaml") for name in ("tiny", "dense"))
ZYNQMP = f"zcu104_dense{OF_LOOP}"


def described(name: str) -> Accelerator:
    """A ready accelerator or that of a file, or a ready one's variant of processes or of one loop."""
    if not name.endswith((OF_PROCESSES, OF_LOOP)):
        return load_accelerator(name)
    ready, form = name.split("/")
    accelerator = load_accelerator(ready)
    numbers = accelerator.systolic
    systolic = {
        OF_PROCESSES: replace(numbers, kernel="processes"),
        OF_LOOP: replace(numbers, kernel="loop", hop_columns=0, ultra_ram=()),
    }[f"/{form}"]
    return on_board(replace(accelerator, name=f"{ready}_{form}", systolic=systolic), accelerator.board)


def process_source(process: str) -> str:
    """A file that stands for the C++ of a process: its top function and its loop."""
    label = PROCESS_LOOPS[process]
    loop = f"{label}:\n    while (true) {{\n#pragma HLS PIPELINE II=1\n    }}\n"
    return f'#include "config.hpp"\n\nvoid {process_function(process)}() {{\n{loop}}}\n'
