"""Scripts of the vendor's tools with one mistake each, and where it shows if not in the changed line.

What is wrong in a block design itself is in `DESIGNS` of test_tcl_check.py, which needs no script.
"""

from __future__ import annotations

from process_designs import TINY, ZYNQ7, ZYNQMP
from vendor_scripts import Mutation, scripts, whole_lines

HLS, CONFIG = "hls_sequencer.tcl", "hls_sequencer_config.cfg"
BLOCK, SYNTHESIS, IMPLEMENTATION = "block_design.tcl", "synthesis.tcl", "implementation.tcl"


def line_of(*holding: str, script: str = BLOCK, accelerator: str = ZYNQ7) -> str:
    return whole_lines(scripts(accelerator)[script], *holding)


DMA_CELL = "create_bd_cell -type ip -vlnv [newest xilinx.com:ip:axi_dma] tensor_dma"
CLOCK_LINE = "connect_bd_net [get_bd_pins ps/FCLK_CLK0] [get_bd_pins accelerator/ap_clk]\n"
RESET_LINE = "connect_bd_net [get_bd_pins reset/peripheral_aresetn] [get_bd_pins accelerator/ap_rst_n]\n"
CONCAT_LINE = "connect_bd_net [get_bd_pins interrupt_concat/dout] [get_bd_pins interrupt_controller/intr]\n"
IRQ_LINE = "connect_bd_net [get_bd_pins interrupt_controller/irq] [get_bd_pins ps/IRQ_F2P]\n"
INPUT_LINE = line_of("M_AXIS_MM2S", "accelerator/input_stream")
WEIGHT_SEGMENT = line_of("assign_bd_address", "weight_dma/S_AXI_LITE")
MEMORY_SEGMENT = line_of("assign_bd_address", "weight_dma/Data_MM2S")

