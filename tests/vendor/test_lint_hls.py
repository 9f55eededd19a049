"""The lint of HLS kernels: every rule catches what breaks it, at its line, and lets good code pass."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("clang.cindex", reason="libclang is not installed")

from bfpga.accelerator.boards import load_boards
from bfpga.accelerator.loader import accelerator_names, load_accelerator
from bfpga.errors import DataError, ToolError
from bfpga.vendor import lint
from bfpga.vendor.lint import parser
from bfpga.vendor.lint.pragma_table import SPECIFICATIONS, Kind
from bfpga.vendor.render import library_directory, render_kernel, sources_of, top_files, write_project

#: A kernel that keeps every rule; the cases below break it line by line.
GOOD = """\
#include <ap_int.h>
#include <hls_stream.h>
template <class Config>
struct Sums {
    int total[Config::columns];

    Sums() {
#pragma HLS ARRAY_PARTITION variable=total complete dim=0
#pragma HLS BIND_STORAGE variable=this->total type=ram_s2p impl=lutram
    }

    void add(const int (&value)[Config::columns]) {
#pragma HLS INLINE
    Columns_Add:
        for (int i = 0; i < Config::columns; ++i) {
#pragma HLS UNROLL
            total[i] += value[i] / Config::columns + value[i] % (1 << i);
        }
    }
};
struct Two {
    static constexpr int columns = 2;
};
void top(hls::stream<ap_uint<32> >& input, int words, int32_t& result) {
#pragma HLS INTERFACE axis port=input
#pragma HLS INTERFACE mode=s_axilite port=words
#pragma HLS INTERFACE s_axilite port=result
#pragma HLS INTERFACE s_axilite port=return bundle=control
    static Sums<Two> sums;
#pragma HLS STABLE variable=sums.total
Words:
    for (int n = 0; n < words; ++n) {
// II=1: one beat is read a clock.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=1 max=2*512
        const int word = static_cast<int>(input.read());
        const int pair[2] = {word, word + 1};
        sums.add(pair);
    }
    result = sums.total[0];
}
"""


def findings(text: str, name: str = "kernel.cpp") -> list[lint.Finding]:
    return lint.lint_sources({name: text})


def kernel(body: str, before: str = "") -> str:
    """A function around ``body``, whose first line is line 3 (``before`` stands on line 1)."""
    return f"{before}\nvoid kernel(int n, int (&a)[8], int& result) {{\n{body}\n}}\n"


def loop(inside: str, header: str = "for (int i = 0; i < 8; ++i) {", label: str = "Walk:") -> str:
    """A labelled loop whose header is line 4 and whose body begins at line 5."""
    return kernel(f"{label}\n{header}\n{inside}\n}}")


def memory(body: str, waiver: str = "") -> str:
    """A pipelined loop, whose header is line 11 and whose body begins at line 14, over two memories."""
    pragma = f"#pragma HLS DEPENDENCE variable=cell {waiver}  // a test" if waiver else ""
    return (
        f"struct Memory {{\nint cell[64];\nMemory() {{\n{pragma}\n}}\nint get(int at) const {{ return cell[at]; }}\n"
        "void put(int at, int x) { cell[at] = x; }\n};\nvoid top(Memory& first, Memory& second, int n) {\nWalk:\n"
        f"for (int i = 0; i < 8; ++i) {{\n// II=1: a test\n#pragma HLS PIPELINE II=1\n{body}\n}}\n}}\n"
    )


#: An array of a class that only its instantiation makes so large.
LARGE = (
    "#include <ap_int.h>\ntemplate <int N> struct Memory {\nap_int<20> cell[2][N];\n};\n"
    "int top(int n) {\nstatic Memory<10000000> memory;\nreturn memory.cell[1][n].to_int();\n}\n"
)


def names(cases: Sequence[tuple[Any, ...]]) -> list[str]:
    return [f"{case[0]}-{at}" for at, case in enumerate(cases)]


def test_good_kernel_passes() -> None:
    assert lint.format_findings(findings("#include <cstdint>\n" + GOOD)) == "no findings"


#: rule, line, what must be in the message, source
BAD = [
    ("parse", 3, "undeclared", kernel("result = unknown;")),
    ("pragma-name", 5, "did you mean UNROLL", loop("#pragma HLS UNROL\na[i] = 0;")),
    ("pragma-name", 3, "BIND_STORAGE", kernel("#pragma HLS RESOURCE variable=a core=RAM_2P_BRAM")),
    ("pragma-name", 3, "there is no pragma ``", kernel("#pragma HLS")),
    ("pragma-argument", 3, "`variable` is missing", kernel("#pragma HLS ARRAY_PARTITION complete")),
    ("pragma-argument", 3, "`factor` is missing", kernel("#pragma HLS ARRAY_PARTITION variable=a cyclic")),
    ("pragma-argument", 3, "`sizes`", kernel("#pragma HLS ARRAY_PARTITION variable=a complete sizes=2")),
    ("pragma-argument", 3, "`type=ram_3p` is unknown", kernel("#pragma HLS BIND_STORAGE variable=a type=ram_3p")),
    ("pragma-argument", 3, "given twice",
        kernel("#pragma HLS ARRAY_PARTITION variable=a complete type=block factor=2")),
    ("pragma-argument", 3, "`dim=` has no value", kernel("#pragma HLS ARRAY_PARTITION variable=a complete dim=")),
    ("pragma-argument", 3, "is negative", kernel("#pragma HLS LATENCY max=-1")),
    ("pragma-argument", 3, "`min or max` is missing", kernel("#pragma HLS LATENCY")),
    ("pragma-argument", 3, "is no number", kernel("#pragma HLS LATENCY max=?")),
    ("pragma-argument", 5, "`dependent` is missing", loop("#pragma HLS DEPENDENCE variable=a inter\n//\na[i] = 0;")),
    ("pragma-argument", 6, "`max` is missing", loop("#pragma HLS UNROLL\n#pragma HLS LOOP_TRIPCOUNT min=1\na[i] = 0;")),
    ("pragma-argument", 6, "`II or off` is missing", loop("// as it comes\n#pragma HLS PIPELINE\na[i] = 0;")),
    ("pragma-argument", 3, "`port` is missing", kernel("#pragma HLS INTERFACE axis")),
    ("pragma-variable", 3, "did you mean `a`", kernel("#pragma HLS ARRAY_PARTITION variable=aa complete")),
    ("pragma-variable", 3, "names `nothing`", kernel("#pragma HLS INTERFACE axis port=nothing")),
    ("pragma-variable", 4, "names `c`",
        kernel("{ int c[4] = {}; a[0] = c[0]; }\n#pragma HLS ARRAY_PARTITION variable=c")),
    ("pragma-variable", 3, "names `y`",
        "struct P { int x[2]; };\nvoid f(P& p) {\n#pragma HLS STABLE variable=p.y\n}\n"),
    ("pragma-variable", 4, "names `t`", "struct P {\nint s[2];\nP() {\n#pragma HLS STABLE variable=this->t\n}\n};\n"),
    ("pragma-variable", 3, "`n`, which is no array", kernel("#pragma HLS ARRAY_PARTITION variable=n complete")),
    ("pragma-variable", 3, "`p`, which is no array", "struct P { int (&x)[2]; };\nvoid f(P& p) {\n"
        "#pragma HLS ARRAY_PARTITION variable=p complete\n}\n"),
    ("pragma-place", 1, "outside of any function", "#pragma HLS INLINE\nvoid kernel() {}\n"),
    ("pragma-place", 3, "stands in no loop", kernel("#pragma HLS UNROLL")),
    ("loop-layout", 3, "does not begin its line", kernel("Walk: for (int i = 0; i < 8; ++i) {\n#pragma HLS UNROLL\n}")),
    ("loop-layout", 4, "not one line", loop("#pragma HLS UNROLL\na[i] = 0;", "for (int i = 0;\n i < 8; ++i) {")),
    ("loop-layout", 6, "stands between", loop("a[i] = 0;\n#pragma HLS UNROLL")),
    ("loop-layout", 6, "stands between", loop("#ifdef __SYNTHESIS__\n#pragma HLS UNROLL\n#endif\na[i] = 0;")),
    ("loop-label", 4, "no label", loop("#pragma HLS UNROLL\na[i] = 0;", label="")),
    ("loop-reason", 4, "loop `Walk` has neither", loop("a[i] = 0;")),
    ("loop-reason", 4, "has neither", loop("#pragma HLS UNROLL off=true\na[i] = 0;")),
    ("loop-unbounded", 4, "no constant", loop("#pragma HLS UNROLL\na[i] = 0;", "for (int i = 0; i < n; ++i) {")),
    ("loop-unbounded", 4, "no constant", loop("#pragma HLS UNROLL\na[i] = 0;", "for (int i = n; i < 8; ++i) {")),
    ("loop-unbounded", 4, "no constant", loop("#pragma HLS UNROLL\na[i] = 0;", "for (int i = 0; i < 8;) {")),
    ("loop-unbounded", 4, "no constant", loop("// until it is done\n--n;", "while (n > 0) {")),
    ("pipeline-reason", 4, "does not say why", loop("#pragma HLS PIPELINE II=1\na[i] = 0;")),
    ("division", 7, "`a[i] / n` divides", loop("// II=1: no\n#pragma HLS PIPELINE II=1\na[i] = a[i] / n;")),
    ("division", 7, "`a[i] %= n` divides", loop("// II=1: no\n#pragma HLS PIPELINE II=1\na[i] %= n;")),
    ("division", 1, "loop `Walk`", loop("// II=1: no\n#pragma HLS PIPELINE II=1\na[i] = deep(n);").replace(
        "\n", "int inner(int x) { return 7 / x; } int deep(int x) { return inner(x); }\n", 1)),
    ("division", 2, "function `kernel`",
        "template <class T>\nint part(T x, T y) { return x % y; }\nvoid kernel(int& n) {\n"
        "#pragma HLS PIPELINE II=1\nn = part(n, n);\n}\n"),
    ("recursion", 1, "`f` calls itself", "int f(int n) { return n > 0 ? f(n - 1) : 0; }\n"),
    ("recursion", 2, "`f` -> `g` -> `f`", "int g(int n);\nint f(int n) { return n > 0 ? g(n - 1) : 0; }\n"
        "int g(int n) { return f(n); }\n"),
    ("recursion", 3, "`f` calls itself",
        "template <class T>\nstruct S {\nint f(int n) { return n > 0 ? f(n - 1) : 0; }\n};\n"),
    ("dynamic-memory", 3, "`new`", kernel("int* p = new int[8];\nresult = p[0];")),
    ("dynamic-memory", 3, "`delete`", "\nvoid kernel(int* p) {\ndelete p;\n}\n"),
    ("dynamic-memory", 3, "`malloc`", kernel("void* p = malloc(8);\nresult = p != nullptr;", "#include <cstdlib>")),
    ("dynamic-memory", 3, "`vector`", kernel("std::vector<int> v(8);\nresult = v[0];", "#include <vector>")),
    ("dynamic-memory", 3, "`string`", kernel("std::string s;\nresult = s[0];", "#include <string>")),
    ("dynamic-memory", 3, "`function`", kernel("std::function<int()> f;\nresult = n;", "#include <functional>")),
    ("virtual", 1, "run time", "struct S { virtual int f(); };\n"),
    ("function-pointer", 3, "`f` is a pointer", kernel("int (*f)(int) = nullptr;\nresult = f(1);")),
    ("function-pointer", 1, "`f` is a pointer", "using f = int (*[2])(int);\n"),
    ("long", 3, "`long`", kernel("unsigned long x = 1;\nresult = x != 0;")),
    ("long", 3, "literal", kernel("result = (1UL << n) != 0;")),
    ("floating-point", 3, "type", kernel("double x = n;\nresult = x > 1;")),
    ("floating-point", 3, "number", kernel("result = n * 1.5;")),
    ("floating-point", 3, "`sqrt` gives", kernel("result = sqrt(n);", "#include <cmath>")),
    ("exception", 3, "exception", kernel("if (n) throw 1;")),
    ("input-output", 3, "`printf`", kernel('printf("%d", n);', "#include <cstdio>")),
    ("input-output", 3, "`cout`", kernel("std::cout << n;", "#include <iostream>")),
    ("variable-length-array", 3, "`x` is known at run time", kernel("int x[n];\nresult = x[0];")),
    ("variable-length-array", 3, "`x` is known at run time",
        "template <int N>\nint f(int n) {\nint x[2][N * n];\nreturn x[0][0];\n}\n"),
    ("memory-size", 3, "`cell` has 400000000 bits; the memory blocks of", LARGE),
    ("memory-size", 1, "`table` has 3200000000 bits", "static int table[100000000];\n"),
    ("memory-order", 11, "writes memory `cell` (kernel.cpp:7) and then reads it (kernel.cpp:6)",
        memory("first.put(n, 1);\nn += first.get(i);", "inter false")),
    ("memory-order", 11, "reads memory `cell` (kernel.cpp:6) and writes it (kernel.cpp:7)",
        memory("first.put(n, first.get(i));", "intra WAR false")),
    ("memory-order", 11, "reads memory `cell` (kernel.cpp:14) and writes it (kernel.cpp:14)",
        memory("first.cell[n] += i;")),
    ("memory-order", 11, "writes memory `cell`",
        memory("if (n > 4) {\nfirst.put(n, 1);\n}\nif (n < 8) {\nn += first.get(i);\n}", "inter false")),
    ("waiver-reason", 3, "no comment says why", kernel("#pragma HLS DEPENDENCE variable=a inter false")),
    ("waiver-reason", 3, "no comment says why", kernel("#pragma HLS DEPENDENCE variable=a type=inter dependent=false")),
    ("waiver-reason", 3, "no comment says why", kernel("#pragma HLS DEPENDENCE variable=a false", "// a reason")),
    ("waiver-reason", 4, "no comment says why",
        kernel("#pragma HLS STABLE variable=a  // of this one\n#pragma HLS DEPENDENCE variable=a inter RAW false")),
    ("goto", 3, "a jump", kernel("again: if (n > 0) goto again;")),
    ("thread", 3, "`thread`", kernel("std::thread t([] {});\nt.join();", "#include <thread>")),
    ("thread", 3, "`async`", kernel("auto f = std::async([] { return 1; });", "#include <future>")),
    ("thread", 3, "`pthread_self`", kernel("result = pthread_self() != 0;", "#include <pthread.h>")),
    ("thread", 3, "a variable of a thread", kernel("static thread_local int x = 0;\nresult = x;")),
    ("suppression", 3, "no reason", kernel("result = 1.5;  // lint: allow(floating-point)")),
    ("suppression", 3, "no rule `speed`", kernel("result = n;  // lint: allow(speed) it is fast enough")),
]  # fmt: skip

#: rule, source that comes near to breaking it
FAIR = [
    ("parse", kernel("ap_uint<9> w = n;\nw.range(3, 0) = 1;\nresult = w.to_int() + w[2];", "#include <ap_int.h>")),
    ("parse", "#include <ap_axi_sdata.h>\n#include <hls_stream.h>\nusing beat = ap_axiu<32, 0, 0, 0>;\n"
        "void kernel(hls::stream<beat>& s) { beat b = s.read(); b.last = 1; s.write(b); }\n"),
    ("pragma-name", kernel("#pragma hls inline off\n#pragma once_more")),
    ("pragma-name", kernel("// #pragma HLS NOTHING\n/* #pragma HLS NOTHING */")),
    ("pragma-name", kernel("#ifndef __SYNTHESIS__\n#pragma HLS NOTHING\n#endif")),
    ("pragma-argument",
        kernel("#pragma HLS ARRAY_PARTITION variable = a type = cyclic \\\n    factor = 2 * 2 dim = 1")),
    ("pragma-argument",
        kernel("#pragma HLS INTERFACE ap_ctrl_none\n#pragma HLS DEPENDENCE variable=a inter WAR false  // a test")),
    ("pragma-argument", kernel("#pragma HLS ALLOCATION operation instances=mul limit=1\n#pragma HLS LATENCY max=n+1")),
    ("pragma-variable", "struct P { int x[2]; };\nvoid f(P& p) {\n#pragma HLS STABLE variable=p.x\n}\n"),
    ("pragma-variable", "int table[4];\nvoid f() {\n#pragma HLS BIND_STORAGE variable=table type=rom_1p\n}\n"),
    ("pragma-variable", "struct P { int s[2]; P(); };\nP::P() {\n#pragma HLS STABLE variable=this->s\n}\n"),
    ("pragma-variable", "template <class B>\nstruct D : B {\nD() {\n#pragma HLS STABLE variable=of_base\n}\n};\n"),
    ("pragma-variable", "struct P { int (&x)[2]; };\ntemplate <class T>\nvoid f(P& p, int* q, T& t) {\n"
        "#pragma HLS ARRAY_PARTITION variable=p.x complete\n#pragma HLS ARRAY_PARTITION variable=q complete\n"
        "#pragma HLS ARRAY_PARTITION variable=t complete\n}\n"),
    ("pragma-variable", "#include <hls_stream.h>\nvoid f() {\nhls::stream<int> s;\n"
        "#pragma HLS BIND_STORAGE variable=s type=fifo impl=srl\n}\n"),
    ("pragma-place", "struct P {\nint f() {\n#pragma HLS INLINE\nreturn 1;\n}\n};\n"),
    ("loop-layout", loop("// a comment and a blank line\n\n#pragma HLS UNROLL\na[i] = 0;", label="/* here */ Walk:")),
    ("loop-label", "constexpr int bits(int v) {\nint n = 0;\nfor (; v > 0; v >>= 1) {\n++n;\n}\nreturn n;\n}\n"),
    ("loop-label", kernel("#ifndef __SYNTHESIS__\nfor (int i = 0; i < 8; ++i) a[i] = 0;\n#endif")),
    ("loop-reason", loop("// One after the other: each needs the result of the one before.\na[i] = 0;")),
    ("loop-reason", loop("a[i] = 0;", label="// Not pipelined: runs once in a start.\nWalk:")),
    ("loop-unbounded", loop("#pragma HLS UNROLL\na[i] = 0;", "for (int i = 7; i >= 0 && n > i; --i) {")),
    ("loop-unbounded", loop("#pragma HLS LOOP_TRIPCOUNT min=1 max=8\n// as long as it takes\n--n;", "while (n > 0) {")),
    ("loop-unbounded",
        "template <int N>\nvoid f(int (&a)[N]) {\nconst int half = N / 2;\nRow:\nfor (int i = 0; i < half; ++i) {\n"
        "#pragma HLS UNROLL\nColumn:\nfor (int j = i; j < N; ++j) {\n#pragma HLS UNROLL\na[j] = 0;\n}\n}\n"
        "All:\nfor (int& x : a) {\n#pragma HLS UNROLL\nx = 0;\n}\n}\n"),
    ("pipeline-reason",
        loop("// II=2: two words are read a clock from one port.\n#pragma HLS PIPELINE II=2\na[i] = 0;")),
    ("pipeline-reason", loop("#pragma HLS PIPELINE off  // runs once\na[i] = 0;")),
    ("division", loop("// not pipelined\na[i] = a[i] / n;")),
    ("division", loop("// II=1: a constant\n#pragma HLS PIPELINE II=1\na[i] = a[i] / 3 % sizeof(int);  // a / n")),
    ("division", loop("// II=1: a shift\n#pragma HLS PIPELINE II=1\nconst int k = half(8);\na[i] = a[i] / k;").replace(
        "\n", "constexpr int half(int x) { return x / 2; }\n", 1)),
    ("recursion", "template <int N>\nint sum(const int* x) { return x[N - 1] + sum<N - 1>(x); }\n"
        "template <>\nint sum<0>(const int*) { return 0; }\nint top(const int* x) { return sum<8>(x); }\n"),
    ("recursion",
        "template <int N>\nstruct Rows {\nint a;\nRows<N - 1> rest;\nint sum() { return a + rest.sum(); }\n};\n"
        "template <>\nstruct Rows<0> {\nint sum() { return 0; }\n};\nint top(Rows<4>& r) { return r.sum(); }\n"),
    ("dynamic-memory",
        "struct S { S(const S&) = delete; };\nstruct vector { int x; };\nint f(vector v) { return v.x; }\n"),
    ("dynamic-memory", "#ifndef __SYNTHESIS__\n#include <vector>\nstd::vector<int> trace;\n#endif\n"),
    ("variable-length-array", kernel("constexpr int length = 4;\nint x[2 * length] = {};\nresult = x[n];")),
    ("variable-length-array",
        "template <class C, int N>\nint f(int n) {\nint x[C::rows][N + 1] = {};\nreturn x[0][n];\n}\n"),
    ("memory-size", LARGE.replace("10000000", "1000")),
    ("memory-order", memory("first.put(n, first.get(i));", "inter false")),
    ("memory-order", memory("first.put(n, first.get(i));", "type=inter direction=raw distance=4 true")),
    ("memory-order", memory("first.put(n, 1);\nn += first.get(i);", "intra false\n#pragma HLS DEPENDENCE variable=cell"
        " inter false")),
    ("memory-order", memory("first.put(n, 1);\nn += second.get(i);")),
    ("memory-order", memory("if (n > 4) {\nfirst.put(n, 1);\n} else {\nn += first.get(i);\n}")),
    ("memory-order", memory("n = n > 4 ? (first.put(n, 1), 1) : first.get(i);")),
    ("memory-order", memory("int cell[8] = {};\ncell[n] = 1;\nn += cell[i];")),
    ("memory-order", memory("first.put(n, first.get(i));").replace(
        "Memory() {\n", "Memory() {\n#pragma HLS ARRAY_PARTITION variable=cell complete")),
    ("waiver-reason", kernel("// A start reads or writes, and its pipeline ends with it.\n"
        "#pragma HLS DEPENDENCE variable=a inter false")),
    ("waiver-reason", kernel("#pragma HLS DEPENDENCE variable=a inter false  // each start has its own words")),
    ("waiver-reason", kernel("#pragma HLS DEPENDENCE variable=a type=inter direction=raw distance=4 true")),
    ("waiver-reason", kernel("#pragma HLS DEPENDENCE variable=a intra RAW false")),
    ("goto", kernel("const int go = n;  // goto the end\nresult = go;")),
    ("thread", "struct S { int thread; int async() { return thread; } };\nint f(S s) { return s.async(); }\n"),
    ("virtual", "struct Dsp {};\nstruct Lut {};\nint f(Dsp) { return 1; }\nint f(Lut) { return 2; }\n"),
    ("function-pointer", "template <class F>\nint apply(F f) { return f(1); }\nint f(int (&a)[2], const char* s);\n"),
    ("long", kernel("const unsigned long long x = 1ULL << n;\nint longer = 0xFUL == 0xF;".replace("0xFUL", "0xFULL"))),
    ("floating-point", kernel("const int half = n;  // 1.5 would be a double\nresult = half + 0x1E5 + 10'000;")),
    ("exception", "int f() noexcept { return 0; }  // no try\n"),
    ("input-output", "struct S { int time; int exit() { return time; } };\nint f(S s) { return s.exit(); }\n"),
    ("suppression", kernel("result = 1.5;  // lint: allow(floating-point) folded by the compiler")),
    ("suppression", kernel("// lint: allow(floating-point, long) folded by the compiler\nresult = 1.5 * 2L;")),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "line", "text", "source"), BAD, ids=names(BAD))
def test_broken_rule_is_found_at_its_line(rule: str, line: int, text: str, source: str) -> None:
    found = [finding for finding in findings(source) if finding.rule == rule]
    assert [finding.line for finding in found] == [line], lint.format_findings(findings(source))
    assert text in str(found[0])


@pytest.mark.parametrize(("rule", "source"), FAIR, ids=names(FAIR))
def test_code_that_keeps_the_rules_passes(rule: str, source: str) -> None:
    assert lint.format_findings(findings(source)) == "no findings", rule


def test_the_document_lists_every_rule() -> None:
    text = (Path(__file__).parents[2] / "docs" / "hls-checks.md").read_text()
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.*) \|$", text, re.MULTILINE))
    assert {rule: rows.get(rule) for rule in lint.RULES} == lint.RULES


def test_every_rule_has_a_bad_and_a_good_case() -> None:
    assert {case[0] for case in BAD} == set(lint.RULES)
    assert {case[0] for case in FAIR} == set(lint.RULES)


@functools.cache
def showing() -> dict[str, set[str]]:
    """Accelerator -> what is compiled of its kernel because none before it has that process, or one of its headers."""
    found: dict[str, set[str]] = {}
    seen: set[str] = set()
    for name in accelerator_names():
        accelerator = load_accelerator(name)
        rendered = render_kernel(accelerator.name, accelerator.digest, accelerator.config)
        found[name] = set()
        for top in top_files(accelerator.config):
            files = {re.sub(r"_\d+\.cpp$", "", path) for path in sources_of(top, rendered)}
            found[name] |= set() if files <= seen else {top}
            seen |= files
    return found


def lint_kernel(name: str, tops: Collection[str]) -> str:
    """Findings in some of the processes of an accelerator's kernel, with all headers that they include."""
    accelerator = load_accelerator(name)
    sources = render_kernel(accelerator.name, accelerator.digest, accelerator.config)
    for top in set(top_files(accelerator.config)) - set(tops):
        del sources[top]
    return lint.format_findings(lint.lint_sources(sources, [library_directory()]))


