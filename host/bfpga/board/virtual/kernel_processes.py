"""A kernel in a handoff: several IPs and the FIFOs between them, represented by one model; a design may have several.

The model has the streams between its processes inside. So that a design which would not work on a board does not work
here either, the IPs, the way of every stream, its width and its room are compared with what the model states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from bfpga.board.virtual.hardware_description import HardwareDescription, Instance, StreamLink
from bfpga.contract.arrays.skip_array import SKIP_ARRAY
from bfpga.contract.position_stream import TOLD_EXPONENTS
from bfpga.contract.process_stream import MAPS, PROCESSES, PROGRAM, SEQUENCER, ProcessStream
from bfpga.contract.processes import HOST_STREAMS, MAP_STREAMS, PROGRAM_STREAMS, process_function
from bfpga.contract.registers import OUTPUT_STREAM
from bfpga.errors import DeviceError

#: The IP that gives a stream its room.
_FIFO = "axis_data_fifo"


@runtime_checkable
class KernelOfProcesses(Protocol):
    """A kernel model that states the streams between its processes."""

    @property
    def between(self) -> tuple[ProcessStream, ...]:
        """The streams between the processes."""
        ...


def process_cells(hardware: HardwareDescription, kernel: str) -> dict[str, str]:
    """The cells of the processes of a kernel: process -> cell; ``kernel``: the cell with the registers.

    Empty where the design has no other process. DeviceError for two cells of one process.
    """
    cells = {SEQUENCER: kernel}
    around = _cells_around(hardware, kernel)
    for process in (*PROCESSES, SKIP_ARRAY, *MAPS, PROGRAM):
        found = [cell.name for cell in around if process != SEQUENCER and _is(cell, process)]
        if len(found) > 1:
            raise DeviceError(f"two cells are the {process} of a kernel: {', '.join(found)}")
        cells |= dict.fromkeys([process], found[0]) if found else {}
    return cells if len(cells) > 1 else {}


def _cells_around(hardware: HardwareDescription, kernel: str) -> list[Instance]:
    """Cells among which those of a kernel are: of several kernels those that streams join with its own."""
    kernels = {cell.name for cell in hardware.instances.values() if _is(cell, SEQUENCER)}
    if len(kernels) < 2:
        return list(hardware.instances.values())
    processes = (*PROCESSES, SKIP_ARRAY, *MAPS, PROGRAM)
    inner = {cell.name for cell in hardware.instances.values() if any(_is(cell, process) for process in processes)}
    links = [
        {link.source, link.sink}
        for link in hardware.streams
        if {link.source, link.sink} <= inner and link.source_port != TOLD_EXPONENTS
    ]
    joined, found = {kernel}, {kernel}
    while found:
        found = set().union(*(link for link in links if link & found)) - joined - (kernels - {kernel})
        joined |= found
    return [cell for cell in hardware.instances.values() if cell.name in joined]


def _is(cell: Instance, process: str) -> bool:
    return cell.vlnv.split(":")[1:3] == ["hls", process_function(process)]


def check_processes(hardware: HardwareDescription, kernel: str, model: object) -> None:
    """DeviceError that lists what the design has not as the processes of the model need it."""
    if not isinstance(model, KernelOfProcesses):
        return
    cells = process_cells(hardware, kernel)
    problems = [*_missing(cells, kernel, model.between), *_host_problems(hardware, cells, model.between)]
    for stream in model.between:
        problems += _problems(hardware, cells, stream)
    if problems:
        listed = "\n".join(f"  {problem}" for problem in problems)
        raise DeviceError(f"the design does not connect the processes of kernel `{kernel}` as it needs:\n{listed}")


def _missing(cells: Mapping[str, str], kernel: str, between: Sequence[ProcessStream]) -> Iterator[str]:
    ends = {end for stream in between for end in (stream.source, stream.target)}
    for process in (process for process in (*PROCESSES, SKIP_ARRAY, *MAPS, PROGRAM) if process in ends):
        if process not in {SEQUENCER, *cells}:
            yield f"no cell is {process_function(process)}, the {process} of `{kernel}`"


def _host_problems(
    hardware: HardwareDescription, cells: Mapping[str, str], between: Sequence[ProcessStream]
) -> Iterator[str]:
    """Streams from and to the DMA engines belong to the process that reads or writes them."""
    sources = {stream.source for stream in between}
    ends = PROGRAM_STREAMS if PROGRAM in sources else MAP_STREAMS if sources.intersection(MAPS) else HOST_STREAMS
    for name, process in ends.items():
        if process not in cells:
            continue
        found = [
            (link.source, link.source_port) if name == OUTPUT_STREAM else (link.sink, link.sink_port)
            for link in hardware.streams
        ]
        if (cells[process], name) not in found:
            yield f"`{cells[process]}/{name}` is not connected"


def _problems(hardware: HardwareDescription, cells: Mapping[str, str], stream: ProcessStream) -> Iterator[str]:
    if stream.source not in cells or stream.target not in cells:
        return
    source, target = f"{cells[stream.source]}/{stream.name}", f"{cells[stream.target]}/{stream.name}"
    link = next((link for link in hardware.streams if link.ends[0] == source), None)
    if link is None:
        yield f"`{source}` leads nowhere, must lead to `{target}`"
        return
    if link.ends[1] != target:
        yield f"`{source}` leads to `{link.ends[1]}`, must lead to `{target}`"
        return
    yield from _width_problems(hardware, stream, link)
    fifos = [hardware.instances[name] for name in link.through if hardware.instances[name].ip == _FIFO]
    words = sum(_number(fifo, "FIFO_DEPTH") for fifo in fifos)
    if words < stream.depth:
        yield f"`{source}` has FIFOs of {words} words, must have {stream.depth}: the processes may wait for each other"


def _width_problems(hardware: HardwareDescription, stream: ProcessStream, link: StreamLink) -> Iterator[str]:
    """Bytes of a word at both ends and in the FIFOs between them, as far as the file says."""
    found = {link.ends[0]: link.beat_bytes, link.ends[1]: link.sink_bytes}
    found |= {name: _number(hardware.instances[name], "TDATA_NUM_BYTES") for name in link.through}
    for end, octets in found.items():
        if octets and octets != stream.octets:
            yield f"`{end}` carries {octets} bytes of `{stream.name}`, must carry {stream.octets}"


def _number(cell: Instance, parameter: str) -> int:
    values = {name.upper(): value for name, value in cell.parameters.items()}
    text = values.get(parameter, "")
    return int(text) if text.isdecimal() else 0
