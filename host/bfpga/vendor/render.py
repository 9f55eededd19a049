"""An accelerator's C++: one header of numbers, the descriptor, the tables and the thin shell around the library.

The templates only instantiate; every number is computed here or in ``engines.configuration``.
"""

from __future__ import annotations

import functools
import importlib.resources
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any

import jinja2

from bfpga.contract.bridge import OPERATION, PIECE, RUN, BridgeField, StartState
from bfpga.contract.commands import SKIPPED, TENSOR_COMMAND, commands
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, FIELDS, ROW_WORDS, SHARED_WORDS, word_of
from bfpga.contract.functions import ACTIVATION_EXPONENT, ARGUMENT_BITS, GRID_BITS, Function
from bfpga.contract.kernel_numbers import mask_of, number_groups, pascal
from bfpga.contract.layout import BITS, ENUMERATIONS, layout, layout_digest
from bfpga.contract.loaded_tables import (
    COLUMNS_OF_A_UNIT,
    FIELDS_OF_WORDS,
    LOADED_TABLE,
    PLACE_OF_ADDRESS,
    SLOPE_BITS,
    TABLE_USE,
)
from bfpga.contract.names import SHORT_DIGITS, check_digest, check_name
from bfpga.contract.position_stream import AWAITED_EXPONENTS, POSITION_STREAM, TOLD_EXPONENTS
from bfpga.contract.process_stream import (
    ADDED_WORDS,
    AWAITED_PASSES,
    POST,
    PROCESSES,
    SEQUENCER,
    START_GUARD,
    STORE_CREDITS,
    WAITING_COUNTS,
)
from bfpga.contract.processes import (
    host_streams,
    kernel_processes,
    process_function,
    process_streams,
)
from bfpga.contract.registers import ARGUMENT_REGISTERS, INPUT_STREAM, OUTPUT_STREAM, TOP_FUNCTION, WEIGHT_STREAM
from bfpga.contract.streams import BEATS
from bfpga.formats.files import write_directory
from bfpga.vendor.clock_counter import counter_context
from bfpga.vendor.json_fields import json_text
from bfpga.vendor.program_header import PROGRAM_HEADER, program_header_text
from bfpga.vendor.row_numbers import ROW_NUMBERS, row_numbers
from bfpga.vendor.source_text import enumeration, own, source_environment

#: Called with a configuration, returns testbench files: name -> content.
VectorWriter = Callable[[KernelConfig], dict[str, bytes]]

#: Multiplier of the array -> its type in the library, and the header that has it.
_MULTIPLIERS = {
    "dsp": ("Dsp", "bfpga/array/multiplier.hpp"),
    "dsp_packed": ("DspPacked", "bfpga/array/multiplier.hpp"),
    "dsp_quad": ("DspQuad", "bfpga/array/quad_multiplier.hpp"),
    "shift": ("ShiftUnits", "bfpga/array/shift_tiles.hpp"),
}
#: What templates ask of an array.
ARRAY_FLAGS = (
    "skip_array", "sparse_array", "both_arrays", "cluster", "cuts_maps", "tile", "indexed", "merges", "shifts",
)  # fmt: skip
#: What a word of a stream between processes is in C++; others have words of commands.
_COMMAND_TYPE = "bfpga::command_t"
_WIRE_TYPES = {
    "loads": "bfpga::wire_t<bfpga::GroupBeat<Config>>",
    "operands": "bfpga::wire_t<bfpga::OperandBeat<Config>>",
    "vectors": "bfpga::wire_t<bfpga::VectorBeat<Config>>",
    "weight_words": "bfpga::wire_t<bfpga::WeightBeat<Config>>",
    "parameters": "bfpga::wire_t<bfpga::ParameterBeat<Config>>",
    "sums": "bfpga::wire_t<bfpga::SumBeat<Config>>",
    "results": "bfpga::wire_t<bfpga::ResultBeat<Config>>",
    "stored": "bfpga::wire_t<bfpga::GroupBeat<Config>>",
    "credits": "bool",
    "windows": "bool",
    "skip_operands": "bfpga::wire_t<bfpga::OperandBeat<Config>>",
    "skip_words": "bfpga::wire_t<bfpga::WeightBeat<Config>>",
    "skip_sums": "bfpga::wire_t<bfpga::SumBeat<Config>>",
    "row_operands": "bfpga::wire_t<bfpga::RowWords<Config>>",
    "row_gains": "bfpga::wire_t<bfpga::RowGainBeat>",
    "row_totals": "bfpga::wire_t<bfpga::RowTotalBeat>",
    "row_factors": "bfpga::wire_t<bfpga::RowFactorBeat>",
    "row_sums": "bfpga::wire_t<bfpga::SumBeat<Config>>",
    "operand_words": "bfpga::wire_t<bfpga::OperandWords<Config>>",
    "program_beats": "bfpga::wire_t<bfpga::PlainBeat<Config>>",
}
#: The same around the processes of compressed maps.
_MAP_TYPES = {
    "map_masks": "bfpga::wire_t<bfpga::ChunkBeat<Config>>",
    "map_values": "bfpga::wire_t<bfpga::PlainBeat<Config>>",
    "input_beats": "bfpga::wire_t<bfpga::PlainBeat<Config>>",
    "output_beats": "bfpga::wire_t<bfpga::StoredBeat<Config>>",
    "stored_masks": "bfpga::wire_t<bfpga::ChunkBeat<Config>>",
    "stored_values": "bfpga::wire_t<bfpga::PlainBeat<Config>>",
}
#: The array of a simulation with the process of rows beside it.
_ROWS_BESIDE_ARRAY = ("rows/multiplying.hpp", "RowsBesideArray")
#: Includes of headers of the library, in C++.
_INCLUDE = re.compile(r'^#include "(bfpga/[^"]+)"', re.MULTILINE)
#: Includes of rendered headers in a file's folder.
_LOCAL_INCLUDE = re.compile(r'^#include "([^"/]+)"', re.MULTILINE)


