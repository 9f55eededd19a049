"""Memories of a loop as Verilog of their own: Yosys says which block or look-up table memories they become."""

from __future__ import annotations

from collections import Counter

from bfpga.synthesis.body import Memory, Opcode
from bfpga.synthesis.netlist.expressions import vector
from bfpga.synthesis.netlist.pipeline import Pipeline

#: Attribute of the Verilog by the implementation of a BIND_STORAGE.
_STYLES = {"bram": "block", "lutram": "distributed", "uram": "huge"}
#: A memory of a device has two ports, whatever they are used for.
_PORTS = 2


def memory_text(memory: Memory, reads: int, writes: int, latency: int) -> str:
    """Ports and contents of a module with the memory, from behind its name on.

    ``latency``: clocks of a read; 0 reads in the same clock. Reads and writes that have a port in common use one
    address.
    """
    bits = max(1, (memory.words - 1).bit_length())
    style = _STYLES.get(memory.implementation, "")
    attribute = f'(* ram_style = "{style}" *) ' if style and latency else ""
    ports, lines = ["input clk", "input ce"], [
        f"{attribute}reg {vector(memory.width)} memory [0:{memory.words - 1}];"
    ]  # fmt: skip
    if memory.initial:
        words = [f"memory[{place}] = {memory.width}'h{word:x};" for place, word in enumerate(memory.initial)]
        lines.append("initial begin " + " ".join(words) + " end")
    for port in range(max(reads, writes)):
        shared = reads + writes > _PORTS
        ports.append(f"input {vector(bits)} a{port}")
        if port < writes:
            address = f"a{port}"
            if not shared and port < reads:
                ports.append(f"input {vector(bits)} w{port}")
                address = f"w{port}"
            ports += [f"input e{port}", f"input {vector(memory.width)} d{port}"]
            lines.append(f"always @(posedge clk) if (ce) if (e{port}) memory[{address}] <= d{port};")
        if port < reads:
            ports.append(f"output {vector(memory.width)} q{port}")
            value = f"memory[a{port}]"
            for clock in range(latency):
                lines.append(f"reg {vector(memory.width)} q{port}_{clock};")
                lines.append(f"always @(posedge clk) if (ce) q{port}_{clock} <= {value};")
                value = f"q{port}_{clock}"
            lines.append(f"assign q{port} = {value};")
    return "\n".join([f"({', '.join(ports)});", *lines, "endmodule"])


def memory_shape(pipeline: Pipeline, memory: Memory) -> tuple[int, int, int, int]:
    """Ports that read and that write, clocks of a read and copies, as a scheduled loop uses a memory.

    Accesses in different clocks of the interval share a port, and so do those beyond two ports: never both happen. A
    table has a copy for every two that read it at once; a RAM that the loop only reads or writes is one all the same.
    """
    reads = max(1, _together(pipeline, memory, Opcode.MEMORY_READ))
    if memory.initial:
        writes, copies = 0, -(-reads // _PORTS)
    else:
        writes, copies = min(_PORTS, max(1, _together(pipeline, memory, Opcode.MEMORY_WRITE))), 1
    operations = pipeline.body.operations
    reading = [index for index in memory.accesses if operations[index].opcode is Opcode.MEMORY_READ]
    latency = max([pipeline.latency(index) for index in reading], default=1)
    if memory.implementation in ("bram", "uram"):  # read with the clock, in a body without stages too
        latency = max(1, latency)
    return min(reads, _PORTS), writes, latency, copies


def _together(pipeline: Pipeline, memory: Memory, opcode: Opcode) -> int:
    """Most accesses of a kind in one clock of the interval."""
    operations = pipeline.body.operations
    accesses = [index for index in memory.accesses if operations[index].opcode is opcode]
    return max(Counter(pipeline.stage(index) % pipeline.interval for index in accesses).values(), default=0)
