"""Rule on the streams between the IPs of a kernel: from what the processes need, not from the design."""

from __future__ import annotations

from collections.abc import Iterator

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.processes import ProcessStream, kernel_processes, process_function, process_streams
from bfpga.vendor.finding import Finding
from bfpga.vendor.tcl_check.built import BuiltCell, BuiltDesign

_FIFO = "xilinx.com:ip:axis_data_fifo"


def kernel_stream_findings(config: SystolicConfig, built: BuiltDesign) -> Iterator[Finding]:
    """Streams that do not lead from their process to the one that reads them, and FIFOs that hold too little."""
    by_ip = {cell.ip: cell for cell in built.cells.values()}
    cells = {process: by_ip.get(f"xilinx.com:hls:{process_function(process)}") for process in kernel_processes(config)}
    for process, cell in cells.items():
        if cell is None:
            problem = f"there is no cell of {process_function(process)}, the {process} of the kernel"
            yield Finding(built.script, built.end, "process-stream", problem, "create one of each process")
    for stream in process_streams(config):
        source, target = cells[stream.source], cells[stream.target]
        if source is not None and target is not None:
            yield from _stream(stream, source, target, built)


def _stream(stream: ProcessStream, source: BuiltCell, target: BuiltCell, built: BuiltDesign) -> Iterator[Finding]:
    wanted = f"{target.name}/{stream.name}"
    end, line, fifos = _followed(f"{source.name}/{stream.name}", source.line, built)
    if end != wanted:
        problem = f"`{source.name}/{stream.name}` leads to {f'`{end}`' if end else 'nothing'}"
        yield Finding(built.script, line, "process-stream", problem, f"lead it to `{wanted}`")
        return
    words = sum(int(fifo.value("FIFO_DEPTH")) for fifo in fifos)
    if words < stream.depth:
        line = fifos[0].line if fifos else line
        problem = f"`{source.name}/{stream.name}` has FIFOs of {words} words: the processes may wait for each other"
        yield Finding(built.script, line, "process-stream", problem, f"hold {stream.depth} words or more")


def _followed(port: str, line: int, built: BuiltDesign) -> tuple[str, int, list[BuiltCell]]:
    """Where the stream of a port ends (empty: nowhere), the line of its last connection, the FIFOs on the way."""
    fifos: list[BuiltCell] = []
    end = port
    while True:
        link = next((link for link in built.links if link.master == end), None)
        if link is None:
            return "", line, fifos
        line, cell = link.line, built.cells[link.slave.partition("/")[0]]
        if cell.ip != _FIFO or cell in fifos:
            return link.slave, line, fifos
        fifos.append(cell)
        end = f"{cell.name}/M_AXIS"