def library_directory() -> Path:
    """Directory of the header-only engine library (to be put on the include path)."""
    return Path(str(importlib.resources.files("vitis_hls_templates"))) / "include"


def shim_directory() -> Path:
    """Directory with headers under the vendor's names, for compilers that are not the vendor's."""
    return Path(str(importlib.resources.files("vitis_hls_templates"))) / "shim"


def source_directories() -> tuple[Path, ...]:
    """Directories of all that a rendered kernel is made of."""
    return library_directory(), shim_directory(), shim_directory().parent / "kernels"


def shim_headers() -> dict[str, str]:
    """The headers under the vendor's names: path in a project -> text."""
    return {f"shim/{header.name}": header.read_text() for header in sorted(shim_directory().glob("*.h"))}


@functools.cache
def _environment() -> jinja2.Environment:
    return source_environment("kernels")


def _number(name: str, value: int | bool | str) -> dict[str, str]:
    if isinstance(value, bool):
        return {"type": "bool", "name": name, "value": str(value).lower()}
    if isinstance(value, str):
        kind, _, member = value.partition("::")
        return {"type": f"bfpga::{kind}", "name": name, "value": f"bfpga::{kind}::{member}"}
    return {"type": "int", "name": name, "value": str(value)}


def _groups(config: KernelConfig) -> list[dict[str, Any]]:
    """Every number the library reads, in the groups of the rendered header."""
    return [
        {"comment": own(group.comment), "numbers": [_number(name, value) for name, value in group.numbers.items()]}
        for group in number_groups(config)
    ]


def _part_headers(config: KernelConfig) -> list[str]:
    """The headers of what this kernel is made of and another may lack; what is always there is included by them."""
    headers = {"bfpga/numeric/numeric.hpp", _MULTIPLIERS[config.multiplier][1]}
    if config.shift_columns:
        headers.add("bfpga/array/mixed_columns.hpp")
    return sorted(headers)


def _functions() -> dict[str, Any]:
    """What the function unit takes from the rows: numbers, sets of functions, tables."""
    tables = {function: function.row.table for function in Function if function.row.table is not None}
    return {
        "exponent": ACTIVATION_EXPONENT,
        "grid_bits": GRID_BITS,
        "argument_bits": ARGUMENT_BITS,
        "with_table": mask_of(tables),
        "below_relu": mask_of(function for function, table in tables.items() if table.holds == "below_relu"),
        "above_relu": mask_of(function for function, table in tables.items() if table.holds == "above_relu"),
        "odd": mask_of(function for function, table in tables.items() if table.symmetry == "odd"),
        "arithmetic": mask_of(function for function in Function if function not in tables),
        "in_table_unit": mask_of(function for function in Function if function.row.unit == "table"),
        "in_finer_unit": mask_of(function for function in Function if function.row.unit == "finer"),
        "tables": [
            {
                "name": function.key, "member": pascal(function.key), "limit": table.limit, "points": table.points,
                "step": "table_step" if table.symmetry == "none" else "half_step",
            }
            for function, table in tables.items()
        ],
    }


