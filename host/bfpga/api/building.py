"""`bfpga.build` and the command: from an accelerator to an overlay with bitstream, where Vivado is installed."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.errors import ConfigurationError, ToolError
from bfpga.vendor.bitstream.farm import BuildOrder
from bfpga.vendor.bitstream.hls_stages import checked_gates
from bfpga.vendor.bitstream.pipeline import STAGES, BuildReport, Reporter, SilentReporter, check_stages, run_build
from bfpga.vendor.bitstream.stage import BuildSettings, OwnHls
from bfpga.vendor.bitstream.versions import parse_version
from bfpga.vendor.block_design import block_design
from bfpga.vendor.build_scripts import Hls
from bfpga.verify.vectors import kernel_vectors

#: Processes of Vivado, and IPs synthesised at once, unless others are asked for.
JOBS = min(4, os.cpu_count() or 1)


@dataclass(frozen=True)
class BuildPlan:
    """How accelerators are built.

    until, redo_from: last stage, and the one from which on all is done again. jobs: processes. hours: of one stage at
    most. directory, overlays: where builds are kept and finished overlays go. hls_flow, vivado_version: of the tools.
    board_files: folder of those that Vivado lacks. accept: gates that may fail. hls: who makes the
    IPs, `vitis` or `own`.
    """

    until: str | None = None
    redo_from: str | None = None
    jobs: int = JOBS
    hours: float = 12.0
    directory: Path = Path("build")
    overlays: Path = Path("overlays")
    hls_flow: str = "auto"
    vivado_version: str | None = None
    board_files: Path | None = None
    accept: Sequence[str] = ()
    hls: Hls = "vitis"

    def order(self, accelerator: Accelerator) -> BuildOrder:
        """The build of an accelerator; ConfigurationError for what there is not, OSError for a folder that is none."""
        if self.board_files is not None and not self.board_files.is_dir():
            problem = "is no directory; give the folder that holds the board files"
            raise NotADirectoryError(errno.ENOTDIR, problem, str(self.board_files))
        settings = BuildSettings(
            directory=(self.directory / f"{accelerator.name}-{accelerator.digest[:8]}").absolute(),
            overlays=self.overlays.absolute(),
            jobs=self.jobs,
            limit_seconds=self.hours * 3600,
            board_files=None if self.board_files is None else self.board_files.absolute(),
            vectors=kernel_vectors,
            accepted=checked_gates(block_design(accelerator), self.accept),
            own_hls=self._own_hls(),
        )
        version = parse_version(self.vivado_version) if self.vivado_version else None
        last = self.until or STAGES[-1].name
        return BuildOrder(accelerator, settings, self.hls_flow, version, last, self.redo_from)

    def _own_hls(self) -> OwnHls | None:
        """What makes the IPs without Vitis HLS, if that was asked for. ToolError if a package is missing."""
        if self.hls not in get_args(Hls):
            raise ConfigurationError(f"--hls {self.hls}: there is {', '.join(get_args(Hls))}")
        if self.hls == "vitis":
            return None
        if self.hls_flow != "auto":
            raise ConfigurationError(f"--hls-flow {self.hls_flow} is a flow of Vitis HLS, which --hls own does not run")
        try:
            from bfpga.rtl.packaged import PackagedVerilog
        except ModuleNotFoundError as error:
            raise ToolError(f"--hls own needs the package {error.name}: pip install 'bfpga[synthesis]'") from None
        return PackagedVerilog()


def build(
    accelerator: str | Path | Accelerator,
    *,
    until: str | None = None,
    redo_from: str | None = None,
    jobs: int = JOBS,
    hours: float = 12.0,
    directory: str | Path = "build",
    overlays: str | Path = "overlays",
    hls_flow: str = "auto",
    vivado_version: str | None = None,
    board_files: str | Path | None = None,
    accept: Sequence[str] = (),
    hls: Hls = "vitis",
    reporter: Reporter | None = None,
) -> BuildReport:
    """Build the overlay of an accelerator: render, simulate, synthesise, check, implement, package.

    until: last stage (`csim` and all before it need no vendor tool); None: all. Stages that are done are kept, and a
    call after a failure goes on there; redo_from: from this one on all is done again. jobs: processes. hours: of one
    stage at most. accept: loops, resources or `clock` with which it goes on. hls: `vitis`, or `own` for the Verilog of
    `bfpga rtl`, which needs Vivado alone. reporter: gets the progress.
    The report has every stage and the place of the overlay. BuildError, a ToolError, for the stage that failed or whose
    tool is missing; ConfigurationError for what there is not.
    """
    described = load_accelerator(accelerator)
    files = None if board_files is None else Path(board_files)
    plan = BuildPlan(until, redo_from, jobs, hours, Path(directory), Path(overlays), hls_flow, vivado_version, files,
                     accept, hls)  # fmt: skip
    order = plan.order(described)
    check_stages(order.until, order.redo_from)
    report = run_build(order.build(), reporter or SilentReporter(), order.until, order.redo_from)
    if report.error is not None:
        raise report.error
    return report
