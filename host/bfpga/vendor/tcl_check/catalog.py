"""The IP that the scripts use, as far as a block design sees it.

Sources: PG021 (AXI DMA), PG099 (AXI INTC), PG164 (processor system reset), PG247 (SmartConnect), PG082 and UG585
(Zynq-7000), PG201 and UG1085 (Zynq UltraScale+), PG085 (AXI4-Stream infrastructure). Written without looking at the
block design that is checked.
"""

from __future__ import annotations

from collections.abc import Mapping

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.processes import SEQUENCER, host_streams, kernel_processes, process_function, process_streams
from bfpga.contract.registers import (
    CLOCK_COUNTER,
    CONTROL_PORT,
    COUNTER_PORT,
    INPUT_STREAM,
    OUTPUT_STREAM,
    WEIGHT_STREAM,
)
from bfpga.vendor.tcl_check.components import (
    CLOCK,
    INTERRUPT,
    RESET,
    Component,
    Interface,
    Ip,
    Parameter,
    Pin,
    choice,
    flag,
    megahertz,
    number,
    power_of_two,
)

_ZYNQ7 = {
    "PCW_USE_M_AXI_GP0": flag(),
    "PCW_USE_M_AXI_GP1": flag(),
    **{f"PCW_USE_S_AXI_HP{n}": flag() for n in range(4)},
    **{f"PCW_S_AXI_HP{n}_DATA_WIDTH": choice("64", "32", "64") for n in range(4)},
    **{f"PCW_EN_CLK{n}_PORT": flag() for n in range(4)},
    **{f"PCW_EN_RST{n}_PORT": flag("1" if n == 0 else "0") for n in range(4)},
    **{f"PCW_FPGA{n}_PERIPHERAL_FREQMHZ": megahertz("50") for n in range(4)},
    "PCW_USE_FABRIC_INTERRUPT": flag(),
    "PCW_IRQ_F2P_INTR": flag(),
    "PCW_IRQ_F2P_MODE": choice("DIRECT", "DIRECT", "REVERSE"),
}

#: Ports of the UltraScale+ family: number of the parameter -> name of the interface, pin of its clock (PG201).
_ZYNQMP_MASTERS = {0: ("M_AXI_HPM0_FPD", "maxihpm0_fpd_aclk"), 1: ("M_AXI_HPM1_FPD", "maxihpm1_fpd_aclk"),
                   2: ("M_AXI_HPM0_LPD", "maxihpm0_lpd_aclk")}  # fmt: skip
_ZYNQMP_SLAVES = {n: (f"S_AXI_HP{n - 2}_FPD", f"saxihp{n - 2}_fpd_aclk") for n in range(2, 6)}
_ZYNQMP = {
    **{f"PSU__USE__M_AXI_GP{n}": flag() for n in _ZYNQMP_MASTERS},
    **{f"PSU__MAXIGP{n}__DATA_WIDTH": choice("128", "32", "64", "128") for n in _ZYNQMP_MASTERS},
    **{f"PSU__USE__S_AXI_GP{n}": flag() for n in _ZYNQMP_SLAVES},
    **{f"PSU__SAXIGP{n}__DATA_WIDTH": choice("128", "32", "64", "128") for n in _ZYNQMP_SLAVES},
    **{f"PSU__FPGA_PL{n}_ENABLE": flag() for n in range(4)},
    **{f"PSU__CRL_APB__PL{n}_REF_CTRL__FREQMHZ": megahertz("100") for n in range(4)},
    "PSU__USE__FABRIC__RST": flag("1"),
    "PSU__USE__IRQ0": flag(),
    "PSU__USE__IRQ1": flag(),
}