def _loaded_tables() -> dict[str, Any]:
    """What the function unit takes from the description of tables that are loaded."""
    return {
        "code": LOADED_TABLE,
        "address": PLACE_OF_ADDRESS,
        "words": len(FIELDS_OF_WORDS),
        "columns": COLUMNS_OF_A_UNIT,
        "slope_bits": SLOPE_BITS,
        "use": [{"name": name, **asdict(field)} for name, field in TABLE_USE.items()],
    }


def _registers() -> list[dict[str, Any]]:
    """The register arguments of the top function; what the kernel reports is a reference."""
    types = {"r": "uint32_t&", "rw": "uint32_t"}
    return [
        {
            "name": register.name,
            "type": "int32_t" if register.name == "descriptor_count" else types[register.access],
            "offset": f"0x{register.offset:02x}",
            "description": own(register.description),
        }
        for register in ARGUMENT_REGISTERS
    ]


def structure(fields: Iterable[BridgeField]) -> list[dict[str, str]]:
    """A structure of the bridge as templates print it, line by line."""
    return [{"declaration": own(item.declaration), "comment": own(item.comment)} for item in fields]


def _beats() -> list[dict[str, Any]]:
    """Fields of beats by the name of their C++ structure."""
    return [
        {"name": f"{pascal(beat)}Fields", "fields": [{"name": name, **asdict(item)} for name, item in parts.items()]}
        for beat, parts in BEATS.items()
    ]


def _commands(config: KernelConfig) -> list[dict[str, Any]]:
    """The fields of descriptors that each process receives."""
    return [
        {
            "name": f"{pascal(item.process)}Command",
            "process": item.process,
            "fields": item.fields,
            "words": [index in item.words for index in range(DESCRIPTOR_WORDS)],
            "operations": mask_of(item.operations),
        }
        for item in (TENSOR_COMMAND, *commands(config))
    ]


def _command_kinds(config: KernelConfig) -> Iterator[str]:
    """What the commands of the processes of a kernel follow from: its layout, and what most kernels have not."""
    yield f"layout_{layout_digest(*config.layout_parts)[:8]}"
    if config.array.command_space:
        yield config.array.command_space
    if config.count_registers:
        yield "counting"


def _wires(config: KernelConfig) -> list[dict[str, str]]:
    """The streams between the processes of a kernel, with the C++ types of their words."""
    types = _WIRE_TYPES | _MAP_TYPES | config.array.word_types()
    return [{"name": wire.name, "type": types.get(wire.name, _COMMAND_TYPE)} for wire in process_streams(config)]


def _host_ports() -> list[dict[str, str]]:
    """The ports that a kernel has to the host: streams, then registers."""
    bits = {WEIGHT_STREAM: "weight_stream_bits"}
    streams = [
        {"name": name, "type": f"bfpga::axis_stream<Config::{bits.get(name, 'stream_bits')}>&", "offset": ""}
        for name in (INPUT_STREAM, WEIGHT_STREAM, OUTPUT_STREAM)
    ]
    return [*streams, *({key: item[key] for key in ("name", "type", "offset")} for item in _registers())]


def _position_ports(config: KernelConfig, process: str) -> list[dict[str, str]]:
    """The ports of a process to other cores: words of exponents."""
    if not config.position_stream or process != POST:
        return []
    kind = f"bfpga::stream<{_COMMAND_TYPE}>&"
    return [{"name": name, "type": kind, "offset": ""} for name in (TOLD_EXPONENTS, AWAITED_EXPONENTS)]


