"""An IP's Verilog on CXXRTL between streams with random gaps and back-pressure, start after start."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bfpga.devices.library_cache import cached_library
from bfpga.devices.toolchain import compiler_version
from bfpga.formats.cache import cache_directory
from bfpga.rtl.ip import IpVerilog
from bfpga.synthesis.netlist.yosys import find_yosys
from bfpga.vendor.kernel_ips import StreamPort

#: Clocks without a beat after which nothing more is expected.
QUIET = 3000
_SCRIPT = """read_verilog ip.v
hierarchy -check -top TOP
proc
check -assert
flatten
opt_expr
opt_clean
write_cxxrtl -g0 design.cpp
"""
_FLAGS = ("-std=c++17", "-O0", "-w", "-fPIC", "-shared")
HARNESS = r"""
#include "design.cpp"
#include <random>
template <size_t N> uint32_t* of(cxxrtl::value<N>& port) { return port.data; }
template <size_t N> uint32_t* of(cxxrtl::wire<N>& port) { return port.curr.data; }
struct Port { uint32_t *data, *last, *valid, *ready; int bits, words; bool master; };
struct Stream { const uint32_t* beats; uint32_t* found; int32_t* needs; int64_t count, room, done; };
extern "C" int64_t run(Stream* streams, int seed, double gap, double pressure, int64_t reset_at, int64_t* faults) {
    cxxrtl_design::TOP top;
    Port ports[] = {PORTS};
    const int number = sizeof ports / sizeof *ports;
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> chance(0, 1);
    std::vector<std::vector<uint32_t>> held(number);
    std::vector<char> offered(number);
    int64_t clock = 0, quiet = 0, moved_last = 0, written = 0;
    for (; quiet < QUIET; clock++) {
        const bool reset = clock < 3 || (reset_at && clock >= reset_at && clock < reset_at + 3);
        if (reset) {
            written = 0;
            for (int k = 0; k < number; k++) { streams[k].done = 0; held[k].clear(); offered[k] = false; }
        }
        *of(top.p_ap__rst__n) = !reset;
        for (int k = 0; k < number; k++) {
            Port& port = ports[k];
            Stream& stream = streams[k];
            if (port.master) { *port.ready = !reset && chance(random) >= pressure; continue; }
            if (!offered[k] && !reset && stream.done < stream.count && written >= stream.needs[stream.done])
                offered[k] = chance(random) >= gap;
            *port.valid = offered[k];
            for (int word = 0; word < port.words; word++) {
                const int left = port.bits - 32 * word;
                const uint32_t mask = left >= 32 ? ~0u : left > 0 ? (1u << left) - 1 : 0;
                const uint32_t beat = *port.valid ? stream.beats[stream.done * port.words + word] : 0xa5a5a5a5u;
                if (mask) port.data[word] = beat & mask;
                if (port.last && left >= 0 && left < 32) *port.last = beat >> left & 1;
            }
        }
        top.p_ap__clk.set<bool>(false);
        top.step();
        bool moved = false;
        for (int k = 0; k < number; k++) {
            Port& port = ports[k];
            Stream& stream = streams[k];
            const bool passes = *port.valid && *port.ready && !reset;
            if (!port.master) {
                if (passes) { offered[k] = false; stream.done++; moved = true; }
                continue;
            }
            std::vector<uint32_t> beat(port.words, 0);
            for (int word = 0; word < (port.bits + 31) / 32; word++) beat[word] = port.data[word];
            if (port.last && *port.last) beat[port.bits / 32] |= 1u << port.bits % 32;
            if (!held[k].empty() && !reset && (!*port.valid || held[k] != beat)) ++*faults;
            if (*port.valid && !*port.ready && !reset) held[k] = beat; else held[k].clear();
            if (!passes) continue;
            if (stream.done < stream.room)
                std::copy(beat.begin(), beat.end(), stream.found + stream.done * port.words);
            stream.done++;
            written++;
            moved = true;
        }
        top.p_ap__clk.set<bool>(true);
        top.step();
        quiet = moved ? 0 : quiet + 1;
        moved_last = moved ? clock : moved_last;
    }
    return moved_last;
}
"""


class _Stream(ctypes.Structure):
    _fields_ = (
        ("beats", ctypes.c_void_p), ("found", ctypes.c_void_p), ("needs", ctypes.c_void_p), ("count", ctypes.c_int64),
        ("room", ctypes.c_int64), ("done", ctypes.c_int64),
    )  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """``beats``: of each output, TLAST as the bit above the data; ``taken``: how many of each input; ``clocks``: until
    the last one; ``faults``: outputs that took back VALID or changed a beat that waited."""

    beats: Mapping[str, list[int]]
    taken: Mapping[str, int]
    clocks: int
    faults: int


class SimulatedIp:
    """An IP without registers as a compiled library. ``directory``: for what this simulation has for itself."""

    def __init__(self, verilog: IpVerilog, directory: Path) -> None:
        self.ports = verilog.ip.streams
        text = HARNESS.replace("TOP", _member(verilog.ip.function)).replace("QUIET", str(QUIET))
        text = text.replace("PORTS", ", ".join(map(_port, self.ports)))
        script = _SCRIPT.replace("TOP", verilog.ip.function)
        yosys, command = find_yosys(), (os.environ.get("CXX", "g++"), *_FLAGS)
        content = hashlib.sha256()
        for part in (verilog.text, text, script, yosys.package, yosys.version, compiler_version(command[0]), *command):
            content.update(part.encode() + b"\0")

        def build(built: Path, folder: Path) -> None:
            (folder / "ip.v").write_text(verilog.text)
            yosys.run(script, folder, 600)
            (folder / "harness.cpp").write_text(text)
            include = yosys.share / "include" / "backends" / "cxxrtl" / "runtime"
            subprocess.run([*command, f"-I{include}", "harness.cpp", "-o", built], cwd=folder, check=True)

        kept = cached_library(cache_directory("units") / f"ip-{content.hexdigest()[:32]}.so", build)
        shutil.copyfile(kept, directory / "ip.so")  # each simulation has its own variables
        self._library = ctypes.CDLL(str(directory / "ip.so"))
        self._library.run.restype = ctypes.c_int64
        self._library.run.argtypes = [
            ctypes.c_void_p, ctypes.c_int, ctypes.c_double, ctypes.c_double, ctypes.c_int64, ctypes.c_void_p
        ]  # fmt: skip

    def run(
        self, incoming: Mapping[str, Sequence[int]], outgoing: Mapping[str, int], seed: int = 1, gap: float = 0.0,
        pressure: float = 0.0, needs: Mapping[str, Sequence[int]] | None = None, reset_at: int = 0,
    ) -> Outcome:  # fmt: skip
        """Offers ``incoming`` and takes what comes until nothing moves. ``outgoing``: how many beats are looked at;
        ``needs``: how many beats of all outputs have left before each word of an input is offered; ``reset_at``: a
        clock in which a reset begins, after which all is offered anew."""
        streams = (_Stream * len(self.ports))()
        kept = []
        for stream, port in zip(streams, self.ports, strict=True):
            words = _words(port)
            beats = list(incoming.get(port.name, ()))
            data = np.array([[b >> 32 * w & 0xFFFFFFFF for w in range(words)] for b in beats] or [[0]], np.uint32)
            wanted = np.array(list(needs[port.name]) if needs and not port.master else [0] * len(beats), np.int32)
            found = np.zeros((max(outgoing.get(port.name, 0), 1), words), np.uint32)
            kept.append((data, wanted, found))
            stream.beats, stream.found, stream.needs = data.ctypes.data, found.ctypes.data, wanted.ctypes.data
            stream.count, stream.room = len(beats), outgoing.get(port.name, 0)
        faults = ctypes.c_int64(0)
        clocks = self._library.run(ctypes.byref(streams), seed, gap, pressure, reset_at, ctypes.byref(faults))
        done = {port.name: int(stream.done) for port, stream in zip(self.ports, streams, strict=True)}
        masters = [(k, port) for k, port in enumerate(self.ports) if port.master]
        beats = {p.name: [_number(row) for row in kept[k][2][: done[p.name]]] for k, p in masters}
        for _, port in masters:
            beats[port.name] += [-1] * (done[port.name] - len(beats[port.name]))
        taken = {port.name: done[port.name] for port in self.ports if not port.master}
        return Outcome(beats, taken, clocks, faults.value)


def _words(port: StreamPort) -> int:
    return -(-(port.bits + port.packets) // 32)


def _number(row: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> int:
    return sum(int(word) << 32 * place for place, word in enumerate(row))


def _member(name: str) -> str:
    return "p_" + name.replace("_", "__")


def _port(port: StreamPort) -> str:
    name = _member(port.name)
    last = f"of(top.{name}__TLAST)" if port.packets else "nullptr"
    pins = [f"of(top.{name}__TDATA)", last, f"of(top.{name}__TVALID)", f"of(top.{name}__TREADY)"]
    return f"{{{', '.join(pins)}, {port.bits}, {_words(port)}, {str(port.master).lower()}}}"
