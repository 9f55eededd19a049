"""The IPs of a block design: parameters, pins, interfaces, address blocks.

Sources: PG021 (AXI DMA), PG099 (AXI INTC), PG164 (processor system reset), PG247 (SmartConnect), PG082 and UG585
(Zynq-7000), PG201 and UG1085 (Zynq UltraScale+), PG085 (AXI4-Stream FIFO). Written from these, not from the design.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.registers import (
    CLOCK_COUNTER,
    CONTROL_PORT,
    COUNTER_PORT,
    INPUT_STREAM,
    OUTPUT_STREAM,
    WEIGHT_STREAM,
)
from bfpga.vendor.kernel_ips import kernel_ips

#: Lines of an IP: `set PARAMETER DEFAULT ALLOWED` (a regular expression; default `?`: the board's preset decides), and
#: `out` or `in` (drivers and masters, loads and slaves), kind, name, then in any order: `bits=` a number or a parameter
#: (after `8*`: bytes), `copies=` the parameter that says how many there are, numbered in the name, `at=` the address
#: space of a master, memory map and block of a slave. `{a,b}` stands for two lines. Only ends of one kind are joined:
#: the kinds of wires hold what PYNQ needs (one clock, resets from proc_sys_reset, interrupts only as xlconcat ->
#: axi_intc -> first line of the processor).
_IPS = """
xilinx.com:ip:processing_system7
  set PCW_USE_M_AXI_GP0 ? [01]
  set PCW_USE_S_AXI_HP{0,1} 0 [01]
  set PCW_USE_S_AXI_HP{2,3} 0 [01]
  set PCW_S_AXI_HP{0,1}_DATA_WIDTH 64 32|64
  set PCW_S_AXI_HP{2,3}_DATA_WIDTH 64 32|64
  set PCW_EN_CLK0_PORT 0 [01]
  set PCW_FPGA0_PERIPHERAL_FREQMHZ 50 [0-9.]+
  set PCW_USE_FABRIC_INTERRUPT 0 [01]
  set PCW_IRQ_F2P_INTR 0 1
  out clock FCLK_CLK0 copies=PCW_EN_CLK0_PORT
  out board_reset FCLK_RESET0_N
  in processor_interrupt IRQ_F2P copies=PCW_USE_FABRIC_INTERRUPT
  out aximm M_AXI_GP0 bits=32 copies=PCW_USE_M_AXI_GP0 at=Data
  in clock M_AXI_GP0_ACLK copies=PCW_USE_M_AXI_GP0
  in aximm S_AXI_HP{0,1} bits=PCW_S_AXI_HP{0,1}_DATA_WIDTH copies=PCW_USE_S_AXI_HP{0,1} at=S_AXI_HP{0,1}/HP{0,1}_DDR_LOWOCM
  in aximm S_AXI_HP{2,3} bits=PCW_S_AXI_HP{2,3}_DATA_WIDTH copies=PCW_USE_S_AXI_HP{2,3} at=S_AXI_HP{2,3}/HP{2,3}_DDR_LOWOCM
  in clock S_AXI_HP{0,1}_ACLK copies=PCW_USE_S_AXI_HP{0,1}
  in clock S_AXI_HP{2,3}_ACLK copies=PCW_USE_S_AXI_HP{2,3}
