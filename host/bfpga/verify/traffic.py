"""Records what passes the streams of each IP of a kernel in its C simulation.

The testbench of the rendered project runs the top functions of the IPs with streams between them. It is compiled with
exact integers, so that words have the bits of the hardware, and with a stream that records every transfer.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.registers import INPUT_STREAM, OUTPUT_STREAM, WEIGHT_STREAM
from bfpga.devices import toolchain
from bfpga.devices.library_cache import cached_library
from bfpga.errors import DeviceError
from bfpga.formats.cache import cache_directory
from bfpga.synthesis.traffic import Traffic, Transfer
from bfpga.vendor.clang import EXACT_FLAGS, find_clang
from bfpga.vendor.kernel_ips import KernelIp, kernel_ips
from bfpga.vendor.render import kernel_sources, render_kernel, shim_headers, top_files

#: Precedes the shim of `hls::stream` on the include path: the same FIFO, recording what it passes on. A transfer
#: is a line: the stream's name, `<` read, `>` written, `-` found empty or `+` found full, and the word.
_RECORDER = """\
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>
#define stream unrecorded_stream
#include "shim/hls_stream.h"
#undef stream
#include <ap_axi_sdata.h>

inline std::FILE*& bfpga_record() {
    static std::FILE* file = nullptr;
    return file;
}

namespace hls {

template <class T>
class stream : public unrecorded_stream<T> {
   public:
    explicit stream(const char* name, std::size_t depth = static_cast<std::size_t>(-1))
        : unrecorded_stream<T>(name, depth), name_(name) {}

    T read() {
        const T word = unrecorded_stream<T>::read();
        emit('<', word);
        return word;
    }

    bool read_nb(T& word) {
        const bool there = unrecorded_stream<T>::read_nb(word);
        if (there) {
            emit('<', word);
        } else {
            std::fprintf(bfpga_record(), "%s -\\n", name_.c_str());
        }
        return there;
    }

    void write(const T& word) {
        unrecorded_stream<T>::write(word);
        emit('>', word);
    }

    bool write_nb(const T& word) {
        const bool room = unrecorded_stream<T>::write_nb(word);
        if (room) {
            emit('>', word);
        } else {
            std::fprintf(bfpga_record(), "%s +\\n", name_.c_str());
        }
        return room;
    }

   private:
    template <int Bits>
    void emit(char way, const ap_axiu<Bits, 0, 0, 0>& beat) const {
        emit_bytes(way, &beat.data, Bits / 8);
    }

    template <class Word>
    void emit(char way, const Word& word) const {
        emit_bytes(way, &word, sizeof word);
    }

    void emit_bytes(char way, const void* word, std::size_t size) const {
        std::fprintf(bfpga_record(), "%s %c ", name_.c_str(), way);
        while (size != 0) {
            std::fprintf(bfpga_record(), "%02x", static_cast<const uint8_t*>(word)[--size]);
        }
        std::fputc('\\n', bfpga_record());
    }

    std::string name_;
};

}  // namespace hls
"""
#: Calls the testbench, which returns its result; 1 unless it passes.
_HARNESS = """\
#define main bfpga_testbench
#include "tb/testbench.cpp"
#undef main
#include "tops.hpp"
#include <exception>
#include <sstream>