def test_every_process_and_header_keeps_every_rule() -> None:
    assert {name: found for name, tops in showing().items() if tops
            if (found := lint_kernel(name, tops)) != "no findings"} == {}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", accelerator_names())
def test_rendered_kernels_keep_every_rule(name: str) -> None:
    assert lint_kernel(name, top_files(load_accelerator(name).config)) == "no findings"


#: Changes of the library that do not hide each other: rule that must see one, pattern, replacement.
CHANGES = [
    [
        ("pragma-name", "HLS UNROLL", "HLS UNROL"),
        ("loop-label", r"\n *\w+:(?=\n *(for|while) )", ""),
        ("pipeline-reason", r"\n *// *II=.*", ""),
        ("long", r"\bint64_t\b", "long"),
    ],
    [
        ("pragma-variable", "variable=", "variable=no_"),
        ("loop-reason", r"\n#pragma HLS UNROLL", ""),
        ("loop-unbounded", r"\n#pragma HLS LOOP_TRIPCOUNT.*", ""),
    ],
]


#: Sources whose headers have all of these.
LOOKED_AT = ("array.cpp",)


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: "-".join(rule for rule, _, _ in changes))
def test_rules_see_the_loops_and_pragmas_of_the_library(tmp_path: Path, changes: list[tuple[str, str, str]]) -> None:
    accelerator = load_accelerator("tiny")
    project = write_project(accelerator.name, accelerator.digest, accelerator.config, tmp_path / "project")
    for source in project.rglob("*.cpp"):
        if source.name not in LOOKED_AT:
            source.unlink()
    for header in (project / "include").rglob("*.hpp"):
        text = header.read_text()
        for _, pattern, replacement in changes:
            text = re.sub(pattern, replacement, text)
        header.write_text(text)
    assert {rule for rule, _, _ in changes} <= {finding.rule for finding in lint.lint_paths([project])}


