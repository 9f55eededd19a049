"""Where the vendor's tools are, which versions they have, and which of them synthesise a kernel here.

A tool is looked for on the PATH, in the directories of its settings (`$XILINX_VIVADO`, `$XILINX_HLS`,
`$XILINX_VITIS`), then in the usual places of installation, newest first. Its version is what it prints itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from bfpga.errors import ConfigurationError, ToolError
from bfpga.vendor.bitstream.versions import PYNQ_IMAGES, Version, banner_version, path_version

HlsFlow = Literal["vitis_hls", "vitis-run", "v++"]
#: Programs that turn a kernel into IP, in the order of preference.
HLS_FLOWS: tuple[HlsFlow, ...] = ("vitis_hls", "vitis-run", "v++")
#: First version in which a program can do so (UG1399, UG1702); whether it exists is probed.
FIRST_VERSION: Mapping[HlsFlow, Version] = {
    "vitis_hls": Version(2020, 1),
    "vitis-run": Version(2023, 1),
    "v++": Version(2023, 2),
}
#: Environment variables of the vendor's settings files that name an installation.
SETTINGS_VARIABLES = ("XILINX_VIVADO", "XILINX_HLS", "XILINX_VITIS")
#: Directories below which the installer puts the tools; the second name since 2025.2.
INSTALL_ROOTS = tuple(f"{place}/{name}" for name in ("Xilinx", "AMDDesignTools") for place in ("/opt", "/tools", "~"))
#: Seconds a tool may take to print its version; the first start after a boot reads gigabytes.
VERSION_SECONDS = 120
#: The last version whose packaging of IP overflows since 2022 without the vendor's patch.
LAST_Y2K22 = Version(2021, 2, 99)
#: What AMD's patch leaves in `common/scripts` of an installation.
Y2K22_PATCH = "automg_patch_20220104.tcl"


@dataclass(frozen=True)
class Tool:
    """A program that answered. ``on_path``: its settings were sourced before the start."""

    name: str
    path: Path
    version: Version
    on_path: bool = True

    @property
    def installation(self) -> Path:
        """Directory of the product the program belongs to (its `bin` is below); links are followed."""
        return self.path.resolve().parent.parent

    def label(self) -> str:
        return f"{self.name} {self.version} ({self.path})"


@dataclass(frozen=True)
class Search:
    """Where tools are looked for; the defaults are this machine's."""

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    roots: tuple[str, ...] = INSTALL_ROOTS

    def places(self) -> list[str]:
        """The places in words, for a message."""
        variables = [f"${name} ({self.environment.get(name, 'not set')})" for name in SETTINGS_VARIABLES]
        return ["the PATH", *variables, *self.roots]

    def candidates(self, name: str) -> Iterator[tuple[Path, bool]]:
        """Executables of that name, each with whether it is on the PATH, in the order of preference."""
        found = shutil.which(name, path=self.environment.get("PATH", ""))
        if found:
            yield Path(found), True
        for variable in SETTINGS_VARIABLES:
            if self.environment.get(variable):
                yield from _executables(Path(self.environment[variable]) / "bin", name)
        installed = [item for root in self.roots for item in self._installed(root, name)]
        newest = sorted(installed, key=lambda path: path_version(str(path)) or Version(0, 0), reverse=True)
        yield from ((path, False) for path in newest)

    def _installed(self, root: str, name: str) -> Iterator[Path]:
        """`ROOT/Vivado/2022.1/bin` up to 2024.2, `ROOT/2025.1/Vivado/bin` since."""
        home = self.environment.get("HOME", "")
        directory = Path(home + root[1:] if root.startswith("~/") else root)
        for bin_directory in sorted(directory.glob("*/*/bin")):
            yield from (path for path, _ in _executables(bin_directory, name))


def _executables(directory: Path, name: str) -> Iterator[tuple[Path, bool]]:
    path = directory / name
    if path.is_file() and os.access(path, os.X_OK):
        yield path, False


def probe(path: Path, environment: Mapping[str, str]) -> Version:
    """The version that a program prints; ToolError if it does not answer or prints none."""
    command = [str(path), "--version" if path.name in ("v++", "vitis-run") else "-version"]
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=VERSION_SECONDS, check=False,
            stdin=subprocess.DEVNULL, env=dict(environment),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{' '.join(command)} does not answer: {error}") from error
    text = result.stdout + result.stderr
    version = banner_version(text)
    if version is None:
        said = text.strip().splitlines()
        raise ToolError(f"{' '.join(command)} printed no version (exit code {result.returncode}): {said[:1] or ''}")
    return version


def find_tool(name: str, search: Search | None = None, wanted: Version | None = None) -> Tool:
    """The first program of that name that answers, of the base version ``wanted`` if given.

    ToolError says where it was looked for and why those found were not taken.
    """
    search = search or Search()
    rejected: list[str] = []
    seen: set[Path] = set()
    for path, on_path in search.candidates(name):
        if path.resolve() in seen:
            continue
        seen.add(path.resolve())
        if wanted is not None and (path_version(str(path)) or wanted).base != wanted.base:
            rejected.append(f"{path} is {path_version(str(path))}")
            continue
        try:
            version = probe(path, search.environment)
        except ToolError as error:
            rejected.append(str(error))
            continue
        if wanted is None or version.base == wanted.base:
            return Tool(name, path, version, on_path)
        rejected.append(f"{path} is {version}")
    raise ToolNotFoundError(name if wanted is None else f"{name} {wanted}", search, rejected)