_DMA = {
    "c_include_sg": flag("1"),
    "c_sg_include_stscntrl_strm": flag("1"),
    "c_sg_use_stsapp_length": flag(),
    "c_sg_length_width": number("14", 8, 26),
    "c_addr_width": number("32", 32, 64),
    "c_micro_dma": flag(),
    "c_prmry_is_aclk_async": flag(),
    "c_single_interface": flag(),
    "c_increase_throughput": flag(),
    "c_enable_multi_channel": flag(),
}
for _channel, _stream in (("mm2s", "m_axis_mm2s"), ("s2mm", "s_axis_s2mm")):
    _DMA |= {
        f"c_include_{_channel}": flag("1"),
        f"c_m_axi_{_channel}_data_width": power_of_two("32", 32, 1024),
        f"c_{_stream}_tdata_width": power_of_two("32", 8, 1024),
        f"c_{_channel}_burst_size": power_of_two("16", 2, 256),
        f"c_include_{_channel}_dre": flag(),
    }

#: Where the masters of the processing systems can address the logic (UG585 table 4-1, UG1085 table 10-1).
WINDOWS = {
    "M_AXI_GP0": (0x4000_0000, 0x8000_0000),
    "M_AXI_GP1": (0x8000_0000, 0xC000_0000),
    "M_AXI_HPM0_FPD": (0xA000_0000, 0xB000_0000),
    "M_AXI_HPM1_FPD": (0xB000_0000, 0xC000_0000),
    "M_AXI_HPM0_LPD": (0x8000_0000, 0xA000_0000),
}


def _value(parameters: Mapping[str, Parameter], values: Mapping[str, str], name: str) -> int:
    text = values.get(name, parameters[name].default)
    return int(text) if text.isdecimal() else 0


def _zynq7(values: Mapping[str, str]) -> Component:
    def on(name: str) -> int:
        return _value(_ZYNQ7, values, name)

    pins: dict[str, Pin] = {}
    interfaces: dict[str, Interface] = {}
    for n in range(4):
        if on(f"PCW_EN_CLK{n}_PORT"):
            pins[f"FCLK_CLK{n}"] = Pin(True, "clock")
        if on(f"PCW_EN_RST{n}_PORT"):
            pins[f"FCLK_RESET{n}_N"] = Pin(True, "reset", active_low=True)
        if on(f"PCW_USE_S_AXI_HP{n}"):
            name, segments = f"S_AXI_HP{n}", (f"S_AXI_HP{n}/HP{n}_DDR_LOWOCM",)
            bits = on(f"PCW_S_AXI_HP{n}_DATA_WIDTH")
            interfaces[name] = Interface(False, "aximm", f"{name}_ACLK", bits, segments=segments)
            pins[f"{name}_ACLK"] = CLOCK
    for n in range(2):
        if on(f"PCW_USE_M_AXI_GP{n}"):
            interfaces[f"M_AXI_GP{n}"] = Interface(True, "aximm", f"M_AXI_GP{n}_ACLK", 32, space="Data")
            pins[f"M_AXI_GP{n}_ACLK"] = CLOCK
    if on("PCW_USE_FABRIC_INTERRUPT") and on("PCW_IRQ_F2P_INTR"):
        pins["IRQ_F2P"] = Pin(False, "interrupt")
    unstated = {} if "PCW_USE_M_AXI_GP0" in values else {"M_AXI_GP0": "PCW_USE_M_AXI_GP0"}
    return Component(pins, interfaces, unstated)


