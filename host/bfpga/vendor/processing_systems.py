"""The two processing systems: names of ports, pins and parameters, register windows.

Sources: UG585 (Zynq-7000), UG1085 and UG1087 (Zynq UltraScale+), PG082 and PG201 for the names of the IP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bfpga.accelerator.clocks import ClockSetting


@dataclass(frozen=True)
class MemoryPort:
    """A slave port to the DDR memory.

    block: its address block; memory_map: what Vivado calls its map. enable, width: parameters of the IP that switch it
    on and that say how wide it is.
    """

    name: str
    memory_map: str
    block: str
    clock: str
    enable: str
    width: str


@dataclass(frozen=True)
class ProcessingSystem:
    """Names and numbers of one family.

    memory_ports: in the order in which designs take them. control_clock: clock input of the control port. low_memory:
    DDR bytes below the register windows. automation: rule that applies the preset of the board. parameters: of a clock,
    the ports in use and their bits.
    """

    name: str
    ip: str
    version: str
    automation: str
    automation_config: str
    control_port: str
    control_clock: str
    memory_ports: tuple[MemoryPort, ...]
    clock_pin: str
    reset_pin: str
    interrupt_pin: str
    register_base: int
    low_memory: int
    address_bits: int
    parameters: Callable[[ClockSetting, Sequence[MemoryPort], int], Mapping[str, str]]


def _port_parameters(ports: Sequence[MemoryPort], bits: int) -> dict[str, str]:
    return {port.enable: "1" for port in ports} | {port.width: str(bits) for port in ports}


def _zynq7_parameters(clock: ClockSetting, ports: Sequence[MemoryPort], port_bits: int) -> dict[str, str]:
    return {
        "PCW_USE_M_AXI_GP0": "1",
        **_port_parameters(ports, port_bits),
        "PCW_EN_CLK0_PORT": "1",
        "PCW_FPGA0_PERIPHERAL_FREQMHZ": f"{clock.requested_mhz:g}",
        "PCW_USE_FABRIC_INTERRUPT": "1",
        "PCW_IRQ_F2P_INTR": "1",
    }


def _zynqmp_parameters(clock: ClockSetting, ports: Sequence[MemoryPort], port_bits: int) -> dict[str, str]:
    return {
        "PSU__USE__M_AXI_GP0": "1",
        "PSU__USE__M_AXI_GP1": "0",
        "PSU__USE__M_AXI_GP2": "0",
        **_port_parameters(ports, port_bits),
        "PSU__FPGA_PL0_ENABLE": "1",
        "PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ": f"{clock.requested_mhz:g}",
        "PSU__USE__IRQ0": "1",
    }


def _zynq7_port(number: int) -> MemoryPort:
    name = f"S_AXI_HP{number}"
    return MemoryPort(name, name, f"HP{number}_DDR_LOWOCM", f"{name}_ACLK", f"PCW_USE_{name}", f"PCW_{name}_DATA_WIDTH")


def _zynqmp_port(name: str, number: int) -> MemoryPort:
    """A port by its name and its number among all slave ports. The DMAs' accesses are coherent on none of them."""
    return MemoryPort(
        f"S_AXI_{name}_FPD", f"SAXIGP{number}", f"{name}_DDR_LOW", f"saxi{name.lower()}_fpd_aclk",
        f"PSU__USE__S_AXI_GP{number}", f"PSU__SAXIGP{number}__DATA_WIDTH",
    )  # fmt: skip


PROCESSING_SYSTEMS: dict[str, ProcessingSystem] = {
    "zynq7": ProcessingSystem(
        name="zynq7",
        ip="xilinx.com:ip:processing_system7",
        version="5.5",
        automation="xilinx.com:bd_rule:processing_system7",
        automation_config='make_external "FIXED_IO, DDR" apply_board_preset "1" Master "Disable" Slave "Disable"',
        control_port="M_AXI_GP0",
        control_clock="M_AXI_GP0_ACLK",
        memory_ports=tuple(map(_zynq7_port, range(4))),
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
        control_clock="maxihpm0_fpd_aclk",
        memory_ports=(
            *(_zynqmp_port(f"HP{number}", 2 + number) for number in range(4)),
            *(_zynqmp_port(f"HPC{number}", number) for number in range(2)),
        ),
        clock_pin="pl_clk0",
        reset_pin="pl_resetn0",
        interrupt_pin="pl_ps_irq0",
        register_base=0xA0000000,
        low_memory=1 << 31,
        address_bits=40,
        parameters=_zynqmp_parameters,
    ),
}