class ToolNotFoundError(ToolError):
    """No such tool; the message says where it was looked for. ``rejected``: those found, and why they do not do."""

    def __init__(self, what: str, search: Search, rejected: Sequence[str]) -> None:
        self.rejected = list(rejected)
        looked = f"{what} was not found; looked in: {'; '.join(search.places())}"
        super().__init__("\n".join([looked, *(f"  {text}" for text in rejected)]))


@dataclass(frozen=True)
class HlsTools:
    """How a kernel becomes IP here: the flow, its program and, for `v++`, the `vitis-run` that packages."""

    flow: HlsFlow
    tool: Tool
    packager: Tool | None = None


def find_hls(flow: str = "auto", search: Search | None = None, wanted: Version | None = None) -> HlsTools:
    """The HLS program to use: the asked flow, or the first of `vitis_hls`, `vitis-run`, `v++` that can do it.

    ToolError says for each why not; ConfigurationError for a flow that does not exist.
    """
    if flow != "auto" and flow not in HLS_FLOWS:
        raise ConfigurationError(f"--hls-flow {flow}: there is auto, {', '.join(HLS_FLOWS)}")
    search = search or Search()
    reasons: list[str] = []
    for name in HLS_FLOWS if flow == "auto" else (cast(HlsFlow, flow),):
        try:
            tool = find_tool(name, search, wanted)
        except ToolNotFoundError as error:
            reasons += error.rejected
            continue
        if tool.version < FIRST_VERSION[name]:
            reasons.append(f"{tool.label()} is too old: it synthesises kernels since {FIRST_VERSION[name]}")
            continue
        return HlsTools(name, tool, _packager(search, tool) if name == "v++" else None)
    what = "an HLS program (vitis_hls up to 2024.2; vitis-run or v++ since 2023)" if flow == "auto" else flow
    raise ToolNotFoundError(what if wanted is None else f"{what} of version {wanted}", search, reasons)


def _packager(search: Search, tool: Tool) -> Tool | None:
    try:
        return find_tool("vitis-run", search, tool.version.base)
    except ToolError:
        return None


def tool_environment(tools: Sequence[Tool], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Environment to run ``tools`` in: ours, plus the settings of those that were not on the PATH.

    ToolError if a settings file fails.
    """
    result = dict(os.environ if environment is None else environment)
    for tool in tools:
        if tool.on_path:
            continue
        settings = tool.installation / "settings64.sh"
        if settings.is_file():
            result = _sourced(settings, result)
        else:
            result["PATH"] = f"{tool.path.parent}{os.pathsep}{result.get('PATH', '')}"
    # The tools draw messages and file names in the language of the session; logs are read by English words.
    result["LC_ALL"] = "C.UTF-8"
    return result


def _sourced(settings: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment after a settings file, which is bash."""
    command = ["bash", "-c", 'source "$1" >/dev/null && env -0', "bash", str(settings)]
    try:
        result = subprocess.run(command, capture_output=True, env=dict(environment), timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{settings} could not be sourced: {error}") from error
    if result.returncode:
        reason = result.stderr.decode(errors="replace").strip()
        raise ToolError(f"{settings} failed with exit code {result.returncode}: {reason}")
    pairs = (item.partition("=") for item in result.stdout.decode(errors="replace").split("\0") if "=" in item)
    return {name: value for name, _, value in pairs}


def y2k22_problem(tool: Tool) -> str | None:
    """Why this HLS program cannot package IP, or None.

    Up to 2021.2 the revision of an IP is the date as a 32-bit number, which overflows since 1 January 2022.
    """
    if tool.version > LAST_Y2K22:
        return None
    # The patch leaves its file in the scripts of every product it finds, above or next to the program's own.
    for directory in (tool.installation, *tool.installation.parents[:2]):
        if (directory / "common" / "scripts" / Y2K22_PATCH).is_file():
            return None
    return (
        f"{tool.label()} cannot package IP: up to 2021.2 the revision of an IP is the date as a 32-bit number, which "
        "overflows since 2022 (`bad lexical cast`).\n"
        "AMD's patch mends it: answer record 76960, \"Export IP Invalid Argument / Revision Number Overflow Issue "
        '(Y2K22)", https://support.xilinx.com/s/article/76960 ; it puts '
        f"{tool.installation}/common/scripts/{Y2K22_PATCH} in place. Or use 2022.1 or newer."
    )


def version_warnings(hls: HlsTools | None, vivado: Tool, images: Sequence[str]) -> list[str]:
    """What may go wrong with these versions: HLS and Vivado differ; none of the board's PYNQ images has this Vivado."""
    warnings = []
    if hls is not None and hls.tool.version.base != vivado.version.base:
        warnings.append(
            f"{hls.tool.label()} and {vivado.label()} differ: IP of a newer HLS may be refused; use one version"
        )
    versions = {image: PYNQ_IMAGES[image] for image in images if image in PYNQ_IMAGES}
    if versions and vivado.version.base not in versions.values():
        listed = ", ".join(f"{image} with Vivado {version}" for image, version in sorted(versions.items()))
        warnings.append(
            f"Vivado {vivado.version} is none of those the board's PYNQ images were made with ({listed}); "
            "a handoff file of a newer Vivado may not be read on an older image"
        )
    return warnings
