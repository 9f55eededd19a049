"""The netlist of a loop body, simulated clock by clock and compared with what an iteration has to do.

Yosys writes the Verilog as C++ (CXXRTL), the C++ compiler of this machine makes a shared library of it, and every
clock goes through ctypes as plain words: all ports in a row, each in as many 32-bit words as it needs.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bfpga.devices import toolchain
from bfpga.errors import ToolError
from bfpga.synthesis.body import Opcode
from bfpga.synthesis.netlist import yosys
from bfpga.synthesis.netlist.interpret import ENABLED, EXTERNAL, WRITES
from bfpga.synthesis.netlist.verilog import TOP, Design
