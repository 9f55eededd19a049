"""Importing PYNQ without a board, and every place where it is touched below its public surface, with the reason.

No class or function of PYNQ is replaced. What is touched is data: two caches of its classes that outlive a device, and
values that a parser of another version leaves out. All of it is the same in PYNQ 3.0.1, 3.1.x and 4.0.0 unless said.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bfpga.errors import DeviceError

#: Present on every PYNQ image; there the environment is left as it is.
_BOARD_MARKS = (Path("/proc/device-tree/chosen/pynq_board"), Path("/sys/class/fpga_manager/fpga0/firmware"))
#: With XILINX_XRT, PYNQ 3.0.1 loads a library that only boards have. With PYNQ_REMOTE_DEVICES, PYNQ 3.1 and later give
#: every device the interrupts of a remote one, which do not work.
_MISLEADING_VARIABLES = ("XILINX_XRT", "PYNQ_REMOTE_DEVICES")
#: Machine name of the processor by family: how `pynq.ps.Clocks` and PYNQ.remote distinguish Zynq-7000 and UltraScale+.
MACHINES = {"zynq7": "armv7l", "zynqmp": "aarch64"}
#: Name of a common board of the family; PYNQ chooses among the variants of an overlay by it.
BOARD_NAMES = {"zynq7": "Pynq-Z2", "zynqmp": "ZCU104"}
_INSTALL = "pip install 'bfpga[board]'"
#: Packages that are installed later may raise it.
_OLD_SETUPTOOLS = "pip install 'setuptools<=80'"
#: The first Python that PYNQ cannot be installed for: it needs numpy 1, which has no wheels there.
FIRST_PYTHON_WITHOUT_PYNQ = (3, 13)


def install_advice() -> str:
    """How PYNQ is installed here, or that it cannot be."""
    if sys.version_info >= FIRST_PYTHON_WITHOUT_PYNQ:
        here = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return f"PYNQ cannot be installed for Python {here}: make an environment of Python 3.10 to 3.12 and {_INSTALL}"
    return _INSTALL


def import_pynq() -> Any:
    """PYNQ, imported for work without a board: no warnings about this machine, no effect of variables for boards.

    DeviceError if it is missing or cannot work with the other packages that are installed.
    """
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        raise DeviceError(f"PYNQ needs numpy 1 and this is numpy {np.__version__}: {install_advice()}")
    try:
        with warnings.catch_warnings(), _without(_MISLEADING_VARIABLES):
            warnings.simplefilter("ignore")
            pynq = importlib.import_module("pynq")
            # Here rather than in the first overlay: this is what fails with a wrong pycparser.
            importlib.import_module("pynq.lib")
            return pynq
    except ImportError as error:
        if error.name == "pynq":
            raise DeviceError(f"PYNQ is not installed: {install_advice()}") from None
        if error.name == "pkg_resources":
            raise DeviceError(f"PYNQ needs pkg_resources, which later setuptools lack: {_OLD_SETUPTOOLS}") from None
        raise DeviceError(f"PYNQ is installed but does not load ({error}): {install_advice()}") from None


@contextmanager
def _without(names: tuple[str, ...]) -> Iterator[None]:
    """The environment without some variables, except on a board."""
    if any(mark.exists() for mark in _BOARD_MARKS):
        yield
        return
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


def metadata_parser(handoff: Path) -> Any:
    """PYNQ's parser of a `.hwh` file. Its module moved with 4.0, and 3.0.1 has only the old place."""
    metadata = importlib.import_module("pynqmetadata.frontends").Metadata
    try:
        module = importlib.import_module("pynqmetadata.views.runtime")
        parser = module.RuntimeMetadataParser
    except (ImportError, AttributeError):
        parser = importlib.import_module("pynq.metadata.runtime_metadata_parser").RuntimeMetadataParser
    return parser(metadata(input=str(handoff)))


def complete_clocks(parser: Any) -> None:
    """Fill in frequencies that PYNQ 4.0.0 leaves empty for Zynq-7000 and then divides by."""
    if not hasattr(parser, "ps_name"):
        return
    parameters = parser.ip_dict[parser.ps_name]["parameters"]
    for index, clock in parser.clock_dict.items():
        if "frequency" in clock and clock["frequency"] is None:
            mhz = parameters.get(f"PCW_ACT_FPGA{index}_PERIPHERAL_FREQMHZ")
            clock["frequency"] = float(mhz or parameters.get(f"PCW_FPGA{index}_PERIPHERAL_FREQMHZ") or 100.0)


def clocks_follow_device() -> bool:
    """Whether `pynq.Clocks` asks the device for its processor; 3.0.1 asks the machine that it runs on."""
    return hasattr(importlib.import_module("pynq.ps"), "ON_TARGET")


def release_clocks() -> None:
    """Let `pynq.Clocks` look for its device again: it keeps the registers of the first one for the whole process."""
    clocks = importlib.import_module("pynq.ps").Clocks
    if "_real_instance" in vars(clocks):
        del clocks._real_instance


def interrupt_lines() -> dict[int, Any]:
    """PYNQ's table of interrupt lines of the processor, by number, searched before /proc/interrupts."""
    table: dict[int, Any] = importlib.import_module("pynq.interrupt")._InterruptController._uio_devices
    return table