def _zynqmp(values: Mapping[str, str]) -> Component:
    def on(name: str) -> int:
        return _value(_ZYNQMP, values, name)

    pins: dict[str, Pin] = {}
    interfaces: dict[str, Interface] = {}
    for n in range(4):
        if on(f"PSU__FPGA_PL{n}_ENABLE"):
            pins[f"pl_clk{n}"] = Pin(True, "clock")
    if on("PSU__USE__FABRIC__RST"):
        pins["pl_resetn0"] = Pin(True, "reset", active_low=True)
    for n, (name, clock) in _ZYNQMP_MASTERS.items():
        if on(f"PSU__USE__M_AXI_GP{n}"):
            interfaces[name] = Interface(True, "aximm", clock, on(f"PSU__MAXIGP{n}__DATA_WIDTH"), space="Data")
            pins[clock] = CLOCK
    for n, (name, clock) in _ZYNQMP_SLAVES.items():
        if on(f"PSU__USE__S_AXI_GP{n}"):
            blocks = tuple(f"SAXIGP{n}/HP{n - 2}_{block}" for block in ("DDR_LOW", "DDR_HIGH", "LPS_OCM", "QSPI"))
            interfaces[name] = Interface(False, "aximm", clock, on(f"PSU__SAXIGP{n}__DATA_WIDTH"), segments=blocks)
            pins[clock] = CLOCK
    for n in range(2):
        if on(f"PSU__USE__IRQ{n}"):
            pins[f"pl_ps_irq{n}"] = Pin(False, "interrupt")
    unstated = {
        name: parameter
        for n, (name, _) in _ZYNQMP_MASTERS.items()
        if (parameter := f"PSU__USE__M_AXI_GP{n}") not in values
    }
    return Component(pins, interfaces, unstated)


def _dma(values: Mapping[str, str]) -> Component:
    def on(name: str) -> int:
        return _value(_DMA, values, name)

    pins = {"s_axi_lite_aclk": CLOCK, "axi_resetn": RESET}
    interfaces = {"S_AXI_LITE": Interface(False, "aximm", "s_axi_lite_aclk", 32, segments=("S_AXI_LITE/Reg",))}
    if on("c_include_mm2s"):
        pins |= {"m_axi_mm2s_aclk": CLOCK, "mm2s_introut": INTERRUPT, "mm2s_prmry_reset_out_n": Pin(True, "other")}
        bits, stream = on("c_m_axi_mm2s_data_width"), on("c_m_axis_mm2s_tdata_width")
        interfaces["M_AXI_MM2S"] = Interface(True, "aximm", "m_axi_mm2s_aclk", bits, space="Data_MM2S")
        interfaces["M_AXIS_MM2S"] = Interface(True, "axis", "m_axi_mm2s_aclk", stream)
    if on("c_include_s2mm"):
        pins |= {"m_axi_s2mm_aclk": CLOCK, "s2mm_introut": INTERRUPT, "s2mm_prmry_reset_out_n": Pin(True, "other")}
        bits, stream = on("c_m_axi_s2mm_data_width"), on("c_s_axis_s2mm_tdata_width")
        interfaces["M_AXI_S2MM"] = Interface(True, "aximm", "m_axi_s2mm_aclk", bits, space="Data_S2MM")
        interfaces["S_AXIS_S2MM"] = Interface(False, "axis", "m_axi_s2mm_aclk", stream)
    if on("c_include_sg"):
        pins |= {"m_axi_sg_aclk": CLOCK}
        interfaces["M_AXI_SG"] = Interface(True, "aximm", "m_axi_sg_aclk", 32, space="Data_SG")
        if on("c_sg_include_stscntrl_strm"):
            interfaces["M_AXIS_CNTRL"] = Interface(True, "axis", "m_axi_sg_aclk", 32)
            interfaces["S_AXIS_STS"] = Interface(False, "axis", "m_axi_sg_aclk", 32)
    return Component(pins, interfaces)


_SMARTCONNECT = {
    "NUM_SI": number("1", 1, 16),
    "NUM_MI": number("1", 1, 16),
    "NUM_CLKS": number("1", 1, 16),
    "HAS_ARESETN": flag("1"),
}


def _smartconnect(values: Mapping[str, str]) -> Component:
    pins = {f"aclk{n or ''}": CLOCK for n in range(_value(_SMARTCONNECT, values, "NUM_CLKS"))}
    if _value(_SMARTCONNECT, values, "HAS_ARESETN"):
        pins["aresetn"] = RESET
    slaves, masters = (_value(_SMARTCONNECT, values, name) for name in ("NUM_SI", "NUM_MI"))
    return Component(
        pins,
        {f"S{n:02}_AXI": Interface(False, "aximm", "aclk") for n in range(slaves)}
        | {f"M{n:02}_AXI": Interface(True, "aximm", "aclk") for n in range(masters)},
    )


