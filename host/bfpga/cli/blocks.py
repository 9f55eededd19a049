"""`bfpga research blocks`: what exponents for blocks of channels would give a network."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from bfpga.cli import output
from bfpga.cli.options import SampleOptions, grouped


@grouped
def blocks(
    task: SampleOptions,
    block: Annotated[
        int, typer.Option("--block", min=2, max=1024, help="Channels of a pixel or token that share an exponent.")
    ] = 32,
) -> None:
    """What an exponent for each block of channels would give a network at 8 and at 4 bits; no kernel has it yet.

    The first row is the accelerator's own result, by the emulator. The others are the float network with the operands
    of its products rounded: an exponent for each tensor, for each block of a value, for each block of weights too.

    \b
    Examples:
      bfpga research blocks lenet -a pynq_z2_dense
      bfpga research blocks net.onnx -a my.yaml -d samples.npz -c calibration.npz --block 16 --json blocks.json
    """
    from bfpga.cli import work
    from bfpga.precision.blocks import study
    from bfpga.precision.judge import MEASURES

    output.check_target(task.json)
    loaded = work.load_calibrated(task)
    with output.waiting(f"rounding {task.model.name}"):
        found = study(*loaded, block)
    judge = found.judge
    rows = [
        (row.bits, row.exponents, f"{judge.reached - row.score.lost:.2f}", f"{row.sqnr_db:.1f}") for row in found.rows
    ]
    title = f"{judge.samples} samples; {found.values} values and {found.weights} weights of products rounded"
    output.table(title, ["bits", "one exponent", f"{MEASURES[judge.metric]}, %", "SQNR, dB"], rows)
    output.say(f"float: {judge.reached:.2f} %; without retraining")
    content = {"metric": judge.metric, "reached": judge.reached, "samples": judge.samples, "block": block}
    shown = [
        {"bits": row.bits, "exponents": row.exponents, "sqnr_db": row.sqnr_db, **asdict(row.score)}
        for row in found.rows
    ]
    output.write_json(task.json, {**content, "rows": shown})