def test_arrays_must_fit_the_board_that_is_given() -> None:
    """The same array fits one board and not another."""
    boards = {board.name: board for board in load_boards()}
    source = {"kernel.cpp": "static int table[200000];\nint top(int n) { return table[n]; }\n"}
    assert [finding.rule for finding in lint.lint_sources(source, board=boards["pynq_z2"])] == ["memory-size"]
    assert lint.lint_sources(source, board=boards["zcu104"]) == []


def test_findings_in_included_headers_name_the_header(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "library.hpp").write_text("#pragma once\ninline long f() { return 0; }\n")
    (tmp_path / "top.cpp").write_text('#include "library.hpp"\nvoid top() {\n#pragma HLS INTERFACE ap_ctrl_none\n}\n')
    (tmp_path / "testbench.cpp").write_text("long host_code_may_use_it;\n")
    found = lint.lint_paths([tmp_path])
    assert [(Path(finding.file).name, finding.line, finding.rule) for finding in found] == [("library.hpp", 2, "long")]


#: A source with a top function that needs what `shared.hpp` has.
TOP = "void {name}() {{\n#pragma HLS INTERFACE ap_ctrl_none\n(void)shared();\n}}\n"


def project_of_tops(directory: Path, first: str, second: str) -> Path:
    """Two sources with a top function each, behind what is given, and a header that breaks a rule where WIDE is set."""
    header = "#pragma once\ninline int shared() { return 0; }\n#ifdef WIDE\nextern long wide;\n#endif\n"
    (directory / "shared.hpp").write_text(header)
    (directory / "a.cpp").write_text(first + TOP.format(name="a"))
    (directory / "b.cpp").write_text(second + TOP.format(name="b"))
    return directory