xilinx.com:ip:zynq_ultra_ps_e
  set PSU__USE__M_AXI_GP0 ? [01]
  set PSU__USE__M_AXI_GP{1,2} ? 0
  set PSU__USE__S_AXI_GP{2,3} 0 [01]
  set PSU__USE__S_AXI_GP{4,5} 0 [01]
  set PSU__USE__S_AXI_GP{0,1} 0 [01]
  set PSU__SAXIGP{2,3}__DATA_WIDTH 128 32|64|128
  set PSU__SAXIGP{4,5}__DATA_WIDTH 128 32|64|128
  set PSU__SAXIGP{0,1}__DATA_WIDTH 128 32|64|128
  set PSU__FPGA_PL0_ENABLE 0 [01]
  set PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ 100 [0-9.]+
  set PSU__USE__IRQ0 0 [01]
  out clock pl_clk0 copies=PSU__FPGA_PL0_ENABLE
  out board_reset pl_resetn0
  in processor_interrupt pl_ps_irq0 copies=PSU__USE__IRQ0
  out aximm M_AXI_HPM0_FPD bits=128 copies=PSU__USE__M_AXI_GP0 at=Data
  in clock maxihpm0_fpd_aclk copies=PSU__USE__M_AXI_GP0
  in aximm S_AXI_HP{0,1}_FPD bits=PSU__SAXIGP{2,3}__DATA_WIDTH copies=PSU__USE__S_AXI_GP{2,3} at=SAXIGP{2,3}/HP{0,1}_DDR_LOW
  in aximm S_AXI_HP{2,3}_FPD bits=PSU__SAXIGP{4,5}__DATA_WIDTH copies=PSU__USE__S_AXI_GP{4,5} at=SAXIGP{4,5}/HP{2,3}_DDR_LOW
  in aximm S_AXI_HPC{0,1}_FPD bits=PSU__SAXIGP{0,1}__DATA_WIDTH copies=PSU__USE__S_AXI_GP{0,1} at=SAXIGP{0,1}/HPC{0,1}_DDR_LOW
  in clock saxihp{0,1}_fpd_aclk copies=PSU__USE__S_AXI_GP{2,3}
  in clock saxihp{2,3}_fpd_aclk copies=PSU__USE__S_AXI_GP{4,5}
  in clock saxihpc{0,1}_fpd_aclk copies=PSU__USE__S_AXI_GP{0,1}
xilinx.com:ip:proc_sys_reset
  in clock slowest_sync_clk
  in board_reset ext_reset_in
  out reset peripheral_aresetn
xilinx.com:ip:axi_dma
  set c_include_sg 1 0
  set c_sg_include_stscntrl_strm 1 0
  set c_sg_length_width 14 26
  set c_addr_width 32 32|40|64
  set c_include_{mm2s,s2mm} 1 [01]
  set c_m_axi_{mm2s,s2mm}_data_width 32 32|64|128|256|512|1024
  set c_{m_axis_mm2s,s_axis_s2mm}_tdata_width 32 8|16|32|64|128|256|512|1024
  set c_{mm2s,s2mm}_burst_size 16 2|4|8|16|32|64|128|256
  set c_include_{mm2s,s2mm}_dre 0 [01]
  in clock s_axi_lite_aclk
  in reset axi_resetn
  in aximm S_AXI_LITE bits=32 at=S_AXI_LITE/Reg
  in clock m_axi_{mm2s,s2mm}_aclk copies=c_include_{mm2s,s2mm}
  out interrupt {mm2s,s2mm}_introut copies=c_include_{mm2s,s2mm}
  out aximm M_AXI_{MM2S,S2MM} bits=c_m_axi_{mm2s,s2mm}_data_width copies=c_include_{mm2s,s2mm} at=Data_{MM2S,S2MM}
  out axis M_AXIS_MM2S bits=c_m_axis_mm2s_tdata_width copies=c_include_mm2s
  in axis S_AXIS_S2MM bits=c_s_axis_s2mm_tdata_width copies=c_include_s2mm
xilinx.com:ip:smartconnect
  set NUM_{SI,MI} 1 [1-9]|1[0-6]
  in clock aclk
  in reset aresetn
  in aximm S%02d_AXI copies=NUM_SI
  out aximm M%02d_AXI copies=NUM_MI
xilinx.com:ip:xlconcat
  set NUM_PORTS 2 [1-9]|1[0-6]
  in interrupt In%d copies=NUM_PORTS
  out interrupts dout