_CONCAT = {"NUM_PORTS": number("2", 1, 128), **{f"IN{n}_WIDTH": number("1", 1, 4096) for n in range(128)}}


def _concat(values: Mapping[str, str]) -> Component:
    pins = {f"In{n}": Pin(False, "interrupt") for n in range(_value(_CONCAT, values, "NUM_PORTS"))}
    return Component(pins | {"dout": INTERRUPT})


_INTC = {
    "C_IRQ_CONNECTION": flag(),
    "C_IRQ_IS_LEVEL": flag("1"),
    "C_HAS_FAST": flag(),
    "C_HAS_IPR": flag("1"),
    "C_HAS_SIE": flag("1"),
    "C_HAS_CIE": flag("1"),
    "C_HAS_IVR": flag("1"),
}


def _interrupt_controller(values: Mapping[str, str]) -> Component:
    pins = {"s_axi_aclk": CLOCK, "s_axi_aresetn": RESET, "intr": Pin(False, "interrupt")}
    interfaces = {"s_axi": Interface(False, "aximm", "s_axi_aclk", 32, segments=("S_AXI/Reg",))}
    if _value(_INTC, values, "C_IRQ_CONNECTION"):
        pins["irq"] = INTERRUPT
    else:
        interfaces["interrupt"] = Interface(True, "mbinterrupt", "s_axi_aclk")
    return Component(pins, interfaces)


_RESET = {
    "C_EXT_RST_WIDTH": number("4", 1, 16),
    "C_AUX_RST_WIDTH": number("4", 1, 16),
    "C_EXT_RESET_HIGH": flag(),
    "C_AUX_RESET_HIGH": flag(),
}


def _reset(values: Mapping[str, str]) -> Component:
    high, low = Pin(True, "reset"), Pin(True, "reset", active_low=True)
    return Component(
        {
            "slowest_sync_clk": CLOCK,
            "ext_reset_in": Pin(False, "reset", active_low=not _value(_RESET, values, "C_EXT_RESET_HIGH")),
            "aux_reset_in": Pin(False, "reset", active_low=True, required=False),
            "mb_debug_sys_rst": Pin(False, "reset", required=False),
            "dcm_locked": Pin(False, "other", required=False),
            "mb_reset": high,
            "bus_struct_reset": high,
            "peripheral_reset": high,
            "interconnect_aresetn": low,
            "peripheral_aresetn": low,
        }
    )


