"""Of C++ count its tokens and pragmas; of rendered headers what the other sources name."""

from __future__ import annotations

import pytest

from bfpga.synthesis.meaning import line_place, meaning, sources_meaning, token_place

CODE = """\
#pragma once
#include "bfpga/a.hpp"
#define TWICE(x) ((x) + (x))
// A comment.
inline int f(int a) {
#pragma HLS PIPELINE II=1
    const char* text = "a // b";  /* another
    of two lines */
    return a + TWICE(+1) - '\\'' + 1'000;
}
"""
#: What says the same in other places: text -> text in its place.
SAME = {
    "// A comment.\n": '\n\n  // "Another one.\n',
    "  /* another\n    of two lines */": "",
    "a + TWICE": "a\n  +TWICE",
    "(int a) {": "( int a )\n{",
    "#pragma HLS PIPELINE II=1": "#  pragma HLS  PIPELINE \\\n II=1  // each clock",
    '#include "bfpga/a.hpp"': '#include "bfpga/other/name.hpp"',
    "#pragma once\n": "",
}
#: What says something else.
OTHER = {
    "II=1": "II=2",
    "#pragma HLS PIPELINE II=1": "// #pragma HLS PIPELINE II=1",
    '"a // b"': '"a // c"',
    "a + TWICE(+1)": "a ++TWICE(1)",
    "'\\''": "'\\\\'",
    "1'000": "1'001",
    "#define TWICE(x) ((x) + (x))": "#define TWICE(x) ((x) * (x))",
    "int a": "inta",
    '#include "bfpga/a.hpp"': "#include <vector>",
}
HEADER = """\
#pragma once
#include "bfpga/contract/descriptor.hpp"
static_assert(Descriptor::layout == 0x12345678, "other (layout)");
inline namespace layout_12345678_tile {
enum class Operation : int32_t {
    Max = 1,
    Sum = 2,
};
enum class Policy : int32_t {
    Max = 2,
};
struct Config {
    static constexpr int rows = 4;
    static constexpr int spare = 7;
    using Multiplier = Dsp;
};
struct PostCommand {
    static constexpr int words = 2;
    static bool hears(int operation) { return operation == 4; }
};
struct StoreCommand {
    static constexpr int words = 3;
};
void bfpga_post(
    int in);
void bfpga_store(
    int in);
}
"""
POST = "void bfpga_post(int in) { run<Config::rows>(Operation::Max, PostCommand::words, Config::Multiplier()); }"
#: What does not change the hardware of the function above.
UNREAD = {
    "0x12345678": "0x87654321",
    "layout_12345678": "layout_87654321",
    "spare = 7": "spare = 8",
    "    static constexpr int spare = 7;\n": "    static constexpr int spare = 7;\n    static constexpr int key = 1;\n",
    "Sum = 2": "Sum = 3",
    "words = 3": "words = 4",
    "void bfpga_store(\n    int in);": "void bfpga_store(\n    long in);",
}
#: And what does.
READ = {
    "rows = 4": "rows = 5",
    "Max = 1": "Max = 3",
    "words = 2": "words = 5",
    "operation == 4": "operation == 5",
    "Multiplier = Dsp": "Multiplier = Shift",
    "void bfpga_post(\n    int in);": "void bfpga_post(\n    long in);",
}


def of_header(header: str, post: str = POST) -> str:
    return sources_meaning({"config.hpp": header, "post.cpp": post}, {"config.hpp"}, "xc7")


@pytest.mark.parametrize("here", SAME)
def test_comments_blank_space_and_names_of_files_do_not_count(here: str) -> None:
    assert here in CODE
    assert meaning(CODE.replace(here, SAME[here])).digest == meaning(CODE).digest


@pytest.mark.parametrize("here", OTHER)
def test_tokens_pragmas_and_texts_count(here: str) -> None:
    assert here in CODE
    assert meaning(CODE.replace(here, OTHER[here])).digest != meaning(CODE).digest


def test_sources_count_in_whichever_order_and_place() -> None:
    first = sources_meaning({"a.hpp": "int a;", "b.hpp": "int b;"}, set(), 1)
    assert (
        sources_meaning({"c.hpp": "int b;", "d.hpp": "// A.\nint a;", "e.hpp": '#include "c.hpp"'}, set(), 1) == first
    )
    assert sources_meaning({"a.hpp": "int a;", "b.hpp": "int b;"}, set(), 2) != first
    assert sources_meaning({"a.hpp": "int a;"}, set(), 1) != first


@pytest.mark.parametrize("here", UNREAD)
def test_declarations_that_nothing_names_do_not_count(here: str) -> None:
    assert here in HEADER
    assert of_header(HEADER.replace(here, UNREAD[here])) == of_header(HEADER)


@pytest.mark.parametrize("here", READ)
def test_declarations_that_are_named_count(here: str) -> None:
    assert here in HEADER
    assert of_header(HEADER.replace(here, READ[here])) != of_header(HEADER)


def test_equal_names_of_two_enumerations_are_two() -> None:
    both = f"{POST} int x = Policy::Max;"
    swapped = (
        HEADER.replace("    Max = 1", "    Max = 9").replace("    Max = 2", "    Max = 1").replace("Max = 9", "Max = 2")
    )
    assert of_header(swapped, both) != of_header(HEADER, both)


def test_in_files_of_the_library_all_tokens_count() -> None:
    texts = {"library.hpp": HEADER, "post.cpp": POST}
    changed = texts | {"library.hpp": HEADER.replace("spare = 7", "spare = 8")}
    assert sources_meaning(changed, set()) != sources_meaning(texts, set())


def test_places_follow_their_tokens() -> None:
    place = token_place("a.hpp:9", {"a.hpp": CODE})
    assert line_place(place, {"a.hpp": CODE}) == "a.hpp:9"
    moved = CODE.replace("// A comment.", "// A\n// comment.").replace("  /* another\n    of two lines */", "")
    assert line_place(place, {"a.hpp": moved}) == "a.hpp:9"
    assert line_place(place, {"a.hpp": f"\n\n{CODE}"}) == "a.hpp:11"
    assert line_place(place, {"b.hpp": CODE}) == "a.hpp"
    assert token_place("b.hpp:9", {"a.hpp": CODE}) == "b.hpp:9"
    assert line_place("", {}) == token_place("", {}) == ""
