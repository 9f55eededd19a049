"""The table of `compile --explain`: what each engine would take for a layer, and why it got its one."""

from __future__ import annotations

from bfpga.cli.output import say, table
from bfpga.network.explanation import ENGINES_TITLE, engine_headings, engine_rows, refusals
from bfpga.network.program import Program


def print_engines(program: Program) -> None:
    """Zeros, clocks and the choice of every layer that had one (ZS R53, SC R10, R13)."""
    rows = engine_rows(program)
    if not rows:
        only = "the systolic array only" if len(program.config.engines) == 1 else "no layer for another engine"
        say(f"nothing to choose: {program.accelerator} has {only}")
        return
    say()
    table(ENGINES_TITLE, engine_headings(program), rows)
    for line in refusals(program):
        say(line)
