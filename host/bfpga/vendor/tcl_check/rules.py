"""The rules of the check, and its findings as text."""

from __future__ import annotations

from collections.abc import Sequence

from bfpga.vendor.finding import Finding

#: Rule -> what it demands of the scripts.
RULES = {
    "tcl-error": "a script runs to its end where every step of the tools succeeds",
    "unsubstituted": "no word of a command still holds `$name`, `${name}`, `{{` or a command in brackets",
    "unknown-command": "a command is one that the tool has",
    "command-option": "a command has options that it knows, and as many arguments as it takes",
    "command-order": "commands come in the order in which the tool needs them",
    "missing-command": "every step that a stage consists of is there",
    "unknown-ip": "an IP is one that the model knows",
    "ip-version": "the newest version of an IP is looked up, none is written down; the kernel has its own",
    "parameter-name": "a parameter is one that the IP has",
    "parameter-value": "a parameter has a value that the IP takes",
    "unknown-object": "a cell, pin, interface, address space or segment that is named exists at that point",
    "missing-source": "the Verilog of a cell that is no IP belongs to the project before the cell is created",
    "cell-twice": "a cell is created once",
    "board-preset": "the preset of the board is applied to the processing system, its pins are made external",
    "interface-kind": "an interface link joins a master and a slave of the same protocol",
    "interface-open": "no interface is left open",
    "interface-twice": "an interface is connected once",
    "monitor": "an interface that only watches joins a connection of its own protocol and width",
    "stream-width": "both ends of a stream have the same width, a power of two in 8..1024",
    "process-stream": "a stream of a process leads to the process that reads it, through FIFOs that hold what it must",
    "memory-width": "a DMA's memory side has 32 bits or more and those of its stream, a port has those of the board's",
    "length-register": "a DMA counts with the widest length register, 8..26 bits",
    "pin-open": "every clock, reset and interrupt input has a driver, and every interrupt output a load",
    "pin-driven-twice": "a pin has one driver",
    "clock-source": "every clock pin hangs on the one clock of the processing system",
    "reset-source": "every reset pin is driven by a reset of its polarity, synchronised by proc_sys_reset",
    "interrupt-path": "interrupts reach the first line of the processor through xlconcat and axi_intc",
    "address-missing": "every slave that a master reaches has an address",
    "address-unreachable": "an address is given only to a slave that the master reaches",
    "address-overlap": "no two ranges of an address space overlap",
    "address-alignment": "the size of a range is a power of two, and its start a multiple of it",
    "address-window": "a range lies in the window of its master",
    "address-memory": "the range of the memory is no larger than the board's memory",
    "part": "HLS, Vivado and board name the same part",
    "board-part": "the board files asked for are those of the board",
    "kernel-name": "vendor, library, name and version of the kernel agree in HLS, export and block design",
    "clock": "HLS, processing system and block design name one clock, within the range of the board",
    "path": "a file is read where another script writes it",
    "wait-limit": "every wait has a limit",
    "jobs": "runs get a number of jobs",
    "result-file": "a result is written with all its lines, closed, and then renamed to its final name",
    "stale-file": "what an earlier run has left is removed before anything can fail",
    "guard": "a script stops with an error where a step has failed or something is missing",
    "timing-gate": "a bitstream that misses its timing is not handed on",
    "config-key": "a key of the configuration file is known, given as often as it may be, and none is missing",
    "config-value": "a value of the configuration file is the one of the accelerator",
    "design": "cells, links, wires and addresses are exactly those of the block design",
}


def format_findings(findings: Sequence[Finding]) -> str:
    """The findings, one a line in the order of the scripts."""
    return "\n".join(map(str, sorted(findings)))
