"""Accelerators whose kernel is processes, for tests of the design around them."""

from __future__ import annotations

from dataclasses import replace

from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.accelerator.variants import on_board
from bfpga.contract.processes import process_function
from bfpga.vendor.bitstream.hls_gates import PROCESS_LOOPS

#: Follows the name of a ready accelerator whose kernel is to be processes.
OF_PROCESSES = "/processes"
#: The smallest such accelerator.
TINY = f"tiny{OF_PROCESSES}"


def described(name: str) -> Accelerator:
    """A ready accelerator, or its variant of processes."""
    accelerator = load_accelerator(name.removesuffix(OF_PROCESSES))
    if not name.endswith(OF_PROCESSES):
        return accelerator
    variant = replace(
        accelerator,
        name=f"{accelerator.name}_processes",
        systolic=replace(accelerator.systolic, kernel="processes", beside=()),
    )
    return on_board(variant, accelerator.board)


def process_source(process: str) -> str:
    """A file that stands for the C++ of a process: its top function and its loop."""
    label = PROCESS_LOOPS[process]
    loop = f"{label}:\n    while (true) {{\n#pragma HLS PIPELINE II=1\n    }}\n"
    return f'#include "config.hpp"\n\nvoid {process_function(process)}() {{\n{loop}}}\n'