def test_sources_that_are_read_together_are_judged_as_if_each_were_alone(tmp_path: Path) -> None:
    """Headers are walked once for all; what one source lacks, or asks of a header, still shows."""
    include = '#include "shared.hpp"\n'
    cases = [
        (include, f"{include}extern long b_alone;\n", ("b.cpp", 2, "long")),
        (include, "", ("b.cpp", 3, "parse")),
        (include, f"#define WIDE\n{include}", ("shared.hpp", 4, "long")),
        (f"{include}int same;\n", f"{include}long same;\n", ("b.cpp", 2, "long")),
    ]
    for first, second, wanted in cases:
        (found,) = lint.lint_paths([project_of_tops(tmp_path, first, second)])
        assert (Path(found.file).name, found.line, found.rule) == wanted


def test_directory_without_top_function_is_read_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "a.hpp").write_text("extern long a;\n")
    (tmp_path / "b.cpp").write_text("extern long b;\n")
    assert [Path(finding.file).name for finding in lint.lint_paths([tmp_path])] == ["a.hpp", "b.cpp"]


def test_defines_choose_the_code_that_is_read(tmp_path: Path) -> None:
    file = tmp_path / "kernel.cpp"
    file.write_text("#ifdef WIDE\nextern long x;\n#endif\n")
    assert lint.lint_file(file) == []
    assert [finding.rule for finding in lint.lint_file(file, defines=["WIDE"])] == ["long"]


