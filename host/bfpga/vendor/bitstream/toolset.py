"""The tools of one build: found once, missed only by the stage that needs them."""

from __future__ import annotations

from dataclasses import dataclass

from bfpga.accelerator.boards import Board
from bfpga.errors import ToolError
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.tools import (
    HlsTools,
    Search,
    Tool,
    find_hls,
    find_tool,
    tool_environment,
    version_warnings,
    y2k22_problem,
)
from bfpga.vendor.bitstream.versions import Version

#: What to do about a tool that is missing.
INSTALL = (
    "Install Vivado with Vitis HLS (the free edition does for small devices) and source its settings64.sh, or run this "
    "on a machine that has it: everything up to here needs none, and a build continues where it stopped."
)
#: What to do about it where Vitis HLS alone is missing, or is not asked for.
WITHOUT_HLS = "With --hls own no HLS program is needed: Vivado packages the Verilog that bfpga makes (docs/rtl.md)."
INSTALL_VIVADO = (
    "Install Vivado (the free edition does for small devices) and source its settings64.sh, or run this on a machine "
    "that has it: everything up to here needs none, and a build continues where it stopped."
)


@dataclass(frozen=True)
class Toolset:
    """HLS program and Vivado, or why there is none. ``environment``: what they run in.

    ``hls``: None if the build asks for none.
    """

    hls: HlsTools | ToolError | None
    vivado: Tool | ToolError
    environment: dict[str, str]

    def require_hls(self) -> HlsTools:
        """The HLS program; BuildError if it is missing or cannot package IP."""
        assert self.hls is not None  # a build that needs it asks for it
        if isinstance(self.hls, ToolError):
            raise BuildError("missing_tool", f"{self.hls}\n{INSTALL}\n{WITHOUT_HLS}")
        problem = y2k22_problem(self.hls.tool)
        if problem is not None:
            raise BuildError("y2k22", problem)
        if self.hls.flow == "v++" and self.hls.packager is None:
            raise BuildError(
                "missing_tool", f"{self.hls.tool.label()} has no vitis-run next to it, which packages the IP"
            )
        return self.hls

    def require_vivado(self) -> Tool:
        """Vivado; BuildError if it is missing."""
        if isinstance(self.vivado, ToolError):
            raise BuildError("missing_tool", f"{self.vivado}\n{INSTALL_VIVADO if self.hls is None else INSTALL}")
        return self.vivado

    def notes(self, board: Board) -> list[str]:
        """What is worth knowing before hours are spent."""
        if isinstance(self.hls, ToolError) or isinstance(self.vivado, ToolError):
            missing = [
                name for name, tool in (("HLS", self.hls), ("Vivado", self.vivado)) if isinstance(tool, ToolError)
            ]
            return [f"no {' and no '.join(missing)} here: the build will end at the first stage that needs it"]
        return version_warnings(self.hls, self.vivado, board.pynq_images)


def discover(flow: str | None, wanted: Version | None, search: Search | None = None) -> Toolset:
    """Find the tools; None: no HLS program. ConfigurationError for an HLS flow that does not exist."""
    search = search or Search()
    hls: HlsTools | ToolError | None
    vivado: Tool | ToolError
    try:
        hls = None if flow is None else find_hls(flow, search, wanted)
    except ToolError as error:
        hls = error
    try:
        # Vivado of the release of the HLS program, if there is one: IP of a newer HLS may be refused.
        vivado = _matching_vivado(search, wanted, hls)
    except ToolError as error:
        vivado = error
    found = [hls.tool, *filter(None, [hls.packager])] if isinstance(hls, HlsTools) else []
    found += [] if isinstance(vivado, ToolError) else [vivado]
    return Toolset(hls, vivado, tool_environment(found, search.environment))


def _matching_vivado(search: Search, wanted: Version | None, hls: HlsTools | ToolError | None) -> Tool:
    if wanted is None and isinstance(hls, HlsTools):
        try:
            return find_tool("vivado", search, hls.tool.version.base)
        except ToolError:
            return find_tool("vivado", search)
    return find_tool("vivado", search, wanted)