extern "C" int record(const char* vectors, const char* file, char* text, std::size_t size) {
    std::ostringstream report;
    std::streambuf* const terminal = std::cout.rdbuf(report.rdbuf());
    std::string name = "testbench", directory = vectors;
    char* arguments[] = {&name[0], &directory[0], nullptr};
    int failed = 1;
    bfpga_record() = std::fopen(file, "w");
    if (bfpga_record() != nullptr) {
        try {
            failed = bfpga_testbench(2, arguments);
        } catch (const std::exception& error) {
            report << error.what();
        }
        failed |= std::fclose(bfpga_record()) != 0;
    } else {
        report << file << " cannot be written";
    }
    std::cout.rdbuf(terminal);
    std::snprintf(text, size, "%s", report.str().c_str());
    return failed;
}
"""
_FLAGS = ("-std=c++14", "-w", "-O0", *EXACT_FLAGS, "-fPIC", "-shared")
#: What the testbench calls the streams of the host.
_HOST_STREAMS = {"input": INPUT_STREAM, "weights": WEIGHT_STREAM, "output": OUTPUT_STREAM}
#: Registers that a start is given, in their order in `starts.txt`.
_GIVEN = ("descriptor_count", "control")
_TEXT = 2000


def kernel_traffic(accelerator: Accelerator, vectors: Mapping[str, bytes]) -> tuple[Traffic, ...]:
    """The traffic of each IP in the order of `kernel_ips`, in the starts of a test bench (`vectors.kernel_vectors`).

    Raises:
        ToolError: there is no clang, or it fails.
        DeviceError: the C simulation gives other results than the vectors have.
    """
    with tempfile.TemporaryDirectory(prefix="bfpga-traffic-") as directory:
        lines = _simulated(accelerator, vectors, Path(directory))
    ips = kernel_ips(accelerator.config)
    masks = {port.name: (1 << port.bits) - 1 for ip in ips for port in ip.streams}
    incoming: dict[str, list[Transfer]] = {name: [] for name in masks}
    outgoing: dict[str, list[Transfer]] = {name: [] for name in masks}
    for line in lines:
        name, way, *word = line.split()
        name = _HOST_STREAMS.get(name, name)
        value = int(word[0], 16) & masks[name] if word else None
        (outgoing if way in ">+" else incoming)[name].append(value)
    return tuple(_traffic_of(ip, _calls(ip, vectors), incoming, outgoing) for ip in ips)


def _traffic_of(
    ip: KernelIp,
    calls: Sequence[Mapping[str, int]],
    incoming: Mapping[str, Sequence[Transfer]],
    outgoing: Mapping[str, Sequence[Transfer]],
) -> Traffic:
    return Traffic(
        calls,
        {port.name: incoming[port.name] for port in ip.streams if not port.master},
        {port.name: outgoing[port.name] for port in ip.streams if port.master},
    )


def _calls(ip: KernelIp, vectors: Mapping[str, bytes]) -> list[dict[str, int]]:
    """One for each start; IPs without registers have no arguments."""
    starts = [line.split() for line in vectors["starts.txt"].decode().splitlines()]
    given = _GIVEN if ip.control else ()
    return [dict(zip(given, map(int, numbers), strict=False)) for _, *numbers in starts]


def kernel_library(accelerator: Accelerator, stream: str, code: str, directory: Path) -> ctypes.CDLL:
    """Code around the top functions of a kernel, with integers of the hardware's bits, as a library in a directory.

    ``stream``: what precedes the shim of `hls::stream` on the include path; ``code`` includes `tops.hpp`. The cache
    keeps libraries.

    Raises:
        ToolError: there is no clang, it fails, or the cache cannot be written.
    """
    rendered = render_kernel(accelerator.name, accelerator.digest, accelerator.config)
    files = kernel_sources(rendered | shim_headers())
    files |= {"around/hls_stream.h": stream, "around.cpp": code}
    files["tops.hpp"] = "\n".join(f'#include "{top}"' for top in top_files(accelerator.config))
    command = find_clang()
    content = hashlib.sha256()
    for part in (toolchain.compiler_version(*command), *_FLAGS, *itertools.chain(*sorted(files.items()))):
        content.update(len(part).to_bytes(8, "little") + part.encode())
    kept = cached_library(
        cache_directory("csim") / f"around-{content.hexdigest()[:32]}.so",
        lambda built, folder: _compile(files, command, built, folder),
    )
    # A library that is loaded twice from one file has one set of variables.
    return ctypes.CDLL(str(shutil.copyfile(kept, directory / "around.so")))


def _compile(files: Mapping[str, str], command: Sequence[str], built: Path, directory: Path) -> None:
    for path, text in files.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text, encoding="utf-8")
    folders = (directory / folder for folder in ("around", "shim", "include", "src", "."))
    includes = [flag for folder in folders for flag in ("-I", str(folder))]
    toolchain.run_compiler([*_FLAGS, *includes, str(directory / "around.cpp"), "-o", str(built)], command)


def _simulated(accelerator: Accelerator, vectors: Mapping[str, bytes], directory: Path) -> list[str]:
    """What the streams have recorded, line by line."""
    library = kernel_library(accelerator, _RECORDER, _HARNESS, directory)
    given, record = directory / "vectors", directory / "record.txt"
    given.mkdir()
    for name, content in vectors.items():
        (given / name).write_bytes(content)
    text = ctypes.create_string_buffer(_TEXT)
    if library.record(os.fsencode(given), os.fsencode(record), text, ctypes.c_size_t(_TEXT)):
        raise DeviceError(f"the recorded C simulation fails: {text.value.decode(errors='replace').strip()}")
    return record.read_text().splitlines()
