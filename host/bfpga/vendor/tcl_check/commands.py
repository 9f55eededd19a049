"""The commands of the tools that a script may use, with their options (UG1399 for HLS, UG835 for Vivado)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath

from bfpga.vendor.finding import Finding
from bfpga.vendor.tcl_check.recorder import Words

#: Names, number of words that are no options (least..most), options; `=`: with a value.
_TCL = """
close: 1; exit: 0..1; glob: 1..9 -nocomplain; open: 1..2; puts: 1..2 -nonewline; version: 0 -short
file copy, file rename: 2 -force; file delete: 1..9 -force; file mkdir: 1..9
"""
_HLS = """
cd, set_part, set_top: 1; open_project: 1 -reset; open_solution: 1 -reset -flow_target=; csynth_design: 0
add_files: 1 -cflags= -csimflags=; create_clock: 0 -period= -name=; set_clock_uncertainty: 1..2; config_rtl: 0 -reset=
export_design: 0 -format= -rtl= -vendor= -library= -version= -display_name= -description= -output=
"""
_VIVADO = """
create_project: 2 -force -part=; open_project: 1 -quiet; current_project, current_fileset, close_project: 0
set_param: 2; set_property: 1..3 -dict=; get_property: 2 -quiet; get_files, get_runs: 1 -quiet
add_files: 1 -norecurse -fileset=; update_compile_order: 0 -fileset=; can_resolve_reference: 1
get_board_parts: 1 -quiet -latest_file_version; get_ipdefs: 1 -quiet -all; update_ip_catalog: 0 -rebuild
create_bd_design: 1; create_bd_cell: 1 -type= -vlnv= -reference=; apply_bd_automation: 1 -rule= -config=
get_bd_cells, get_bd_pins, get_bd_intf_pins, get_bd_intf_nets, get_bd_addr_spaces, get_bd_addr_segs: 1 -quiet
connect_bd_net: 2..99 -net=; connect_bd_intf_net: 2 -intf_net=
assign_bd_address: 1 -offset= -range= -target_address_space=; validate_bd_design: 0 -force; save_bd_design: 0
generate_target: 2 -force; make_wrapper: 0 -top -import -force -files= -fileset=
reset_run: 1; launch_runs: 1..9 -jobs= -to_step=; wait_on_run: 1 -timeout=; open_run: 1 -name=
report_utilization: 0 -hierarchical -return_string -file= -format=
report_timing_summary: 0 -return_string -file= -delay_type= -max_paths=
write_hw_platform: 0..1 -fixed -include_bit -force -file=
ipx::package_project: 0 -root_dir= -vendor= -library= -taxonomy= -import_files -force; ipx::current_core: 0
ipx::remove_all_bus_interface, ipx::create_xgui_files, ipx::update_checksums, ipx::check_integrity, ipx::save_core: 1
ipx::get_ports, ipx::get_memory_maps, ipx::get_bus_interfaces: 1 -quiet -of_objects=; ipx::remove_memory_map: 2
ipx::add_bus_interface, ipx::add_port_map, ipx::add_bus_parameter, ipx::add_memory_map, ipx::add_address_block: 2
ipx::add_register, ipx::add_field: 2
"""


def _table(text: str) -> dict[str, tuple[int, int, frozenset[str]]]:
    table = {}
    for names, least, most, options in re.findall(r"([a-z_:, ]+): (\d+)(?:\.\.(\d+))?((?: -\w+=?)*)", text):
        for name in names.split(", "):
            table[name.strip()] = int(least), int(most or least), frozenset(options.split())
    return table


_COMMANDS = {"HLS": _table(_TCL + _HLS), "Vivado": _table(_TCL + _VIVADO)}


def command_findings(script: str, line: int, words: Words) -> Iterator[Finding]:
    """What is wrong with a command whatever its place: name, options, number of words."""
    tool = "HLS" if PurePosixPath(script).stem.startswith("hls_") else "Vivado"
    commands = _COMMANDS[tool]
    name = " ".join(words[:2]) if words[0] == "file" else words[0]
    if name not in commands:
        problem = f"`{name}` is not a command of {tool}"
        yield Finding(script, line, "command", problem, _nearest(name, commands))
        return
    least, most, options = commands[name]
    rest = list(words[len(name.split(" ")) :])
    count = 0
    while rest:
        word = rest.pop(0)
        if f"{word}=" in options and rest:
            rest.pop(0)
        elif f"{word}=" in options:
            yield Finding(script, line, "command", f"`{word}` of {name} has no value", "give one")
        elif re.match(r"-[A-Za-z]", word) and word not in options and name != "puts":
            problem = f"`{word}` is not an option of {name}"
            yield Finding(script, line, "command", problem, _nearest(word, {option.strip("=") for option in options}))
        else:
            count += word not in options
    if not least <= count <= most:
        wanted = f"it takes {least}" if least == most else f"it takes {least}..{most}"
        yield Finding(script, line, "command", f"{name} has {count} words that are no options", wanted)


def _nearest(name: str, known: Collection[str]) -> str:
    """`did you mean X`, or the names there are when none is near."""
    near = difflib.get_close_matches(name, sorted(known), 1, 0.6)
    if near:
        return f"did you mean `{near[0]}`?"
    return f"there are {', '.join(sorted(known))}" if 0 < len(known) <= 16 else "there is nothing of that name"