MUTATIONS = [
    # Interfaces
    Mutation("interface left open", BLOCK, INPUT_LINE, ""),
    Mutation("misspelt interface", BLOCK, "weights/weight_stream]", "weights/weights_stream]"),
    Mutation("master port left to the preset", BLOCK, line_of("PCW_USE_M_AXI_GP0"), ""),
    Mutation("second master port left to the preset", BLOCK, "    CONFIG.PSU__USE__M_AXI_GP1 {0} \\\n", "",
             accelerator=ZYNQMP),
    Mutation("monitor of a stream that is no end of its connection", BLOCK, "[get_bd_intf_nets weight_dma_M_AXIS_MM2S]",
             "[get_bd_intf_nets tensor_dma_M_AXIS_MM2S]"),
    Mutation("monitor of a connection without a name", BLOCK, "-intf_net store_output_stream ", ""),
    Mutation("module without its Verilog", BLOCK, line_of("add_files"), ""),
    Mutation("Verilog of another project", BLOCK, "rtl/clock_counter.v}\nupdate", "verilog/clock_counter.v}\nupdate"),
    Mutation("unknown module", BLOCK, "-reference bfpga_clock_counter", "-reference clock_counters"),
    Mutation("cell created twice", BLOCK, DMA_CELL, f"{DMA_CELL}\n{DMA_CELL}"),
    # Widths
    Mutation("length register left at its default", BLOCK, "    CONFIG.c_sg_length_width {26} \\\n", ""),
    # Parameters and IP
    Mutation("misspelt parameter", BLOCK, "CONFIG.c_s_axis_s2mm_tdata_width", "CONFIG.c_s_axis_s2mm_data_width"),
    Mutation("parameter without CONFIG", BLOCK, "CONFIG.NUM_PORTS", "NUM_PORTS"),
    Mutation("IP version pinned", BLOCK, "[newest xilinx.com:ip:axi_dma] tensor_dma",
             "xilinx.com:ip:axi_dma:7.1 tensor_dma"),
    Mutation("oldest version taken", BLOCK, "return [get_property VLNV [lindex $found end]]",
             "return [get_property VLNV [lindex $found 0]]", "[newest xilinx.com:ip:processing_system7]"),
    Mutation("versions sorted as text", BLOCK, "[lsort -dictionary [get_ipdefs", "[lsort [get_ipdefs",
             "[newest xilinx.com:ip:processing_system7]"),
    Mutation("inline concat that PYNQ does not know", BLOCK, "xilinx.com:ip:xlconcat",
             "xilinx.com:inline_hdl:ilconcat"),
    Mutation("preset not applied", BLOCK, 'apply_board_preset "1"', 'apply_board_preset "0"'),
    Mutation("memory pins not made external", BLOCK, 'make_external "FIXED_IO, DDR" ', ""),
    # Clocks and resets
    Mutation("clock not connected", BLOCK, CLOCK_LINE, ""),
    Mutation("reset of the wrong polarity", BLOCK, RESET_LINE, RESET_LINE.replace("aresetn]", "reset]")),
    # Interrupts
    Mutation("interrupt wired directly", BLOCK, CONCAT_LINE + IRQ_LINE,
             "connect_bd_net [get_bd_pins interrupt_concat/dout] [get_bd_pins ps/IRQ_F2P]\n"),
    # Addresses
    Mutation("slave without an address", BLOCK, WEIGHT_SEGMENT, ""),
    Mutation("window of the other family", BLOCK, "-offset 0xA0000000", "-offset 0x43C00000", accelerator=ZYNQMP),
    Mutation("addresses left to the tool", BLOCK, WEIGHT_SEGMENT,
             "assign_bd_address [get_bd_addr_segs weight_dma/S_AXI_LITE/Reg]\n"),
    # Order and steps
    Mutation("no validation", BLOCK, "validate_bd_design\n", ""),
    Mutation("validated before the last connection", BLOCK, IRQ_LINE, f"validate_bd_design\n{IRQ_LINE}"),
    Mutation("no wrapper", BLOCK, line_of("make_wrapper"), ""),
    Mutation("interface used before its parameter", BLOCK,
             "create_bd_cell -type ip -vlnv [newest xilinx.com:ip:smartconnect] weight_interconnect\n",
             "create_bd_cell -type ip -vlnv [newest xilinx.com:ip:smartconnect] weight_interconnect\n"
             "connect_bd_intf_net [get_bd_intf_pins ps/M_AXI_GP0] [get_bd_intf_pins control_interconnect/S00_AXI]\n"),
    Mutation("clock before the solution", HLS, "set_top bfpga_systolic\n",
             "create_clock -period 8 -name default\nset_top bfpga_systolic\n"),
    Mutation("export before synthesis", HLS, "csynth_design\n", ""),
    Mutation("timing not reported", IMPLEMENTATION, line_of("report_timing_summary", script=IMPLEMENTATION), ""),
    # Names
    Mutation("wrong part for Vivado", BLOCK, "-part {xc7z020clg400-1}", "-part {xc7z020clg484-1}"),
    Mutation("wrong part for HLS", HLS, "set_part {xc7z020clg400-1}", "set_part {xc7z010clg400-1}"),
    Mutation("wrong board files", BLOCK, "tul.com.tw:pynq-z2:part0:*}", "tul.com.tw:pynq-z1:part0:*}",
             "error {the board files"),
    Mutation("wrong top function", HLS, "set_top bfpga_systolic", "set_top bfpga_sistolic"),
    Mutation("exported under another name", HLS, "-library hls", "-library user"),
    Mutation("exported in another version", HLS, "-version 1.0", "-version 1.1"),
    Mutation("kernel of another version", BLOCK, "-vlnv xilinx.com:hls:bfpga_systolic:1.0 accelerator",
             "-vlnv xilinx.com:hls:bfpga_systolic:1.1 accelerator"),
    Mutation("other clock for HLS", HLS, "-period 7", "-period 10"),
    Mutation("another share for wires", HLS, "set_clock_uncertainty 27%", "set_clock_uncertainty 12.5%"),
    Mutation("reset left to the tool", HLS, "config_rtl -reset control\n", ""),
    Mutation("reset of memories too", HLS, "config_rtl -reset control", "config_rtl -reset state"),
    Mutation("other clock in the processing system", BLOCK, "FREQMHZ {142.857}", "FREQMHZ {100}"),
    # Text
    Mutation("variable in braces", BLOCK, "{tul.com.tw:pynq-z2:part0:*}", "{$board:part0:*}", "error {the board files"),
    Mutation("template left over", HLS, "set_top bfpga_systolic", "set_top {{{ kernel.name }}}"),
    Mutation("variable that nobody set", BLOCK, "create_bd_design system", "create_bd_design $design"),
    Mutation("brace not closed", SYNTHESIS, "    return unknown\n}", "    return unknown\n", "proc used"),
    Mutation("misspelt command", BLOCK, "save_bd_design", "save_bd_desing"),
    Mutation("command of the other tool", SYNTHESIS, "open_run synth_1\n", "open_run synth_1\ncsynth_design\n"),
    Mutation("process started", BLOCK, "save_bd_design", "exec rm -rf build\nsave_bd_design"),
    Mutation("misspelt option", IMPLEMENTATION, "-to_step write_bitstream", "-to-step write_bitstream"),
    # Files, limits, failures
    Mutation("wait without a limit", SYNTHESIS, "-timeout 240 ", ""),
    Mutation("no number of jobs", IMPLEMENTATION, " -jobs 4", " -jobs {}"),
    Mutation("result of the run not checked", SYNTHESIS, 'ne "100%"', 'eq "nothing"', "close_project"),
    Mutation("missing board files ignored", BLOCK, 'if {$board_part eq ""}', "if {0}", "close_project"),
    Mutation("board of another part ignored", BLOCK, "if {![string equal", "if {0 && ![string equal", "close_project"),
    Mutation("clock that did not take ignored", BLOCK, "$clock_hz > 157142700", "$clock_hz > 9e9", "close_project"),
    Mutation("missed setup handed on", IMPLEMENTATION, "$wns < 0 || ", "", "glob"),
    Mutation("missed hold handed on", IMPLEMENTATION, " || $whs < 0", "", "glob"),
    Mutation("handoff of old versions only", IMPLEMENTATION,
             "{/build/vivado/bfpga.gen/sources_1/bd/system/hw_handoff/system.hwh} ", ""),
    Mutation("bitstream and handoff of different names", IMPLEMENTATION, "/build/overlay/bfpga.hwh}\n}",
             "/build/overlay/system.hwh}\n}"),
    Mutation("another project opened", SYNTHESIS, "bfpga.xpr", "other.xpr"),
    Mutation("IP looked for elsewhere", BLOCK, "ip_repo_paths {/build/ip}", "ip_repo_paths {/build/ips}"),
    Mutation("old result kept", SYNTHESIS, line_of("file delete", script=SYNTHESIS), "", "open_project"),
    Mutation("old bitstream kept", IMPLEMENTATION, " {/build/overlay/bfpga.bit}", ""),
    Mutation("IP copied into the old one", HLS, "file delete -force {/build/ip/sequencer}\n", ""),
    Mutation("result renamed before it is closed", BLOCK, "close $result\n", ""),
    Mutation("result without a number", SYNTHESIS, line_of("{DSPs}", script=SYNTHESIS), ""),
    Mutation("another row of the report", SYNTHESIS, "{Slice LUTs|CLB LUTs}", "{LUT as Logic}"),
    Mutation("folder not made", IMPLEMENTATION, "file mkdir {/build/overlay}\n", "", "open_project"),
    Mutation("old files in the way", IMPLEMENTATION, "file copy -force", "file copy"),
    Mutation("headers not found", HLS, " -I/build/kernel/include", ""),
    Mutation("bracket left over", BLOCK, "generate_target all [get_files system.bd]", "generate_target all system.bd]"),
    Mutation("wrapper not imported", BLOCK, " -import", ""),
    Mutation("project of an earlier run in the way", BLOCK, "-part {xc7z020clg400-1} -force",
             "-part {xc7z020clg400-1}"),
    Mutation("property of nothing", BLOCK, "board_part $board_part [current_project]", "board_part $board_part"),
    # Processes
    Mutation("missing process ignored", BLOCK,
             "if {[llength [get_ipdefs -quiet -all xilinx.com:hls:bfpga_array:1.0]] == 0} {", "if {0} {",
             "close_project", accelerator=TINY),
    Mutation("top function of another process", "hls_array.tcl", "set_top bfpga_array", "set_top bfpga_post",
             accelerator=TINY),
    Mutation("IP of a process put into the place of all", "hls_array.tcl",
             "{/build/ip/array}\nfile copy -force {/build/hls_array/solution/syn",
             "{/build/ip}\nfile copy -force {/build/hls_array/solution/syn", accelerator=TINY),
    Mutation("folder of the IPs not made", "hls_post.tcl", " {/build/reports} {/build/ip}\n", " {/build/reports}\n",
             accelerator=TINY),
    Mutation("process of another name in the configuration", "hls_store_config.cfg", "package.ip.name=bfpga_store",
             "package.ip.name=bfpga_post", accelerator=TINY),
    # Configuration file
    Mutation("reset of memories too in the configuration", CONFIG, "syn.rtl.reset=control", "syn.rtl.reset=all"),
    Mutation("misspelt key", CONFIG, "syn.top=", "syn.topp="),
    Mutation("key given twice", CONFIG, "flow_target=vivado\n", "flow_target=vivado\nflow_target=vivado\n"),
    Mutation("key in the wrong section", CONFIG, "part=xc7z020clg400-1\n\n[hls]\n", "[hls]\npart=xc7z020clg400-1\n"),
    Mutation("wrong flow", CONFIG, "flow_target=vivado", "flow_target=vitis"),
    Mutation("relative source", CONFIG, "syn.file=/build", "syn.file=build"),
    Mutation("headers not found by the configuration", CONFIG, "syn.cflags=-std=c++14 -I/build/kernel/include",
             "syn.cflags=-std=c++14"),
    Mutation("template left over in the configuration", CONFIG, "syn.top=bfpga_systolic", "syn.top=${TOP}"),
]  # fmt: skip