def kernel(config: SystolicConfig) -> dict[str, Ip]:
    """The IPs of a kernel by vendor, library and name, as C synthesis makes them (UG1399)."""
    streams: dict[str, dict[str, Interface]] = {process: {} for process in kernel_processes(config)}
    for name, interface in _host_streams(config).items():
        streams[host_streams(config)[name]][name] = interface
    for stream in process_streams(config):
        # C synthesis widens a word to whole bytes, as AXI4-Stream has them.
        bits = -(-stream.bits // 8) * 8
        streams[stream.source][stream.name] = Interface(True, "axis", "ap_clk", bits)
        streams[stream.target][stream.name] = Interface(False, "axis", "ap_clk", bits)
    return {
        f"xilinx.com:hls:{process_function(process)}": (_started if process == SEQUENCER else _running)(own)
        for process, own in streams.items()
    }


def _host_streams(config: SystolicConfig) -> dict[str, Interface]:
    return {
        INPUT_STREAM: Interface(False, "axis", "ap_clk", config.stream_bits),
        WEIGHT_STREAM: Interface(False, "axis", "ap_clk", config.weight_stream_bits),
        OUTPUT_STREAM: Interface(True, "axis", "ap_clk", config.stream_bits),
    }


def _started(streams: Mapping[str, Interface]) -> Ip:
    """ap_ctrl_hs behind AXI-Lite: the host starts it and hears its interrupt."""
    control = Interface(False, "aximm", "ap_clk", 32, segments=(f"{CONTROL_PORT}/Reg",))
    pins = {"ap_clk": CLOCK, "ap_rst_n": RESET, "interrupt": INTERRUPT}
    return Ip({}, lambda _: Component(pins, {CONTROL_PORT: control, **streams}))


def _running(streams: Mapping[str, Interface]) -> Ip:
    """ap_ctrl_none: streams alone."""
    return Ip({}, lambda _: Component({"ap_clk": CLOCK, "ap_rst_n": RESET}, dict(streams)))


#: Numbers of the AXI4-Stream data FIFO (PG085, customization): words, memory, what travels beside the data.
_FIFO = {
    "TDATA_NUM_BYTES": number("1", 0, 512),
    "FIFO_DEPTH": power_of_two("512", 16, 32768),
    "FIFO_MODE": choice("1", "1", "2"),
    "FIFO_MEMORY_TYPE": choice("auto", "auto", "block", "distributed", "ultra"),
    "HAS_TLAST": flag(),
    "HAS_TKEEP": flag(),
    "HAS_TSTRB": flag(),
    "IS_ACLK_ASYNC": flag(),
}


def _fifo(values: Mapping[str, str]) -> Component:
    pins = {"s_axis_aclk": CLOCK, "s_axis_aresetn": RESET}
    if _value(_FIFO, values, "IS_ACLK_ASYNC"):
        pins["m_axis_aclk"] = CLOCK
    bits = 8 * _value(_FIFO, values, "TDATA_NUM_BYTES")
    output = "m_axis_aclk" if "m_axis_aclk" in pins else "s_axis_aclk"
    return Component(
        pins, {"S_AXIS": Interface(False, "axis", "s_axis_aclk", bits), "M_AXIS": Interface(True, "axis", output, bits)}
    )


#: Vendor, library and name under which Vivado lists the clock counter, a module of plain Verilog (UG994).
COUNTER_REFERENCE = f"xilinx.com:module_ref:{CLOCK_COUNTER}"


def clock_counter(config: SystolicConfig) -> Ip:
    """The clock counter as its Verilog declares it: registers, and interfaces and a pin that only watch."""

    def component(_: Mapping[str, str]) -> Component:
        streams = {INPUT_STREAM: config.stream_bits, WEIGHT_STREAM: config.weight_stream_bits,
                   OUTPUT_STREAM: config.stream_bits}  # fmt: skip
        watched = {name: Interface(False, "axis", "aclk", bits, monitor=True) for name, bits in streams.items()}
        registers = Interface(False, "aximm", "aclk", 32, segments=(f"{COUNTER_PORT}/reg0",))
        control = Interface(False, "aximm", "aclk", 32, monitor=True)
        pins = {"aclk": CLOCK, "aresetn": RESET, "interrupt": Pin(False, "monitor")}
        return Component(pins, {COUNTER_PORT: registers, "control": control, **watched})

    return Ip({}, component)


#: vendor:library:name -> the IP.
CATALOG = {
    "xilinx.com:ip:processing_system7": Ip(_ZYNQ7, _zynq7),
    "xilinx.com:ip:zynq_ultra_ps_e": Ip(_ZYNQMP, _zynqmp),
    "xilinx.com:ip:proc_sys_reset": Ip(_RESET, _reset),
    "xilinx.com:ip:axi_dma": Ip(_DMA, _dma),
    "xilinx.com:ip:smartconnect": Ip(_SMARTCONNECT, _smartconnect),
    "xilinx.com:ip:xlconcat": Ip(_CONCAT, _concat),
    "xilinx.com:ip:axi_intc": Ip(_INTC, _interrupt_controller),
    "xilinx.com:ip:axis_data_fifo": Ip(_FIFO, _fifo),
}
