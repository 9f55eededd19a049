"""Accelerators for tests of the design around a kernel."""

from __future__ import annotations

#: The smallest ready accelerator; a larger one of the same board; one of the other family of processing systems.
TINY, ZYNQ7, ZYNQMP = "tiny", "pynq_z2_dense", "zcu104_dense"
