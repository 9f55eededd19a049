"""Processes of a kernel in C++, each alone: the words of all its starts are at its streams when the first one begins.

In the C simulation a start begins when all processes have ended the one before; in hardware a process may end it late,
for example because it sets its sums to zero first, when the words of the next start are there.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from bfpga.accelerator.loader import Accelerator
from bfpga.vendor.kernel_ips import KernelIp, kernel_ips
from bfpga.verify.traffic import kernel_library

#: Precedes the shim of `hls::stream`: one that comes with its words and does not wait for ever.
_STREAM = r"""
#pragma once
#include <fstream>
#include <stdexcept>
#include <string>
#define stream empty_stream
#include "shim/hls_stream.h"
#undef stream

namespace hls {

// Questions in a row for a word that is not there, of whatever stream.
inline long& asked() {
    static long number = 0;
    return number;
}

template <class T>
class stream : public empty_stream<T> {
   public:
    explicit stream(const char* name) : empty_stream<T>(name, static_cast<std::size_t>(-1)) {}

    T read() {
        if (this->empty()) {
            throw std::runtime_error("a word is read that is not there");
        }
        asked() = 0;
        return empty_stream<T>::read();
    }

    bool read_nb(T& word) {
        const bool there = empty_stream<T>::read_nb(word);
        asked() = there ? 0 : asked() + 1;
        if (asked() > 100000) {
            throw std::runtime_error("a process waits for ever");
        }
        return there;
    }
};

}  // namespace hls
"""
_HARNESS = r"""
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>
#include "tops.hpp"

struct Port {
    const char* name;
    bool master;
};

std::string folder;

template <class Word>
void fill(hls::stream<Word>& stream, const Port& port) {
    std::ifstream file(folder + "/" + port.name);
    std::string digits;
    while (file >> digits) {
        Word word = {};
        for (std::size_t byte = 0; byte < sizeof word && 2 * byte < digits.size(); ++byte) {
            const std::string pair = digits.substr(digits.size() - 2 * byte - 2, 2);
            reinterpret_cast<uint8_t*>(&word)[byte] = static_cast<uint8_t>(std::stoi(pair, nullptr, 16));
        }
        stream.write(word);
    }
}

template <class Word>
void empty(hls::stream<Word>& stream, const Port& port) {
    std::ofstream file(folder + "/" + port.name + (port.master ? ".out" : ".left"));
    while (!stream.empty()) {
        const Word word = stream.read();
        char digits[3];
        for (std::size_t byte = sizeof word; byte != 0; --byte) {
            std::snprintf(digits, sizeof digits, "%02x", reinterpret_cast<const uint8_t*>(&word)[byte - 1]);
            file << digits;
        }
        file << "\n";
    }
}

template <class... Streams, std::size_t... N>
void drive(void (*top)(Streams&...), const std::vector<Port>& ports, int calls, std::index_sequence<N...>) {
    std::tuple<std::unique_ptr<Streams>...> streams(std::make_unique<Streams>(ports[N].name)...);
    const int filled[] = {(ports[N].master ? void() : fill(*std::get<N>(streams), ports[N]), 0)...};
    for (int call = 0; call < calls; ++call) {
        top(*std::get<N>(streams)...);
    }
    const int emptied[] = {(empty(*std::get<N>(streams), ports[N]), 0)...};
    static_cast<void>(filled);
    static_cast<void>(emptied);
}

template <class... Streams>
void drive(void (*top)(Streams&...), const std::vector<Port>& ports, int calls) {
    drive(top, ports, calls, std::index_sequence_for<Streams...>());
}

extern "C" int replay(const char* part, const char* words, int calls, char* text, std::size_t size) {
    const std::string name = part;
    folder = words;
    try {
CALLS
    } catch (const std::exception& error) {
        std::snprintf(text, size, "%s", error.what());
        return 1;
    }
    return 0;
}
"""
_TEXT = 500


class ProcessReplay:
    """The processes of an accelerator without registers as a program. ``directory``: for its files."""

    def __init__(self, accelerator: Accelerator, directory: Path) -> None:
        self.ips = {ip.part: ip for ip in kernel_ips(accelerator.config) if not ip.control}
        self._directory = directory
        calls = "\n".join(_call(ip) for ip in self.ips.values())
        self._library = kernel_library(accelerator, _STREAM, _HARNESS.replace("CALLS", calls), directory)

    def inputs(self, part: str) -> list[str]:
        """The streams that a process reads."""
        return [port.name for port in self.ips[part].streams if not port.master]

    def outputs(self, part: str) -> list[str]:
        """The streams that it writes."""
        return [port.name for port in self.ips[part].streams if port.master]

    def run(
        self, part: str, incoming: Mapping[str, Sequence[int]], starts: int
    ) -> tuple[dict[str, list[int]], dict[str, int]]:
        """What a process writes in its starts, and how many words of each input it leaves; once for each process.

        RuntimeError if it waits for words that never come.
        """
        ip = self.ips[part]
        for port in ip.streams:
            if not port.master:
                text = "\n".join(f"{word:0{2 * -(-port.bits // 8)}x}" for word in incoming[port.name])
                (self._directory / port.name).write_text(text)
        text = ctypes.create_string_buffer(_TEXT)
        folder = os.fsencode(self._directory)
        if self._library.replay(part.encode(), folder, starts, text, ctypes.c_size_t(_TEXT)):
            raise RuntimeError(f"{part}: {text.value.decode()}")
        written = {p.name: self._words(f"{p.name}.out", p.bits) for p in ip.streams if p.master}
        return written, {p.name: len(self._words(f"{p.name}.left", p.bits)) for p in ip.streams if not p.master}

    def _words(self, name: str, bits: int) -> list[int]:
        lines = (self._directory / name).read_text().split()
        return [int(line, 16) & (1 << bits) - 1 for line in lines]


def _call(ip: KernelIp) -> str:
    ports = ", ".join(f'{{"{port.name}", {str(port.master).lower()}}}' for port in ip.streams)
    return f'        if (name == "{ip.part}") drive({ip.function}, {{{ports}}}, calls);'
