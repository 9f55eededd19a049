"""The pipelined loops of an accelerator's rendered kernel, or of a C++ file."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bfpga.accelerator.loader import Accelerator
from bfpga.errors import ToolError
from bfpga.synthesis.frontend.annotate import PRELUDE, annotate_files
from bfpga.synthesis.frontend.cfg import natural_loops
from bfpga.synthesis.frontend.flatten import flatten, loop_notes
from bfpga.synthesis.frontend.ir import read_module
from bfpga.synthesis.frontend.kept_analysis import Analysis, analysis_key, read_analysis, write_analysis
from bfpga.synthesis.frontend.loops import cells_of, loop_bodies, visible_roots
from bfpga.synthesis.frontend.places import Places, VariableNames
from bfpga.synthesis.frontend.power_on import PowerOn, power_on
from bfpga.synthesis.frontend.segments import Bodies, bodies_of
from bfpga.synthesis.kept import kernel_files, sources_by_ip
from bfpga.synthesis.meaning import source_name
from bfpga.synthesis.narrow import narrowed
from bfpga.synthesis.variables import without_unread
from bfpga.vendor.clang import ANALYSIS_FLAGS, clang_version, find_clang
from bfpga.vendor.render import kernel_sources, sources_of

#: No pass of clang's own runs: `flatten` chooses them.
_FLAGS = (
    "-target", "x86_64-linux-gnu", "-std=c++14", "-g", "-O1", "-Xclang", "-disable-llvm-passes", "-fno-builtin",
    "-ffp-contract=off", "-fno-stack-protector", "-fomit-frame-pointer", "-w", "-S", "-emit-llvm",
)  # fmt: skip


def analyse_kernel(
    accelerator: Accelerator, only: str = "", cache: Path | None = None, leave: Collection[str] = ()
) -> tuple[Analysis, ...]:
    """The pipelined loops of each IP of an accelerator. ``only``: the loop with this label; IPs without it have none.

    ``cache``: directory in which analyses are kept; ``leave``: names of IPs that are not read and have none.

    Raises:
        ToolError: no clang, or it refuses the kernel.
    """
    files, tops = kernel_files(accelerator), sources_by_ip(accelerator)
    read = [top for name, top in tops.items() if name not in leave]
    wanted = [top for top in read if not only or _has_label(sources_of(top, files), only)]
    keys = {top: _key(files, top, only) for top in wanted} if cache is not None else {}
    kept = {top: read_analysis(cache, key) for top, key in keys.items()} if cache is not None else {}
    found = {top: analysis for top, analysis in kept.items() if analysis is not None}
    missing = [top for top in wanted if top not in found]
    for top, analysis in zip(missing, _analysed(files, missing, only), strict=True):
        found[top] = analysis
        if cache is not None:
            write_analysis(cache, keys[top], analysis)
    return tuple(found.get(top, Analysis([], "")) for top in tops.values())


def _analysed(files: Mapping[str, str], tops: Sequence[str], only: str) -> list[Analysis]:
    if len(tops) <= 1:
        return [analyse_files(files, top, only) for top in tops]
    with ProcessPoolExecutor() as pool:
        return list(pool.map(partial(analyse_files, files, only=only), tops))


def _key(files: Mapping[str, str], top: str, only: str) -> str:
    """What the analysis of an IP belongs to."""
    return analysis_key(sources_of(top, files), clang_version(), *ANALYSIS_FLAGS, top, only)


def _has_label(sources: Mapping[str, str], label: str) -> bool:
    return any(re.search(rf"^\s*{re.escape(label)}\s*:", text, re.MULTILINE) for text in sources.values())


def analyse_source(source: Path, only: str = "") -> Analysis:
    """The pipelined loops of one C++ file; its headers are bfpga's and those next to it."""
    headers = [path for path in source.parent.iterdir() if path.suffix in (".hpp", ".h")]
    files = {f"src/{path.name}": path.read_text(encoding="utf-8") for path in (*headers, source)}
    return analyse_files(kernel_sources(files), f"src/{source.name}", only)


def analyse_files(files: Mapping[str, str], top: str, only: str = "", cache: Path | None = None) -> Analysis:
    """The pipelined loops of sources (path -> text); ``top``: the path of the one that is compiled.

    ``cache``: directory in which analyses are kept, as `analyse_kernel` takes it.
    """
    if cache is None:
        return _analysed_file(files, top, only)
    key = analysis_key(files, clang_version(), *ANALYSIS_FLAGS, top, only)
    analysis = read_analysis(cache, key)
    if analysis is None:
        analysis = _analysed_file(files, top, only)
        write_analysis(cache, key, analysis)
    return analysis


def _analysed_file(files: Mapping[str, str], top: str, only: str) -> Analysis:
    with tempfile.TemporaryDirectory(prefix="bfpga-synthesis-") as directory:
        sources = Path(directory)
        annotate_files(files, sources)
        text = _compiled(sources, top)
    module, notes, flat = flatten(text)
    named = {source_name(path): content for path, content in files.items()}
    loops = loop_bodies(module, notes, read_module(text), named)
    # Of one loop too all others count as readers.
    bodies = without_unread([narrowed(loop) for loop in loops], visible_roots(module))
    return Analysis([body for body in bodies if not only or body.name == only], flat)


@dataclass(frozen=True, slots=True)
class IpCode:
    """The code of an IP's function as bodies. ``parameters``: argument -> its name in the source; ``visible``:
    variables that others read."""

    bodies: Bodies
    power_on: PowerOn
    parameters: dict[str, str]
    visible: frozenset[str] = frozenset()


def analyse_ip(files: Mapping[str, str], top: str) -> IpCode:
    """The top function of a source (path of one of ``files``) as loops and segments, with its words at power-on.

    Raises:
        ToolError: clang is missing or refuses the source; code that has no place in hardware, or none here.
    """
    with tempfile.TemporaryDirectory(prefix="bfpga-synthesis-") as directory:
        annotate_files(files, Path(directory))
        text = _compiled(Path(directory), top)
    module, notes, flat = flatten(text)
    (function,) = (each for each in module.functions.values() if each.blocks)
    names = VariableNames(read_module(text).metadata)
    parameters = dict(zip(function.arguments, names.parameters(function.name), strict=False))
    named = {source_name(path): content for path, content in files.items()}
    # The pragmas of a variable stand in its constructor, whose pointers they name.
    cells = cells_of(module, function, notes, names, named)
    words = power_on(flat, module, function)
    of_loop = loop_notes(module, function, natural_loops(function))
    visible = visible_roots(module)
    bodies = bodies_of(function, of_loop, Places(module.metadata), cells, visible)
    return IpCode(bodies, words, parameters, frozenset(visible))


def _compiled(sources: Path, top: str) -> str:
    (sources / "notes.hpp").write_text(PRELUDE, encoding="utf-8")
    command = [
        *find_clang(), *ANALYSIS_FLAGS, *_FLAGS, "-Isrc", "-Iinclude", "-include", "notes.hpp", top, "-o", "kernel.ll",
    ]  # fmt: skip
    result = subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False)
    if result.returncode:
        lines = "\n".join(result.stderr.splitlines()[:20])
        raise ToolError(f"clang cannot compile the kernel for the analysis:\n{lines}")
    return (sources / "kernel.ll").read_text(encoding="utf-8")
