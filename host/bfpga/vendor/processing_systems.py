"""The two processing systems: names of ports, pins and parameters, register windows.

Sources: UG585 (Zynq-7000), UG1085 and UG1087 (Zynq UltraScale+), PG082 and PG201 for the names of the IP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bfpga.accelerator.clocks import ClockSetting


@dataclass(frozen=True)
class ProcessingSystem:
    """Names and numbers of one family.

    memory_ports, memory_blocks: high-performance slave ports and their DDR address blocks. port_clocks: clock inputs
    of the ports in use. low_memory: DDR bytes below the register windows. automation: rule that applies the preset of
    the board.
    """

    name: str
    ip: str
    version: str
    automation: str
    automation_config: str
    control_port: str
    memory_ports: tuple[str, str]
    memory_blocks: tuple[str, str]
    port_clocks: tuple[str, ...]
    clock_pin: str
    reset_pin: str
    interrupt_pin: str
    register_base: int
    low_memory: int
    address_bits: int
    parameters: Callable[[ClockSetting, int], Mapping[str, str]]


def _zynq7_parameters(clock: ClockSetting, port_bits: int) -> dict[str, str]:
    return {
        "PCW_USE_M_AXI_GP0": "1",
        "PCW_USE_S_AXI_HP0": "1",
        "PCW_USE_S_AXI_HP1": "1",
        "PCW_S_AXI_HP0_DATA_WIDTH": str(port_bits),
        "PCW_S_AXI_HP1_DATA_WIDTH": str(port_bits),
        "PCW_EN_CLK0_PORT": "1",
        "PCW_FPGA0_PERIPHERAL_FREQMHZ": f"{clock.requested_mhz:g}",
        "PCW_USE_FABRIC_INTERRUPT": "1",
        "PCW_IRQ_F2P_INTR": "1",
    }


def _zynqmp_parameters(clock: ClockSetting, port_bits: int) -> dict[str, str]:
    return {
        "PSU__USE__M_AXI_GP0": "1",
        "PSU__USE__M_AXI_GP1": "0",
        "PSU__USE__M_AXI_GP2": "0",
        "PSU__USE__S_AXI_GP2": "1",
        "PSU__USE__S_AXI_GP3": "1",
        "PSU__SAXIGP2__DATA_WIDTH": str(port_bits),
        "PSU__SAXIGP3__DATA_WIDTH": str(port_bits),
        "PSU__FPGA_PL0_ENABLE": "1",
        "PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ": f"{clock.requested_mhz:g}",
        "PSU__USE__IRQ0": "1",
    }


PROCESSING_SYSTEMS: dict[str, ProcessingSystem] = {
    "zynq7": ProcessingSystem(
        name="zynq7",
        ip="xilinx.com:ip:processing_system7",
        version="5.5",
        automation="xilinx.com:bd_rule:processing_system7",
        automation_config='make_external "FIXED_IO, DDR" apply_board_preset "1" Master "Disable" Slave "Disable"',
        control_port="M_AXI_GP0",
        memory_ports=("S_AXI_HP0", "S_AXI_HP1"),
        memory_blocks=("HP0_DDR_LOWOCM", "HP1_DDR_LOWOCM"),
        port_clocks=("M_AXI_GP0_ACLK", "S_AXI_HP0_ACLK", "S_AXI_HP1_ACLK"),
        clock_pin="FCLK_CLK0",
        reset_pin="FCLK_RESET0_N",
        interrupt_pin="IRQ_F2P",
        register_base=0x43C00000,
        low_memory=1 << 30,
        address_bits=32,
        parameters=_zynq7_parameters,
    ),
    "zynqmp": ProcessingSystem(
        name="zynqmp",
        ip="xilinx.com:ip:zynq_ultra_ps_e",
        version="3.4",
        automation="xilinx.com:bd_rule:zynq_ultra_ps_e",
        automation_config='apply_board_preset "1"',
        control_port="M_AXI_HPM0_FPD",
        memory_ports=("S_AXI_HP0_FPD", "S_AXI_HP1_FPD"),
        memory_blocks=("HP0_DDR_LOW", "HP1_DDR_LOW"),
        port_clocks=("maxihpm0_fpd_aclk", "saxihp0_fpd_aclk", "saxihp1_fpd_aclk"),
        clock_pin="pl_clk0",
        reset_pin="pl_resetn0",
        interrupt_pin="pl_ps_irq0",
        register_base=0xA0000000,
        low_memory=1 << 31,
        address_bits=40,
        parameters=_zynqmp_parameters,
    ),
}