xilinx.com:ip:axi_intc
  set C_IRQ_CONNECTION 0 1
  in clock s_axi_aclk
  in reset s_axi_aresetn
  in aximm s_axi bits=32 at=S_AXI/Reg
  in interrupts intr
  out processor_interrupt irq copies=C_IRQ_CONNECTION
xilinx.com:ip:axis_data_fifo
  set TDATA_NUM_BYTES 1 [1-9]\\d?|[1-4]\\d\\d|50\\d|51[012]
  set FIFO_DEPTH 512 16|32|64|128|256|512|1024|2048|4096|8192|16384|32768
  set FIFO_MEMORY_TYPE auto auto|block|distributed|ultra
  set HAS_TLAST 0 [01]
  in clock s_axis_aclk
  in reset s_axis_aresetn
  in axis S_AXIS bits=8*TDATA_NUM_BYTES
  out axis M_AXIS bits=8*TDATA_NUM_BYTES
"""  # noqa: E501
_STREAMS = {INPUT_STREAM: "stream_bits", OUTPUT_STREAM: "stream_bits", WEIGHT_STREAM: "weight_stream_bits"}


@dataclass(frozen=True)
class End:
    """A pin or an interface of a cell. ``bits``: 0 where the IP adapts; ``address``: see above."""

    output: bool
    kind: str
    bits: int = 0
    address: str = ""


@dataclass
class Ip:
    """``parameters``: name -> default and what is allowed; ``ends``: the words of each line."""

    parameters: dict[str, tuple[str, str]] = field(default_factory=dict)
    ends: list[list[str]] = field(default_factory=list)

    def shown(self, values: Mapping[str, str]) -> Iterator[tuple[str, End]]:
        """Names and ends that the IP has with its parameters as set."""
        known = {name: default for name, (default, _) in self.parameters.items()} | dict(values)
        for direction, kind, name, *rest in self.ends:
            options = dict(word.split("=") for word in rest)
            copies = known[options["copies"]] if "copies" in options else "1"
            factor, _, bits = options.get("bits", "0").rpartition("*")
            width = int(factor or 1) * _number(known.get(bits, bits))
            for n in range(_number(copies)):
                numbered = name % n if "%" in name else name
                yield numbered, End(direction == "out", kind, width, options.get("at", ""))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def known_ips(config: KernelConfig) -> dict[str, Ip]:
    """The IPs that a design of ``config`` may have by vendor, library and name: the vendor's, those that C synthesis
    makes of the kernel (UG1399), the clock counter as its Verilog declares it."""
    own = ""
    for ip in kernel_ips(config):
        streams = (f"{'out' if p.master else 'in'} axis {p.name} bits={p.bits}" for p in ip.streams)
        control = (
            f"in aximm {CONTROL_PORT} bits=32 at={CONTROL_PORT}/Reg\nout interrupt interrupt" if ip.control else ""
        )
        own += "\n".join([ip.ip, "in clock ap_clk", "in reset ap_rst_n", control, *streams, ""])
    counter = f"in aximm {COUNTER_PORT} bits=32 at={COUNTER_PORT}/reg0\nin monitored_aximm control bits=32"
    watched = (f"in monitored_axis {name} bits={getattr(config, bits)}" for name, bits in _STREAMS.items())
    module = [f"xilinx.com:module_ref:{CLOCK_COUNTER}", "in clock aclk", "in reset aresetn", "in interrupt interrupt"]
    return _read("\n".join([_IPS, own, *module, counter, *watched]))


def _read(text: str) -> dict[str, Ip]:
    ips: dict[str, Ip] = {}
    for line in filter(None, text.split("\n")):
        for n in range(2 if "{" in line else 1):
            words = re.sub(r"\{(\w+),(\w+)\}", rf"\{n + 1}", line).split()
            if len(words) == 1:
                ips[words[0]] = ip = Ip()
            elif words[0] == "set":
                ip.parameters[words[1]] = words[2], words[3]
            else:
                ip.ends.append(words)
    return ips