def test_a_finding_says_what_is_wrong_and_what_would_be_right() -> None:
    (finding,) = findings("extern long x;\n")
    assert str(finding) == (
        "kernel.cpp:1: `long` has 4 or 8 bytes, as the compiler likes; use int32_t, int64_t or long long [long]"
    )
    assert lint.format_findings([finding]).endswith("\n1 finding")


def test_missing_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no file"):
        lint.lint_paths([tmp_path / "none.cpp"])
    with pytest.raises(DataError, match=r"holds no C\+\+ source"):
        lint.lint_paths([tmp_path])


@pytest.mark.parametrize("content", [b"", b"\\", b"\x00\xff\xfe", b"}}}", b"#pragma HLS", b'R"(', b"for (;;) while do"])
def test_any_file_gives_findings_or_none(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "kernel.cpp"
    file.write_bytes(content)
    assert all(finding.line >= 1 and finding.file == str(file) for finding in lint.lint_file(file))


def test_deep_expressions_are_read() -> None:
    assert lint.format_findings(findings(kernel("result = n" + " + n" * 3000 + ";"))) == "no findings"


def test_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    parser.system_include_directories.cache_clear()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match=r"g\+\+ is not on the PATH"):
        parser.system_include_directories()


def test_missing_libclang_is_named() -> None:
    script = (
        "import sys; sys.modules['clang'] = None\n"
        "from bfpga.vendor import lint\nfrom bfpga.errors import ToolError\n"
        "try:\n    lint.lint_sources({'a.cpp': ''})\nexcept ToolError as error:\n    print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install libclang" in result.stdout


def test_needed_and_bare_options_of_the_table_exist() -> None:
    for name, specification in SPECIFICATIONS.items():
        named = {option for group in specification.needs for option in group} | set(specification.bare)
        assert named <= set(specification.options), name
        assert all(isinstance(takes, (Kind, frozenset)) for takes in specification.options.values()), name
