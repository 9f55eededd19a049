"""Rules on files and limits: what one script reads another writes, results appear complete, every wait ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from bfpga.vendor.block_design import BlockDesign
from bfpga.vendor.build_scripts import hls_script
from bfpga.vendor.finding import Finding
from bfpga.vendor.kernel_ips import kernel_ips
from bfpga.vendor.tcl_check.commands import Parsed, stage_of
from bfpga.vendor.tcl_check.scenarios import NEWEST, TIMING, UTILIZATION, VERSION

Commands = Mapping[str, Sequence[Parsed]]
#: Commands that only prepare; whatever they leave behind, nothing has been built yet.
_PREPARATION = ("file", "cd", "puts")


def file_findings(design: BlockDesign, commands: Commands) -> Iterator[Finding]:
    """Everything that is wrong with files, waits and numbers of jobs."""
    for script, calls in commands.items():
        yield from _limits(calls)
        yield from _result(design, script, calls)
        yield from _stale(script, calls)
    yield from _folders(commands)
    for script in commands:
        if stage_of(script) == "hls":
            yield from _hls_paths(commands, script)
    yield from _vivado_paths(commands)


def _limits(calls: Sequence[Parsed]) -> Iterator[Finding]:
    for call in calls:
        if call.name == "wait_on_run" and not _positive(call.options.get("-timeout", "")):
            yield call.finding("wait-limit", "wait_on_run has no limit", "give -timeout in minutes")
        if call.name == "launch_runs" and not _positive(call.options.get("-jobs", "")):
            yield call.finding("jobs", "launch_runs has no number of jobs", "give -jobs a number")


def _positive(text: str) -> bool:
    return text.isdecimal() and int(text) > 0


def expected_result(design: BlockDesign, script: str) -> dict[str, str]:
    """The lines of a result where everything succeeds."""
    board = design.accelerator.board
    end = {"status": "complete"}
    if stage_of(script) == "hls":
        ip = next(ip for ip in kernel_ips(design.accelerator.systolic) if hls_script(ip) == script)
        return {"part": board.part, "period_ns": f"{design.clock.period_ns:g}", "kernel": ip.vlnv, **end}
    common = {"version": VERSION, "part": board.part}
    if script == "block_design.tcl":
        cells = {f"ip_{cell.name}": cell.name for cell in design.cells}
        board_part = f"{board.board_part.rpartition(':')[0]}:{NEWEST}"
        clock = f"{design.clock.actual_mhz * 1e6:.0f}"
        return common | {"board_part": board_part, "clock_hz": clock} | cells | end
    if script == "synthesis.tcl":
        return common | UTILIZATION | end
    timing = {name.lower(): value for name, value in TIMING.items()}
    return common | {"timing": "met"} | timing | UTILIZATION | end


def written_lines(calls: Sequence[Parsed]) -> dict[str, tuple[str, int]]:
    """Lines `key value` that a script writes between opening and closing its result, each with its line."""
    lines: dict[str, tuple[str, int]] = {}
    is_open = False
    for call in calls:
        if call.name in ("open", "close"):
            is_open = call.name == "open"
        elif call.name == "puts" and is_open and len(call.words) == 2:
            key, _, value = call.words[1].partition(" ")
            lines[key] = (value, call.line)
    return lines


def final_rename(calls: Sequence[Parsed]) -> Parsed | None:
    """The command that gives a result its final name."""
    renames = [call for call in calls if call.name == "file" and call.words[:1] == ("rename",)]
    return renames[-1] if renames else None


def _result(design: BlockDesign, script: str, calls: Sequence[Parsed]) -> Iterator[Finding]:
    end = max((call.line for call in calls), default=1)
    lines = written_lines(calls)
    for key, value in expected_result(design, script).items():
        got, line = lines.get(key, (None, end))
        if got != value:
            problem = f"the result has no `{key}`" if got is None else f"`{key}` of the result is `{got}`"
            yield Finding(script, line, "result-file", problem, f"`{key} {value}` is expected there")
    if list(lines)[-1:] != ["status"]:
        problem = "the last line of the result is not its status"
        yield Finding(script, end, "result-file", problem, "write `status complete` last")
    rename, opened = final_rename(calls), next((call for call in calls if call.name == "open"), None)
    closed = next((call.line for call in calls if call.name == "close"), None)
    if rename is None or opened is None or closed is None or not opened.line < closed < rename.line:
        line = rename.line if rename else end
        problem = "the result is not opened, written, closed and renamed in this order"
        yield Finding(script, line, "result-file", problem, "write to X.partial, close it, rename it to X")
        return
    partial, final = opened.words[0], rename.words[-1]
    stage = PurePosixPath(script).stem
    if partial != f"{final}.partial" or PurePosixPath(final).name != f"{stage}.txt" or rename.words[1] != partial:
        problem = f"{partial} becomes {final}"
        yield rename.finding("result-file", problem, f"a partial file becomes {stage}.txt beside it")


def _stale(script: str, calls: Sequence[Parsed]) -> Iterator[Finding]:
    """Final files must be gone before the first command of the tool, folders before something is copied over them."""
    for call in calls:
        if call.name == "file" and call.words[0] in ("copy", "delete", "rename") and "-force" not in call.options:
            problem = f"`file {call.words[0]}` fails on what an earlier run has left"
            yield call.finding("stale-file", problem, "give it -force")
    first = next((n for n, call in enumerate(calls) if call.name not in _PREPARATION), 0)
    removed = {word for call in calls[:first] if _is_file(call, "delete") for word in call.words[1:]}
    finals = [(call, call.words[-1]) for call in calls if _is_file(call, "rename")]
    if script == "implementation.tcl":
        finals += [(call, call.words[-1]) for call in calls if _is_file(call, "copy")]
    for call, final in finals:
        if final not in removed:
            problem = f"{final} of an earlier run is still there when this one fails"
            yield call.finding("stale-file", problem, "delete it before the first step")
    for n, call in enumerate(calls):
        if stage_of(script) == "hls" and _is_file(call, "copy") and not PurePosixPath(call.words[-1]).suffix:
            gone = {word for earlier in calls[:n] if _is_file(earlier, "delete") for word in earlier.words[1:]}
            if call.words[-1] not in gone:
                problem = f"the folder {call.words[-1]} of an earlier run would get a copy inside of it"
                yield call.finding("stale-file", problem, "delete the folder before")


def _is_file(call: Parsed, what: str) -> bool:
    return call.name == "file" and call.words[:1] == (what,)


def _folders(commands: Commands) -> Iterator[Finding]:
    """Folders exist before something is written to them; C synthesis and Vivado can run one without the other."""
    made: dict[str, set[str]] = {}
    for script, calls in commands.items():
        # The IPs of a kernel are synthesised at the same time; Vivado's stages follow one another.
        folders = made.setdefault(script if stage_of(script) == "hls" else "vivado", set())
        for call in calls:
            if _is_file(call, "mkdir"):
                folders.update(call.words[1:])
            elif call.name == "cd":
                folders.add(call.words[0])
            written = [call.options["-file"]] if "-file" in call.options else []
            written += [call.words[0]] if call.name == "open" else []
            written += [call.words[-1]] if _is_file(call, "copy") else []
            for path in written:
                if str(PurePosixPath(path).parent) not in folders:
                    yield call.finding("path", f"nothing makes the folder of {path}", "make it with file mkdir")


def _words(calls: Sequence[Parsed], *prefix: str, least: int = 1) -> Iterator[tuple[Parsed, tuple[str, ...]]]:
    """Commands that start with these words and have ``least`` more, and the words that follow."""
    for call in calls:
        words = (call.name, *call.words)
        if words[: len(prefix)] == prefix and len(words) >= len(prefix) + least:
            yield call, words[len(prefix) :]


def _expect(call: Parsed, got: str, wanted: str) -> Iterator[Finding]:
    if got != wanted:
        yield call.finding("path", f"`{call.name}` names {got or 'nothing'}", f"the other scripts name {wanted}")


def compiler_flags(source: str) -> str:
    """Flags for a file of a rendered project: the language, the library and the headers beside the sources."""
    root = PurePosixPath(source).parent.parent
    return f"-std=c++14 -I{root}/include -I{root}/src"


def _hls_paths(commands: Commands, script: str) -> Iterator[Finding]:
    calls = commands[script]
    repository = [rest[0] for _, rest in _words(commands.get("block_design.tcl", ()), "set_property", "ip_repo_paths")]
    folder = [rest[0] for _, rest in _words(calls, "cd")]
    project = [rest[0] for _, rest in _words(calls, "open_project")]
    solution = [rest[0] for _, rest in _words(calls, "open_solution")]
    top = [rest[0] for _, rest in _words(calls, "set_top")]
    for call in calls:
        if call.name == "add_files":
            yield from _expect(call, call.options.get("-cflags", ""), compiler_flags(call.words[0]))
    if not (folder and project and solution and top):
        return
    output = f"{folder[0]}/{project[0]}/{solution[0]}"
    copies = {rest[0]: (call, rest[-1]) for call, rest in _words(calls, "file", "copy", least=2)}
    for source in (f"{output}/impl/ip", f"{output}/syn/report/csynth.xml"):
        if source not in copies:
            line = max(call.line for call in calls)
            problem = f"{source} is not copied to where the next stages look"
            yield Finding(script, line, "path", problem, "copy it after the export")
    call_and_target = copies.get(f"{output}/impl/ip")
    if call_and_target and repository:
        # One of several IPs lies in a folder of its own below the repository.
        part = PurePosixPath(script).stem.partition("_")[2]
        yield from _expect(call_and_target[0], call_and_target[1], str(PurePosixPath(repository[0], part)))


def _verilog(commands: Commands, design_calls: Sequence[Parsed]) -> Iterator[Finding]:
    """The Verilog of the block design lies in the project of the kernel that C synthesis takes."""
    scripts = [calls for script, calls in commands.items() if stage_of(script) == "hls"]
    sources = [call for calls in scripts for call in calls if call.name == "add_files"]
    for call in design_calls:
        if call.name == "add_files" and sources:
            root = PurePosixPath(sources[0].words[0]).parent.parent
            yield from _expect(call, call.words[0], f"{root}/rtl/clock_counter.v")


def _vivado_paths(commands: Commands) -> Iterator[Finding]:
    design_calls = commands.get("block_design.tcl", ())
    created = [rest for _, rest in _words(design_calls, "create_project", least=2)]
    named = [rest[0] for _, rest in _words(design_calls, "create_bd_design")]
    if not created or not named:
        return
    (project, folder), design = created[0][:2], named[0]
    yield from _verilog(commands, design_calls)
    for call, rest in _words(design_calls, "get_files"):
        yield from _expect(call, rest[0], f"{design}.bd")
    for call in design_calls:
        if call.name == "generate_target":
            yield from _expect(call, call.words[1], f"{design}.bd")
        if call.name == "make_wrapper":
            yield from _expect(call, call.options.get("-files", ""), f"{design}.bd")
    for call, rest in _words(design_calls, "set_property", "top"):
        yield from _expect(call, rest[0], f"{design}_wrapper")
    for script in ("synthesis.tcl", "implementation.tcl"):
        for call, rest in _words(commands.get(script, ()), "open_project"):
            yield from _expect(call, rest[0], f"{folder}/{project}.xpr")
    calls = commands.get("implementation.tcl", ())
    handoff = f"sources_1/bd/{design}/hw_handoff/{design}.hwh"
    wanted = [f"{folder}/{project}.{kind}/{handoff}" for kind in ("gen", "srcs")]
    for call, rest in _words(calls, "glob"):
        yield from _expect(call, " ".join(rest), " ".join(wanted))
    targets = set()
    for call, rest in _words(calls, "file", "copy", least=2):
        source, target = PurePosixPath(rest[0]), PurePosixPath(rest[-1])
        targets.add(target.parent / target.stem)
        if source.suffix == ".bit":
            yield from _expect(call, str(source), f"{folder}/{project}.runs/impl_1/{design}_wrapper.bit")
        elif str(source) not in wanted:
            yield from _expect(call, str(source), wanted[0])
        if source.suffix != target.suffix or len(targets) > 1:
            yield call.finding("path", f"{source} becomes {target}", "PYNQ needs one name with .bit and with .hwh")
