"""Self-test of an overlay on a board: `python3 -m bfpga.board.self_test --overlay DIR --program FILE`.

Every stage prints PASS or FAIL with what it found; stages that need a failed one are skipped. Runs with the standard
library, numpy and pynq. Exit code 0 if everything passed, 1 if not, 2 for wrong use.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bfpga.board.self_test_report import Report
from bfpga.board.self_test_stages import OverlayStages, ProgramStages, environment
from bfpga.formats.files import refuse_input, replace_file
from bfpga.vendor.manifest import MANIFEST_NAME


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the test and print its stages; the exit code."""
    parser = argument_parser()
    given = parser.parse_args(arguments)
    if given.json is not None and not given.json.parent.is_dir():
        parser.error(f"--json: directory {given.json.parent} does not exist")
    try:
        refuse_input(given.json, [*given.program, given.overlay / MANIFEST_NAME])
    except OSError as error:
        parser.error(f"--json: {error.filename}: {error.strerror}")
    report = Report(str(given.overlay), given.target, show=lambda line: print(line, flush=True), debug=given.debug)
    run(report, given.overlay, given.program, given.target, given.repeat, given.batch)
    print(report.summary(), flush=True)
    if given.json is not None:
        replace_file(given.json, report.to_json().encode())
    return 0 if report.passed else 1


def argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m bfpga.board.self_test",
        description="Test an overlay on this board, stage by stage, and time it.",
        epilog="example: sudo -E python3 -m bfpga.board.self_test --overlay overlays/pynq_z2_dense "
        "--program programs/lenet_mnist.bfpga --json report.json",
    )
    parser.add_argument("--overlay", required=True, type=Path, metavar="DIR", help="directory with overlay.yaml")
    parser.add_argument(
        "--program", required=True, action="append", type=Path, metavar="FILE", help="program file; repeatable"
    )
    parser.add_argument("--target", choices=("board", "virtual"), default="board", help="default: %(default)s")
    parser.add_argument("--repeat", type=_positive, default=50, metavar="N", help="runs to time (%(default)s)")
    parser.add_argument("--batch", type=_positive, default=32, metavar="N", help="samples of a batch (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def run(report: Report, overlay: Path, programs: Sequence[Path], target: str, repeat: int, batch: int) -> None:
    """All stages; what they find goes into ``report``."""
    report.stage("environment", lambda: environment(target))
    with OverlayStages(overlay, target) as stages:
        report.stage("files", stages.files)
        report.stage("load", stages.load)
        report.stage("clock", stages.clock)
        report.stage("identification", stages.identification)
        report.stage("dma limits", stages.dma_limits)
        for path in programs:
            _run_program(report, ProgramStages(stages, path), stages.cores, repeat, batch)


def _run_program(report: Report, program: ProgramStages, cores: int, repeat: int, batch: int) -> None:
    report.begin_program(program.path.stem)
    report.stage("open", program.open)
    report.stage("repeatable", program.repeatable)
    report.stage("equals emulator", program.equals_emulator)
    report.stage("weights resident", program.weights_resident)
    report.stage("throughput", lambda: program.throughput(repeat, batch))
    if cores > 1:
        report.stage("every core", lambda: program.every_core(batch))
    program.close()


if __name__ == "__main__":
    sys.exit(main())