def _processes(config: KernelConfig) -> list[dict[str, Any]]:
    """The processes of a kernel: top function, whether the host starts it, and its ports."""
    inner = [{**wire, "type": f"bfpga::stream<{wire['type']}>&", "offset": ""} for wire in _wires(config)]
    ends = {item.name: (item.source, item.target) for item in process_streams(config)}
    result = []
    for process in kernel_processes(config):
        outer = [port for port in _host_ports() if host_streams(config).get(port["name"], SEQUENCER) == process]
        own = [port for port in inner if process in ends[port["name"]]] + _position_ports(config, process)
        ports = [port for port in outer if not port["offset"]] + own + [port for port in outer if port["offset"]]
        started = process == SEQUENCER
        result.append({"name": process, "function": process_function(process), "started": started, "ports": ports})
    return result


def _context(name: str, digest: str, config: KernelConfig) -> dict[str, Any]:
    check_name(name, "name of the kernel")
    check_digest(digest, "digest of the kernel", SHORT_DIGITS)
    simulation = _ROWS_BESIDE_ARRAY if config.has_rows else config.array.simulation
    return {
        "name": name,
        "digest": digest,
        "identification": f"0x{digest[:8]}",
        "top": TOP_FUNCTION,
        "streams": {"input": INPUT_STREAM, "weights": WEIGHT_STREAM, "output": OUTPUT_STREAM},
        "registers": _registers(),
        "groups": _groups(config),
        "multiplier": _MULTIPLIERS[config.multiplier][0],
        "part_headers": _part_headers(config),
        "structures": {"Run": structure(RUN), "Piece": structure(PIECE), "OperationRecord": structure(OPERATION)},
        "start_states": enumeration(StartState),
        "enumerations": [enumeration(item) for item in ENUMERATIONS],
        "bits": [enumeration(item) for item in BITS],
        "fields": FIELDS,
        "shared": {name: word_of(name) for name in SHARED_WORDS},
        "of_rows": {name: word_of(name) for name in ROW_WORDS} if config.has_rows else {},
        "words": DESCRIPTOR_WORDS,
        "functions": _functions(),
        "loaded": _loaded_tables(),
        "beats": _beats(),
        "commands": _commands(config),
        "process_limits": {
            "store_credits": STORE_CREDITS, "awaited_passes": AWAITED_PASSES, "start_guard": START_GUARD,
            "waiting_counts": WAITING_COUNTS, "skipped": SKIPPED, "added_words": ADDED_WORDS,
        },
        "command_space": "_".join(_command_kinds(config)),
        "processes": _processes(config),
        "host_ports": _host_ports(),
        "wires": _wires(config),
        "array_header": config.array.header,
        "simulation_header": simulation[0],
        "simulation_class": simulation[1],
        **{flag: flag in config.array.flags() for flag in ARRAY_FLAGS},
        "streams_positions": config.position_stream,
        "positions": {"told": TOLD_EXPONENTS, "awaited": AWAITED_EXPONENTS, "depth": POSITION_STREAM.depth},
        "maps": config.compressed_maps,
        "programs": config.program_descriptors > 0,
        "has_rows": config.has_rows,
        "weighs": config.operand_weights,
        "cluster_multiplier": "LaneDspPacked" if config.format.mantissa_bits <= 8 else "LaneDsp",
        "counts": config.count_registers > 0,
        "entries": [name for name in config.array.word_types() if name.startswith("entries_")],
        "tops": top_files(config),
        "top_functions": [process["function"] for process in _processes(config)],
        "layout": own(json_text(layout(*config.layout_parts))),
        "layout_identification": f"0x{layout_digest(*config.layout_parts)[:8]}",
    }


#: Rendered file -> template.
_FILES = {
    "include/bfpga/contract/descriptor.hpp": "common/descriptor.hpp.j2",
    "include/bfpga/contract/beats.hpp": "common/beats.hpp.j2",
    "include/bfpga/output/activation_tables.hpp": "common/activation_tables.hpp.j2",
    "include/bfpga/output/table_dispatch.hpp": "common/table_dispatch.hpp.j2",
    "src/config.hpp": "common/config.hpp.j2",
    "src/bridge.cpp": "common/bridge.cpp.j2",
    "rtl/clock_counter.v": "common/clock_counter.v.j2",
    "tb/testbench.cpp": "common/testbench.cpp.j2",
    "Makefile": "common/Makefile.j2",
    "README.md": "common/README.md.j2",
}
#: What the processes of every kernel receive, and their top functions.
_TOPS = {
    "include/bfpga/contract/commands.hpp": "processes/commands.hpp.j2",
    "src/top.hpp": "processes/top.hpp.j2",
    **{f"src/{process}.cpp": f"processes/{process}.cpp.j2" for process in PROCESSES},
}
def render_kernel(name: str, digest: str, config: KernelConfig) -> dict[str, str]:
    """The rendered files of an accelerator: path in the project -> text. ``digest``: 8 hexadecimal digits or more.

    ConfigurationError for a name or a digest that is none.
    """
    context = _context(name, digest, config)
    files = _FILES | _tops(config)
    counter = context | counter_context(config)
    texts = {f"include/{ROW_NUMBERS}": row_numbers()} if config.has_rows else {}
    if config.program_descriptors:
        texts[f"include/{PROGRAM_HEADER}"] = program_header_text()
    return texts | {
        path: _template(template).render(
            counter if path.endswith(".v") else context,
            source=PurePosixPath(path).stem,
            kind=PurePosixPath(template).name.partition(".")[0],
        )
        for path, template in files.items()
    }


