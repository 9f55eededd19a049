"""`compile --explain` and `--picture`: what each engine would take for a layer, and why it got its one."""

from __future__ import annotations

from pathlib import Path

from bfpga.cli.output import say, table
from bfpga.cli.pictures import write_picture
from bfpga.contract.program import Program
from bfpga.program.explanation import (
    ENGINES_TITLE,
    engine_headings,
    engine_rows,
    gain,
    refusals,
    without_choice,
    zeros_unknown,
)


def print_engines(program: Program) -> None:
    """Zeros, cycles and the choice of every layer that had one, and who computes the others (ZS R53, SC R10, R13)."""
    rows = engine_rows(program)
    if not rows:
        only = "the systolic array only" if len(program.config.engines) == 1 else "no layer for another engine"
        say(f"nothing to choose: {program.accelerator} has {only}")
        return
    say()
    table(ENGINES_TITLE, engine_headings(program), rows)
    say(gain(program))
    for line in refusals(program):
        say(line)
    for place, names in without_choice(program).items():
        say(f"only the {place}: {', '.join(names)}")
    if zeros_unknown(program):
        say("zeros of inputs are not known: the sparse cluster's cycles are those without any, and it gets only layers")
        say("that ask for it; calibration samples (-c) tell more")


def write_engines(path: Path, program: Program) -> None:
    """The same as a picture."""
    from bfpga.program.explanation_picture import draw_engines

    write_picture(path, draw_engines(program))
