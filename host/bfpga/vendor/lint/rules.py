"""The rules of the lint, and its findings as text."""

from __future__ import annotations

from collections.abc import Sequence

from bfpga.vendor.finding import Finding

#: Rule -> what it demands of a kernel.
RULES = {
    "parse": "the sources are C++14 that clang understands",
    "suppression": "`// lint: allow(rule) reason` names rules that exist and gives a reason",
    "pragma-name": "a pragma is one that Vitis HLS knows",
    "pragma-argument": "a pragma has the arguments it needs, known ones only, with values of their kind",
    "pragma-variable": "a variable that a pragma names is visible where the pragma stands",
    "pragma-place": "a pragma stands in a function, and one of a loop in a loop",
    "loop-layout": "`for (...) {` stands alone on one line, its pragmas directly below (line-based tools read them)",
    "loop-label": "a loop has a label, so that reports read like the source",
    "loop-reason": "a loop has a pragma that shapes it, or a comment that says why it has none",
    "loop-unbounded": "a loop whose trip count is no constant has a LOOP_TRIPCOUNT",
    "pipeline-reason": "a pipelined loop states its II and why it holds, in a comment",
    "division": "nothing is divided by a variable in a pipelined loop, also not in what the loop calls",
    "recursion": "no function calls itself at run time; templates may recurse over a constant",
    "dynamic-memory": "no new, delete, malloc, and no standard container, string or std::function",
    "variable-length-array": "the length of an array is a constant",
    "memory-size": "no array is larger than the memory blocks of the board (of the largest known one, without a board)",
    "memory-order": "a loop that is pipelined has a waiver for every memory that it writes and reads in one iteration",
    "waiver-reason": "a waiver between iterations, `inter false`, says in a comment why a write may come at any time",
    "goto": "no goto",
    "thread": "no threads, locks or futures",
    "virtual": "no virtual functions and no run-time type information",
    "function-pointer": "no pointers to functions or members; a tag type chooses a function",
    "long": "no `long`: 4 bytes for one compiler, 8 for another; use int32_t, int64_t or long long",
    "floating-point": "no floating point numbers in a kernel",
    "exception": "no exceptions",
    "input-output": "no input or output but through streams and ports",
}


def format_findings(findings: Sequence[Finding]) -> str:
    """The findings, one a line in the order of the files, and their number."""
    count = len(findings)
    summary = "no findings" if not count else "1 finding" if count == 1 else f"{count} findings"
    return "\n".join([*map(str, sorted(findings)), summary])
