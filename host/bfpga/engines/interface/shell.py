"""Resources of the shell: what is around a kernel in its block design. Only the standard library is imported."""

from __future__ import annotations

from bfpga.engines.interface.resource_units import Resources

#: Two AXI DMAs, the interconnects to the memory and to the registers, interrupt controller, reset: figures of designs
#: like it on a 7-series device; no design of this one has been built.
INFRASTRUCTURE = Resources(bram36=4, lut=5000, ff=6500)
#: The clock counter (rtl/clock_counter.v), mapped by Yosys.
CLOCK_COUNTER = Resources(lut=402, ff=392)
SHELL = INFRASTRUCTURE + CLOCK_COUNTER