def _template(name: str) -> jinja2.Template:
    """The template of that name; a process without one of its own has a row in the template of all others."""
    return _environment().select_template([name, "processes/process.cpp.j2"])


def top_files(config: KernelConfig) -> tuple[str, ...]:
    """The files that a synthesis tool compiles, one for each IP: paths in the project."""
    return tuple(path for path in _tops(config) if path.endswith(".cpp"))


def _tops(config: KernelConfig) -> dict[str, str]:
    """The top functions of a kernel."""
    templates = config.array.templates()
    own = kernel_processes(config)[len(PROCESSES) :]
    return _TOPS | {f"src/{name}.cpp": f"processes/{templates.get(name, name)}.cpp.j2" for name in own}


def kernel_sources(rendered: Mapping[str, str]) -> dict[str, str]:
    """All that a kernel is compiled from: path in the project -> text.

    ``rendered``: its rendered files, as ``render_kernel`` gives them, or some of them; to these come the headers of the
    library that they include, and those that headers include. Nothing else of the library belongs to the kernel.
    """
    sources, library = dict(rendered), f"{library_directory()}/"
    waiting = [_INCLUDE.findall(text) for path, text in rendered.items() if path.endswith((".cpp", ".hpp", ".h"))]
    while waiting:
        for header in waiting.pop():
            path = f"include/{header}"
            if path not in sources:
                sources[path], includes = _header(library + header)
                waiting.append(includes)
    return sources


def _header(path: str) -> tuple[str, list[str]]:
    """The text of a header of the library, and the headers of the library that it includes."""
    return _read_header(path, os.stat(path).st_mtime_ns)


@functools.lru_cache(maxsize=1024)
def _read_header(path: str, changed: int) -> tuple[str, list[str]]:
    """A process reads and searches a header once, unless it is edited: builds ask for the same ones by the hundred."""
    text = Path(path).read_text()
    return text, _INCLUDE.findall(text)


def sources_of(top: str, rendered: Mapping[str, str]) -> dict[str, str]:
    """What one rendered file is compiled from, itself first: path in the project -> text."""
    sources: dict[str, str] = {}
    library, waiting = library_directory(), [top]
    while waiting:
        path = waiting.pop()
        if path in sources:
            continue
        if text := rendered.get(path):
            includes = _INCLUDE.findall(text)
            waiting += [str(Path(path).parent / header) for header in _LOCAL_INCLUDE.findall(text)]
        else:
            text, includes = _header(f"{library}/{path.removeprefix('include/')}")
        sources[path] = text
        waiting += [f"include/{header}" for header in includes]
    return sources


def write_project(
    name: str, digest: str, config: KernelConfig, directory: Path, vectors: VectorWriter | None = None
) -> Path:
    """Write a self-contained HLS project (headers, sources, testbench with vectors, Makefile) to ``directory``.

    The directory appears complete or not at all; ConfigurationError if it exists and is not empty.
    """
    return write_directory(Path(directory), _project_files(name, digest, config, vectors), "the HLS project")


def _project_files(name: str, digest: str, config: KernelConfig, vectors: VectorWriter | None) -> dict[str, bytes]:
    """The files of a project by their paths in it."""
    sources = kernel_sources(render_kernel(name, digest, config) | shim_headers())
    files = {path: text.encode() for path, text in sources.items()}
    for path, content in (vectors(config) if vectors else {}).items():
        files[f"tb/vectors/{path}"] = content
    return files
